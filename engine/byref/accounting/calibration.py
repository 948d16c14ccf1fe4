"""What the next request carries: the provider's own count of the last one, and our counts since, calibrated by its counts.

Providers' tokenizers differ, and ours is one of them: on the same text they are up to a third apart, a counter of
characters several times. What a request's input has grown by is what was pending, as the provider counts it; a session
learns from that how many of its tokens one of ours is.
"""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_TOKENS = 2_000
"""A session begins as if this many tokens had been counted alike: a first small observation moves it only part of the way."""
MEMORY_TOKENS = 8_000
"""What was observed before weighs at most this many tokens against an observation, so that a change of model is learned."""
LEAST_TOKENS = 500
"""Less pending teaches nothing: the wrapping of messages, and what the user wrote, outweigh it."""
MOST_GROWTH = 4
"""A context that grew by more than this many times our count has something else in it: a document the user pasted."""
MOST_FACTOR = 3
"""The factor is from 1/2 to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A session's context at one moment."""

    base: int
    """Tokens of the last context-setting usage (input + output) or compaction."""
    base_output: int | None
    """How many of them the model wrote, reasoning included; None where no provider counted the base."""
    pending: int
    """Tokens of the outputs and replies since, as our counter counts."""
    reported: int
    estimated: int
    """What providers counted where we counted so many: their quotient is the factor."""

    @property
    def calibration(self) -> float:
        """The provider's tokens in one of ours."""
        return self.reported / self.estimated

    @property
    def context(self) -> int:
        """Tokens that the next request carries."""
        return self.base + self._calibrated(self.pending)

    def expected(self, tokens: int) -> int:
        """Return what `tokens` more, by our count, add to the context.

        It is the difference of two rounded sums: whatever is added in whatever pieces, the context is what the gate saw.
        """
        return self._calibrated(self.pending + tokens) - self._calibrated(self.pending)

    def learned(self, *, settled: int, sent: int) -> tuple[int, int] | None:
        """Return `reported` and `estimated` after a request; None where it teaches nothing.

        `sent` is its whole input as the provider counted it, `settled` what was pending of it by our count.

        Reasoning is part of an output and mostly not sent again, so the input may have grown by less than what was
        pending: between the growth and the growth plus the output, what is nearest to our expectation is believed.
        """
        growth = sent - self.base
        if self.base_output is None or settled < LEAST_TOKENS or not 0 < growth <= MOST_GROWTH * settled:
            return None
        believed = min(max(growth, self._calibrated(settled)), growth + self.base_output)
        kept = min(self.estimated, MEMORY_TOKENS)
        reported, estimated = self.reported * kept // self.estimated + believed, kept + settled
        return min(max(reported, -(-estimated // 2)), MOST_FACTOR * estimated), estimated

    def _calibrated(self, tokens: int) -> int:
        return -(-tokens * self.reported // self.estimated)
