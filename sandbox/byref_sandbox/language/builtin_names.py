"""The builtins of the language."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

from byref_sandbox.code.words import words
from byref_sandbox.language import transformer
from byref_sandbox.language.attributes import Namespace
from byref_sandbox.language.calling import FunctionError, awaitable, awaited
from byref_sandbox.language.copying import own_deepcopy
from byref_sandbox.language.evaluation import is_variable
from byref_sandbox.language.files import Files
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.helping import helper
from byref_sandbox.language.inspecting import is_own_frame, name_of, not_loaded_in, public_look_up
from byref_sandbox.language.modules import Modules
from byref_sandbox.language.refusal import NotAllowed

_AS_THEY_ARE = words("""None False True Ellipsis NotImplemented abs aiter all any anext ascii bin bool bytearray bytes callable chr classmethod
    complex dict divmod enumerate filter float format frozenset hash hex id int isinstance issubclass iter len
    list map max min next object oct ord pow property range repr reversed round set slice sorted staticmethod str
    sum super tuple zip""")
_PREBOUND = words("""math statistics json re datetime itertools functools random decimal fractions collections string textwrap
    heapq bisect copy time typing dataclasses enum calendar zoneinfo hashlib base64 uuid operator warnings csv io""")


def safe_builtins(guards: Guards, modules: Modules, files: Files, evaluate: Callable[..., Any]) -> dict[str, Any]:
    """Return the builtins of the code: harmless ones, guarded forms of others, the usual modules, and guards under names that no code can spell."""
    known: dict[str, Any] = {name: getattr(builtins, name) for name in _AS_THEY_ARE}
    known.update({n: e for n, e in vars(builtins).items() if isinstance(e, type) and issubclass(e, BaseException)})
    known.update({name: modules.facades[name] for name in _PREBOUND})
    known.update(pd=modules.facades["pandas"], np=modules.facades["numpy"])
    collections = modules.facades["collections"]
    known.update(Counter=collections.Counter, defaultdict=collections.defaultdict)
    known.update(
        print=_print(guards), display=modules.facades["IPython.display"].display, getattr=guards.getattr, hasattr=guards.hasattr, setattr=guards.setattr, delattr=guards.delattr, type=guards.type,
        dir=_dir, globals=_globals, locals=_locals, vars=_vars(guards), exit=_exit, quit=_exit,
        open=_open(files), eval=evaluate, help=helper(guards), input=_refused("input", "put the value into the code", ": nobody is there to answer"),
    )  # fmt: skip
    known.update({name: _refused(name, hint) for name, hint in _REFUSED.items()})
    known.update(
        {
            "__build_class__": guards.build_class,
            # For compiled code (strptime, numpy), which looks it up here. The language has no way to spell it.
            "__import__": builtins.__import__,
            "__debug__": True,
            transformer.GETATTR: guards.checked,
            transformer.PRIVATE: guards.private,
            transformer.DUNDER: guards.dunder,
            transformer.WRITABLE: guards.writable,
            transformer.IMPORT: modules.load,
            transformer.IMPORT_ALL: modules.load_all,
            transformer.TYPE: type,
            transformer.READABLE: guards.readable,
            transformer.LOOK_UP: public_look_up,
            transformer.DEEPCOPY: own_deepcopy,
            transformer.AWAITED: awaited,
            transformer.AWAITABLE: awaitable,
            "FunctionError": FunctionError,
            transformer.USER_CLASSES: guards.user_classes,
        }
    )
    return known


def _print(guards: Guards) -> Callable[..., None]:
    def call(
        *values: object, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False
    ) -> None:
        if file is not None and not guards.is_stream(file):
            hint = "print() into an io.StringIO, an open file, sys.stderr or an object of your own class with a write method"
            raise NotAllowed(f"print(file=...) of {name_of(file)} is not available", hint)
        print(*values, sep=sep, end=end, file=file, flush=flush)

    call.__name__ = call.__qualname__ = "print"
    return call


def _open(files: Files) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        return files.open(*arguments, **options)

    call.__name__ = call.__qualname__ = "open"
    return call


_REFUSED = {
    "exec": "write the code directly; eval() takes an expression",
    "compile": "write the code directly",
    "breakpoint": "use print()",
    "memoryview": "use bytes or bytearray",
}
"""Builtins that are not there, and what to use instead."""


def _refused(name: str, hint: str, reason: str = "") -> Callable[..., Any]:
    def call(*_arguments: object, **_options: object) -> Any:
        raise NotAllowed(f"{name}() is not available{reason}", hint)

    call.__name__ = call.__qualname__ = name
    return call


def _exit(status: object = None) -> None:
    raise SystemExit(status)


def _dir(*arguments: Any) -> list[str]:
    if not arguments:
        frame = _calling_frame()
        others = not_loaded_in(frame.f_globals) if frame.f_locals is frame.f_globals else ()
        return sorted({*_names_of(frame.f_locals), *others})
    (value,) = arguments
    return [name for name in dir(value) if not name.startswith("_")]


def _names_of(namespace: dict[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in namespace.items() if is_variable(n)}


def _check_variable(name: object) -> None:
    if not is_variable(name):
        raise NotAllowed(f"{str(name)[:80]!r} cannot be the name of a variable")


def _calling_frame() -> types.FrameType:
    frame = sys._getframe(2)
    if not is_own_frame(frame.f_globals):
        raise NotAllowed("globals(), locals() and vars() must be called directly")
    return frame


def _globals() -> dict[str, Any]:
    space = _calling_frame().f_globals
    return Namespace(_names_of(space), space, _check_variable, not_loaded_in(space))


def _locals() -> dict[str, Any]:
    return _here(_calling_frame())


def _here(frame: types.FrameType) -> dict[str, Any]:
    if frame.f_locals is frame.f_globals:
        return Namespace(_names_of(frame.f_globals), frame.f_globals, _check_variable, not_loaded_in(frame.f_globals))
    return _names_of(frame.f_locals)


def _vars(guards: Guards) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if not arguments:
            return _here(_calling_frame())
        return guards.dunder(arguments[0], "__dict__")

    call.__name__ = call.__qualname__ = "vars"
    return call
