"""Objects that stand for modules and classes which code must not have."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping

from byref_sandbox.language.refusal import NotAllowed, no_files, not_written


class Facade:
    """Stands for a module, and holds only its allowed names."""

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, object],
        hidden: Iterable[str] = (),
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.__dict__.update(attributes)
        _FACADES[id(self)] = (self, name, frozenset(hidden) - set(attributes), hints or {})

    def __setattr__(self, name: str, value: object) -> None:
        raise NotAllowed(f"{facade_name(self)}.{name} cannot be set", "modules are read-only")

    def __delattr__(self, name: str) -> None:
        raise NotAllowed(f"{facade_name(self)}.{name} cannot be deleted", "modules are read-only")

    def __dir__(self) -> list[str]:
        return sorted(self.__dict__)

    def __repr__(self) -> str:
        return f"<module {facade_name(self)!r}>"

    def __getattr__(self, name: str) -> object:
        _, module, hidden, hints = _FACADES[id(self)]
        if name in hints:
            raise NotAllowed(f"{module}.{name} is not available", hints[name], about_files=name.startswith("read_"))
        if name in hidden:
            if name.startswith(("save", "to_")):
                raise not_written(f"{module}.{name}")
            if name.startswith(("read_", "load", "from")):
                raise no_files(f"{module}.{name}")
            raise NotAllowed(f"{module}.{name} is not available")
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=self)


# Not in the facades themselves, whose attributes the code sees.
_FACADES: dict[int, tuple[Facade, str, frozenset[str], Mapping[str, str]]] = {}


def facade_name(facade: Facade) -> str:
    """Return the module's name."""
    return _FACADES[id(facade)][1]


def facade_hints(facade: Facade) -> Mapping[str, str]:
    """Return what to use instead of names that a module lacks here."""
    return _FACADES[id(facade)][3]


class StandInMeta(type):
    """The type of stand-ins: instance and subclass checks answer as for the real class."""

    _real: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, cls._real)

    def __repr__(cls) -> str:
        return repr(cls._real)


class FullStandInMeta(StandInMeta):
    """The type of stand-ins that have the public attributes of the real class, but another constructor."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name)
        return getattr(cls._real, name)

    def __dir__(cls) -> list[str]:
        return dir(cls._real)


def stand_in(
    real: type, hint: str, make: Callable[..., object] | None = None, kind: type[StandInMeta] = StandInMeta
) -> type:
    """Return a class in place of `real`. isinstance and issubclass answer as for `real`; a call of it is a call of `make`, or refused."""

    def call(cls: type, *arguments: object, **options: object) -> object:
        if make is None:
            raise NotAllowed(f"{real.__name__}() cannot be called", hint)
        return make(*arguments, **options)

    about: dict[str, object] = {"__new__": call, "_real": real, "__doc__": real.__doc__, "__module__": real.__module__}
    if "__call__" in vars(real):
        about["__call__"] = call  # it has no instances: a class is a Callable by that name
    if hasattr(real, "__class_getitem__"):
        about["__class_getitem__"] = classmethod(types.GenericAlias)
    return kind(real.__name__, (), about)
