"""The classes that the running code has made. Only of these may it set attributes, or use names that begin with an underscore."""

from __future__ import annotations

import abc
import builtins
import contextlib
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from byref_sandbox.code.words import words
from byref_sandbox.language import names
from byref_sandbox.language.facades import StandInMeta, stand_in
from byref_sandbox.language.inspecting import module_of, mro_of, name_of
from byref_sandbox.language.refusal import NotAllowed

_build_class = builtins.__build_class__
_LIES_OF_TEXT = words("__eq__ __ne__ __hash__ __radd__ __rmod__")


class Classes:
    """The classes that the code has made, what they may inherit from, and the language's `class` statement and `type`."""

    def __init__(self) -> None:
        self.user_classes: set[type] = set()
        self._making: list[types.CellType] = []
        self.enum_classes: set[type] = set()
        """The language's own Enum classes, made to be subclassed."""
        self.bases: set[object] = set()
        """What a class may inherit from."""
        self.stand_ins: dict[type, type] = {}
        """What `type` returns in place of a class that code must not have."""
        self.abc_meta: type | None = None
        self.type = self._make_type()

    def reset(self) -> None:
        """Forget the classes of the last run."""
        self.user_classes.clear()
        self.user_classes.update(self.enum_classes)

    def is_user_class(self, candidate: object) -> bool:
        """Whether a class was made by the code. It may still be in the making: then its bases or its cell are known and it is not."""
        if not issubclass(type(candidate), type):
            return False
        assert isinstance(candidate, type)
        if candidate in self.user_classes:
            return True
        if self.user_classes.isdisjoint(mro_of(candidate)):
            return bool(self._making) and any(_holds(cell, candidate) for cell in self._making)
        self.user_classes.add(candidate)
        return True

    def in_place_of(self, cls: type) -> type:
        """Return the class itself, or the stand-in for one that code must not have."""
        if issubclass(cls, type):
            return self.type
        if issubclass(type(cls), StandInMeta):
            return cls
        known = self.stand_ins.get(cls)
        if known is None and str(module_of(cls)).startswith("pandas.io"):
            known = self.replace(cls, "its handles are not available")
        return cls if known is None else known

    def replace(
        self,
        real: type,
        hint: str = "",
        make: Callable[..., object] | None = None,
        kind: type[StandInMeta] = StandInMeta,
    ) -> type:
        """Have code get a stand-in for `real` wherever it would get the class itself; the arguments are those of `stand_in`."""
        made = self.stand_ins[real] = stand_in(real, hint, make, kind)
        return made

    def is_of_user(self, value: object) -> bool:
        """Whether a value is a class of the code, or an instance of one."""
        return self.is_user_class(type(value)) or self.is_user_class(value)

    def build_class(
        self, body: Callable[..., Any], name: str, /, *bases: Any, metaclass: Any = None, **options: Any
    ) -> Any:
        """Do a `class` statement: bases are from the allow-list, the only metaclass is ABCMeta."""
        self._check_bases(name, bases, body.__code__.co_names)
        if metaclass is not None and metaclass is not self.abc_meta:
            raise NotAllowed("metaclasses are not available", "use __init_subclass__ or a class decorator")
        maker = _Maker(self._making, type if metaclass is None else abc.ABCMeta)
        return self.adopt(_build_class(body, name, *bases, metaclass=maker, **options))

    def make_class(self, name: Any, bases: Any, attributes: Any, /, **options: Any) -> Any:
        """Do `type(name, bases, attributes)` by the rules of a `class` statement."""
        if not isinstance(name, str) or type(bases) is not tuple or not isinstance(attributes, dict):
            raise TypeError("type() takes a name, a tuple of bases and a dict of attributes")
        if "metaclass" in options:
            raise NotAllowed("metaclasses are not available", "use __init_subclass__ or a class decorator")
        name, held = str.__str__(name), dict(attributes)
        held = {key: _as_attribute(key, value) for key, value in held.items()}
        self._check_bases(name, bases, held)

        def fill(space: dict[str, Any]) -> None:
            space["__module__"] = "__main__"
            for key, value in held.items():
                space[key] = value

        options["metaclass"] = _Maker(self._making, type)
        return self.adopt(types.new_class(name, bases, options, fill))

    def _check_bases(self, name: str, bases: tuple[Any, ...], defined: Iterable[str]) -> None:
        for base in bases:
            if not self._is_base(base):
                raise NotAllowed(
                    f"a class cannot inherit from {name_of(base)}",
                    "inherit from object, your own classes, exceptions or builtin containers",
                )
        if any(issubclass(type(base), type) and issubclass(base, str) for base in bases):
            self._check_text(name, {*defined}, *bases)

    def line_of(self, cls: type) -> list[type]:
        """Return what `cls.mro()` is for code: without the classes of libraries that it must not have."""
        known = (self.user_classes, self.bases)
        return [
            self.in_place_of(each)
            for each in mro_of(cls)
            if any(each in classes for classes in known) or issubclass(each, BaseException)
        ]

    def adopt(self, cls: Any) -> Any:
        """Count a class as made by the code."""
        if issubclass(type(cls), type):
            self.user_classes.add(cls)
            if issubclass(cls, str):
                self._check_text(cls.__name__, set(), cls)
            # A positional pattern reads attributes by these names without a guard, and any object may be an instance of a protocol.
            may_be_read = names.is_ordinary if Protocol in mro_of(cls) else names.is_own
            if not all(type(name) is str and may_be_read(name) for name in getattr(cls, "__match_args__", ())):
                cls.__match_args__ = ()  # type: ignore[misc]
        return cls

    def _check_text(self, name: str, defined: set[str], *bases: Any) -> None:
        """Raise NotAllowed of a subclass of str that can pose as another text: libraries compare, hash and join names after they were checked."""
        classes = {cls for base in bases if issubclass(type(base), type) for cls in mro_of(base)}
        defined.update(*(vars(cls) for cls in classes & self.user_classes - self.enum_classes))
        if lies := sorted(_LIES_OF_TEXT & defined):
            raise NotAllowed(
                f"{name!r} inherits from str and cannot define {lies[0]}", "define a method of another name"
            )

    def _is_base(self, base: Any) -> bool:
        if issubclass(type(base), type):
            if issubclass(base, BaseExceptionGroup):
                return False  # `except*` trusts what their methods return: some versions of Python crash
            return self.is_user_class(base) or base in self.bases or issubclass(base, BaseException)
        if type(base) is types.FunctionType:
            return base in self.bases
        # Generic[T], list[int], …: a generic alias of one of the bases.
        origin = getattr(base, "__origin__", None) if type(base).__module__ in ("typing", "types") else None
        return origin is not None and issubclass(type(origin), type) and origin in self.bases | self.user_classes

    def _make_type(self) -> type:
        guards = self

        class Meta(StandInMeta):
            def __call__(cls, *arguments: Any, **options: Any) -> Any:  # noqa: N805
                if len(arguments) == 1 and not options:
                    return guards.in_place_of(type(arguments[0]))
                if len(arguments) != 3:
                    raise TypeError("type() takes 1 or 3 arguments")
                return guards.make_class(*arguments, **options)

            def __getitem__(cls, item: object) -> object:  # noqa: N805
                return types.GenericAlias(cls, (item,))

        Meta.__name__ = Meta.__qualname__ = "type"
        return Meta("type", (), {"_real": type, "__module__": "builtins", "__doc__": type.__doc__})


class _Maker:
    """Makes a class as its metaclass does. Meanwhile, while its `__set_name__` and `__init_subclass__` run, the class is in a cell of `making`."""

    def __init__(self, making: list[types.CellType], least: type) -> None:
        self._making = making
        self._meta: Any = least

    def __prepare__(self, name: str, bases: tuple[type, ...], /, **options: Any) -> Any:
        self._meta, space, _ = types.prepare_class(name, bases, options | {"metaclass": self._meta})
        return space

    def __call__(self, name: str, bases: tuple[type, ...], space: Any, /, **options: Any) -> Any:
        cell = types.CellType()
        if self._meta in (type, abc.ABCMeta):  # those of `typing` make another class of what is in the namespace
            cell = space.setdefault("__classcell__", cell)
        self._making.append(cell)
        try:
            return self._meta(name, bases, space, **options)
        finally:
            self._making.pop()


def _holds(cell: types.CellType, value: object) -> bool:
    with contextlib.suppress(ValueError):  # it is empty at first
        return cell.cell_contents is value
    return False


def _as_attribute(name: Any, value: Any) -> Any:
    """Return the value under which a class has an attribute that code gave in a dict; raise NotAllowed of names that a class statement refuses."""
    if type(name) is not str:
        raise NotAllowed("names of attributes must be plain strings", "use a class statement")
    if name in ("__slots__", "__match_args__"):
        may_be = names.may_be_slot if name == "__slots__" else names.is_ordinary
        listed = (value,) if type(value) is str else tuple(value) if type(value) in (tuple, list) else (None,)
        if not all(type(each) is str and may_be(each) for each in listed):
            raise NotAllowed(f"{name} must list ordinary attribute names")
        return listed
    if name == "__annotations__":
        hints = dict(value) if type(value) is dict else {None: None}
        if not all(type(each) is str and _may_be_set(each) for each in hints):
            raise NotAllowed("__annotations__ must be a dict of ordinary attribute names")
        return hints
    if name == "__qualname__" and type(value) is str:
        return value
    if not _may_be_set(name) and (name not in names.CLASS_DUNDERS or name in _STATED):
        raise NotAllowed(f"{name!r} cannot be defined by type()", names.why_refused(name) or "use a class statement")
    return value


def _may_be_set(name: str) -> bool:
    return not (names.is_dunder(name) or name in names.REFUSED_ATTRIBUTES)


_STATED = words("__getattr__ __deepcopy__")
"""Methods that a class statement wraps."""
