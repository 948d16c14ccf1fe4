"""Attacks through the functions of the host: code can call them, and nothing leads from them to the line, or to anything of the host's."""

from __future__ import annotations

import inspect
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from breach import SECRET, Run, attempts, in_plain_python

from byref_sandbox.functions import Parameter, Stub
from byref_sandbox.language.calling import Came, FunctionError, Functions, HostFunction, finder
from byref_sandbox.language.policy import Language

STUBS = [
    Stub("echo", [Parameter("value", is_required=False)], "echo(value=None)\nGives it back."),
    Stub("fails", [], "fails()"),
    Stub("shows", [], "shows()"),
]


class Line:
    """Answers at once; what must not be had is a member of it, and the result of what is no function."""

    def __init__(self) -> None:
        self.secret = SECRET
        self.sent: list[str] = []
        self._came: list[Came] = []
        self._numbers = itertools.count()

    def send(self, function: str, arguments: Mapping[str, object], *, is_awaited: bool) -> int:
        number = next(self._numbers)
        self.sent.append(function)
        error = FunctionError("it failed") if function == "fails" else None
        known = {"echo": arguments.get("value"), "shows": 1, "fails": None}
        self._came.append(Came(number, known.get(function, SECRET), error))
        return number

    def wait(self, seconds: float | None) -> Sequence[Came]:
        came, self._came = self._came, []
        return came


GLOBALS = "__globals__"
ATTACKS = {
    "an attribute": "echo._functions._line.secret",
    "the stub": "echo._functions.all['echo']._functions._line.secret",
    "getattr": "getattr(echo, '_functions')._line.secret",
    "getattr with a name that is made": "getattr(echo, '_func' + 'tions')._line.secret",
    "getattr with a default": "getattr(echo, '_functions', None)._line.secret",
    "vars": "vars(echo)['_functions']._line.secret",
    "its dict": "echo.__dict__['_functions']._line.secret",
    "a chain of dicts": "import collections\ncollections.ChainMap(vars(echo))['_functions']._line.secret",
    "in a list": "[echo][0]._functions._line.secret",
    "in a lambda": "(lambda e: e._functions)(echo)._line.secret",
    "in a comprehension": "[e._functions._line.secret for e in (echo, shows)][0]",
    "in an f-string": "f'{echo._functions._line.secret}'",
    "a format": "'{0._functions._line.secret}'.format(echo)",
    "a format by name": "'{e._functions._line.secret}'.format(e=echo)",
    "a format of a mapping": "'{e._functions._line.secret}'.format_map({'e': echo})",
    "the type's format": "str.format('{0._functions._line.secret}', echo)",
    "a formatter": "import string\nstring.Formatter().format('{0._functions._line.secret}', echo)",
    "a formatter's field": "import string\nstring.Formatter().get_field('0._functions._line.secret', (echo,), {})[0]",
    "match": "match echo:\n    case object(_functions=f):\n        found = f._line.secret\nfound",
    "attrgetter": "import operator\noperator.attrgetter('_functions._line.secret')(echo)",
    "methodcaller": "import operator\noperator.methodcaller('__getattribute__', '_functions')(echo)._line.secret",
    "partial": "import functools\nfunctools.partial(echo).func._functions._line.secret",
    "partial of getattr": "import functools\nfunctools.partial(getattr, echo)('_functions')._line.secret",
    "reduce": "import functools\nfunctools.reduce(getattr, ['_functions', '_line', 'secret'], echo)",
    "map": "list(map(getattr, [echo], ['_functions']))[0]._line.secret",
    "starmap": "import itertools\nlist(itertools.starmap(getattr, [(echo, '_functions')]))[0]._line.secret",
    "object's reader": "object.__getattribute__(echo, '_functions')._line.secret",
    "its type's reader": "type(echo).__getattribute__(echo, '_functions')._line.secret",
    "another class's reader": "class C:\n    pass\nC.__getattribute__(echo, '_functions')._line.secret",
    "super": "super(type(echo), echo).__getattribute__('_functions')._line.secret",
    "a subclass": "class Spy(type(echo)):\n    def go(self): return self._functions._line.secret\nSpy.go(echo)",
    "another class": "class Spy:\n    def go(self): return self._functions._line.secret\nSpy.go(echo)",
    "a class that is made": "type('X', (type(echo),), {'go': lambda self: self._functions._line.secret}).go(echo)",
    "a property": "class C:\n    go = property(lambda self: self._functions._line.secret)\nC.go.fget(echo)",
    "a method of another": "import types\ntypes.MethodType(lambda self: self._functions._line.secret, echo)()",
    "a cached property": (
        "import functools\nclass C:\n    @functools.cached_property\n    def go(self): return self._functions._line.secret\n"
        "C.go.func(echo)"
    ),
    "a copy": "import copy\ncopy.copy(echo)._functions._line.secret",
    "a deep copy": "import copy\ncopy.deepcopy(echo)._functions._line.secret",
    "its state": "echo.__getstate__()['_functions']._line.secret",
    "how it is pickled": "echo.__reduce_ex__(2)[2]['_functions']._line.secret",
    "wraps": "import functools\nf = functools.wraps(echo)(lambda: 0)\nvars(f)['_functions']._line.secret",
    "wraps, an attribute": "import functools\nf = functools.wraps(echo)(lambda: 0)\nf._functions._line.secret",
    "an own object in its place": (
        "import functools\nclass C:\n    pass\nc = functools.update_wrapper(C(), echo)\nvars(c)['_functions']._line.secret"
    ),
    "an own object's attribute": (
        "import functools\nclass C:\n    def go(self): return self._functions\n"
        "functools.update_wrapper(C(), echo).go()._line.secret"
    ),
    "an own object's public one": (
        "import functools\nclass C:\n    def go(self): return self._functions.all\n"
        "functools.update_wrapper(C(), echo).go()['echo']._functions._line.secret"
    ),
    "a namespace": (
        "import functools, types\nvars(functools.update_wrapper(types.SimpleNamespace(), echo))['_functions']._line.secret"
    ),
    "other names to wrap": (
        "import functools\nclass C:\n    pass\n"
        "functools.update_wrapper(C(), echo, assigned=('_functions',), updated=())._functions._line.secret"
    ),
    "inspect's members": "import inspect\ndict(inspect.getmembers(echo))['_functions']._line.secret",
    "inspect's reader": "import inspect\ninspect.getattr_static(echo, '_functions')._line.secret",
    "a weak reference": "import weakref\nweakref.ref(echo)()._functions._line.secret",
    "a proxy": "import weakref\nweakref.proxy(echo)._functions._line.secret",
    "all objects": "import gc\n[o for o in gc.get_objects() if type(o).__name__ == 'Line'][0].secret",
    "a column": "pd.Series([echo]).map(lambda e: e._functions._line.secret)[0]",
    "an array": "np.array([echo], dtype=object)[0]._functions._line.secret",
    "numpy's getattr": "np.frompyfunc(getattr, 2, 1)(echo, '_functions')._line.secret",
    "json's default": "import json\njson.dumps(echo, default=lambda o: o._functions._line.secret)",
    "eval": "eval('echo._functions._line.secret')",
    "exec": "exec('x = echo._functions._line.secret')\nx",
    "compile": "eval(compile('echo._functions._line.secret', '', 'eval'))",
    "the bound method": "echo.__call__.__self__._functions._line.secret",
    "what awaits it": "echo._begin.__self__._functions._line.secret",
    "the function's globals": "echo.__call__.__func__.__globals__",
    "the method's globals": "echo.__call__.__globals__",
    "the type's globals": "type(echo).__call__.__globals__",
    "the class's globals": "echo.__class__.__call__.__globals__",
    "its maker's globals": "echo.__init__.__globals__",
    "its repr's globals": "echo.__repr__.__globals__",
    "its class's first": "type(echo).__mro__[0].__call__.__globals__",
    "the signature's class": "echo.__signature__.__class__.bind.__globals__",
    "the signature's method": "echo.__signature__.replace.__globals__",
    "a parameter's class": "echo.__signature__.parameters['value'].__class__.__init__.__globals__",
    "a parameter's kind": "type(echo.__signature__.parameters['value'].kind).__str__.__globals__",
    "bound arguments": "type(echo.__signature__.bind(1)).apply_defaults.__globals__",
    "the list's globals": "functions.__globals__",
    "the list's cells": "functions.__closure__[0].cell_contents['echo']._functions._line.secret",
    "the list's code": "functions.__code__",
    "the list's defaults": "functions.__func__ if hasattr(functions, '__func__') else functions.__code__",
    "a traceback": "try:\n    echo(1, 2)\nexcept TypeError as error:\n    found = error.__traceback__.tb_frame.f_globals\nfound",
    "a deeper traceback": (
        "try:\n    echo(1, 2)\nexcept TypeError as error:\n    t = error.__traceback__\n    while t.tb_next: t = t.tb_next\n"
        "    found = t.tb_frame.f_globals\nfound"
    ),
    "an error's frame": (
        "try:\n    fails()\nexcept FunctionError as error:\n    found = error.__traceback__.tb_next.tb_frame.f_locals['self']"
        "._functions._line.secret\nfound"
    ),
    "sys's error": (
        "import sys\ntry:\n    fails()\nexcept FunctionError:\n    found = sys.exc_info()[2].tb_next.tb_frame.f_globals\nfound"
    ),
    "an error's context": (
        "try:\n    try:\n        1 / 0\n    finally:\n        fails()\nexcept FunctionError as error:\n"
        "    found = error.__context__.__traceback__.tb_frame.f_globals\nfound"
    ),
    "traceback's frames": (
        "import traceback, sys\ntry:\n    fails()\nexcept FunctionError as error:\n"
        "    found = [f for f, _ in traceback.walk_tb(error.__traceback__)][0].f_globals\nfound"
    ),
    "a forged call": "echo._functions._now('refund', {})",
    "a forged call to the line": "f = echo._functions\nn = f._line.send('refund', {}, is_awaited=False)\nf._line.wait(None)[0].value",
    "a stub that says something else": (
        "class S:\n    name = 'refund'\n    parameters = []\n    text = ''\n"
        "f = type(echo)(echo._stub, echo._functions)\nf._stub = S()\nf()"
    ),
    "a function of another name": (
        "import types\nf = type(echo)(types.SimpleNamespace(name='refund', parameters=[], text=''), echo._functions)\nf()"
    ),
    "its stub is set": "import types\necho._stub = types.SimpleNamespace(name='refund', parameters=[], text='')\necho()",
    "its stub is set by name": (
        "import types\nsetattr(echo, '_stub', types.SimpleNamespace(name='refund', parameters=[], text=''))\necho()"
    ),
    "its dict is set": "import types\necho.__dict__['_stub'] = types.SimpleNamespace(name='refund', parameters=[], text='')\necho()",
    "its state is set": (
        "import types\nobject.__setattr__(echo, '_stub', types.SimpleNamespace(name='refund', parameters=[], text=''))\necho()"
    ),
    "a class in its class's place": (
        "class C(type(echo)):\n    def go(self): return self._functions._line.secret\necho.__class__ = C\necho.go()"
    ),
    "its class's call": "type(echo).__call__ = lambda self: self._functions._line.secret\necho()",
    "its class's call by name": "setattr(type(echo), '__call__', lambda self: self._functions._line.secret)\necho()",
    "its class's repr": "type(echo).__repr__ = lambda self: self._functions._line.secret\nrepr(echo)",
    "a patch": (
        "from unittest import mock\nwith mock.patch.object(type(echo), '__call__', lambda self: self._functions._line.secret):\n"
        "    found = echo()\nfound"
    ),
    "its signature's binding": (
        "class S:\n    def bind(self, *a, **k): return self\n    arguments = {}\n"
        "echo.__signature__ = S()\necho._stub = type('T', (), {'name': 'refund', 'parameters': []})()\necho(1, 2, 3)"
    ),
}


def given(line: Line) -> dict[str, Any]:
    functions = Functions(STUBS, line)
    return {"functions": finder(functions.all), "FunctionError": FunctionError, **functions.all}


def in_plain(code: str) -> Run:
    run = in_plain_python(code)
    return lambda names, output: run({**names, **given(Line())}, output)


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


def in_the_language(language: Language, code: str) -> Run:
    def run(names: dict[str, Any], output: io.StringIO) -> object:
        line = Line()
        space = language.space(names, functions=Functions(STUBS, line))
        program = language.compile(code)
        value = language.execute(program, space, output)
        if set(line.sent) - {"echo", "fails", "shows"}:
            return SECRET
        parts = [value, *language.bound(space, names).values()]
        return [SECRET if isinstance(one, Functions | Line | Stub) else one for one in parts]

    return run


def test_attacks_through_functions_get_nothing(language: Language, tmp_path: Path) -> None:
    before = {name: dict(vars(kind)) for name, kind in (("function", HostFunction), ("signature", inspect.Signature))}
    achieved = attempts({name: in_the_language(language, code) for name, code in ATTACKS.items()}, tmp_path)
    assert {name: what for name, what in achieved.items() if what is not None} == {}
    assert before == {"function": dict(vars(HostFunction)), "signature": dict(vars(inspect.Signature))}


@pytest.mark.slow
def test_the_same_attacks_succeed_without_the_language(tmp_path: Path) -> None:
    achieved = attempts({name: in_plain(code) for name, code in ATTACKS.items()}, tmp_path)
    assert {name for name, what in achieved.items() if what is None} == set()


CHANGES = (
    "echo.x = 1",
    "echo.__name__ = 'refund'",
    "echo.__doc__ = ''",
    "del echo.__doc__",
    "echo.__signature__ = None",
    "setattr(echo, 'x', 1)",
    "delattr(echo, '__name__')",
    "vars(echo).clear()",
    "echo.__dict__.clear()",
    "echo.__signature__.parameters.clear()",
    "type(echo).x = 1",
    "type(echo).__call__ = print",
    "functions.x = 1",
    "functions.__name__ = 'x'",
    "FunctionError.x = 1",
    "FunctionError.__init__ = print",
    "import operator\noperator.setitem(vars(echo), 'x', 1)",
    "import functools\nfunctools.update_wrapper(echo, lambda: 0)",
)


@pytest.fixture
def functions() -> Iterator[Functions]:
    yield Functions(STUBS, Line())


def test_code_changes_nothing_of_a_function(language: Language, functions: Functions) -> None:
    def parts() -> list[Any]:
        echo = functions.all["echo"]
        return [dict(vars(one)) for one in (echo, type(echo), FunctionError)]

    before = parts()
    for code in CHANGES:
        with pytest.raises(Exception):  # whatever refuses it
            language.execute(language.compile(code), language.space({}, functions=functions), io.StringIO())
            pytest.fail(code)
        assert parts() == before, code


def test_a_name_that_code_binds_is_its_own(language: Language, functions: Functions) -> None:
    """It hides a function from that code, and from nobody else."""
    for code in ("echo = print\necho", "def echo(value): return 1\necho(2)", "echo = lambda value: 1\necho(2)"):
        language.execute(language.compile(code), language.space({}, functions=functions), io.StringIO())
        again = language.compile("echo(5)")
        assert language.execute(again, language.space({}, functions=functions), io.StringIO()) == 5
