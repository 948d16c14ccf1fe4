"""Modules that try to get past the check of further modules: each is refused, or its function `evil` is left out."""

from __future__ import annotations

import os
import py_compile
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import toolz

from byref_sandbox.code.checking import LOOKED_AT, check
from byref_sandbox.language.policy import Language

FILLING = "".join(f"def fine_{number}(): return {number}\n" for number in range(30))

# What runs when the module is imported.
AT_IMPORT = {
    "an annotation": "def f(x: exec('')): return x",
    "an annotation of what is returned": "def f(x) -> exec(''): return x",
    "an annotation inside": "def g():\n    def f(x: exec('')): return x\ng()",
    "a base class": "class A(exec('') or object): pass",
    "a base class with a subscript": "class A(list[exec('')]): pass",
    "which error is caught": "try:\n    1 / 0\nexcept (exec('') or ZeroDivisionError):\n    pass",
    "which errors of a group are caught": "try:\n    1 / 0\nexcept* (exec('') or ZeroDivisionError):\n    pass",
    "a lambda's default": "f = lambda x=exec(''): x",
    "another target of a lambda": "import json\nf = json.dumps = lambda x: x",
    "a case": "match 1:\n    case 1 if exec(''): pass",
    "a module in a class": "class A:\n    import os\ndef evil(c): return A().os.system(c)",
    "a name of a module in a class": "class A:\n    from os import system\ndef evil(c): return A.system(c)",
    "a module of the package by its __getattr__": "import itself\nX = itself.passwd\ndef __getattr__(name): return open(name)",
    "a __getattr__ of another name": "import itself\nX = itself.passwd\ndef get(name): return open(name)\n__getattr__ = get",
    "where its parts are": "__path__ = ['/tmp']",
    "where more of its parts are": "__path__.append('/tmp')",
    "what it is a part of": "__package__ = 'os'\n",
    "what it is": "__spec__ = None\n",
    "its builtins": "__builtins__ = {}\n",
    "copying": "import copy\nclass A:\n    def __reduce__(self):\n        open('x')\n        return (A, ())\ncopy.copy(A())",
    "its own flag of typing": "from itself_flags import TYPE_CHECKING\nif TYPE_CHECKING:\n    exec('')",
    "a flag of another typing": "import itself_flags as typing\nif typing.TYPE_CHECKING:\n    exec('')",
    "a flag by a star": "from itself_flags import *\nif TYPE_CHECKING:\n    exec('')",
    "a table of Python's": "import copy\ncopy.dispatch_table[int] = print",
    "the default of a function of Python's": "import json\nfor f in (json.dumps,):\n    f.__kwdefaults__ = {}",
    "a field that is code": "import dataclasses\nclass A: pass\nA.__annotations__ = {'x=exec(chr(49))': int}\ndataclasses.dataclass(A)",
    "a field of a class that is code": "from dataclasses import dataclass\n@dataclass\nclass A:\n    __annotations__ = {'x=exec(chr(49))': int}",
    "a field of a class made of text": "from dataclasses import dataclass\nA = dataclass(type('A', (), {'__anno' + 'tations__': {'x=exec(chr(49))': int}}))",
    "the stream of a stream": "import sys\nC = sys.stdout.buffer.raw.__class__\ndef evil(p): return C(p).read()",
    "the stream of a stream by another name": "import sys\no = sys.stdout\nC = o.buffer.raw.__class__\ndef evil(p): return C(p).read()",
    "a table of a module's values": "import enum\nE = enum.IntEnum._convert_('E', 'sys', lambda n: n == 'modules')",
    "an enumeration into a module": "import enum\n@enum.global_enum\nclass E(enum.Enum):\n    open = 1",
    "a module of a module": "import numpy as np\nopened = np.ma.core.builtins.open('x')",
    "a module of a package": "import pytz\nframe = pytz.tzinfo.sys._getframe(0)",
    "a text that is run": "import timeit\ntimeit.timeit('1')",
    "a template": "T = '{0.__globals__}'\nX = T.format(print)",
    "nesting without end": "x = " + "+".join(["1"] * 9_000) + "\n" + "y = " + "-" * 3_000 + "1",
}  # fmt: skip

# What a function does.
IN_FUNCTIONS = {
    "a table of warnings": "import warnings\ndef evil(): warnings.filters.clear()",
    "a module by one of two imports": "try:\n    import os as m\nexcept ImportError:\n    import math as m\ndef evil(c): return m.system(c)",
    "a function by one of two imports": "from os import system\nif 0:\n    from math import sqrt as system\ndef evil(c): return system(c)",
    "a function by an import and a definition": "from os import system\nif 0:\n    def system(c): return c\ndef evil(c): return system(c)",
    "a module inside by one of two imports": "def evil(c):\n    try:\n        import os as m\n    except ImportError:\n        import math as m\n    return m.system(c)",
    "one of two definitions": "if 1:\n    def evil(p): return open(p)\nelse:\n    def evil(p): return p",
    "the first of two definitions": "def evil(p): return open(p)\nbad = evil\ndef evil(p): return bad(p)",
    "a name that is global after all": "def evil(p):\n    open = None\n    def g():\n        global open\n        return open(p)\n    return g()",
    "a star of a library": "from numpy import *\ndef evil(p): return load(p, allow_pickle=True)",
    "a star of tables": "from pandas import *\ndef evil(p): return read_pickle(p)",
    "a hidden name by a star": "from itself_hidden import *\ndef evil(p): return _hidden(p)",
    "a name by many stars": "from itself_1 import *\ndef evil(p): return far(p)",
    "a pattern that reads attributes": "def evil(f):\n    match f:\n        case object(__globals__=g): return g",
    "a pattern with attributes of its own": "from abc import ABC\nclass A(ABC):\n    __match_args__ = tuple(['__glo' + 'bals__'])\nA.register(type(len))\ndef evil(f):\n    match f:\n        case A(g): return g",
    "super of anything": "def evil(f): return super(type(f), f).__getattribute__('__globals__')",
    "a self that is none": "def evil(self): return self.__dict__",
    "a self that is set": "def evil(self, n, v): self.__setattr__(n, v)",
    "a self that object sets": "def evil(self, n, v): object.__setattr__(self, n, v)",
    "a method of another self": "class evil:\n    def put(self, n, v): object.__setattr__(self, n, v)",
    "a value that object sets": "class evil:\n    def __init__(self): object.__setattr__(self, 'x', open)",
    "a file handed on": "from itself_hands_on import done\ndef evil(c): return done(c)",
    "a module handed on": "from itself_hands_on import backend\ndef evil(c): return backend.system(c)",
    "a method's own dict": "class evil:\n    def get(self): return self.__dict__",
    "attributes that are copied": "import functools\nclass W:\n    def __setattr__(self, n, v): STASH.append(v)\nSTASH = []\ndef evil(f): return functools.update_wrapper(W(), f, assigned=['__glo' + 'bals__']), STASH",
    "attributes that a decorator copies": "from functools import wraps\ndef evil(f, names): return wraps(f, names)(lambda: 1)",
    "an annotation that is evaluated": "import inspect\ndef g(x: \"__import__('os')\"): pass\ndef evil(): return inspect.signature(g, eval_str=True)",
    "an annotation that is evaluated by another": "from inspect import Signature\ndef evil(f): return Signature.from_callable(f, eval_str=True)",
    "a reference that is evaluated": "import typing\ndef evil(text): return typing.Optional[text].__args__[0]._evaluate({}, {}, frozenset())",
    "a reference that is evaluated, newer": "import typing\ndef evil(text): return typing.get_args(typing.Optional[text])[0].evaluate()",
    "a method by a beginning": "def evil(t, kind, p): return getattr(t, 'to_' + kind)(p)",
    "a method by its caller": "import operator\ndef evil(t, p): return operator.methodcaller('to_csv', p)(t)",
    "a template by a caller": "import operator\ndef evil(t, x): return operator.methodcaller('format', x)(t)",
    "a template of another kind": "def evil(g): return '{0.gi_frame.f_back}'.format(g)",
    "a template that is a name": "T = '{0.__globals__}'\ndef evil(x): return T.format(x)",
    "a template that is bound by a pattern": "def evil(t, x):\n    T = 'a'\n    match t:\n        case T: pass\n    return T.format(x)",
    "a template that is an error": "def evil(x):\n    T = 'a'\n    try:\n        x()\n    except Exception as T:\n        return T.format(x)",
    "a file of a table": "def evil(t, p): return t.to_json(p)",
    "a file of an array": "def evil(a, p): return a.dump(p)",
    "a query of a table": "def evil(t, q): return t.query(q)",
    "an expression of a table": "def evil(t, q): return t.eval(q)",
    "a function by its name": "def evil(t, name): return t.agg(name)",
    "a reader of tables": "import pandas as pd\ndef evil(p): return pd.read_feather(p)",
    "tables' own evaluation": "import pandas as pd\ndef evil(q): return pd.eval(q)",
    "records from a file": "import numpy as np\ndef evil(p): return np.rec.fromfile(p)",
    "a working folder": "import contextlib\ndef evil(p): return contextlib.chdir(p)",
    "a line of a file": "import warnings\ndef evil(p): return warnings.formatwarning('', Warning, p, 1)",
    "the machine's name": "import email.utils\ndef evil(): return email.utils.make_msgid()",
    "time zones elsewhere": "import zoneinfo\ndef evil(p): return zoneinfo.reset_tzpath([p])",
    "a module by a method": "import six\ndef evil(): return six.get_method_self(print)",
    "a text that is timed": "from timeit import timeit\ndef evil(c): return timeit(c)",
    "the program of a module": "import ast\ndef evil(p): return ast.main([p])",
    "a text that it becomes": "# -*- coding: unicode_escape -*-\ndef evil(p): return p\n# \\x0adef evil(p): return open(p)\n",
    "a text in another alphabet": "# -*- coding: utf-7 -*-\ndef evil(p): return p\n# +AAo-def evil(p): return open(p)\n",
}  # fmt: skip
OTHERS = {
    "itself_flags": "TYPE_CHECKING = True\nFLAG = TYPE_CHECKING\n",
    "itself_hands_on": "import os as backend\nfrom os import system as done\n",
    "itself_hidden": "__all__ = ['_hidden']\ndef _hidden(p): return open(p)\n",
    "itself_12": "def far(p): return open(p)\n",
    **{f"itself_{number}": f"from itself_{number + 1} import *\n" for number in range(1, 12)},
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, source in OTHERS.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    check.cache_clear()
    return tmp_path


def _checked(place: Path, source: str) -> tuple[str, ...] | None:
    """Why a module is refused; None if it is not, and code gets all of `evil`."""
    (place / "itself.py").write_text(f"{source}\n{FILLING}")
    check.cache_clear()
    found = check("itself")
    is_whole = "evil" in found.allowed and not any(place.startswith("itself:evil") for place in found.reached)
    return None if not found.refused and is_whole else found.refused


def test_the_filling_is_allowed(place: Path) -> None:
    assert _checked(place, "def evil(): return 1") is None


def test_what_runs_at_import_is_refused(place: Path) -> None:
    assert [name for name, source in AT_IMPORT.items() if not _checked(place, source)] == []


def test_what_functions_do_is_left_out(place: Path) -> None:
    assert [name for name, source in IN_FUNCTIONS.items() if _checked(place, source) is None] == []


def test_the_names_of_functions_that_were_read_exempt_no_others(place: Path) -> None:
    for number, known in enumerate(LOOKED_AT):
        folder = place / str(number)
        module, _, name = known.partition(":")
        *above, last = module.split(".")
        for depth in range(1, len(above) + 1):
            (folder / Path(*above[:depth])).mkdir(parents=True, exist_ok=True)
            (folder / Path(*above[:depth]) / "__init__.py").write_text(f"{FILLING}def evil(): return 1\n")
        owner, _, method = name.rpartition(".")
        hostile = "open('x')\n" if name == "<import>" else f"def {method}(*p): return open(*p)\n"
        if owner:
            hostile = f"class {owner}:\n    {hostile}"
        (folder / Path(*above) / f"{last}.py").write_text(f"{hostile}{FILLING}")
        taken = (
            f"from {module} import *\nfrom {module} import {owner or method}\n"
            if method != "<import>"
            else f"import {module}\n"
        )
        (folder / above[0] / "__init__.py").write_text(f"{taken}{FILLING}")
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            check.cache_clear()
            assert known in check(above[0]).reached


@pytest.mark.slow
def test_what_functions_that_were_read_call_is_followed(place: Path) -> None:
    installed = Path(toolz.__file__).parent
    for changed, text in {
        "utils": "open('x')\n",
        "recipes": "open('x')\n",
        "dicttoolz": (installed / "dicttoolz.py").read_text() + "\ndef _get_factory(f, kwargs): return open(f)\n",
        "_signatures": (installed / "_signatures.py").read_text() + "\nimport os\nmodule_info = {os: {}}\n",
    }.items():
        folder = place / f"copy_{changed}"
        shutil.copytree(installed, folder / "toolz", ignore=shutil.ignore_patterns("tests", "__pycache__"))
        (folder / "toolz" / f"{changed}.py").write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            check.cache_clear()
            found = check("toolz")
            assert found.refused or "merge_with" in found.left_out, changed


def test_what_is_not_a_file_of_source_is_refused(place: Path) -> None:
    source = f"def evil(): return 1\n{FILLING}"
    with zipfile.ZipFile(place / "zipped.zip", "w") as archive:
        archive.writestr("zipped_module.py", source)
    (place / "without_init").mkdir()
    (place / "without_init" / "part.py").write_text(source)
    (place / "compiled.py").write_text(source)
    py_compile.compile(str(place / "compiled.py"), cfile=str(place / "only_bytes.pyc"))
    os.remove(place / "compiled.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place / "zipped.zip"))
        for name in ("zipped_module", "without_init", "without_init.part", "only_bytes"):
            assert check(name).refused, name


# What only shows when it is loaded: (source, name that code must not get).
LOADED = {
    "another's name": ("def evil(p): return open(p)\ndef good(): return 1\nevil.__qualname__ = 'good'", "evil"),
    "another's wrapper": ("import functools\ndef good(): return 1\n@functools.wraps(good)\ndef evil(p): return open(p)", "evil"),
}  # fmt: skip


@pytest.mark.slow
def test_what_poses_as_another_is_not_given(place: Path) -> None:
    for number, (source, name) in enumerate(LOADED.values()):
        (place / f"poses_{number}.py").write_text(f"{source}\n{FILLING}")
    names = [f"poses_{number}" for number in range(len(LOADED))]
    language = Language(names)
    for module, (kind, (_, name)) in zip(names, LOADED.items(), strict=True):
        language.learn(module)
        held = vars(language._modules.facades[module])
        assert "fine_1" in held and name not in held, kind


@pytest.mark.slow
def test_bytes_that_were_compiled_of_another_source_are_not_run(place: Path) -> None:
    hostile, source = place / "swapped.py", f"def good(): return 1\n{FILLING}"
    hostile.write_text(f"open({str(place / 'must_not_be')!r}, 'w')\n1 / 0\n")
    py_compile.compile(str(hostile), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    hostile.write_text(source)
    language = Language(["swapped"])
    language.learn("swapped")
    assert "good" in vars(language._modules.facades["swapped"])
    assert not (place / "must_not_be").exists()


@pytest.mark.slow
def test_what_a_module_sets_for_all_is_as_it_was(place: Path) -> None:
    (place / "settles.py").write_text(
        "import random, numpy as np, pandas as pd, decimal, json\nrandom.seed(1)\nnp.random.seed(1)\nnp.seterr(all='raise')\n"
        f"pd.set_option('display.max_rows', 3)\nfor f in (decimal.getcontext,):\n    c = f()\n    c.prec = 3\n{FILLING}"
    )
    check.cache_clear()
    before = random.getstate(), np.geterr(), pd.get_option("display.max_rows")
    language = Language(["settles"])
    try:
        language.learn("settles")
    finally:
        after = random.getstate(), np.geterr(), pd.get_option("display.max_rows")
    assert after == before
