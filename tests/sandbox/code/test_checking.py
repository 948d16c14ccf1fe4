"""Further modules that a host allows: what they reach is found in their sources, and nothing of them runs meanwhile."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from byref_sandbox.code.checking import check, check_all
from byref_sandbox.language.policy import Language

REFUSED = {
    # What runs when it is imported.
    "reads_a_file": ("TEXT = open('/etc/passwd').read()\ndef f(): return TEXT", "files: builtins.open"),
    "reads_by_a_path": ("from pathlib import Path\nTEXT = Path(__file__).read_text()\ndef f(): return 1", "files"),
    "reads_by_its_function": (
        "def g():\n    return open('x')\nVALUE = g()\ndef f(): return 1\ndef h(): return 2\n",
        "files",
    ),
    "reads_by_a_decorator": (
        "def d(f):\n    open('x')\n    return f\n@d\ndef f(): return 1\ndef h(): return 2\ndef i(): return 3\n",
        "files",
    ),
    "reads_by_a_method": (
        "class A:\n    def go(self):\n        open('x')\n    def f(self): pass\nA().go()\ndef f(): return 1\ndef h(): return 2\ndef i(): return 3\n",
        "files",
    ),
    "reads_by_a_metaclass": (
        "class M(type):\n    def __new__(cls, *a):\n        open('x')\nclass A(metaclass=M): pass\ndef f(): return 1\ndef h(): return 2\ndef i(): return 3\ndef j(): return 3\n",
        "files",
    ),
    "reads_by_a_subclass": (
        "class B:\n    def __init_subclass__(cls):\n        open('x')\nclass A(B): pass\ndef f(): return 1\ndef h(): return 2\ndef i(): return 3\ndef j(): return 3\n",
        "files",
    ),
    "reads_by_a_default": ("def f(text=open('x').read()): return text\ndef h(): return 1\ndef i(): return 1", "files"),
    "reads_by_an_outer_name": ("VALUE = [open for open in open('x')]\ndef f(): return 1", "files"),
    "starts_a_process": (
        "import subprocess as s\ns.run('ls')\ndef f(): return 1",
        "threads or processes: subprocess.run",
    ),
    "starts_a_thread": (
        "import threading\nthreading.Thread(target=print).start()\ndef f(): return 1",
        "threading.Thread",
    ),
    "opens_a_socket": ("from socket import *\nsocket()\ndef f(): return 1", "the network"),
    "makes_code": ("exec('import os')\ndef f(): return 1", "code made of text: builtins.exec"),
    "imports_by_name": ("m = __import__('o' + 's')\ndef f(): return m", "builtins.__import__"),
    "hides_it_in_an_attribute": ("import os\nrun = getattr(os, 'system')\ndef f(): return 1", "files: os.system"),
    "looks_inside": (
        "x = [c for c in ().__class__.__base__.__subclasses__()]\ndef f(): return x",
        "the interpreter's inside",
    ),
    "reads_modules": ("import sys\nm = sys.modules['os']\ndef f(): return m", "the interpreter's inside"),
    "hands_on_a_module": ("import os\nbackend = os\ndef f(): return 1", "os"),
    "a_module_in_a_class": ("import json\nclass A:\n    codec = json\ndef f(): return 1", "a module as a value: json"),
    "changes_others": (
        "import collections\ncollections.Counter.total = lambda self: 42\ndef f(): return 1",
        "it changes collections.Counter.total",
    ),
    "changes_python": ("import json\njson.dumps = print\ndef f(): return 1", "it changes json.dumps"),
    # What its functions do.
    "all_reach": ("def f(p): return open(p)\ndef g(c): return eval(c)", "2 of its 2 functions and classes reach out"),
    "half_reaches": (
        "def f(p): return open(p)\ndef g(c): return c",
        "1 of its 2 functions and classes reach out: f reaches files",
    ),
    # What cannot be read, or is there already.
    "no_python": ("def f(:", "cannot be read"),
    "os": (None, "comes with Python"),
    "json": (None, "comes with Python"),
    "pandas": (None, "has it, or its name, already"),
    "sklearn": (None, "has it, or its name, already"),
    "no_such_module_at_all": (None, "there is no module"),
    "_private": (None, "names that begin with _ are internal"),
    "a b": (None, "is no name of a module"),
    "class": (None, "is no name of a module"),
    "..": (None, "is no name of a module"),
    "msgspec": (None, "is compiled"),
    "requests": (None, "the network"),
}
LEFT_OUT = """
import os, json, operator, string, threading, functools, types, inspect, copy
from collections import Counter as C
_alias = json.loads
def fine(x): return json.dumps(x)
def fine2(x): return C(x).most_common()
def fine3(*a, **k):
    def inner(open): return open + 1
    return inner(1)
class Fine:
    name = "a"
    def __init__(self, x): self.x = x
    def get(self): return getattr(self, "x")
    def visit(self, kind): return getattr(self, f"visit_{kind}")(1)
    def visit_a(self, n): return type(self).__name__
def fine4(x): return Fine(x).get()
def fine5(x): return os.path.join("a", x)
def fine6(x): return "{:.1f} {.__class__.__name__}".format(x, x)

def reads(p): return open(p)
def reads_through(p): return reads(p)
def reads_as(p):
    o = open
    return o(p)
def reads_inside(p):
    def g(): return open(p)
    return g()
def reads_despite(p):
    def g(): open = 1
    return open(p)
def reads_by_import(p):
    from pathlib import Path as P
    return P(p).read_text()
def reads_by_method(f, p): return f.to_csv(p)
def reads_of_someone(x): return FineButLoads(x).load()
class FineButLoads:
    def __init__(self, x): self.x = x
    def load(self): return open(self.x)
def hands_on(): return os
def hands_on_inside(): return json.codecs
def attribute(x, name): return getattr(x, name)
def attributes(names): return operator.attrgetter(*names)
def template(t, x): return t.format(x)
def template2(x): return "{0.__globals__}".format(x)
def formatter(): return string.Formatter()
def kind(x): return type(x)
def kinds(xs): return [type(x) for x in xs]
def inside(f): return f.__globals__
def frames(g): return g.gi_frame
def variables(x): return vars(x)
def members(x): return inspect.getmembers(x)
def changes(x): C.total = x
def code(x): return types.FunctionType(x, {})
class Derived(threading.Thread): pass
class Calls:
    def __enter__(self): return open("x")
def lazily(name):
    import importlib
    return importlib.import_module(name)
"""

FILLING = "".join(f"def fine_{number}(): return {number}\n" for number in range(30))


def _written(folder: Path, sources: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in sources.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture(autouse=True)
def fresh() -> None:
    check.cache_clear()


@pytest.mark.slow
def test_modules_that_reach_out_are_refused_with_what_they_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path, {name: source for name, (source, _) in REFUSED.items() if source is not None}, monkeypatch)
    for name, (source, why) in REFUSED.items():
        refused = check(name).refused
        assert any(part in reason for part in why.split("|") for reason in refused), (name, refused)
        assert source is None or name not in sys.modules
        with pytest.raises(ValueError) as caught:
            check_all([name])
        assert repr(name) in str(caught.value)


def test_what_reaches_out_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(tmp_path, {"mixed": LEFT_OUT + FILLING}, monkeypatch)
    found = check("mixed")
    assert found.refused == ()
    assert [name for name in found.allowed if not name.lower().startswith("fine")] == []
    assert [name for name in found.left_out if name.lower().startswith("fine")] == []
    assert "left out: reads_through reaches files: builtins.open by mixed:reads" in found.report()


def test_packages_are_followed_as_they_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = "def f(x): return x\n"
    sources = {
        "friendly/__init__": f"from .part import f\nfrom . import _own\n{harmless.replace('f(', 'g(')}",
        "friendly/part": harmless,
        "friendly/_own": harmless,
        "friendly/hostile": "import subprocess\nsubprocess.run('ls')\n",  # nobody imports it
        "friendly/lazily": "open('/etc/passwd')\ndef h(): return 1",
        "friendly/tests/__init__": "raise SystemExit",
        "unfriendly/__init__": f"from .part import f\n{harmless.replace('f(', 'g(')}",
        "unfriendly/part": f"import unfriendly.far\n{harmless}",
        "unfriendly/far": "import os\nos.system('ls')\n",
        "borrows/__init__": f"import unfriendly.far\n{harmless}",
        "typed/__init__": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import unfriendly\n{harmless}",
        "deceives/__init__": f"TYPE_CHECKING = False\nTYPE_CHECKING = not TYPE_CHECKING\nif TYPE_CHECKING:\n    import unfriendly\n{harmless}",
        "lazy/__init__": f"def __getattr__(name):\n    return open(name)\n{harmless}def g(): return 1\ndef h(): return 1\n",
        "asks/__init__": f"from lazy import passwd\n{harmless}def g(): return 1\ndef h(): return 1\n",
    }
    _written(tmp_path, sources, monkeypatch)
    assert check("friendly").refused == () and check("friendly.part").refused == ()
    assert "friendly.hostile" not in check("friendly").modules
    assert check("friendly.hostile").refused and check("friendly.lazily").refused
    for name in ("unfriendly", "unfriendly.part", "borrows", "deceives", "asks"):
        assert any("os.system" in why or "files" in why for why in check(name).refused), name
    assert check("typed").refused == () and check("lazy").refused == ()
    with pytest.raises(ValueError, match="only one part"):
        check_all(["friendly", "friendly.part"])
    assert check_all(["friendly", "friendly"]) == ("friendly",)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["joblib", "httpx", "inflect", "cloudpickle", "yaml", "rich", "PIL.Image", "attr"])
def test_packages_that_reach_out(name: str) -> None:
    assert check(name).refused


def test_what_is_no_list_of_names_is_named() -> None:
    for wrong in ("humanize", [1], [None]):
        with pytest.raises(ValueError, match="expected a list of names"):
            check_all(wrong)  # type: ignore[arg-type]
    assert check_all([]) == ()


@pytest.mark.slow
def test_names_that_code_has_already_are_refused() -> None:
    tops = {name.partition(".")[0] for name in Language()._modules.facades}
    assert {name for name in tops if not check(name).refused} == set()


@pytest.mark.parametrize(
    ("name", "safe", "unsafe"),
    [
        ("humanize", "naturalsize intword precisedelta metric", "activate clamp"),
        ("more_itertools", "chunked windowed peekable bucket", "callback_iter"),
        ("toolz", "pipe curry groupby compose", ""),
        ("slugify", "slugify", ""),
        ("sortedcontainers", "SortedList SortedDict", ""),
    ],
)
def test_packages_of_others(name: str, safe: str, unsafe: str) -> None:
    found = check(name)
    assert found.refused == ()
    assert {*safe.split()} <= {*found.allowed} | {"windowed"} and {*unsafe.split()} == {*found.left_out}
    assert importlib.metadata.version({"more_itertools": "more-itertools", "slugify": "python-slugify"}.get(name, name))
