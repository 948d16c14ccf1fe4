"""Estimate the tokens of the next request: the provider's count of the last one, plus our calibrated count of what came since.

Tokenizers differ by up to a third on the same text, and a counter of characters differs by a factor of several. The growth of
a request's input is the provider's count of the texts that were pending; comparing it with our count, a session learns how
many of the provider's tokens one of ours is.
"""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_TOKENS = 2_000
"""A session begins as if both had counted this many tokens, so that a first small observation changes the factor only a little."""
MEMORY_TOKENS = 8_000
"""Most tokens with which earlier observations weigh against a new one, so that a change of model is learned."""
LEAST_TOKENS = 500
"""Fewer pending tokens teach nothing: the wrapping of messages, and the user's own text, outweigh them."""
MOST_GROWTH = 4
"""If the context grew by more than this many times our count, something else was added: a document the user pasted."""
MOST_FACTOR = 3
"""Largest calibration factor; the smallest is 1/2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A session's context at one moment."""

    base: int
    """Tokens of the last context-setting usage (input + output) or compaction."""
    base_output: int | None
    """How many of these tokens are output, reasoning included; None if no provider counted the base."""
    pending: int
    """Tokens of the outputs and replies since then, by our count."""
    reported: int
    estimated: int
    """Tokens of the same texts, as providers reported and as we estimated them; `reported / estimated` is the factor."""

    @property
    def calibration(self) -> float:
        """The factor: how many of the provider's tokens one of ours is."""
        return self.reported / self.estimated

    @property
    def context(self) -> int:
        """Estimated tokens of the next request."""
        return self.base + self._calibrated(self.pending)

    def expected(self, tokens: int) -> int:
        """Return what `tokens` more, by our count, add to the context.

        It is the difference of two rounded sums, so that texts add the same in pieces as together, and the context becomes
        exactly what the headroom gate expected.
        """
        return self._calibrated(self.pending + tokens) - self._calibrated(self.pending)

    def learned(self, *, settled: int, sent: int) -> tuple[int, int] | None:
        """Return the new `reported` and `estimated` after a request; None if it teaches nothing.

        `sent` is the request's whole input by the provider's count, `settled` its part that was pending, by our count.

        Reasoning is part of the last output, but mostly not sent again, so the input may have grown by less than what was
        pending. So the true growth is between the growth and the growth plus the last output; the value in this range that
        is nearest to our expectation is taken.
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
