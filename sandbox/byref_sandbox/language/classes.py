"""The classes that the running code has made. Only of these may it set attributes, or use names that begin with an underscore."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
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
        """Whether a class was made by the code. It may still be in the making: then its bases are known and it is not."""
        if not issubclass(type(candidate), type):
            return False
        assert isinstance(candidate, type)
        if candidate in self.user_classes:
            return True
        if self.user_classes.isdisjoint(mro_of(candidate)):
            return False
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
            known = self.replace(cls, "there are no files here")
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
        self, body: Callable[..., Any], name: str, *bases: Any, metaclass: Any = None, **options: Any
    ) -> Any:
        """Do a `class` statement: bases are from the allow-list, the only metaclass is ABCMeta."""
        for base in bases:
            if not self._is_base(base):
                raise NotAllowed(
                    f"a class cannot inherit from {name_of(base)}",
                    "inherit from object, your own classes, exceptions or builtin containers",
                )
        if any(issubclass(type(base), type) and issubclass(base, str) for base in bases):
            self._check_text(name, {*body.__code__.co_names}, *bases)
        if metaclass is not None:
            if metaclass is not self.abc_meta:
                raise NotAllowed("metaclasses are not available", "use __init_subclass__ or a class decorator")
            from abc import ABCMeta

            options["metaclass"] = ABCMeta
        return self.adopt(_build_class(body, name, *bases, **options))

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
            def __call__(cls, *arguments: Any) -> Any:  # noqa: N805
                if len(arguments) != 1:
                    raise NotAllowed("type() with three arguments is not available", "use a class statement")
                return guards.in_place_of(type(arguments[0]))

            def __getitem__(cls, item: object) -> object:  # noqa: N805
                return types.GenericAlias(cls, (item,))

        Meta.__name__ = Meta.__qualname__ = "type"
        return Meta("type", (), {"_real": type, "__module__": "builtins", "__doc__": type.__doc__})
