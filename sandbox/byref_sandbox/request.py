"""From what the host asks to what goes over the wire: limits, names, payloads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal

from byref_sandbox import data, wire
from byref_sandbox.data import Load
from byref_sandbox.language.source import free_names
from byref_sandbox.outcome import Limits

MAX_OUTPUTS: Final = wire.MAX_FRAMES - 2
_MAX_NAMES: Final = 10_000
_FRAME_CALL: Final = re.compile(r"\bdf\(\s*[\"']?\$?(\w+)")


def code_request(
    mode: Literal["code", "raw"],
    code: str,
    variables: Mapping[str, object],
    limits: Limits,
    without: tuple[str, ...] = (),
) -> tuple[wire.Request, list[Load]]:
    """The request for a run of Python, with only those variables that the code names; raises TypeError, ValueError."""
    if len(variables) > _MAX_NAMES:
        raise ValueError(f"{len(variables):,} variables; at most {_MAX_NAMES:,} can be bound")
    for name in variables:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"variable name {name!r} is no Python identifier")
    frames = _FRAME_CALL.findall(code)
    wanted = free_names(code).union(frames)
    payloads: list[wire.Payload] = []
    loads: list[Load] = []
    bound: list[wire.Variable] = []
    by_key: dict[tuple[str, str], int] = {}
    for name, value in variables.items():
        if name not in wanted:
            continue
        payload, load, path, frame = _payload(name, value)
        index = by_key.get((payload.key, payload.content_type)) if payload.inline is None else None
        if index is None:
            index = len(payloads)
            payloads.append(payload)
            loads.append(load)
            if payload.inline is None:
                by_key[payload.key, payload.content_type] = index
        bound.append(wire.Variable(name, index, path, frame))
    request = wire.Request(
        mode=mode,
        source=_encodable(code),
        terms=_terms(limits),
        payloads=payloads,
        variables=bound,
        frames=frames,
        names=list(variables),
        without=list(without),
    )
    return request, loads


def jq_request(
    mode: Literal["jq", "pick"], program: str, value: object, limits: Limits, max_outputs: int, max_bytes: int
) -> tuple[wire.Request, list[Load]]:
    """The request for a jq program over one value; raises TypeError, ValueError."""
    if max_outputs < 1 or max_bytes < 1:
        raise ValueError(f"max_outputs is {max_outputs}, max_bytes is {max_bytes}; both must be positive")
    payload, load, path, _ = _payload("input", value)
    request = wire.Request(
        mode=mode,
        source=_encodable(program),
        terms=_terms(limits),
        payloads=[payload],
        variables=[wire.Variable("input", 0, path, False)],
        max_outputs=min(max_outputs, MAX_OUTPUTS),
        max_output_bytes=min(max_bytes, limits.result_bytes),
    )
    return request, [load]


def _payload(name: str, value: object) -> tuple[wire.Payload, Load, bytes, bool]:
    """The payload of a value, how to load it, its path, and whether it is a DataFrame."""
    if isinstance(value, data.Data):
        return wire.Payload(value.key, value.content_type), value.load, json.dumps(value.path).encode(), value.frame
    content_type, inline, frame = data.encode(name, value)
    return wire.Payload("", content_type, inline), lambda: inline, b"[]", frame


def _terms(limits: Limits) -> wire.Terms:
    for name in ("wall_seconds", "cpu_seconds", "memory_bytes", "stdout_bytes", "result_bytes"):
        value = getattr(limits, name)
        if not 0 < value < float("inf"):
            raise ValueError(f"limit {name} is {value!r}; expected a positive, finite number")
    return wire.Terms(
        float(limits.wall_seconds),
        float(limits.cpu_seconds),
        int(limits.memory_bytes),
        int(limits.stdout_bytes),
        int(limits.result_bytes),
    )


def _encodable(source: str) -> str:
    """Lone surrogates as escapes, which mean the same inside a string literal and are refused elsewhere."""
    return source.encode("utf-8", "backslashreplace").decode()
