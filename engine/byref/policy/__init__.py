"""Policies: the settings that say which outputs are too big and what happens to them. They are frozen, checked, and may differ
by session and tool.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, Self

from byref.errors import ConfigurationError, shown, within
from byref.policy import checks
from byref.policy.checks import FrozenDict, Mapper

Mode = Literal["auto", "variables", "artifact", "truncate"]
Plaintext = Literal["auto", "wholesale", "truncate", "artifact"]
Errors = Literal["truncate", "inline"]
OnStorageFailure = Literal["truncate", "raise"]
EnvelopeForm = Literal["outline", "variables", "references", "pointers", "previews"]
SchemaForm = Literal["short", "json-schema"]
Tables = Literal["auto", "off"]
Format = Literal["csv", "box", "expanded", "aligned", "ndjson", "text"]
TrustedInstructions = Literal["mappers", "all", "none"]

INTERPRETER = "code_interpreter"
SQL = "artifact_sql"
READERS = ("artifact_read", "artifact_grep", "artifact_jq")
"""Tools that follow a reference to stored data."""
VIEWERS = ("retrieve_offloaded_content", "get_artifact")
"""Tools that return an image or a document as it is."""
TOOL_NAMES = (
    INTERPRETER,
    "artifact_jq",
    SQL,
    "artifact_grep",
    "artifact_read",
    "list_artifacts",
    "get_artifact",
    "store_artifact",
    "retrieve_offloaded_content",
)
FOLLOWING = (*READERS, "get_artifact", "retrieve_offloaded_content")
"""Tools that can follow a reference to stored data, whatever its kind."""
DEFAULT_TOOLS = (INTERPRETER, "artifact_jq", "artifact_grep", "artifact_read")
_ONE_GATE: Mapping[str, Any] = {
    "context_percentage": None,
    "min_threshold_bytes": 0,
    "max_threshold_bytes": None,
    "headroom_percentage": 1.0,
    "plaintext": "artifact",
    "keep_tokens": None,
    "tables": "off",
}
"""Settings of presets whose systems have a single limit."""
_OF_THE_SESSION = ("tools", "per_tool", "ledger_ttl", "default_context_window")
"""Knobs that cannot be set for one tool."""
_DURATIONS = ("ttl", "ledger_ttl")
_CHECKS: Mapping[str, Callable[[str, object], None]] = {
    "enabled": checks.flag,
    "mode": checks.choice(Mode),
    "plaintext": checks.choice(Plaintext),
    "wholesale_tokens": checks.optional(checks.integer(1)),
    "envelope_form": checks.choice(EnvelopeForm),
    "schema_form": checks.choice(SchemaForm),
    "tables": checks.choice(Tables),
    "context_percentage": checks.optional(checks.between(0, 1)),
    "min_threshold_bytes": checks.integer(0),
    "max_threshold_bytes": checks.optional(checks.integer(1)),
    "headroom_percentage": checks.between(0, 1),
    "max_result_tokens": checks.optional(checks.integer(1)),
    "keep_tokens": checks.optional(checks.integer(1)),
    "max_output_bytes": checks.optional(checks.integer(1)),
    "preview_tokens": checks.integer(20),
    "preview_chars": checks.integer(0),
    "envelope_tokens": checks.optional(checks.integer(100)),
    "truncate_tokens": checks.integer(50),
    "errors": checks.choice(Errors),
    "on_storage_failure": checks.choice(OnStorageFailure),
    "default_context_window": checks.integer(1),
    "reply_tokens": checks.integer(100),
    "image_tokens": checks.optional(checks.integer(0)),
    "trusted_instructions": checks.choice(TrustedInstructions),
    "learn": checks.flag,
    "ttl": checks.optional(checks.duration),
    "ledger_ttl": checks.optional(checks.duration),
    "max_artifact_bytes": checks.integer(1),
    "max_session_bytes": checks.optional(checks.integer(1)),
    "max_tenant_bytes": checks.optional(checks.integer(1)),
    "run_seconds": checks.between(0.01, 3600),
    "run_cpu_seconds": checks.between(0.01, 3600),
    "run_memory_bytes": checks.integer(16 << 20),
    "run_output_bytes": checks.integer(100),
    "run_result_bytes": checks.integer(1000),
    "run_recursion_depth": checks.between(50, 10_000),
    "run_wait_seconds": checks.between(0.01, 3600),
    "run_calls": checks.integer(1),
    "run_calls_at_once": checks.integer(1),
    "run_call_bytes": checks.integer(1000),
    "max_session_calls": checks.optional(checks.integer(1)),
    "max_session_calls_at_once": checks.optional(checks.integer(1)),
    "max_session_call_bytes": checks.optional(checks.integer(1000)),
    "max_session_call_seconds": checks.optional(checks.integer(1)),
}
"""The check of each knob; `tools` and `per_tool` have checks of their own."""


@dataclass(frozen=True, init=False, repr=False)
class ToolPolicy:
    """The settings of one tool: for its outputs or, if it is one of the session's own tools, for its replies.

    They are any knobs of `Policy` except `tools`, `per_tool`, `ledger_ttl` and `default_context_window`, and six settings that
    only a tool can have. `mapper`, a jq program or a function of the parsed output, changes an output before anything else
    reads it. `template`, in Jinja's language, renders the output as text, after the mapper if there are both. `names` gives
    other names to the variables of top-level keys. `references=False` leaves the tool's arguments as the model wrote them.
    `format` says what the tool's text is, whatever `tables` says: `csv` (cells separated by any delimiter), `box` (drawn with
    bars, as in Markdown), `aligned` (columns separated by blanks), `expanded` (a member on each line), `ndjson`, or `text`, which
    is never a table. `schema` is a JSON Schema of what the tool returns, with which learning begins; a function of the tool's
    name shows it to the model.

    Raises:
        ConfigurationError: a knob is unknown or out of range, or a program or template has a fault.
    """

    knobs: Mapping[str, Any]
    mapper: Mapper | None
    template: str | None
    names: Mapping[str, str]
    references: bool
    format: Format | None
    schema: Mapping[str, Any] | None

    def __init__(
        self,
        *,
        mapper: Mapper | None = None,
        template: str | None = None,
        names: Mapping[str, str] | None = None,
        references: bool = True,
        format: Format | None = None,
        schema: Mapping[str, Any] | None = None,
        **knobs: Any,
    ) -> None:
        for name, value in knobs.items():
            if name in _OF_THE_SESSION:
                raise ConfigurationError(f"{name} belongs to the session's policy, not to a tool's")
            if name not in _CHECKS:
                own = [knob for knob in _CHECKS if knob not in _OF_THE_SESSION]
                raise _unknown(
                    name, "ToolPolicy", (*own, "mapper", "template", "names", "references", "format", "schema")
                )
            _CHECKS[name](name, value)
            knobs[name] = checks.as_timedelta(value) if name in _DURATIONS else value
        checks.mapper("mapper", mapper)
        checks.template("template", template)
        checks.flag("references", references)
        checks.optional(checks.choice(Format))("format", format)
        checks.schema("schema", schema)
        set_field = object.__setattr__
        set_field(self, "knobs", FrozenDict(knobs))
        set_field(self, "mapper", mapper)
        set_field(self, "template", template)
        set_field(self, "names", FrozenDict(checks.names("names", names)))
        set_field(self, "references", references)
        set_field(self, "format", format)
        set_field(self, "schema", None if schema is None else checks.frozen(schema))

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments with which it was made: `ToolPolicy(**policy.settings)` is equal to it."""
        own = {
            "mapper": self.mapper,
            "template": self.template,
            "names": dict(self.names) or None,
            "format": self.format,
            "schema": None if self.schema is None else json.loads(json.dumps(self.schema)),
        }
        given = {name: value for name, value in own.items() if value is not None}
        return {**self.knobs, **given} if self.references else {**self.knobs, **given, "references": False}

    def __repr__(self) -> str:
        """Show the settings that were given."""
        return _repr(self, self.settings.items())


_ANY_TOOL = ToolPolicy()


@dataclass(frozen=True, repr=False)
class Policy:
    """The settings that say which outputs are too big, and what happens to them.

    Sizes are UTF-8 bytes of the text that the model would read; tokens are counted by the engine's counter. Defaults are those
    of the reference systems. `Policy()` is the preset `Policy.variables()` with four knobs of its own: the envelope form
    `outline`; a bound on text that passes whole, `wholesale_tokens`; `keep_tokens`; and `tables`.

    Raises:
        ConfigurationError: a knob is unknown or out of range, or two of them contradict each other.
    """

    enabled: bool = True
    """False passes every output through whole, without any gate."""
    mode: Mode = "auto"
    """What becomes of structured output that is too big. `auto` is `variables` if the interpreter is among the session's tools,
    else `artifact` if a reader is, else `truncate`."""
    plaintext: Plaintext = "auto"
    """What becomes of text that is too big; it is stored in any case. `auto` passes it whole while it is within
    `wholesale_tokens`, ceiling and headroom, and truncates it otherwise. The other values always do what they say; `wholesale`
    passes text whole up to the ceiling."""
    wholesale_tokens: int | None = 20_000
    """Tokens above which `plaintext="auto"` truncates text, even if there is room for it; None: only the other bounds apply."""
    envelope_form: EnvelopeForm = "outline"
    """The form of an envelope. `outline` shows the whole shape, values that code needs, and one complete record; each preset sets
    the form of its own name."""
    schema_form: SchemaForm = "short"
    """How the envelope form `outline` writes the schema: in a short notation, or as JSON Schema. The other forms have their own."""
    tables: Tables = "auto"
    """Whether text that is a table is taken for one: `auto` recognises it by its content, `off` leaves text as it is."""
    context_percentage: float | None = 0.25
    """An output is too big above this fraction of the model's window, at 4 bytes a token, but not below the next knob nor above
    the one after it; None: off."""
    min_threshold_bytes: int = 4096
    """The floor: an output with fewer bytes passes whole, whatever the window and headroom say."""
    max_threshold_bytes: int | None = 1_048_576
    """The ceiling: an output with more bytes is offloaded or truncated, however large the window is; None: off."""
    headroom_percentage: float = 0.70
    """An output is too big if it would push the context past this fraction of the window; 1.0 disables the gate."""
    max_result_tokens: int | None = 7_000
    """An output with more tokens is too big."""
    max_output_bytes: int | None = None
    """An output with at least so many bytes is too big."""
    keep_tokens: int | None = 500
    """An output of at least so many tokens that passes whole is also stored and bound to a variable, so that code can compute
    with it, and `$name` hands it to another tool; None: never. Its text does not change, and it counts against the quotas."""
    preview_tokens: int = 1_000
    """Maximum tokens of a preview; in the form `outline`, of the whole envelope, if it is 300 or more. In the form `variables`, an
    output below 200,000 tokens gets a proportional share, at least 100."""
    preview_chars: int = 200
    """Characters of the preview in a pointer's envelope."""
    envelope_tokens: int | None = None
    """Maximum tokens of the whole envelope; None: `preview_tokens`, in forms other than `outline` with 200 more."""
    truncate_tokens: int = 2_500
    errors: Errors = "truncate"
    """What becomes of a tool's error text, which is never replaced by a reference: above `truncate_tokens` it is cut to head and
    tail, or with `inline` it always passes whole."""
    on_storage_failure: OnStorageFailure = "truncate"
    """What happens while the database is down: the turn goes on without it, or `StorageFailure` is raised."""
    default_context_window: int = 128_000
    """Tokens of the window of a model whose window is not known."""
    reply_tokens: int = 4_000
    """Maximum tokens of every reply of the session's own tools."""
    image_tokens: int | None = 1_600
    """Tokens that an image counts if the model sees it natively; None: its bytes / 4, as for documents."""
    trusted_instructions: TrustedInstructions = "mappers"
    """Whose `display_instructions_for_model` reaches `result.instructions`. It is removed from the data in any case."""
    learn: bool = True
    """Whether the schemas of what tools and functions return are learned, and shown for functions that declare none."""
    tools: tuple[str, ...] = DEFAULT_TOOLS
    """The tools that `session.tools()` offers."""
    per_tool: Mapping[str, ToolPolicy | Mapping[str, Any]] = field(default_factory=dict)
    """The settings of single tools, by tool name; stored as `ToolPolicy`.

    An example: `{"get_cart": {"enabled": False}}`.
    """
    ttl: timedelta | None = timedelta(days=7)
    """How long an artifact is kept after its last use; None: as long as its session. A number of seconds is accepted too."""
    ledger_ttl: timedelta | None = None
    """How long a conversation without artifacts, and its ledger, are kept after its last step; None: until it is deleted."""
    max_artifact_bytes: int = 1 << 30
    """A larger payload is truncated and not stored."""
    max_session_bytes: int | None = 2 << 30
    """Maximum bytes that a session may store, each payload counted once. An output beyond that is truncated and not stored.
    None: no limit."""
    max_tenant_bytes: int | None = None
    """The same for all sessions of the tenant together."""
    run_seconds: float = 30.0
    """Wall-clock seconds of one run of model-written code, and of a mapper."""
    run_cpu_seconds: float = 20.0
    run_memory_bytes: int = 1 << 30
    """Memory that a run may use in addition to its data."""
    run_output_bytes: int = 100_000
    """Bytes that a run may print; the rest is counted and left out."""
    run_result_bytes: int = 64 << 20
    """Bytes that a run may send back: its value and the names that it leaves."""
    run_recursion_depth: int = 1_000
    """How deeply calls may be nested in a run."""
    run_wait_seconds: float = 300.0
    """Seconds that a run may wait for functions of the host, in addition to `run_seconds`."""
    run_calls: int = 10_000
    """Calls of functions of the host that one run may make."""
    run_calls_at_once: int = 64
    """Calls of one run that run at once; others wait. Each call of a function that is no coroutine occupies a thread."""
    run_call_bytes: int = 2 << 30
    """Bytes that arguments and results of one run's calls may take together."""
    max_session_calls: int | None = None
    """Calls that a session may make, in all of its runs; None: no limit. This and the next three hold over all processes: what a call
    needs is reserved before it is made."""
    max_session_calls_at_once: int | None = None
    """Calls of a session, in all of its runs, that are under way at once, queued ones included; further ones wait."""
    max_session_call_bytes: int | None = None
    """Bytes that arguments and results of a session's calls may take together."""
    max_session_call_seconds: int | None = None
    """Seconds that a session's calls may take together. A running call counts with its time-out, or with what is left."""

    def __post_init__(self) -> None:
        """Refuse impossible settings; the error names the knob, the value and what is allowed."""
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))
        if self.max_threshold_bytes is not None and self.min_threshold_bytes > self.max_threshold_bytes:
            raise ConfigurationError(
                f"min_threshold_bytes={self.min_threshold_bytes!r} is above "
                f"max_threshold_bytes={self.max_threshold_bytes!r}; the floor must not pass the ceiling"
            )
        for name in _DURATIONS:
            object.__setattr__(self, name, checks.as_timedelta(getattr(self, name)))
        object.__setattr__(self, "tools", check_tools(self.tools))
        object.__setattr__(self, "per_tool", FrozenDict(_tool_policies(self.per_tool)))
        _ = self._merged  # a tool's knobs may contradict the session's

    @classmethod
    def variables(cls, **knobs: Any) -> Self:
        """Return the preset of variable passing: structured data becomes variables of the code interpreter.

        Envelopes have the form `variables`; there is no bound on text that passes whole, and no variable for outputs that pass:
        `wholesale_tokens` and `keep_tokens` are None. `tables` is `off`, here and in the other presets.
        """
        base = cls(envelope_form="variables", wholesale_tokens=None, keep_tokens=None, tables="off")
        return base.override(**knobs)

    @classmethod
    def references(cls, **knobs: Any) -> Self:
        """Return the preset of tool-output offloading: an artifact with its shape and how to access it, without a preview.

        Both gates are on, and there are no absolute limits. `auto` stores an artifact if `artifact_read`, `artifact_grep` or
        `artifact_jq` is offered, and truncates otherwise. Text is treated like JSON.
        """
        base = cls(
            envelope_form="references",
            plaintext="artifact",
            max_result_tokens=None,
            keep_tokens=None,
            tables="off",
            tools=READERS,
        )
        return base.override(**knobs)

    @classmethod
    def pointers(cls, **knobs: Any) -> Self:
        """Return the preset of memory pointers: an output of 50 KB or more becomes a pointer with a preview of 200 characters
        and a note.

        `max_output_bytes` is the only gate, so no window is needed.
        """
        tools = ("store_artifact", "get_artifact", "list_artifacts")
        base = cls(envelope_form="pointers", max_result_tokens=None, max_output_bytes=51_200, tools=tools, **_ONE_GATE)
        return base.override(**knobs)

    @classmethod
    def previews(cls, **knobs: Any) -> Self:
        """Return the preset of the context offloader: above 2,500 tokens, a preview of 1,000 tokens and a reference as text.

        `max_result_tokens` is the only gate. Images are measured by their bytes, everything else by its characters.
        """
        tools = ("retrieve_offloaded_content",)
        base = cls(envelope_form="previews", max_result_tokens=2_500, image_tokens=None, tools=tools, **_ONE_GATE)
        return base.override(**knobs)

    def override(self, **knobs: Any) -> Self:
        """Return a copy with these knobs changed."""
        known = [knob.name for knob in fields(self)]
        for name in knobs:
            if name not in known:
                raise _unknown(name, "Policy", known)
        return replace(self, **knobs)

    def for_tool(self, tool: str) -> Self:
        """Return the policy for one tool's outputs: its knobs replace the session's, and no other tool's settings are kept."""
        return self._merged.get(tool, self)

    def tool(self, name: str) -> ToolPolicy:
        """Return the settings of one tool; empty ones for a tool that is not in `per_tool`."""
        found = self.per_tool.get(name, _ANY_TOOL)
        assert isinstance(found, ToolPolicy)
        return found

    @property
    def envelope_budget(self) -> int:
        """Maximum tokens of an envelope, whatever the input is."""
        return self.envelope_tokens if self.envelope_tokens is not None else self.preview_tokens + 200

    @cached_property
    def _merged(self) -> dict[str, Self]:
        """The policies of tools that have knobs of their own."""
        merged: dict[str, Self] = {}
        for name in self.per_tool:
            knobs = self.tool(name).knobs
            if knobs:
                with within(f"per_tool[{shown(name)}]"):
                    merged[name] = self.override(**knobs, per_tool=self._settings_of(name))
        return merged

    def _settings_of(self, name: str) -> dict[str, ToolPolicy]:
        """Return a tool's settings other than knobs, so that a policy made for the tool still has its mapper."""
        settings = self.tool(name).settings
        own = {key: value for key, value in settings.items() if key not in _CHECKS}
        return {name: ToolPolicy(**own)} if own else {}

    def __repr__(self) -> str:
        """Show the knobs that are not at their defaults."""
        given = ((knob.name, getattr(self, knob.name)) for knob in fields(self))
        defaults = {knob.name: _default(knob) for knob in fields(self)}
        return _repr(self, [(name, value) for name, value in given if value != defaults[name]])


def check_tools(tools: object) -> tuple[str, ...]:
    """Return the names as a tuple without repeats; an unknown one is a ConfigurationError."""
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise ConfigurationError(f"tools={shown(tools)}: expected a list of names out of {list(TOOL_NAMES)}")
    names: dict[str, None] = {}
    for name in tools:
        if not isinstance(name, str) or name not in TOOL_NAMES:
            raise ConfigurationError(f"tools: {shown(name)} is unknown; there are {list(TOOL_NAMES)}")
        names[name] = None
    return tuple(names)


def _tool_policies(given: object) -> dict[str, ToolPolicy]:
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f'per_tool={shown(given)}: expected a mapping of tool names to knobs, like {{"get_cart": {{"enabled": False}}}}'
        )
    made: dict[str, ToolPolicy] = {}
    for tool, knobs in given.items():
        if not isinstance(tool, str) or not tool:
            raise ConfigurationError(f"per_tool: {shown(tool)} is no name of a tool")
        with within(f"per_tool[{shown(tool)}]"):
            made[tool] = knobs if isinstance(knobs, ToolPolicy) else ToolPolicy(**checks.keywords(knobs))
    return made


def _unknown(name: object, what: str, known: Iterable[str]) -> ConfigurationError:
    names = list(known)
    near = difflib.get_close_matches(str(name), names, 1)
    return ConfigurationError(
        f"{shown(name)} is no knob of {what}" + (f"; did you mean {near[0]!r}?" if near else f"; there are {names}")
    )


def _default(knob: Field[Any]) -> Any:
    return knob.default_factory() if knob.default_factory is not MISSING else knob.default


def _repr(policy: object, given: Iterable[tuple[str, Any]]) -> str:
    return f"{type(policy).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"
