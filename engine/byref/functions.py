"""Functions of a host that code of the sandbox may call: what each is called, takes, gives and needs."""

from __future__ import annotations

import builtins
import functools
import inspect
import json
import keyword
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from byref.errors import ConfigurationError, shown
from byref_sandbox.functions import Parameter, Stub

MAX_FUNCTIONS: Final = 1_000
MAX_DESCRIPTION_CHARS: Final = 10_000
_SUMMARY_CHARS: Final = 300
_MAX_WORDS_CHARS: Final = 400
_MAX_LEVELS: Final = 20
_MAX_REFERRED: Final = 10
_MAX_SECONDS: Final = 1e7
_TYPES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

Approval = bool | Callable[[Mapping[str, Any]], bool]
"""Whether a call needs somebody's approval; a predicate decides by its arguments."""
is_approved: ContextVar[bool] = ContextVar("byref_is_approved", default=False)
"""Whether the call that is made was approved: of a function that raises `NeedsApproval`."""
journal_row: ContextVar[int] = ContextVar("byref_journal_row")
"""The row in the journal of the call that is made: the same when the call is made again after its process died."""
ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}


class NeedsApproval(PermissionError):
    """A function whose framework says only while it is called that it needs approval raises this: the call waits then.

    It has done nothing yet, because it is called again when it is approved.
    """


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the host's that model-written code may call.

    `call` is called with the arguments by name, in a thread of byref's own, or awaited if it is a coroutine function. Its result is
    what code gets: JSON values, text, bytes, dates, DataFrames. What it raises is an exception in the code.

    Raises:
        ConfigurationError: a field is invalid; the message names it.
    """

    name: str
    """The name by which code calls it, a Python identifier that no builtin has."""
    call: Callable[..., Any]
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """A JSON Schema of the arguments, an object. Arguments are checked against it before `call` sees them."""
    returns: Mapping[str, Any] | None = None
    """A JSON Schema of the result, which the model reads."""
    description: str = ""
    approval: Approval = False
    """Whether each call waits for `Session.resume`; or a predicate over the arguments that says so."""
    repeatable: bool = False
    """Whether a call may be made again if its process died while it was running: it only reads, or it is idempotent."""
    max_calls: int | None = None
    """The most calls of one session."""
    timeout: float = 60.0
    """Seconds after which code gets a TimeoutError: less than 10,000,000, some 115 days."""
    concurrency: int = 16
    """The most calls of one run that run at once; others wait."""
    positional: tuple[str, ...] | None = field(default=None, repr=False)
    """Parameters that code may give as positional arguments, in order; None: all, the required ones first."""
    learned: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The schema of what it has returned so far, where `returns` is None; the engine sets it."""
    types: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Python types into which arguments are converted before the call, by name."""

    def __post_init__(self) -> None:
        check_name(self.name)
        about = f"function {self.name!r}"
        if not callable(self.call):
            raise ConfigurationError(f"{about}: call={shown(self.call)}: expected something to call")
        for what, schema in (("parameters", self.parameters), ("returns", self.returns)):
            if not isinstance(schema, Mapping) and (schema is not None or what == "parameters"):
                raise ConfigurationError(f"{about}: {what}={shown(schema)}: expected a JSON Schema")
        object.__setattr__(self, "parameters", _at_the_top(self.parameters))
        if self.parameters.get("type", "object") != "object":
            raise ConfigurationError(
                f"{about}: its parameters are {shown(self.parameters)}: expected an object's schema"
            )
        names = self.parameters.get("properties", {})
        if not isinstance(names, Mapping):
            raise ConfigurationError(f"{about}: properties={shown(names)}: expected the parameters by name")
        required = self.parameters.get("required", ())
        if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
            raise ConfigurationError(f"{about}: required={shown(required)}: expected the names of parameters")
        if not isinstance(self.description, str):
            raise ConfigurationError(f"{about}: description={shown(self.description)}: expected a text")
        if len(self.description) > MAX_DESCRIPTION_CHARS:
            raise ConfigurationError(f"{about}: its description has more than {MAX_DESCRIPTION_CHARS:,} characters")
        if self.positional is not None and not (
            isinstance(self.positional, list | tuple)
            and all(isinstance(one, str) and one in names for one in self.positional)
        ):
            raise ConfigurationError(f"{about}: positional={shown(self.positional)}: expected names of its parameters")
        if not (isinstance(self.approval, bool) or callable(self.approval)):
            raise ConfigurationError(f"{about}: approval={shown(self.approval)}: expected True, False or a predicate")
        _check_count(about, "max_calls", self.max_calls, is_optional=True)
        _check_count(about, "concurrency", self.concurrency)
        if (
            isinstance(self.timeout, bool)
            or not isinstance(self.timeout, int | float)
            or not 0 < self.timeout < _MAX_SECONDS
        ):
            raise ConfigurationError(
                f"{about}: timeout={shown(self.timeout)}: expected a number of seconds above 0 and below {_MAX_SECONDS:,.0f}"
            )

    @classmethod
    def of(cls, call: Callable[..., Any], **options: Any) -> Function:
        """Make a function of a callable: its name, signature, annotations and docstring say what it takes and gives.

        `options` are fields of `Function`, which hold instead. A parameter without an annotation takes anything.

        Raises:
            ConfigurationError: it has no name or signature of its own, or takes arguments that have no names.
        """
        name = options.pop("name", None) or getattr(call, "__name__", None) or type(call).__name__
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"function {name!r}: {error}; give byref.Function its parameters") from None
        read = _Signature(name, signature, _hints_of(call))
        made: dict[str, Any] = {
            "parameters": read.schema,
            "returns": read.returns,
            "description": inspect.getdoc(call) or "",
            "positional": read.positional,
            "types": read.types,
        }
        return cls(name, call, **{**made, **options})

    @property
    def is_async(self) -> bool:
        """Whether its result has to be awaited."""
        call = self.call
        while isinstance(call, functools.partial):
            call = call.func
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments waits for somebody's approval."""
        return self.approval if isinstance(self.approval, bool) else bool(self.approval(arguments))

    @property
    def signature(self) -> str:
        """The line that shows how it is called: `get_orders(region: str, limit: int = 100) -> list[dict]`."""
        parts: list[str] = []
        properties, is_keyword = self.parameters.get("properties", {}), False
        for one in self.stub_parameters:
            if one.kind == "further":
                parts.append(f"**{one.name}")
                continue
            if one.kind == "keyword" and not is_keyword:
                parts.append("*")
                is_keyword = True
            schema = properties[one.name]
            words = f"{one.name}: {type_of(schema)}"
            if not one.is_required:
                default = schema.get("default") if isinstance(schema, Mapping) else None
                words += f" = {_repr(default)}" if isinstance(schema, Mapping) and "default" in schema else " = ..."
            parts.append(words)
        schema = self.learned if self.returns is None else self.returns
        gives = "" if schema is None else f" -> {type_of(schema)}"
        return f"{self.name}({', '.join(parts)}){gives}"

    @property
    def text(self) -> str:
        """Its signature and its description, as `help` shows them."""
        return f"{self.signature}\n{self.description}".rstrip()

    @property
    def summary(self) -> str:
        """Its signature and the first paragraph of its description, as the model reads them before it has asked."""
        first = " ".join(self.description.partition("\n\n")[0].split())
        if len(first) > _SUMMARY_CHARS:
            first = f"{first[: _SUMMARY_CHARS - 1]}…"
        return f"{self.signature}  # {first}" if first else self.signature

    @property
    def stub_parameters(self) -> list[Parameter]:
        """Its parameters, in the order in which code may give them by place."""
        properties: Mapping[str, Any] = self.parameters.get("properties", {})
        required = set(self.parameters.get("required", ()))
        order = sorted(properties, key=lambda name: name not in required)
        by_place = dict.fromkeys(order if self.positional is None else self.positional)
        made = [Parameter(name, "either", name in required, _default(properties[name])) for name in by_place]
        made += [
            Parameter(name, "keyword", name in required, _default(properties[name]))
            for name in order
            if name not in by_place
        ]
        count = len(made)
        made = [one for one in made if one.name.isidentifier() and not keyword.iskeyword(one.name)]
        if len(made) < count or self.parameters.get("additionalProperties", False):
            made.append(Parameter(_free("arguments", properties), "further", False))
        return made

    @property
    def stub(self) -> Stub:
        """It as the sandbox shows it to code."""
        return Stub(self.name, self.stub_parameters, self.text)


def check_name(name: object) -> None:
    """Raise ConfigurationError for what cannot be the name of a function in code."""
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or len(name) > 64:
        raise ConfigurationError(f"function {shown(name)}: expected a Python identifier of at most 64 letters")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name) or name.startswith("_"):
        raise ConfigurationError(f"function {name!r}: Python has another meaning for that name")
    if name in _TAKEN:
        raise ConfigurationError(f"function {name!r}: code has something else under that name")


_TAKEN: Final = frozenset({"pd", "np", "df", "plt", "functions", "display", "FunctionError", "Counter", "defaultdict"})


def all_of(given: Iterable[object]) -> tuple[Function, ...]:
    """Return functions, of which each may be given as a callable; raise ConfigurationError."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(f"functions={shown(given)}: expected a list of callables or byref.Function")
    made: dict[str, Function] = {}
    for one in given:
        if not isinstance(one, Function) and not callable(one):
            raise ConfigurationError(f"functions: {shown(one)}: expected a callable or a byref.Function")
        function = one if isinstance(one, Function) else Function.of(one)
        if function.name in made:
            raise ConfigurationError(f"functions: there are two of the name {function.name!r}")
        made[function.name] = function
    if len(made) > MAX_FUNCTIONS:
        raise ConfigurationError(f"functions: {len(made):,} are given; at most {MAX_FUNCTIONS:,} may be")
    return tuple(made.values())


def type_of(schema: Any, depth: int = 0, levels: int = _MAX_LEVELS) -> str:
    """Return a JSON Schema as a Python annotation: `list[dict]`, `str | None`, `'a' | 'b'`.

    Objects below `depth` 3 are `dict`, and what is more than `levels` deep is `Any`. The work is linear in the schema's size.
    """
    if not isinstance(schema, Mapping) or not levels:
        return "Any"
    if "enum" in schema and isinstance(schema["enum"], Sequence):
        return " | ".join(_repr(each) for each in schema["enum"][:8]) + (" | …" if len(schema["enum"]) > 8 else "")
    if "const" in schema:
        return _repr(schema["const"])
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), Sequence):
            return " | ".join(dict.fromkeys(type_of(option, depth, levels - 1) for option in options[:8]))
    kind = schema.get("type")
    if isinstance(kind, list):
        names = dict.fromkeys(each for each in kind if isinstance(each, str))
        return " | ".join(dict.fromkeys(type_of({**schema, "type": each}, depth, levels) for each in names)) or "Any"
    if kind == "array":
        items = type_of(schema.get("items"), depth + 1, levels - 1)
        return "list" if items == "Any" else f"list[{items}]"
    if kind == "object" or (kind is None and "properties" in schema):
        members = schema.get("properties")
        if not members or depth >= 3 or not isinstance(members, Mapping):
            return "dict"
        words = ", ".join(f"{name!r}: {type_of(member, depth + 1, levels - 1)}" for name, member in members.items())
        return f"{{{words}}}" if len(words) <= _MAX_WORDS_CHARS else "dict"
    return _TYPES.get(str(kind), "Any")


def _repr(value: Any) -> str:
    try:
        return f"{value!r:.40}"
    except RecursionError:  # a stranger's schema may nest as deep as it likes
        return "…"


class _Signature:
    """A Python signature as a JSON Schema."""

    def __init__(self, name: str, signature: inspect.Signature, hints: Mapping[str, Any]) -> None:
        properties: dict[str, Any] = {}
        required: list[str] = []
        self.types: dict[str, Any] = {}
        self.schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        by_place: list[str] = []
        for one in signature.parameters.values():
            if one.kind is one.VAR_POSITIONAL or one.kind is one.POSITIONAL_ONLY:
                raise ConfigurationError(f"function {name!r}: its parameter {one.name!r} cannot be given by name")
            if one.kind is one.VAR_KEYWORD:
                self.schema["additionalProperties"] = True
                continue
            found = hints.get(one.name, Any)
            schema, is_converted = _schema_of(found)
            if is_converted:
                self.types[one.name] = found
            if one.default is one.empty:
                required.append(one.name)
            elif _is_json(one.default):
                schema = {**schema, "default": one.default}
                if one.default is None and not _accepts_null(schema):
                    schema = {"anyOf": [schema, {"type": "null"}], "default": None}
            properties[one.name] = schema
            if one.kind is one.POSITIONAL_OR_KEYWORD:
                by_place.append(one.name)
        self.positional = tuple(by_place)
        if required:
            self.schema["required"] = required
        gives = hints.get("return", Any)
        self.returns = None if gives is Any else _schema_of(gives)[0] or None


class _Described(NamedTuple):
    schema: dict[str, Any]
    is_converted: bool


def _schema_of(annotation: Any) -> _Described:
    """Return the JSON Schema of an annotation, and whether arguments are converted into its type; an unknown type is anything."""
    if annotation is Any or annotation is inspect.Parameter.empty:
        return _Described({}, False)
    try:
        (schema,), components = msgspec.json.schema_components([annotation], ref_template="#/$defs/{name}")
    except Exception:  # noqa: BLE001  of whatever kind: a type that msgspec does not know takes anything
        return _Described({}, False)
    if components:
        schema = {**schema, "$defs": components}
        schema = _inlined(schema, components, 0)
    return _Described(dict(schema), not _is_plain(annotation))


def _inlined(schema: Any, components: Mapping[str, Any], depth: int) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, components, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and depth < 8:
        return _inlined(components.get(schema["$ref"].rpartition("/")[2], {}), components, depth + 1)
    return (
        {}
        if "$ref" in schema
        else {key: _inlined(each, components, depth) for key, each in schema.items() if key != "$defs"}
    )


def _is_plain(annotation: Any) -> bool:
    """Whether values of the type are what JSON gives back, so that nothing has to be converted."""
    if annotation in (str, int, float, bool, list, dict, None, type(None), Any):
        return True
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Literal:
        return all(isinstance(each, str | int | None) for each in arguments)
    if origin in (list, dict, typing.Union) or type(annotation).__name__ == "UnionType":
        return all(map(_is_plain, arguments))
    return False


def _hints_of(call: Callable[..., Any]) -> dict[str, Any]:
    target: Any = call
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target):
        target = getattr(type(target), "__call__", target)  # noqa: B004
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001  a name that is not there: the parameters take anything
        return {}


def _accepts_null(schema: Mapping[str, Any]) -> bool:
    kinds = [schema, *schema.get("anyOf", ())]
    return any(each.get("type") == "null" or ("type" not in each and "anyOf" not in each) for each in kinds)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _default(schema: object) -> list[Any]:
    """Return the default that a schema gives; code is not told of a long one."""
    default = [schema["default"]] if isinstance(schema, Mapping) and "default" in schema else []
    return default if _is_json(default) and len(json.dumps(default)) <= _MAX_WORDS_CHARS else []


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _at_the_top(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that refers as a whole to one of its definitions, as pydantic's of a model that contains itself does, with that in place."""
    for _ in range(_MAX_REFERRED):
        where = re.fullmatch(r"#/(\$defs|definitions)/([^/]+)", str(schema.get("$ref", "")))
        definitions = schema.get(where[1]) if where else None
        found = definitions.get(where[2]) if where and isinstance(definitions, Mapping) else None
        if not isinstance(found, Mapping):
            break
        schema = {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
    return schema


def _check_count(about: str, what: str, value: object, *, is_optional: bool = False) -> None:
    if value is None and is_optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{about}: {what}={shown(value)}: expected a number from 1 on")
