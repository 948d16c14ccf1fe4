"""Writes objects to a stream. It runs no code of the session: each object is taken apart by its exact type.

Neither `__reduce__` nor `__getstate__` nor any other hook is looked up on an object whose class the code made; attributes are
read from where the interpreter keeps them. C alone writes exact dicts, lists, texts and numbers.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import inspect
import operator
import pickle
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from byref_sandbox.code.words import words
from byref_sandbox.language.calling import Functions
from byref_sandbox.language.facades import Facade, facade_name
from byref_sandbox.language.inspecting import annotations_of
from byref_sandbox.language.names import REFUSED_ATTRIBUTES
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.state import drawings, helpers, iterators
from byref_sandbox.state.arrays import Arrays
from byref_sandbox.state.builders import (
    BUILDERS,
    FIXED,
    KINDS_OF_ARRAYS,
    LAYOUTS,
    MANAGERS,
    PAYLOADS,
    check_names,
    type_of_layout,
)
from byref_sandbox.state.codes import Codes, Unkept
from byref_sandbox.state.known import Known, text_dtype
from byref_sandbox.state.reader import NANS
from byref_sandbox.state.reducers import REDUCERS, REDUCERS_BY_NAME, reduced_by_module

HIGH: Final = 0x5A000000
_PATTERN: Final = re.compile("")
_REFERENCE: Final = re.compile(rb"j(...)\x5a", re.DOTALL)
"""The opcode that refers to a number from HIGH on."""
_NOTHING_ELSE: Final = re.compile(rb"\x80\x05(?:\x95.{8})?(?:h(.)|j(.{4}))\.", re.DOTALL)
"""A pickle that is a reference to an object of an earlier one."""
LEAF_BYTES: Final = 16 << 10
"""A buffer of this size or more is a blob of its own."""
_SET: Final = b"\x8f\x94"
"""The opcodes of an empty set that gets a number."""
_WRITTEN_NANS: Final = (b"G\x7f\xf8\0\0\0\0\0\0", b"G\xff\xf8\0\0\0\0\0\0")
_ROUNDED_BITS: Final = 8
_MAX_TEXT_CHARS: Final = 10_000
_TABLES: Final = (pd.DataFrame, pd.Series, pd.Index)
_QUERY_VARIABLE: Final = re.compile(r"@\s*([^\W\d]\w*)")
namespace_of: Callable[[type], types.MappingProxyType[str, Any]] = type.__dict__["__dict__"].__get__
mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_bases_of: Callable[[type], tuple[type, ...]] = type.__dict__["__bases__"].__get__
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_qualname_of: Callable[[type], str] = type.__dict__["__qualname__"].__get__
_look_up = object.__getattribute__
_MADE_ANEW: Final = words("""__dict__ __weakref__ _abc_impl __abstractmethods__ __slots__ __dataclass_fields__ __dataclass_params__
    __orig_bases__ __parameters__ __static_attributes__ __firstlineno__ __annotate__ __annotate_func__
    __annotations_cache__ __annotations__ __classcell__ __classdictcell__ __conditional_annotations__ __total__
    __required_keys__ __optional_keys__ __readonly_keys__ __mutable_keys__ __closed__ __extra_items__ _is_protocol
    __slotnames__ __type_params__ _is_runtime_protocol __callable_proto_members_only__ __non_callable_proto_members__""")
"""Names that making a class puts into its namespace."""
_NAMEDTUPLE: Final = words(
    "_fields _field_defaults _make _replace _asdict __getnewargs__ __replace__ __new__ __repr__ __match_args__"
)
_DESCRIBES: Final = words("__module__ __qualname__ __doc__")
_DATACLASS: Final = words("""__init__ __repr__ __eq__ __lt__ __le__ __gt__ __ge__ __hash__ __setattr__ __delattr__ __getstate__ __setstate__
    __replace__""")
_PROTOCOL: Final = ("__init__", "__subclasshook__")
_ENUM: Final = ("__new__", "__reduce_ex__", "__order__")
_NAMED: Final[dict[type, str]] = {
    types.ModuleType: "a module",
    types.TracebackType: "a traceback",
    types.FrameType: "a frame",
    memoryview: "a memoryview",
    Functions: "a call that has not ended",
    type(iter({})): "an open iterator: make a list of it",
    type(iter({}.values())): "an open iterator: make a list of it",
    type(iter({}.items())): "an open iterator: make a list of it",
    type(iter(set())): "an open iterator: make a list of it",
}


def _is_record(cls: type) -> bool:
    """Whether a class is what `collections.namedtuple` makes, with nothing added: a row of `itertuples`, what a function of numpy returns.

    Such classes of libraries are made anew, as the code's own are: many have no place from which they could be taken.
    """
    space = namespace_of(cls)
    return (
        type(cls) is type
        and _bases_of(cls) == (tuple,)
        and "_fields" in space
        and "_make" in space
        and all(
            name in _NAMEDTUPLE or name in _MADE_ANEW or name in _DESCRIBES or type(held).__name__ == "_tuplegetter"
            for name, held in space.items()
        )
    )


def _record_class(cls: type) -> Any:
    """Return how a library's class of that kind is made anew; raise Unkept of any other class."""
    name, fields = _name_of(cls), _fields_of(cls) if _is_record(cls) else None
    if fields is None or not REFUSED_ATTRIBUTES.isdisjoint(fields["fields"]):
        raise Unkept(f"the class {name!r} of a library")
    state: tuple[Any, ...] = {}, None, None, name, None, False
    arguments = "namedtuple", name, (), fields, _metaclass(cls)
    return BUILDERS["make_class"], arguments, state, None, None, BUILDERS["fill_class"]


def _fields_of(cls: type) -> dict[str, Any]:
    space = namespace_of(cls)
    return {"fields": space["_fields"], "defaults": tuple(space["_field_defaults"].values())}


def looked_up_by(code: types.CodeType) -> set[str]:
    """Names that code looks up when it runs, and those in its texts: `df("users")`, `.query("a > @limit")`."""
    found = {*code.co_names}
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            found |= looked_up_by(inner)
        elif type(inner) is str and len(inner) <= _MAX_TEXT_CHARS:
            found.update(_QUERY_VARIABLE.findall(inner) if "@" in inner else (inner.removeprefix("$"),))
    return {name for name in found if name.isidentifier()}


class TooBig(Exception):
    """No room is left; the message says how much there was."""


class Sink:
    """A file of limited size."""

    def __init__(self, max_bytes: int) -> None:
        self.data = bytearray()
        self._max_bytes = self._room = max_bytes

    @property
    def room(self) -> int:
        """How many bytes more it takes."""
        return self._room

    def count(self, size: int) -> None:
        """Use some of the room. Raises TooBig."""
        self._room -= size
        if self._room < 0:
            raise TooBig(f"too big: more than the {self._max_bytes:,} bytes that are kept between two runs")

    def begin_anew(self) -> None:
        """Leave what it has to those who hold it, and all of the room to what comes."""
        self.data, self._room = bytearray(), self._max_bytes

    def write(self, data: bytes) -> int:
        """Called by the pickler."""
        size = len(data)
        self.count(size)
        self.data += data
        return size


class _Layout(NamedTuple):
    """The places where instances of a class keep their contents."""

    slots: list[tuple[str, Any]]
    has_dict: bool
    is_plain: bool
    """Whether these are all: the instance is no number, container or error."""
    needs_hash: bool
    """Whether a dict, while it is read, needs more than the instance's identity for its hash."""
    runs_code: bool
    """Whether the hash runs a method of the code."""
    is_of_library: bool
    """Whether methods of a library may have set attributes whose names code cannot use."""


class Writer(pickle.Pickler):
    """Writes one name after the other, with one memo for all of them, so that shared objects are written once.

    `space` is the namespace of the code's functions. `given` are objects that the reader has as well. `perhaps` are objects to
    which nothing may refer: a reference to one of them has a number from HIGH on, which no reader understands; see `referred`.
    Without leaves large buffers are in the stream as well.
    """

    def __init__(
        self,
        known: Known,
        codes: Codes,
        space: dict[str, Any],
        given: Sequence[object],
        perhaps: Sequence[object],
        max_bytes: int,
        *,
        has_leaves: bool = True,
    ) -> None:
        self._sink = Sink(max_bytes)
        super().__init__(self._sink, 5, buffer_callback=self._leaf if has_leaves else None)
        self.known, self._codes, self._space = known, codes, space
        given = (*BUILDERS.values(), *given)
        self.is_user_class = known.guards.is_user_class
        self.leaves: list[memoryview] = []
        self.programs: set[bytes] = set()
        """Digests of the program texts to which it refers."""
        self.looked_up: set[str] = set()
        """Names that functions in it look up when they run."""
        self.runs_code = False
        """Whether reading the values written since this was set to False calls methods of the code for hashes."""
        self.libraries: set[str] = set()
        """Libraries, loaded only when code needs them, of which something is in what was written since this was cleared."""
        self.is_trial = False
        """Whether it finds out only whether something can be written."""
        self._waiting: list[tuple[object, Callable[..., Any], object]] = []
        self._layouts: dict[type, _Layout] = {}
        self._arrays = Arrays()
        # References to objects that are in the memo from the start cost nothing. C accepts the memo only in this form.
        # Their number is rounded up, since all numbers after them depend on it: what did not change is to have the same bytes.
        rounded = 1 << max(_ROUNDED_BITS, (len(perhaps) - 1).bit_length()) if perhaps else 0
        fillers = (object() for _ in range(rounded - len(perhaps)))
        memo = {id(one): (HIGH + number, one) for number, one in enumerate((*perhaps, *fillers))}
        memo |= {id(one): (number, one) for number, one in enumerate(given)}
        self.memo = memo
        self._first = len(given)
        self._perhaps = len(perhaps)
        self.filler = len(memo) - len(given)
        """Numbers that a reader's memo must have used up, in addition to those of the given objects."""

    def write(self, value: object) -> tuple[int, int]:
        """Write a value; return its size in bytes and its number of pickles.

        Instances are written empty, and their contents after that, so that chains of them need no recursion. Raises Unkept, and
        whatever the pickler raises for objects that it cannot write.
        """
        self._waiting.clear()
        begin = len(self._sink.data)
        self.dump(value)
        count = 1
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self.dump(batch)
            count += 1
        return len(self._sink.data) - begin, count

    def has_nan(self) -> bool:
        """Whether it has written what is no number by its value alone: which of these are one object is not known to a reader."""
        return any(each in self._sink.data for each in _WRITTEN_NANS)

    def has_sets(self) -> bool:
        """Whether it may have written sets."""
        return _SET in self._sink.data

    @property
    def room(self) -> int:
        """How many bytes more it takes."""
        return self._sink.room

    def body(self) -> bytearray:
        """Return everything that was written. Nothing can be written afterwards."""
        return self._sink.data

    def objects(self, *, of: Collection[type] = (), but: Collection[type] = ()) -> list[object]:
        """Return everything in the memo, except the builders, in the order in which it was written.

        Only objects of some types, or of all but some: there may be a hundred thousand strings.
        """
        memo = self.memo.copy().values()
        if of:
            found = [pair for pair in memo if type(pair[1]) in of]
        else:
            found = [pair for pair in memo if type(pair[1]) not in but]
        found.sort(key=operator.itemgetter(0))
        return [one for number, one in found if len(BUILDERS) <= number < HIGH]

    def holds(self, objects: Iterable[object]) -> bool:
        """Whether one of these objects was written, or is one that the reader has as well, except the builders. Then nothing can be
        written any more.

        In place of such an object the pickler writes its number. To look into its memo, all of that would have to be copied.
        """
        mark: list[object] = []
        self._number_of(mark)
        end = self._number_of(mark) or 0
        return any(len(BUILDERS) <= number < end for one in objects if (number := self._number_of(one)) is not None)

    def _number_of(self, one: object) -> int | None:
        """Return an object's number in the memo; None of an object that had none before."""
        self._sink.begin_anew()
        try:
            self.dump(one)
        except Exception:  # noqa: BLE001  what is in the memo can be written
            return None
        found = _NOTHING_ELSE.fullmatch(self._sink.data)
        return None if found is None else int.from_bytes(found[1] or found[2], "little")

    def written(self, *, but: Collection[type]) -> set[int]:
        """Return the ids of the objects that were written, of all but some types: not of those that the reader has as well."""
        first = self._first
        memo = self.memo.copy()
        return {key for key, (number, one) in memo.items() if first <= number < HIGH and type(one) not in but}

    def referred(self) -> list[int]:
        """Return indexes of those `perhaps` objects to which something may refer: all to which something does, and seldom
        another one.
        """
        found = _REFERENCE.findall(self._sink.data) if self._perhaps else []
        return sorted(number for each in {*found} if (number := int.from_bytes(each, "little")) < self._perhaps)

    def _leaf(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LEAF_BYTES:
            return True  # in the stream
        self._sink.count(raw.nbytes)
        self.leaves.append(raw)
        return False

    def reducer_override(self, obj: Any) -> Any:
        """Reduce an object that C does not know. It is called once for each object."""
        kind = type(obj)
        known = self.known
        if (name := known.names.get(id(obj))) is not None:
            if (library := known.library_of(name)) is not None:
                self.libraries.add(library)
            return BUILDERS["known"], (name,)
        if kind is np.ndarray:
            return self._arrays.taken_apart(obj)
        if (reduce := _REDUCERS.get(kind)) is not None:
            return reduce(self, obj)
        if kind in self._layouts:  # of which there may be many
            return self._instance(obj, kind)
        if (reduce := REDUCERS_BY_NAME.get(known.names.get(id(kind), ""))) is not None:
            return reduce(self, obj)
        if (reduced := reduced_by_module(self, obj, kind)) is not None:
            return reduced
        if _is_undefined_function(type(kind)):
            return NotImplemented
        if kind in known.taken_apart or kind is pickle.PickleBuffer:
            if issubclass(kind, pd.api.extensions.ExtensionArray):
                return _as_read(obj.__reduce_ex__(5))
            if issubclass(kind, _TABLES):
                return self._arrays.table(obj)
            return self._arrays.sharing(obj) if issubclass(kind, MANAGERS) else NotImplemented
        if self._is_mixed(kind):
            return NotImplemented
        if issubclass(kind, np.generic) and kind.__module__ == "numpy":
            return self._arrays.element(obj) if issubclass(kind, np.void) else NotImplemented
        if issubclass(kind, type):
            return self._class(obj)
        if issubclass(kind, enum.Enum) and (self.is_user_class(kind) or id(kind) in known.names):
            return BUILDERS["member"], (kind, _look_up(obj, "_name_"), _look_up(obj, "_value_"))
        if self.is_user_class(kind) or _is_record(kind):
            return self._instance(obj, kind)
        if issubclass(kind, BaseException) and id(kind) in known.names:
            return self._instance(obj, kind)
        raise Unkept(_NAMED.get(kind) or _description(obj, kind))

    def can_write(self, value: object) -> bool:
        """Tell whether a value can be written by itself, in the room that is left."""
        trial = Writer(self.known, self._codes, self._space, (), (), self._sink.room, has_leaves=False)
        trial.is_trial = True
        try:
            trial.write(value)
        except Exception:  # noqa: BLE001  it may be anything
            return False
        return True

    def _is_mixed(self, kind: type) -> bool:
        """Whether matplotlib has made a class of two of its own, as it does for what is drawn in space: it is made again."""
        return not self.is_user_class(kind) and drawings.is_mixed(kind, self.known.figures)

    # Functions and classes -----------------------------------------------------------------------------------------------------

    def _generator(self, generator: Any) -> Any:
        call = iterators.call_of(generator, self._space)
        if call is None:
            return BUILDERS["ended_generator"], (iterators.KINDS[type(generator)],)
        return BUILDERS["generator"], call

    def _function(self, function: Any) -> Any:
        if function.__globals__ is not self._space:
            if (maker := self.known.helpers.get(function.__code__)) is not None:
                if (library := self.known.library_of(helpers.MAKERS[maker][0])) is not None:
                    self.libraries.add(library)
                return BUILDERS["helper"], (maker, helpers.arguments(function, maker))
            if (found := drawings.place_of(function)) is not None and found[0] in self.known.drawn:
                return BUILDERS["library_function"], found
            owner = drawings.owner_of(function)
            if id(owner) in self.known.names and self._is_had(owner, function.__name__, function):
                return BUILDERS["bound"], (owner, function.__name__)
            raise Unkept(f"the function {function.__name__!r} of a library")
        code = function.__code__
        state: dict[str, object] = {}
        if function.__name__ != code.co_name:
            state["name"] = function.__name__
        if function.__qualname__ != code.co_qualname:
            state["qualname"] = function.__qualname__
        has_doc = (
            code.co_consts
            and type(code.co_consts[0]) is str
            and (sys.version_info < (3, 13) or code.co_flags & _HAS_DOC)
        )
        doc = code.co_consts[0] if has_doc else None
        if function.__doc__ != doc:
            state["doc"] = function.__doc__
        if function.__defaults__ is not None:
            state["defaults"] = function.__defaults__
        if function.__kwdefaults__ is not None:
            state["kwdefaults"] = function.__kwdefaults__
        if annotations := annotations_of(function):
            state["annotations"] = annotations
        if function.__dict__:
            state["attributes"] = check_names(function.__dict__)
        place = self._codes.place_of(code)
        self.programs.add(place.program)
        self.looked_up |= looked_up_by(code)
        arguments = place, function.__closure__
        return BUILDERS["function"], arguments, state or None, None, None, BUILDERS["fill_function"]

    def _class(self, cls: Any) -> Any:
        if _is_undefined_function(type(cls)):
            self.libraries.add("sympy")
            return BUILDERS["undefined_function"], (cls.name, cls._kwargs)
        if not self.is_user_class(cls):
            return _record_class(cls)
        space, bases = dict(namespace_of(cls)), _bases_of(cls)
        options: dict[str, object] = {}
        fields, data = space.get("__dataclass_fields__"), None
        how = "class"
        if type(cls) is typing._TypedDictMeta:  # type: ignore[attr-defined]
            how, options = "typed_dict", {"total": space.get("__total__", True)}
        elif issubclass(cls, enum.Enum):
            how, options = "enum", self._members(cls)
        elif bases == (tuple,) and "_fields" in space and "_make" in space:
            how, options = "namedtuple", _fields_of(cls)
        else:
            if "__orig_bases__" in space:
                options["__orig_bases__"] = space["__orig_bases__"]
            if "__slots__" in space:
                options["__slots__"] = space["__slots__"]
        own = {name: held for name, held in space.items() if not self._is_generated(cls, name, held, how, options)}
        for name, held in own.items():
            self._check_member(name, held)
        if fields is not None:
            data = _dataclass_of(space, annotations_of(cls), fields)
        check_names(own)
        meta = _metaclass(cls)
        place = self._codes.place_of_class(cls)
        if place is not None:
            self.programs.add(place.program)
        is_checkable = space.get("_is_runtime_protocol") is True
        state = own, annotations_of(cls), data, _qualname_of(cls), place and tuple(place), is_checkable
        arguments = (how, _name_of(cls), bases if how != "namedtuple" else (), options, meta)
        return BUILDERS["make_class"], arguments, state, None, None, BUILDERS["fill_class"]

    def _members(self, cls: Any) -> dict[str, object]:
        members = {name: _look_up(member, "_value_") for name, member in cls.__members__.items()}
        slots = self._slots_of(cls)
        held = {
            name: _held_in(member, slots)
            | {
                n: v
                for n, v in _look_up(member, "__dict__").items()
                if n[:1] != "_" or (n[:2] != "__" and n[-1:] != "_")
            }
            for name, member in cls.__members__.items()
        }
        _check_payloads(cls)
        return {
            "members": members,
            "attributes": {name: each for name, each in held.items() if each},
            "values": {name: each for name, value in members.items() if (each := self._compared(value))},
        }

    def _compared(self, value: Any) -> dict[str, Any]:
        """Return the attributes that a member's value needs while the class is made, if it is then compared by them."""
        kind = type(value)
        if not self.is_user_class(kind) or _held(kind, "__eq__") is object.__eq__ or issubclass(kind, enum.Enum):
            return {}
        if not self._layout_of(kind).is_plain:
            return {}
        self.runs_code = self.runs_code or self._layouts[kind].runs_code
        return self._attributes(value, self._layouts[kind])

    def _is_generated(self, cls: Any, name: str, held: Any, how: str, options: dict[str, Any]) -> bool:
        """Whether making the class anew makes this member as well. One that is not certain to be made is written, or the class is not kept."""
        if name in _MADE_ANEW:  # newer versions of Python keep annotations as a function of the code's
            return True
        kind = type(held)
        if kind is types.MemberDescriptorType or kind is types.GetSetDescriptorType:
            return held.__objclass__ is cls
        inside = held.__func__ if kind is staticmethod or kind is classmethod else held
        is_function = type(inside) is types.FunctionType
        if is_function and self._is_own(inside):
            return False
        module = inside.__globals__ if is_function else None
        params = namespace_of(cls).get("__dataclass_params__")
        if name == "__hash__" and held is None:
            return params is not None and params.eq and not params.frozen
        if (
            name in _PROTOCOL
            and typing.Protocol in mro_of(cls)
            and (inside is object.__init__ or module is vars(typing))
        ):
            return True
        if params is not None and name in _DATACLASS and is_function:
            return module is vars(dataclasses) or inspect.unwrap(inside).__code__.co_filename == "<string>"
        if how == "enum":
            is_for_enum = name[:1] == name[-1:] == "_" and (name[:2] != "__" or name in _ENUM)
            is_found = not is_function or (
                name == "_value_repr_" and any(namespace_of(each).get("__repr__") is held for each in mro_of(cls))
            )
            return name in options["members"] or module is vars(enum) or (is_for_enum and is_found)
        return how == "namedtuple" and (name in _NAMEDTUPLE or kind.__name__ == "_tuplegetter")

    def _check_member(self, name: str, held: Any) -> None:
        """Raise Unkept, with the member's name, for a function of a library that cannot be kept: a class never loses a member alone."""
        inside = held.__func__ if type(held) in (staticmethod, classmethod) else held
        if type(inside) is types.FunctionType and not self._is_own(inside) and id(inside) not in self.known.names:
            try:
                self._function(inside)
            except Unkept as error:
                raise Unkept(f"its member {name!r} is {error}") from None

    def _is_own(self, function: Any) -> bool:
        return function.__globals__ is self._space

    # Instances -----------------------------------------------------------------------------------------------------------------

    def _instance(self, obj: Any, cls: type) -> Any:
        """Return the contents of an instance, read from where the interpreter keeps them."""
        layout = self._layouts.get(cls) or self._layout_of(cls)
        attributes = self._attributes(obj, layout)
        if layout.is_plain:
            return self._filled(obj, cls, BUILDERS["instance"], (cls,), attributes)
        if issubclass(cls, BaseException):
            arguments = BaseException.__dict__["args"].__get__(obj)
            attributes |= _beside_arguments(obj)
            more: tuple[Any, ...] = tuple(BaseException.__dict__[n].__get__(obj) for n in _ERROR_PARTS)
            return self.later(obj, BUILDERS["error"], (cls, arguments), BUILDERS["fill_error"], (attributes, more))
        for base in FIXED:
            if issubclass(cls, base):
                return self._filled(obj, cls, BUILDERS["fixed"], (cls, _payload(obj, base)), attributes)
        for base in LAYOUTS:
            if issubclass(cls, base):
                parts = base.__reduce__(obj)[1] if base is datetime.tzinfo else _time_parts(obj, base)
                return self._filled(obj, cls, BUILDERS["moment"], (cls, parts), attributes)
        for base in PAYLOADS:
            if issubclass(cls, base):
                store: Any = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else base
                items = list(store.items(obj) if base is dict else store.__iter__(obj))
                default = None
                if issubclass(cls, collections.defaultdict):
                    default = collections.defaultdict.__dict__["default_factory"].__get__(obj)
                maxlen = collections.deque.__dict__["maxlen"].__get__(obj) if base is collections.deque else None
                state = attributes, items, default
                return self.later(obj, BUILDERS["payload"], (cls, maxlen), BUILDERS["fill_payload"], state)
        raise Unkept(f"an instance of a class made from {_name_of(type_of_layout(cls))!r}")

    def _attributes(self, obj: Any, layout: _Layout) -> dict[str, Any]:
        attributes = _held_in(obj, layout.slots)
        if layout.has_dict:
            attributes |= _look_up(obj, "__dict__")
            if layout.is_of_library:
                check_names(attributes)
        return attributes

    def _slots_of(self, cls: type) -> list[tuple[str, Any]]:
        slots: dict[str, Any] = {}
        for each in filter(self.is_user_class, mro_of(cls)):
            for name, held in namespace_of(each).items():
                if type(held) is types.MemberDescriptorType:
                    slots.setdefault(name, held)
        return [*slots.items()]

    def _layout_of(self, cls: type) -> _Layout:
        """Return where instances of a class keep their contents; looked up once for each class."""
        has_dict = any("__dict__" in namespace_of(each) for each in mro_of(cls))
        hashed = _held(cls, "__hash__")
        runs_code = any(
            type(found) is types.FunctionType and self._is_own(found) for found in (hashed, _held(cls, "__eq__"))
        )
        needs_hash = hashed is not None and hashed is not object.__hash__
        is_plain = type_of_layout(cls) is object and not issubclass(cls, BaseException)
        is_of_library = not all(each is object or self.is_user_class(each) for each in mro_of(cls))
        made = self._layouts[cls] = _Layout(
            self._slots_of(cls), has_dict, is_plain, needs_hash, runs_code, is_of_library
        )
        return made

    def _filled(self, obj: Any, cls: type, make: Any, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Fill attributes in at once if a hash may need them, otherwise later."""
        layout = self._layouts[cls]
        if layout.needs_hash:
            self.runs_code = self.runs_code or layout.runs_code
            return make, arguments, attributes, None, None, BUILDERS["fill_instance"]
        if not attributes:
            return make, arguments
        return self.later(obj, make, arguments, BUILDERS["fill_instance"], attributes)

    def later(self, obj: Any, make: Any, arguments: tuple[Any, ...], fill: Any, state: object) -> Any:
        self._waiting.append((obj, fill, state))
        return make, arguments

    # Methods ---------------------------------------------------------------------------------------------------------------------

    def _bound(self, method: Any) -> Any:
        owner, name = method.__self__, method.__name__
        if owner is None or type(owner) in (types.ModuleType, Facade):
            raise Unkept(f"the function {name!r} of a library")
        return BUILDERS["bound"], (owner, name)

    def _method(self, method: Any) -> Any:
        owner, function = method.__self__, method.__func__
        is_drawn = type(owner) in self.known.drawn or self._is_mixed(type(owner))
        if is_drawn and not (type(function) is types.FunctionType and self._is_own(function)):
            return BUILDERS["drawn_method"], (owner, function.__name__)
        return BUILDERS["method"], (function, owner)

    def _unbound(self, method: Any) -> Any:
        owner, name = method.__objclass__, method.__name__
        if type(method) is not types.MethodDescriptorType and not self._is_had(owner, name, method):
            raise Unkept(f"the attribute {name!r} of {_name_of(owner)}")
        return BUILDERS["bound"], (owner, name)

    def _is_had(self, owner: Any, name: str, found: object) -> bool:
        """Whether the language gives code this object as an attribute of that one."""
        try:
            return self.known.guards.getattr(owner, name) is found
        except (AttributeError, NotAllowed):
            return False


class ExactWriter(Writer):
    """A Writer that numbers what is no number, so that those which were one object are one again: a list finds its NaN only so.

    Python is asked about each object, which takes as long again as all else.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._nans = {id(one): number for number, one in enumerate(NANS)}
        self._held_nans: list[float] = []

    def persistent_id(self, obj: Any) -> int | None:
        """Called by the pickler for each object."""
        if type(obj) is not float or obj == obj:
            return None
        number = self._nans.setdefault(id(obj), len(self._nans))
        if number == len(NANS) + len(self._held_nans):
            self._held_nans.append(obj)  # an id belongs to one object only as long as that lives
        return number


_PSEUDO: Final[dict[Any, Any]] = {
    vars(dataclasses)["_FIELD_CLASSVAR"]: typing.ClassVar,
    vars(dataclasses)["_FIELD_INITVAR"]: dataclasses.InitVar,
}
"""Annotations that make no field: as text they would be looked up in a module. What is no field of any kind is `KW_ONLY`."""
_HAS_DOC: Final = 0x4000000
_ERROR_PARTS: Final = ("__cause__", "__context__", "__suppress_context__")
_BESIDE_ARGUMENTS: Final[dict[type, tuple[str, ...]]] = {
    OSError: ("filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}


def _dataclass_of(space: dict[str, Any], annotations: dict[str, Any], fields: dict[str, Any]) -> tuple[Any, ...]:
    given = space["__dataclass_params__"]
    flags = {n: getattr(given, n) for n in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")}
    own = {
        name: (f.default, f.default_factory, f.init, f.repr, f.hash, f.compare, f.kw_only, dict(f.metadata))
        for name, f in fields.items()
        if not _is_of_class(f) and name in annotations
    }
    kinds = {name: _PSEUDO.get(f._field_type) for name, f in fields.items()}
    hints = {
        name: kinds.get(name, dataclasses.KW_ONLY) or hint if type(hint) is str else hint
        for name, hint in annotations.items()
    }
    return flags, own, hints


def _check_payloads(cls: Any) -> None:
    """Raise Unkept unless each member of an enumeration of texts or numbers is what its data type makes of its value.

    An enumeration's own `__new__`, which is not called again, may have made it of something else.
    """
    base = next((each for each in FIXED if issubclass(cls, each)), None)
    if base is None:
        return
    for name, member in cls.__members__.items():
        value = _look_up(member, "_value_")
        try:
            made = base(*value) if type(value) is tuple and base is not tuple else base(value)
        except Exception:  # noqa: BLE001  the data type may refuse such a value in any way
            made = None
        if made is None or made != _payload(member, base):
            raise Unkept(f"an enumeration whose member {name!r} is another {base.__name__} than its value")


def _as_read(reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Have arrays that are made and those that are read alike share the names of their attributes, and their dtypes of text.

    Otherwise an array would be written in other bytes once it has been read, and so seem to have changed.
    """
    state = reduced[2] if len(reduced) > 2 else None
    if type(state) is not dict:
        return reduced
    return (*reduced[:2], {sys.intern(name): text_dtype(value) for name, value in state.items()}, *reduced[3:])


def _payload(obj: Any, base: Any) -> Any:
    """Return what an instance of a class that is made from a plain type is as that type."""
    return base(base.__iter__(obj)) if base in (tuple, frozenset) else base.__getnewargs__(obj)[0]


def _held_in(obj: Any, slots: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, slot in slots:
        with contextlib.suppress(AttributeError):
            found[name] = slot.__get__(obj)
    return found


def _beside_arguments(error: BaseException) -> dict[str, Any]:
    """Return what the constructors of Python's own errors set beside their arguments: `OSError(2, "no such file", "a.csv").filename`."""
    kinds = [each for each in _BESIDE_ARGUMENTS if isinstance(error, each)]
    found = {name: _held(kind, name).__get__(error) for kind in kinds for name in _BESIDE_ARGUMENTS[kind]}
    return {name: value for name, value in found.items() if value is not None}


def _is_undefined_function(kind: type) -> bool:
    """Whether a class's class is that of `sympy.Function("f")`."""
    return kind.__module__ == "sympy.core.function" and kind.__name__ == "UndefinedFunction"


def _is_of_class(field: Any) -> bool:
    """Whether a field of a dataclass is an attribute of the class only."""
    return _PSEUDO.get(field._field_type) is typing.ClassVar


def _metaclass(cls: type) -> str:
    kind = type(cls)
    if kind is type:
        return ""
    if issubclass(kind, enum.EnumMeta):
        return "enum"
    for name in ("ABCMeta", "_ProtocolMeta", "_TypedDictMeta", "HolidayCalendarMetaClass"):
        if kind.__name__ == name and kind.__module__ in ("abc", "typing", "pandas.tseries.holiday"):
            return name
    raise Unkept(f"a class with the metaclass {_name_of(kind)!r}")


def _time_parts(obj: Any, base: Any) -> tuple[Any, ...]:
    return tuple(getattr(base, name).__get__(obj) for name in LAYOUTS[base])


def _held(cls: type, name: str) -> Any:
    """Return what a class, or the first of its bases that has it, keeps under a name."""
    return next((namespace_of(each)[name] for each in mro_of(cls) if name in namespace_of(each)), None)


def _description(obj: object, kind: type) -> str:
    if kind is Facade:
        return f"the module {facade_name(obj)}"  # type: ignore[arg-type]
    name = _name_of(kind)
    module = type.__dict__["__module__"].__get__(kind)
    module = module.partition(".")[0] if isinstance(module, str) else "a library"  # of a compiled one it may be no text
    if "iterator" in name or module == "itertools":
        return "an open iterator: make a list of it"
    if module == "matplotlib":
        return "part of a figure"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name} of {module}"


_REDUCERS: Final[dict[type, Callable[[Writer, Any], Any]]] = {
    types.FunctionType: Writer._function,
    **dict.fromkeys(iterators.KINDS, Writer._generator),
    types.MethodType: Writer._method,
    types.BuiltinMethodType: Writer._bound,
    type(_PATTERN.match): Writer._bound,  # what C calls with its class as well
    **dict.fromkeys(
        (
            types.MethodDescriptorType,
            types.WrapperDescriptorType,
            types.GetSetDescriptorType,
            types.MemberDescriptorType,
        ),
        Writer._unbound,
    ),
    np.ma.MaskedArray: lambda w, array: w._arrays.masked(array),
    **dict.fromkeys(KINDS_OF_ARRAYS, lambda w, array: w._arrays.of_kind(array)),
    **REDUCERS,
}
