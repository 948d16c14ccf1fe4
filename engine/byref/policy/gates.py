"""The two gates: is this output too big by itself, and would it push the context past its limit?

Pure arithmetic. The order of the rules is: disabled, own tool, error, absolute limits, floor, ceiling, percentage, headroom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from byref.policy import Policy

BYTES_PER_TOKEN = 4
"""Bytes per token, to convert a window in tokens into a threshold in bytes."""

_ROUNDING = 1e-6
"""Added before a share is rounded down: 0.7 has no exact float, and yet 0.7 of 100,000 has to be 70,000."""

Reason = Literal[
    "disabled",
    "own_tool",
    "error",
    "max_result_tokens",
    "max_output_bytes",
    "below_floor",
    "above_ceiling",
    "context_percentage",
    "headroom",
    "fits",
    "tables",
    "not_smaller",
    "not_storable",
    "max_artifact_bytes",
    "max_session_bytes",
    "max_tenant_bytes",
    "storage_failure",
]
"""The rule that decided an output's route. `tables`: it is a document of which a model could read nothing but its tables. `not_smaller`: the replacement would have been no smaller than the output.
`not_storable`: the output is a block whose bytes are elsewhere, or of an unknown type."""

Unit = Literal["bytes", "tokens"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate's answer, the rule that decided, and the numbers that it compared. If everything fits, they are those of the
    nearest limit.
    """

    fits: bool
    reason: Reason
    value: int = 0
    limit: int = 0
    unit: Unit = "bytes"


def media_tokens(policy: Policy, *, is_image: bool, size: int) -> int:
    """Return the tokens of an image or document of so many bytes that the model sees natively.

    An image counts what providers scale it down to; a document counts about what its bytes do.
    """
    return policy.image_tokens if is_image and policy.image_tokens is not None else -(-size // BYTES_PER_TOKEN)


def byte_threshold(policy: Policy, window: int) -> int | None:
    """Return the largest number of bytes that passes the per-output gate; None if the gate does not look at bytes."""
    ceiling = policy.max_threshold_bytes
    if policy.context_percentage is None:
        return ceiling
    share = math.floor(window * policy.context_percentage * BYTES_PER_TOKEN + _ROUNDING)
    return max(policy.min_threshold_bytes, share if ceiling is None else min(share, ceiling))


def headroom_limit(policy: Policy, window: int) -> int | None:
    """Return the largest context, in tokens, that outputs may fill; None if the gate is off."""
    return None if policy.headroom_percentage >= 1.0 else math.floor(window * policy.headroom_percentage + _ROUNDING)


def per_output(
    policy: Policy, *, size: int, tokens: int, window: int, is_error: bool = False, own_tool: bool = False
) -> Verdict:
    """Judge an output by itself. `size` is in UTF-8 bytes; `own_tool` marks a reply of one of the session's bounded tools."""
    if not policy.enabled:
        return Verdict(True, "disabled", size)
    if own_tool:
        return Verdict(True, "own_tool", size)
    if is_error:
        limit = policy.truncate_tokens
        return Verdict(policy.errors == "inline" or tokens <= limit, "error", tokens, limit, "tokens")
    if policy.max_result_tokens is not None and tokens > policy.max_result_tokens:
        return Verdict(False, "max_result_tokens", tokens, policy.max_result_tokens, "tokens")
    if policy.max_output_bytes is not None and size >= policy.max_output_bytes:
        return Verdict(False, "max_output_bytes", size, policy.max_output_bytes)
    if size < policy.min_threshold_bytes:
        return Verdict(True, "below_floor", size, policy.min_threshold_bytes)
    if policy.max_threshold_bytes is not None and size > policy.max_threshold_bytes:
        return Verdict(False, "above_ceiling", size, policy.max_threshold_bytes)
    threshold = byte_threshold(policy, window)
    if threshold is not None and size > threshold:
        return Verdict(False, "context_percentage", size, threshold)
    limits: tuple[tuple[int, int | None, Unit], ...] = (
        (size, threshold, "bytes"),
        (size, policy.max_output_bytes, "bytes"),
        (tokens, policy.max_result_tokens, "tokens"),
    )
    passed = [Verdict(True, "fits", value, limit, unit) for value, limit, unit in limits if limit is not None]
    nearest = max(passed, key=lambda verdict: verdict.value / max(verdict.limit, 1), default=None)
    return nearest or Verdict(True, "fits", tokens, window, "tokens")


def headroom(policy: Policy, *, tokens: int, context: int, window: int) -> Verdict:
    """Judge whether `tokens` more fit into the context."""
    limit = headroom_limit(policy, window)
    total = context + tokens
    if limit is None:
        return Verdict(True, "fits", total, window, "tokens")
    return Verdict(total <= limit, "fits" if total <= limit else "headroom", total, limit, "tokens")
