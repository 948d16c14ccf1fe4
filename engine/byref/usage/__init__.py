"""Token usage of all providers in one form: input includes cached tokens, output includes reasoning, None is unknown."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from byref.errors import ConfigurationError
from byref.usage.formats import ANTHROPIC, INPUTS, MAX_TOKENS, REQUESTS, VERCEL, form_of, is_count, no_count, total
from byref.usage.objects import find, is_name, plain, stream_of

__all__ = ["MAX_EVENTS", "MAX_TOKENS", "Usage", "is_count", "normalise"]

MAX_EVENTS = 500_000
"""Events that are read of one stream; more than one per token of the longest answer."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request to a model.

    `input_tokens` includes cached tokens, `output_tokens` includes reasoning. None means unknown, not zero.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    model: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The usage as the provider gave it, as JSON values."""
    cache_write_1h_tokens: int | None = None
    """The part of `cache_write_tokens` that is cached for an hour, which costs more."""
    requests: int = 1
    """Number of requests; more than one if a framework reports the sum over a run."""
    input_audio_tokens: int | None = None
    """The part of `input_tokens` that is audio, which may cost more."""
    cache_read_audio_tokens: int | None = None
    """The part of `cache_read_tokens` that is audio."""
    rounds: tuple[Usage, ...] = ()
    """What the provider did for this one request, one after the other, each with a price of its own: rounds of its own tools, a
    compaction. Empty if it was one."""
    context: Usage | None = None
    """What the context is after this request, where that is not its input and output: the last of its rounds."""

    @property
    def context_tokens(self) -> int | None:
        """The fewest tokens that the next request can have: this one's input and output; None if the input is unknown.

        Also None for a sum over several requests, which says nothing about the size of the context.
        """
        if self.context is not None:
            return self.context.context_tokens
        if self.input_tokens is None or self.requests != 1:
            return None
        return self.input_tokens + (self.output_tokens or 0)


def normalise(usage: object) -> Usage:
    """Return the usage of one request in byref's form.

    Accepts usage objects and mappings of OpenAI (Chat, Responses), Anthropic, Gemini, Bedrock Converse, LangChain, Pydantic AI,
    the Vercel SDK (`ai`) and CrewAI, byref's own `Usage`, a response or event that carries one of them, and an iterable of the events of one
    stream.

    Anthropic and Bedrock do not include cached tokens in the input, all others do. Both Anthropic and OpenAI's Responses
    call the input `input_tokens`: it is taken to include cached tokens if `input_tokens_details`, `input_token_details`,
    `cache_read_tokens` or `cache_write_tokens` is present. Where a total shows that reasoning is not in the output (xAI), or that
    cached tokens are in the input (Strands with OpenAI's models), it counts. Anthropic's `iterations` become `rounds`. An
    input of 0 beside another count is unknown, because no request has one; a `Usage` is taken as it is.

    Raises:
        ConfigurationError: the value has no token counts, a count is not a valid number, or a stream carries no usage, is
            longer than `MAX_EVENTS` or belongs to several requests. Exceptions of a stream's iterator are not caught.
    """
    if isinstance(usage, Usage):
        _check(usage)
        return replace(usage, raw=plain(usage.raw))
    if isinstance(usage, AsyncIterable) and not isinstance(usage, Iterable):
        raise ConfigurationError("usage: an asynchronous stream; give the list of its events, read with `async for`")
    if (events := stream_of(usage)) is not None:
        return _stream(events)
    found = find(usage)
    if found is None:
        raise ConfigurationError(
            f"usage: {type(usage).__name__!r} has no token counts that byref knows; expected a response, the events of "
            "a stream or the usage of OpenAI, Anthropic, Gemini, Bedrock, LangChain or Pydantic AI, or "
            "byref.Usage(input_tokens=…, output_tokens=…). A chunk of a stream may have none: give all of them"
        )
    return _counted(_normal(found.fields, found.model))


_RUNS: Final = ("lc_", "run-")
"""Beginnings of the ids that LangChain makes itself: of the chunks of one request some have such a one, some the provider's."""


def _stream(events: Iterable[object]) -> Usage:
    fields: dict[str, Any] = {}
    model: str | None = None
    ids: dict[bool, str] = {}
    seen = whole = 0
    for event in islice(events, MAX_EVENTS + 1):
        seen += 1
        found = find(event)
        if found is None:
            continue
        whole += found.is_whole or isinstance(event, Usage)
        if whole > 1:
            raise ConfigurationError(
                "usage: a stream with the whole usage of more than one request; record each request by itself"
            )
        if found.response_id:
            is_own = found.is_part and found.response_id.startswith(_RUNS)
            before = ids.setdefault(is_own, found.response_id)
            if before != found.response_id:
                raise ConfigurationError(
                    f"usage: a stream with events of {before!r:.100} and of {found.response_id!r:.100}; expected those "
                    "of one request: record each request by itself"
                )
        fields = _added(fields, found.fields) if found.is_part else _updated(fields, found.fields)
        model = found.model or model
    if seen > MAX_EVENTS:
        raise ConfigurationError(f"usage: a stream of more than {MAX_EVENTS:,} events; expected those of one request")
    if not fields:
        raise ConfigurationError(
            f"usage: none of the {seen:,} events of the stream carries usage. OpenAI Chat and its likes send it in the "
            'last chunk if asked: stream_options={"include_usage": True}; Anthropic in message_start and message_delta, '
            "OpenAI Responses in response.completed, Bedrock in metadata, Gemini in every chunk: keep those events"
        )
    return _counted(_normal(fields, model))


def _counted(usage: Usage) -> Usage:
    """Return usage with an input of 0 as unknown, if another count says that there was a request."""
    is_counted = any(getattr(usage, name) for name in _SUMMED)
    return replace(usage, input_tokens=usage.input_tokens or None) if is_counted else usage


def _normal(fields: dict[str, Any], model: str | None) -> Usage:
    form = form_of(fields)
    fresh, made, read, write = (
        total(fields, part) for part in (form.input, form.output, form.cache_read, form.cache_write)
    )
    cached = (read or 0) + (write or 0)
    # Version 5 of the Vercel SDK gives some providers' input without them.
    is_apart = form.cached_apart or (form is VERCEL and fresh is not None and cached > fresh)
    whole = fields.get(form.total)
    if is_count(whole) and fresh and made is not None:
        if not is_apart:
            made = max(made, whole - fresh)
        elif whole == fresh + made and cached <= fresh:
            cached = 0
    requests = total(fields, REQUESTS)
    found = Usage(
        input_tokens=None if fresh is None else fresh + (cached if is_apart else 0),
        output_tokens=made,
        cache_read_tokens=read,
        cache_write_tokens=write,
        model=model,
        raw=fields,
        cache_write_1h_tokens=total(fields, form.cache_write_1h),
        requests=1 if requests is None else requests,
        input_audio_tokens=total(fields, form.audio),
        cache_read_audio_tokens=total(fields, form.cache_read_audio),
    )
    _check(found)
    entries = fields.get("iterations") if form is ANTHROPIC else None
    return _in_rounds(found, [one for one in entries if isinstance(one, dict)]) if isinstance(entries, list) else found


_MESSAGES: Final = ("message", "fallback_message")
"""Iterations whose tokens Anthropic counts in the usage itself; a compaction's and an advisor's are beside it."""


def _in_rounds(usage: Usage, entries: Sequence[dict[str, Any]]) -> Usage:
    """Return Anthropic's usage with what its iterations say: what came beside it, what the context is, and the price of each."""
    models = (one.get("model") for one in entries)
    each = [
        _normal(one | {"iterations": None}, model if is_name(model) else None)
        for one, model in zip(entries, models, strict=True)
    ]
    messages = [one for one, entry in zip(each, entries, strict=True) if entry.get("type") in _MESSAGES]
    beside = [one for one, entry in zip(each, entries, strict=True) if entry.get("type") not in _MESSAGES]
    if len(each) < 2 and not beside:
        return usage
    is_all = all(_sum(messages, name) == _sum([usage], name) for name in _SUMMED)
    sums: dict[str, Any] = {name: _sum((usage, *beside), name) for name in _SUMMED if getattr(usage, name) is not None}
    found = replace(
        usage,
        **sums,
        rounds=(*(messages if is_all else [replace(usage, raw={})]), *beside),
        # Without some of the messages nobody knows which the last one was.
        context=messages[-1] if messages and (is_all or entries[-1].get("type") == "fallback_message") else Usage(),
    )
    _check(found)
    return found


_SUMMED: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
    *("input_audio_tokens", "cache_read_audio_tokens"),
)


def _sum(usages: Iterable[Usage], name: str) -> int:
    return sum(getattr(one, name) or 0 for one in usages)


def _check(usage: Usage) -> None:
    """Check the fields of a usage: a caller may have set them, and sums may have grown too large."""
    for name in _SUMMED:
        value = getattr(usage, name)
        if value is not None and not is_count(value):
            raise no_count(name, plain(value))
    if not isinstance(usage.rounds, tuple):
        raise ConfigurationError(f"usage: rounds={plain(usage.rounds)!r:.100}: expected a tuple of byref.Usage")
    for one in (*usage.rounds, *(() if usage.context is None else (usage.context,))):
        if not isinstance(one, Usage) or one.rounds or one.context is not None:
            raise ConfigurationError(f"usage: {one!r:.100}: expected a byref.Usage, of one round")
        _check(one)
    if not is_count(usage.requests):
        raise no_count("requests", plain(usage.requests))
    if not isinstance(usage.raw, Mapping):
        raise ConfigurationError(f"usage: raw={plain(usage.raw)!r:.100}: expected the mapping that the provider gave")
    if usage.model is not None and not is_name(usage.model):
        raise ConfigurationError(f"usage: model={plain(usage.model)!r:.100}: expected its name, or None")


def _updated(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the old fields overwritten by the new ones that are known, which an input of 0 is not."""
    known = {name: value for name, value in new.items() if value is not None and (value != 0 or name not in INPUTS)}
    return new | old | known


def _added(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with counts added up; other fields are overwritten by the new ones."""
    added = _updated(old, new)
    for name, value in new.items():
        before = old.get(name)
        if is_count(before) and is_count(value):
            added[name] = before + value
        elif isinstance(before, dict) and isinstance(value, dict):
            added[name] = _added(before, value)
    return added
