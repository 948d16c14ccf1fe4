"""Guards: compiled code calls them in place of risky operations, which are attributes by name and stores into attributes."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from byref_sandbox.code.words import words
from byref_sandbox.language import copying, missing, names
from byref_sandbox.language.arrays import check_buffer, check_reshaped, is_field
from byref_sandbox.language.attributes import Namespace
from byref_sandbox.language.classes import Classes
from byref_sandbox.language.facades import Facade, facade_name
from byref_sandbox.language.files import TEXT_BUFFERS
from byref_sandbox.language.inspecting import (
    has,
    is_own_function,
    is_there,
    module_of,
    mro_of,
    name_of,
    plain_hint,
    static,
)
from byref_sandbox.language.refusal import NotAllowed, not_written
from byref_sandbox.language.templates import safe_template

LIBRARIES = frozenset({"pandas", "numpy", "pyarrow", "zoneinfo", "zipfile", "inspect"})
_class_of_super: Callable[[Any], type] = super.__dict__["__thisclass__"].__get__
_self_of_super: Callable[[Any], Any] = super.__dict__["__self__"].__get__

Wrapper = Callable[[Callable[..., Any], str], Callable[..., Any]]


class Guards(Classes):
    """The guards of one language, which know the classes that the running code has made."""

    def __init__(self) -> None:
        super().__init__()
        self.wrappers: dict[str, Wrapper] = {}
        """Wrappers of library methods, by attribute name: code gets such a method in another form."""
        self.substitutes: dict[str, Callable[[Any], Any]] = {}
        """What code gets in place of a library object's attribute, by attribute name."""
        self.inner: Callable[[Any, str], Any] = lambda _value, _name: None
        """Gives an object that holds what code may read of a library object's attribute with an underscore, or None."""
        self.memory: dict[str, Callable[[Any], Any]] = {}
        """The same for attributes that lead to memory which compiled code trusts (`arrays.MEMORY`)."""
        self.writable_types: tuple[type, ...] = ()
        self.writable_attributes: dict[type, frozenset[str]] = {}
        self.writable_rules: list[tuple[type, Callable[[type, str], bool]]] = []
        """Which attributes may be set of instances of classes of libraries: a class, and what says so of its subclasses."""
        self.setters: dict[str, tuple[type, Callable[[Any], Any]]] = {}
        """By attribute that may be set if its value is checked: the class, and what takes the value in the object's place."""
        self._roots: dict[type, bool] = {}

    def __deepcopy__(self, _memo: object) -> Guards:
        """Return these guards: a guard that stands for a builtin is copied as the builtin is, which is not at all."""
        return self

    # Reading attributes --------------------------------------------------------------------------------------------------------

    def _is_library(self, kind: type) -> bool:
        known = self._roots.get(kind)
        if known is None:
            known = any(str(module_of(c)).partition(".")[0] in LIBRARIES for c in mro_of(kind))
            self._roots[kind] = known
        return known

    def checked(self, value: Any, name: str) -> Any:
        """Return `value.name` for a name of CHECKED_ATTRIBUTES, or what code has in its place; raise NotAllowed."""
        kind = type(value)
        if kind is str:
            return safe_template(value, name) if name in names.TEMPLATE_ATTRIBUTES else getattr(value, name)
        if name in names.TEMPLATE_ATTRIBUTES:
            return self._format(value, kind, name)
        if kind is Facade or self.is_user_class(kind):
            return getattr(value, name)
        if kind is super:
            raise NotAllowed(f"super().{name} is not available", f"use self.{name}")
        if module_of(kind) in ("typing", "types") and (origin := getattr(value, "__origin__", None)) is not None:
            return self.checked(origin, name)  # Sized[int] has all that Sized has, `register` as well
        unbound = issubclass(kind, type)
        if name in names.TRUSTED_ATTRIBUTES:
            return self._had(self._trusted(value, name, unbound), name)
        if name == "obj":
            if issubclass(kind, BaseException):
                raise NotAllowed("the attribute 'obj' of an error is not available")
        elif name == "fields":
            found = getattr(value, name)
            # A copy: an object that is compared with a mappingproxy gets the dict behind it, and a dtype's fields say where in
            # memory its objects are.
            return types.MappingProxyType(dict(found)) if type(found) is types.MappingProxyType else found
        elif name == "data":
            found = getattr(value, name)
            if type(found) is memoryview:
                check_buffer(found, ".data")
            return found
        elif name in names.BUFFER_ATTRIBUTES:
            raise NotAllowed(f".{name}() is not available", "use read(), pack() and slices of a bytearray")
        elif name in names.CLASS_ATTRIBUTES:
            if name == "mro" and self.is_user_class(value):
                return functools.partial(self.line_of, value)
            if unbound:
                raise NotAllowed(f"{name_of(value)}.{name} is not available", "use isinstance() or inheritance")
        elif name in names.PROPERTY_ATTRIBUTES and issubclass(kind, property):
            found = getattr(value, name)
            if found is not None and not is_own_function(found):
                raise NotAllowed(f"{name} of a library's property is not available", "use the attribute of the object")
            return found
        elif name in self.substitutes:
            return self._had(self.substitutes[name](value), name)
        elif name not in names.PLAIN_UNTIL_LOADED and (
            self._is_library(value if unbound else kind) and not issubclass(kind, tuple)
        ):
            return self._library(value, name, unbound)
        return self._had(getattr(value, name), name)

    def _library(self, value: Any, name: str, unbound: bool) -> Any:
        wrap = self.wrappers.get(name)
        if wrap is None:
            if name in self.substitutes:
                return self.substitutes[name](value)
            if name in names.FILE_METHODS:
                raise not_written(f".{name}()")
            if name in names.PLOT_METHODS:
                raise NotAllowed(f".{name} is not available", missing.NO_PLOTS)
            raise NotAllowed(f".{name} is not available")
        if unbound:
            raise NotAllowed(
                f"{name_of(value)}.{name} cannot be used as a plain function",
                f"call it on the object: value.{name}(...)",
            )
        method = getattr(value, name)
        return wrap(method, name) if callable(method) else method

    def _trusted(self, value: Any, name: str, unbound: bool) -> Any:
        if not unbound or name == "from_codes" or not callable(getattr(value, name)):
            return self.memory[name](value)
        return lambda instance, *arguments, **options: self.checked(instance, name)(*arguments, **options)

    def is_stream(self, value: Any) -> bool:
        """Whether text may be written into a value: a StringIO, an open file, `sys.stdout`, an object of the code's own classes."""
        kind = type(value)
        return kind is Facade or kind in TEXT_BUFFERS or self.is_user_class(kind)

    def _had(self, value: Any, name: str) -> Any:
        """Return what code gets of an attribute's value: no module, and a stand-in for a class that it must not have."""
        kind = type(value)
        if kind is types.ModuleType:
            raise NotAllowed(f".{name} is a module and not available")
        return self.in_place_of(value) if issubclass(kind, type) else value

    def _format(self, value: Any, kind: type, name: str) -> Any:
        if issubclass(kind, str):
            if self.is_user_class(kind) and kind.__dict__.get(name) is not None:
                return getattr(value, name)
            template = str.__str__(value)
            return safe_template(template, name)
        if issubclass(kind, type) and issubclass(value, str):
            return lambda template, *arguments, **options: safe_template(str.__str__(template), name)(
                *arguments, **options
            )
        if kind is super and isinstance(_self_of_super(value), str):
            raise NotAllowed(f"super().{name} is not available", "use an f-string")
        return self._had(getattr(value, name), name)

    def private(self, value: Any, name: str) -> Any:
        """Return what code reads its attribute `name`, which begins with an underscore, from: `value` if it is the code's own; raise NotAllowed."""
        kind = type(value)
        if self.is_user_class(kind) or (kind is super and self.is_user_class(_class_of_super(value))):
            return value
        if self.is_user_class(value) and (has(value, name) or not has(kind, name)):
            return value  # not what only its metaclass has: a method of EnumMeta reads any module
        if is_own_function(value):
            return value
        if (module_of(kind) == "builtins" or value is self.type) and not is_there(value, kind, name):
            return value  # there is no such attribute, which Python says
        if name in names.NAMEDTUPLE_ATTRIBUTES and issubclass(value if issubclass(kind, type) else kind, tuple):
            return value
        if issubclass(kind, tuple) and type(kind.__dict__.get(name)).__name__ == "_tuplegetter":
            return value  # what `itertuples` calls a column whose name is no identifier
        if (holder := self.inner(value, name)) is not None:
            return holder
        if name == "_from_sequence" and issubclass(kind, type) and self._is_library(value):
            return value  # pandas' documentation makes arrays with it
        raise NotAllowed(
            f"attribute {name!r} of {name_of(value)} is not available",
            f"write [{name!r}] for the column" if _has_column(value, name) else _INTERNAL,
        )

    def dunder(self, value: Any, name: str) -> Any:
        """Return a dunder attribute that may be read, such as `value.__name__`; raise NotAllowed."""
        kind = type(value)
        if name == "__class__":
            return self.type(value)
        if kind is super and not self.is_user_class(_class_of_super(value)):
            raise NotAllowed(f"super().{name} of a library's class is not available", "call the method on the object")
        if name in ("__name__", "__qualname__"):
            return facade_name(value) if kind is Facade else str(getattr(value, name))
        if name in ("__doc__", "__module__", "__version__"):
            text = getattr(value, name)
            return text if text is None or type(text) is str else str(text)
        if name == "__dict__":
            return self._namespace(value, kind)
        if name == "__annotations__":
            if not (self.is_of_user(value) or is_own_function(value)):
                return {}
            return {name: plain_hint(hint) for name, hint in value.__annotations__.items()}
        if name in ("__cause__", "__context__", "__notes__"):
            return getattr(value, name)
        if name in ("__setattr__", "__delattr__"):
            return self._setter(value, kind, name)
        if name in ("__new__", "__init__"):
            return self._constructor(value, kind, name)
        own = self.is_of_user(value) or kind is super
        if name in _OWN_DUNDERS and not own:
            raise NotAllowed(f"attribute {name!r} of {name_of(value)} is not available")
        if name == "__deepcopy__" and not own:
            getattr(value, name)
            return lambda memo=None: copying.deepcopy(value, memo)
        found = getattr(value, name)
        return self._unbound(value, found) if own and issubclass(kind, type) else found

    def _namespace(self, value: Any, kind: type) -> dict[str, Any]:
        if self.is_user_class(kind):
            return Namespace(value.__dict__, value.__dict__, lambda name: self.change(value, name))
        if self.is_user_class(value):
            return {k: v for k, v in vars(value).items() if not names.is_dunder(k)}
        if kind is types.SimpleNamespace:
            return dict(vars(value))
        raise NotAllowed(f"attribute '__dict__' of {name_of(value)} is not available", "name the attributes you need")

    def _setter(self, value: Any, kind: type, name: str) -> Callable[..., None]:
        change: Callable[..., None] = self.setattr if name == "__setattr__" else self.delattr
        if kind is super:
            # The next __setattr__ behind the class of `super` belongs to another class of the code, or it is object's.
            target = getattr(value, name)
            if type(target) is types.MethodType:
                return target
            instance = _self_of_super(value)
            return lambda attribute, *new: _plain_change(self, name, instance, attribute, *new)
        if value is object:
            return lambda target, attribute, *new: _plain_change(self, name, target, attribute, *new)
        if self.is_user_class(kind):
            return lambda attribute, *new: change(value, attribute, *new)
        raise NotAllowed(f"attribute {name!r} of {name_of(value)} is not available", "use setattr() or delattr()")

    def _constructor(self, value: Any, kind: type, name: str) -> Any:
        if name == "__new__" and (kind is super or issubclass(kind, type)):
            make = getattr(value, name)

            def new(cls: type, *arguments: Any, **options: Any) -> Any:
                if not self.is_user_class(cls):
                    raise NotAllowed("__new__ makes instances of classes defined in the code only", "call the class")
                return make(cls, *arguments, **options)

            return new
        if kind is super or self.is_user_class(kind):
            return getattr(value, name)
        if issubclass(kind, type):
            return self._unbound(value, getattr(value, name))
        raise NotAllowed(f"attribute {name!r} of {name_of(value)} is not available", "make a new object")

    def _unbound(self, cls: type, function: Any) -> Any:
        """Return a function of a class that accepts instances of that class only.

        Generated methods set attributes without a check: `C.__init__(other, …)` could set those of any object.
        """
        if not callable(function) or type(function) is types.MethodType:
            return function

        def call(instance: Any, *arguments: Any, **options: Any) -> Any:
            if not self.is_user_class(type(instance)) or cls not in mro_of(type(instance)):
                raise TypeError(f"an instance of {cls.__name__} was expected, not {name_of(instance)}")
            return function(instance, *arguments, **options)

        return call

    # Changing attributes -------------------------------------------------------------------------------------------------------

    def writable(self, value: Any, name: str) -> Any:
        """Return `value` if its attribute `name` may be set or deleted; raise NotAllowed."""
        kind = type(value)
        if kind in _PLAIN or (kind is type and value in _PLAIN):
            return value  # Python says that there is no such attribute, or that it cannot be set
        if self.is_of_user(value):
            if name not in names.WRITTEN_DUNDERS or issubclass(kind, type):
                return value
        elif is_own_function(value):
            return value
        elif not name.startswith("_"):
            setter = self.setters.get(name)
            if setter is not None and issubclass(kind, setter[0]):
                return setter[1](value)
            allowed = self.writable_attributes.get(kind)
            if allowed is not None and name in allowed:
                if name == "shape":
                    check_reshaped(value, sys.getrefcount(value), sys._getframe(1))
                return value
            if any(issubclass(kind, base) and is_writable(kind, name) for base, is_writable in self.writable_rules):
                return value
            if is_field(value, name):
                return value
            if issubclass(kind, self.writable_types) and not callable(static(kind, name)):
                return value
        raise NotAllowed(
            f"attribute {name!r} of {name_of(value)} cannot be set",
            "set attributes on objects of your own classes only",
        )

    def readable(self, value: Any, name: str) -> Any:
        """Return `value` if its attribute `name`, one of CHECKED_ATTRIBUTES, may be read; raise NotAllowed."""
        if not self.is_of_user(value):
            self.checked(value, name)
        return value

    def getattr(self, value: Any, name: str, *default: Any) -> Any:
        """The builtin, by the same rules as an attribute in the code."""
        if type(name) is not str:
            raise TypeError("attribute name must be string")
        if len(default) > 1:
            raise TypeError(f"getattr expected at most 3 arguments, got {2 + len(default)}")
        try:
            if names.is_ordinary(name):
                return self._had(getattr(value, name), name)
            if name in names.REFUSED_ATTRIBUTES or (names.is_dunder(name) and name not in names.READ_DUNDERS):
                raise NotAllowed(f"attribute {name!r} is not available", names.why_refused(name))
            if names.is_dunder(name):
                return self.dunder(value, name)
            if name.startswith("_"):
                value = self.private(value, name)
                return self._had(getattr(value, name), name)
            return self.checked(value, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def hasattr(self, value: Any, name: str) -> bool:
        """The builtin; what is refused is not there."""
        try:
            self.getattr(value, name)
        except (AttributeError, NotAllowed):
            return False
        return True

    def setattr(self, value: Any, name: str, new: Any) -> None:
        """The builtin, by the same rules as an assignment in the code."""
        setattr(self.change(value, name), name, new)

    def delattr(self, value: Any, name: str) -> None:
        """The builtin, by the same rules as `del` in the code."""
        delattr(self.change(value, name), name)

    def change(self, value: Any, name: str) -> Any:
        """Return `value` if its attribute may be changed by a name that is known only at run time; raise NotAllowed."""
        if type(name) is not str:
            raise TypeError("attribute name must be string")
        if name in names.REFUSED_ATTRIBUTES or (names.is_dunder(name) and name not in names.WRITTEN_DUNDERS):
            raise NotAllowed(f"attribute {name!r} cannot be set", names.why_not_set(name))
        return self.writable(value, name)


_PLAIN = frozenset({int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice})
_PLAIN |= {type(None), type(...)}
"""Exactly these types: their instances have no attributes that can be set."""

_INTERNAL = "names that begin with _ are internal; use the public ones"

_OWN_DUNDERS = words("""__getattr__ __get__ __set__ __delete__ __set_name__ __init_subclass__ __post_init__ __missing__ __dir__
    __match_args__""")
"""Read only of objects and classes that the code made. Those of libraries would be a way around the checks of names."""


def _has_column(value: Any, name: str) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and type(value) is pandas.DataFrame and name in value.columns


def _plain_change(guards: Guards, change: str, target: Any, name: Any, *new: Any) -> None:
    guards.change(target, name)
    if not guards.is_user_class(type(target)):
        raise NotAllowed(f"object.{change} works on instances of your own classes only", "use setattr()")
    getattr(object, change)(target, name, *new)
