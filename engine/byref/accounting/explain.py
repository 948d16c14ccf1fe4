"""Explain, in numbers and in a sentence, why an output took its route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from byref.accounting.ledger import Entry
from byref.policy.routes import Route

_BECAUSE = {
    "disabled": "the policy is switched off",
    "own_tool": "it is a reply of one of the session's own tools, which are bounded already",
    "error": "it is an error, which is never put behind a reference; {value:,} tokens, at most {limit:,} pass whole",
    "max_result_tokens": "its {value:,} tokens are more than max_result_tokens={limit:,}",
    "max_output_bytes": "its {value:,} bytes reach max_output_bytes={limit:,}",
    "below_floor": "its {value:,} bytes are below min_threshold_bytes={limit:,}",
    "above_ceiling": "its {value:,} bytes are above max_threshold_bytes={limit:,}",
    "context_percentage": "its {value:,} bytes are above the per-output threshold of {limit:,}",
    "headroom": "the context would have grown to {value:,} tokens, past the headroom limit of {limit:,}",
    "fits": "its {value:,} {unit} are within the per-output threshold of {limit:,}",
    "tables": "a model reads nothing of its {value:,} bytes, but its tables were read",
    "not_smaller": "what would have stood for it was no smaller",
    "not_storable": "its bytes are elsewhere, or its type is not known, so that nothing could be stored",
    "max_artifact_bytes": "it is larger than max_artifact_bytes allows to be stored",
    "max_session_bytes": "with it the session would store {value:,} bytes, past max_session_bytes={limit:,}",
    "max_tenant_bytes": "with it the tenant would store {value:,} bytes, past max_tenant_bytes={limit:,}",
    "storage_failure": "the database was away",
    "reply": "replies of the session's own tools are bounded, and never put behind a reference",
}


_PROSE = "not a JSON object or array"
"""The reason why most text is plaintext; it is left out of explanations, because it would only puzzle."""
_NUMBERS = (
    *("value", "limit", "unit", "context", "calibration", "headroom_limit", "byte_threshold", "window", "per_output"),
    *("plaintext", "omitted_bytes", "blocks", "mapper", "seen", "unkept", "variables"),
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision: the rule, the numbers that it compared, and the tokens saved. `str()` of it is a sentence."""

    step: int
    tool: str
    call_id: str | None
    route: str
    reason: str
    numbers: Mapping[str, Any]
    """`value`, `limit` and `unit`: what the rule compared; `context`, `headroom_limit`, `byte_threshold` and `window`: at that
    time; `plaintext`: why text was not structured; `per_output`: the result of the per-output gate, if another rule decided;
    `mapper`: the result of the tool's mapper; `blocks`: their number; `omitted_bytes`: bytes that truncation left out;
    `seen`: the step whose equal text the context still holds; `unkept`: the quota because of which a text that passed was
    not stored; `variables`: the names that were bound to its data."""
    original_tokens: int
    tokens: int
    tokens_saved: int

    def __str__(self) -> str:
        """Return the explanation in a few sentences."""
        because = _BECAUSE.get(self.reason, self.reason).format_map(
            {"value": 0, "limit": 0, "unit": "bytes", **self.numbers}
        )
        explained = Route(self.route).explained.format(route=self.route, because=because)
        text = f"{self.tool} (step {self.step}): {explained}"
        if (seen := self.numbers.get("seen")) is not None:
            text += f" The context still holds the same text from step {seen}: a notice alone stands for it."
        if unkept := self.numbers.get("unkept"):
            text += f" What passes is not stored: {unkept} leaves no room."
        plaintext = self.numbers.get("plaintext")
        if plaintext and plaintext != _PROSE:
            text += f" It was taken as plaintext: {plaintext}."
        if mapper := self.numbers.get("mapper"):
            text += f" Mapper: {mapper}."
        saved = f", {self.tokens_saved:,} saved" if self.tokens_saved else ""
        text += f" {self.original_tokens:,} tokens came, {self.tokens:,} went to the model{saved}."
        if Route(self.route).passes_whole and (names := self.numbers.get("variables")):
            text += f" It is stored, too, as {', '.join(names)}."
        if {"context", "window"} <= self.numbers.keys():
            text += f" The context held {self.numbers['context']:,} of {self.numbers['window']:,} tokens."
        if (factor := self.numbers.get("calibration", 1)) != 1:
            text += f" The provider counts {factor:.2f} tokens to one of ours."
        return text


def explanation(entry: Entry) -> Explanation:
    """Return the explanation of an output's or reply's entry."""
    return Explanation(
        step=entry.step,
        tool=entry.tool or entry.kind,
        call_id=entry.call_id,
        route=entry.route or "inline",
        reason=entry.reason or entry.kind,
        numbers={key: entry.detail[key] for key in _NUMBERS if key in entry.detail},
        original_tokens=entry.original_tokens if entry.original_tokens is not None else entry.tokens,
        tokens=entry.tokens,
        tokens_saved=entry.tokens_saved,
    )
