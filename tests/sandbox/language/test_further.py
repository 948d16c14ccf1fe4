"""Further modules under the language: code has what reaches nothing, and what was hidden from the check is found when they are loaded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from breach import Run, attempts
from reach import reached
from test_language_reach import in_a_fork

from byref_sandbox.code.checking import check
from byref_sandbox.language.policy import Language, Refused
from byref_sandbox.state.known import Known

WELL_KNOWN = ("humanize", "more_itertools", "toolz", "slugify", "sortedcontainers")


@pytest.fixture(scope="module")
def language() -> Language:
    made = Language(WELL_KNOWN)
    for name in WELL_KNOWN:
        made.learn(name)
    return made


WORKS = [
    ("import humanize\nhumanize.naturalsize(10**9), humanize.intword(123_455_913), humanize.metric(1500, 'V')", ("1.0 GB", "123.5 million", "1.50 kV")),
    ("import humanize, datetime\nhumanize.naturaldelta(datetime.timedelta(hours=3))", "3 hours"),
    ("from humanize.number import ordinal\nimport humanize.time as t\nordinal(3), t.precisedelta(90)", ("3rd", "1 minute and 30 seconds")),
    ("import humanize\nhumanize.__version__[0].isdigit(), humanize.__name__", (True, "humanize")),
    ("from more_itertools import chunked, windowed, flatten\nlist(chunked(range(5), 2)), list(windowed([1, 2, 3], 2)), list(flatten([[1], [2]]))", ([[0, 1], [2, 3], [4]], [(1, 2), (2, 3)], [1, 2])),
    ("from more_itertools import peekable\np = peekable([1, 2])\np.peek(), next(p), list(p)", (1, 1, [2])),
    ("from more_itertools import *\none([5])", 5),
    ("from toolz import pipe, groupby, curry, compose\npipe([1, 2], curry(map)(lambda x: x + 1), list), groupby(len, ['a', 'bb']), compose(str, len)([1])", ([2, 3], {1: ["a"], 2: ["bb"]}, "1")),
    ("from toolz.curried import get, pipe\npipe({'a': 1}, get('a'))", 1),
    ("from slugify import slugify\nslugify('Ünïcödé text'), slugify('plain')", ("unicode-text", "plain")),
    ("from sortedcontainers import SortedList, SortedDict\nx = SortedList([3, 1])\nx.add(2)\nlist(x), x.bisect(2), list(SortedDict(b=1, a=2))", ([1, 2, 3], 2, ["a", "b"])),
]  # fmt: skip


def run(language: Language, code: str) -> Any:
    return language.run(language.compile(code), {}, io.StringIO()).value


@pytest.mark.parametrize(("code", "value"), WORKS, ids=lambda part: str(part).splitlines()[0][:40])
def test_packages_of_others_work(language: Language, code: str, value: object) -> None:
    assert run(language, code) == value


HINTS = {
    "import humanize\nhumanize.activate('de')": "it would reach",
    "from humanize import activate": "it would reach",
    "import humanize\nhumanize.os": None,
    "from humanize.i18n import gettext_module": None,
    "import toolz\ntoolz._signatures": "names that begin with _ are internal",
    "import humanize._version": "of humanize there is: humanize, humanize.filesize",
    "import humanise": "the nearest modules there are: humanize",
    "import wholly_unknown": "there is also: humanize, more_itertools, toolz",
    "import humanize\nhumanize.naturalsize = print": "cannot be set",
}


def test_what_is_left_out_is_refused_with_a_hint(language: Language) -> None:
    for code, hint in HINTS.items():
        try:
            program = language.compile(code)
        except Refused as refused:
            assert hint in refused.failure.hint
            continue
        with pytest.raises(Exception) as caught:
            language.run(program, {}, io.StringIO())
        told = language.explain(caught.value, program, [])
        assert hint is None or hint in f"{told.message} {told.hint}", (code, told)


def test_what_their_objects_lead_to(language: Language) -> None:
    samples = "import humanize, more_itertools, toolz, sortedcontainers\n[more_itertools.peekable([1]), sortedcontainers.SortedDict(), toolz.curry(max), toolz.compose(len), more_itertools.seekable([1])]"
    values = run(language, samples)
    starts: dict[str, object] = {f"<{type(value).__name__}>": value for value in values}
    tops = ("humanize", "toolz", "more_itertools", "slugify", "sortedcontainers")
    starts |= {name: facade for name, facade in language._modules.facades.items() if name.partition(".")[0] in tops}
    assert in_a_fork(lambda: reached(language, starts, depth=3, most=40_000).found) == []


ATTACKS = {
    "a module behind": "import humanize\nbreached() if hasattr(humanize, 'os') or hasattr(humanize.i18n, 'gettext_module') else None",
    "a catalogue by path": "import humanize\nhumanize.activate('x', path=secret_path)",
    "its loader": "import humanize\nhumanize.__loader__.load_module('os')",
    "its globals": "import humanize\nhumanize.naturalsize.__globals__['__builtins__']['open'](secret_path).read()",
    "globals by a curried getter": "import toolz\ntoolz.pluck('__globals__', [toolz.pipe])",
    "attributes of a curried function": "import toolz\ntoolz.curry(toolz.pipe).func.__globals__",
    "unpickling": "import toolz\ntoolz.functoolz._restore_curry(None, 'os.system', (), {}, {}, False)",
    "reducing": "import toolz\ntoolz.curry(max).__reduce__()",
    "an import by a backend": "from slugify import slugify\nslugify('ü', backend='os')",
    "a future": "import more_itertools\nmore_itertools.callback_iter",
    "a decorator of a library": "import more_itertools\nmore_itertools.make_decorator(open)",
    "a module's getattr": "import toolz\ntoolz.__getattr__('__version__')",
    "operators by name": "from toolz.curried.operator import attrgetter\nattrgetter('__globals__')(len)",
    "operators of toolz": "import toolz.curried.operator as o\no.methodcaller('__subclasses__')(object)",
    "its signatures": "import toolz\ntoolz._signatures.module_info",
    "a thread": "from more_itertools import concurrent_tee\nconcurrent_tee([1]).__init__.__globals__",
    "setting a class": "import sortedcontainers\nsortedcontainers.SortedList.add = breached",
    "a class's bases": "import sortedcontainers\nsortedcontainers.SortedList.__mro__[-1].__subclasses__()",
}


def test_attacks_get_nothing(language: Language, tmp_path: Path) -> None:
    def attack(code: str) -> Run:
        def go(given: dict[str, Any], output: io.StringIO) -> object:
            ran = language.run(language.compile(code), given, output)
            return [ran.value, *ran.names.values()]

        return go

    achieved = attempts({name: attack(code) for name, code in ATTACKS.items()}, tmp_path)
    assert {name: what for name, what in achieved.items() if what is not None} == {}


# Beyond what a check of sources sees: (source, code, what code must not get).
HIDDEN = {
    "sneaky_vars": ("import os\ndef f(): return 1\nf.os = print\nf.helper = os.path\n", "import sneaky_vars\nsneaky_vars.f"),
    "sneaky_values": ("import operator\nreader, pair = [operator.attrgetter][0], (1, operator.itemgetter)\ndef f(): return 1\ndef g(): return 1", "import sneaky_values\nsneaky_values.reader"),
    "sneaky_instance": ("class A:\n    def __init__(self, x): self.x = x\nclass B(A): pass\nimport re\nones = [A(re.compile)]\none = A(ones)\ndef f(): return 1", "import sneaky_instance\nsneaky_instance.ones"),
    "own_classes": ("class M(type): pass\nclass A(metaclass=M): pass\ndef f(): return 1", "import own_classes\nown_classes.M('X', (), {})"),
    "lists": ("NAMES = ['a']\nTABLE = {'a': 1}\nCONSTANT = ('a', 1)\ndef f(): return NAMES", "import lists\nlists.NAMES"),
}  # fmt: skip


def test_what_the_check_does_not_see_is_left_out_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, (source, _) in HIDDEN.items():
        (tmp_path / f"{name}.py").write_text(source)
    language = Language(HIDDEN)
    for name, (_, code) in HIDDEN.items():
        language.learn(name)
        with pytest.raises(Exception, match=r"not available|has no attribute|No module|cannot be called"):
            run(language, code)
    assert run(language, "import lists\nlists.CONSTANT, lists.f()") == (("a", 1), ["a"])
    assert run(language, "import own_classes\nown_classes.f()") == 1


def test_a_module_that_changes_classes_of_others_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "patches.py").write_text(
        "from collections import Counter\ndef patch(cls):\n    cls.total = lambda self: 42\npatch(Counter)\ndef f(): return 1\n"
    )
    (tmp_path / "breaks.py").write_text("1 / 0\ndef f(): return 1\n")
    (tmp_path / "changed.py").write_text("def f(): return 1\n")
    language = Language(["patches", "breaks", "changed"])
    assert check("changed").refused == () == check("patches").refused
    (tmp_path / "changed.py").write_text("import os\nos.listdir('/')\ndef f(): return 1\n")
    check.cache_clear()  # as in another process
    for name, why in {
        "patches": "changes what is not its own: Counter.total",
        "breaks": "ZeroDivisionError",
        "changed": "os.listdir",
    }.items():
        language.learn(name)
        program = language.compile(f"import {name}")
        with pytest.raises(ModuleNotFoundError) as caught:
            language.run(program, {}, io.StringIO())
        assert why in str(language.explain(caught.value, program, []).hint)
    assert run(language, "from collections import Counter\nCounter('aa').total()") == 2


def test_a_library_that_is_installed_and_broken_is_told_of_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(library: str, _given: object) -> None:
        raise {"sympy": PermissionError("its files"), "scipy": OSError("libopenblas"), "statsmodels": ValueError()}[
            library
        ]

    monkeypatch.setattr("byref_sandbox.language.science.load", load)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "needs.py").write_text("import sympy\ndef f(): return 1\n")
    language = Language(["needs"])
    for library, code, why in (
        ("sympy", "import sympy as sp", "its files"),
        ("scipy", "import scipy.stats", "libopenblas"),
        ("statsmodels", "from patsy import dmatrix", "scipy: libopenblas"),
        ("needs", "import needs", "sympy: its files"),
    ):
        language.learn(library)
        program = language.compile(code)
        with pytest.raises(ModuleNotFoundError) as caught:
            language.run(program, {}, io.StringIO())
        assert language.explain(caught.value, program, []).hint == f"it could not be loaded: {why}"
    program = language.compile("import nowhere")
    with pytest.raises(ModuleNotFoundError) as caught:
        language.run(program, {}, io.StringIO())
    assert "there is also" not in str(language.explain(caught.value, program, []).hint)


def test_a_module_that_is_not_allowed_is_not_loaded() -> None:
    language = Language(["humanize"])
    with pytest.raises(KeyError):
        language.learn("more_itertools")
    assert "more_itertools" not in language._modules.facades


def test_the_state_names_what_it_holds_of_them(language: Language) -> None:
    known = Known(language)
    naturalsize = run(language, "from humanize import naturalsize\nnaturalsize")
    assert known.library_of(known.names[id(naturalsize)]) == "humanize"
    assert known.library_of("pandas:DataFrame") is None
