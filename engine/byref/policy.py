"""The knobs: frozen, validated, overridable per session and per tool."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from byref.errors import ConfigurationError

Mode = Literal["auto", "variables", "artifact", "truncate"]
Plaintext = Literal["auto", "wholesale", "truncate", "artifact"]
Errors = Literal["truncate", "inline"]
OnStorageFailure = Literal["truncate", "raise"]
Form = Literal["variables", "references", "pointers", "previews"]

INTERPRETER = "code_interpreter"
READERS = ("artifact_read", "artifact_grep", "artifact_jq")
"""Tools that follow a reference to stored data."""
TOOL_NAMES = (
    INTERPRETER,
    "artifact_jq",
    "artifact_grep",
    "artifact_read",
    "list_artifacts",
    "get_artifact",
    "store_artifact",
    "retrieve_offloaded_content",
)
DEFAULT_TOOLS = (INTERPRETER, "artifact_jq", "artifact_grep", "artifact_read")
FOLLOWERS: Mapping[Form, tuple[str, ...]] = {
    "variables": (*READERS, "get_artifact", "retrieve_offloaded_content"),
    "references": READERS,
    "pointers": (*READERS, "get_artifact", "retrieve_offloaded_content"),
    "previews": (*READERS, "get_artifact", "retrieve_offloaded_content"),
}
"""By the envelope's form, the tools of which one makes `auto` choose an artifact: those that can follow its reference."""
_ONE_GATE: Mapping[str, Any] = {
    "context_percentage": None,
    "min_threshold_bytes": 0,
    "max_threshold_bytes": None,
    "headroom_percentage": 1.0,
    "plaintext": "artifact",
}
"""Of presets whose systems know one limit and nothing else."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is too big, and what happens then.

    Sizes are UTF-8 bytes of what the model would read, tokens are those of the engine's counter. Defaults are the
    reference systems'; `Policy()` is the preset `Policy.variables()`.
    """

    enabled: bool = True
    """False forces pass-through."""
    mode: Mode = "auto"
    """Structured output: `variables` if the interpreter is among the session's tools, else `artifact` if a reader is,
    else `truncate`."""
    plaintext: Plaintext = "auto"
    """Text that is too big: whole while within ceiling and headroom, else truncated."""
    envelope_form: Form = "variables"
    """What an artifact's envelope looks like; the presets of that name set it."""
    context_percentage: float | None = 0.25
    """Per-output gate, as a fraction of the model's window at 4 bytes a token, clamped between the next two; None: off."""
    min_threshold_bytes: int = 4096
    """Below it always inline."""
    max_threshold_bytes: int | None = 1_048_576
    """Above it always offloaded or truncated, however large the window; None: off."""
    headroom_percentage: float = 0.70
    """Too big when it would push the context past this fraction of the window; 1.0 disables."""
    max_result_tokens: int | None = 7_000
    """Too big above it."""
    max_output_bytes: int | None = None
    """Too big at or above it."""
    preview_tokens: int = 1_000
    preview_chars: int = 200
    """Of the preview in a pointer's envelope."""
    envelope_tokens: int | None = None
    """Bound of the whole envelope; None: `preview_tokens` + 200."""
    truncate_tokens: int = 2_500
    errors: Errors = "truncate"
    """A tool's error text is never behind a reference: cut to head and tail above `truncate_tokens`, or always whole."""
    on_storage_failure: OnStorageFailure = "truncate"
    """The turn survives a database that is down, or `StorageFailure` is raised."""
    default_context_window: int = 128_000
    """For a model whose window nobody knows."""
    reply_tokens: int = 4_000
    """Bound of every tool reply."""
    tools: tuple[str, ...] = DEFAULT_TOOLS
    """What `session.tools()` offers."""
    per_tool: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Overrides of any other knob for the outputs of one tool: `{"get_cart": {"enabled": False}}`."""
    max_artifact_bytes: int = 1 << 30
    """A larger payload is truncated, not stored."""
    run_seconds: float = 30.0
    """Wall-clock bound of one run of model-written code."""
    run_cpu_seconds: float = 20.0
    run_memory_bytes: int = 1 << 30
    """Memory a run may use beyond its data."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the knob, the value and what is allowed."""
        _choice("mode", self.mode, get_args(Mode))
        _choice("plaintext", self.plaintext, get_args(Plaintext))
        _choice("errors", self.errors, get_args(Errors))
        _choice("on_storage_failure", self.on_storage_failure, get_args(OnStorageFailure))
        _choice("envelope_form", self.envelope_form, get_args(Form))
        if self.context_percentage is not None:
            _between("context_percentage", self.context_percentage, 0, 1)
        _between("headroom_percentage", self.headroom_percentage, 0, 1)
        _integer("min_threshold_bytes", self.min_threshold_bytes, 0)
        if self.max_threshold_bytes is not None:
            _integer("max_threshold_bytes", self.max_threshold_bytes, 1)
        if self.max_threshold_bytes is not None and self.min_threshold_bytes > self.max_threshold_bytes:
            raise ConfigurationError(
                f"min_threshold_bytes={self.min_threshold_bytes!r} is above "
                f"max_threshold_bytes={self.max_threshold_bytes!r}; the floor must not pass the ceiling"
            )
        for name in ("max_result_tokens", "max_output_bytes"):
            if getattr(self, name) is not None:
                _integer(name, getattr(self, name), 1)
        _integer("preview_tokens", self.preview_tokens, 20)
        _integer("preview_chars", self.preview_chars, 0)
        if self.envelope_tokens is not None:
            _integer("envelope_tokens", self.envelope_tokens, 100)
        _integer("truncate_tokens", self.truncate_tokens, 50)
        _integer("default_context_window", self.default_context_window, 1)
        _integer("reply_tokens", self.reply_tokens, 100)
        _integer("max_artifact_bytes", self.max_artifact_bytes, 1)
        _between("run_seconds", self.run_seconds, 0.01, 3600)
        _between("run_cpu_seconds", self.run_cpu_seconds, 0.01, 3600)
        _integer("run_memory_bytes", self.run_memory_bytes, 16 << 20)
        object.__setattr__(self, "tools", check_tools(self.tools))
        object.__setattr__(self, "per_tool", {tool: dict(knobs) for tool, knobs in self.per_tool.items()})
        for tool, knobs in self.per_tool.items():
            if {"per_tool", "tools"} & knobs.keys():
                raise ConfigurationError(f"per_tool[{tool!r}]: tools and per_tool belong to the session's policy")
            self.for_tool(tool)

    @classmethod
    def variables(cls, **knobs: Any) -> Self:
        """Return the default preset: structured data becomes variables of the code interpreter."""
        return cls()._with(knobs)

    @classmethod
    def references(cls, **knobs: Any) -> Self:
        """Return the preset of tool-output offloading: an artifact with its shape and how to access it, no preview.

        Both gates, no absolute limits. `auto` takes an artifact if `artifact_read`, `artifact_grep` or `artifact_jq` is
        there, else truncates; text is treated as JSON is.
        """
        base = cls(envelope_form="references", plaintext="artifact", max_result_tokens=None, tools=READERS)
        return base._with(knobs)

    @classmethod
    def pointers(cls, **knobs: Any) -> Self:
        """Return the preset of memory pointers: 50 KB and more become a pointer, 200 characters of preview and a note.

        `max_output_bytes` is the only gate; no window is needed.
        """
        tools = ("store_artifact", "get_artifact", "list_artifacts")
        base = cls(envelope_form="pointers", max_result_tokens=None, max_output_bytes=51_200, tools=tools, **_ONE_GATE)
        return base._with(knobs)

    @classmethod
    def previews(cls, **knobs: Any) -> Self:
        """Return the preset of the context offloader: above 2,500 tokens a preview of 1,000 and a reference as text.

        `max_result_tokens` is the only gate.
        """
        tools = ("retrieve_offloaded_content",)
        base = cls(envelope_form="previews", max_result_tokens=2_500, tools=tools, **_ONE_GATE)
        return base._with(knobs)

    def override(self, **knobs: Any) -> Self:
        """Return a copy with these knobs changed."""
        return self._with(knobs)

    def for_tool(self, tool: str) -> Self:
        """Return the policy for one tool's outputs."""
        knobs = self.per_tool.get(tool)
        return self._with({**knobs, "per_tool": {}}) if knobs else self

    @property
    def envelope_budget(self) -> int:
        """Tokens that no envelope exceeds, whatever the input."""
        return self.envelope_tokens if self.envelope_tokens is not None else self.preview_tokens + 200

    def _with(self, knobs: Mapping[str, Any]) -> Self:
        known = [f.name for f in fields(self)]
        for name in knobs:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise ConfigurationError(
                    f"{name!r} is no knob of Policy"
                    + (f"; did you mean {near[0]!r}?" if near else f"; there are {known}")
                )
        return replace(self, **knobs)


def check_tools(tools: object) -> tuple[str, ...]:
    """Return the names as a tuple without repeats; an unknown one is a ConfigurationError."""
    if isinstance(tools, str) or not hasattr(tools, "__iter__"):
        raise ConfigurationError(f"tools={tools!r}: expected a list of names out of {list(TOOL_NAMES)}")
    names = tuple(dict.fromkeys(tools))
    for name in names:
        if name not in TOOL_NAMES:
            raise ConfigurationError(f"tools: {name!r} is unknown; there are {list(TOOL_NAMES)}")
    return names


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name}={value!r}: expected one of {list(allowed)}")


def _between(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigurationError(f"{name}={value!r}: expected a number from {low} to {high}")


def _integer(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{name}={value!r}: expected an integer of at least {least}")
