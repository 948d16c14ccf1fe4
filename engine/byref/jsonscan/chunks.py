"""Encodes, weighs and frees big payloads chunk by chunk, so that other threads can run between two chunks.

A C function keeps the interpreter's lock until it returns. Freeing the objects that a parser made of 50 MB takes as long as parsing
did. A chunk takes a few milliseconds.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar

T = TypeVar("T")

BIG: Final = 1 << 20
"""Characters or bytes above which work is done in chunks."""
CHUNK: Final = 1 << 19
"""Characters or bytes that are encoded or searched at once."""
COPIED: Final = 1 << 24
"""Characters or bytes that are copied at once: copying is faster than encoding."""
_MOSTLY_ASCII: Final = 1 << 14
"""Characters of other text than ASCII that are encoded, or bytes that are decoded, at once. Most such pieces are ASCII after all."""
ITEMS: Final = 1 << 13
"""Most members that are encoded or freed at once."""
_SEARCHED: Final = 1 << 16
"""Bytes above which a search by RE2 is faster than one by `bytes`, its call included."""
_SAMPLES: Final = 8
"""Minimum number of members that are looked at to weigh a value or a run; the maximum is twice as many."""
_BUDGET: Final = 32
"""Approximate number of arrays and objects that are looked into for one weight."""
_WEIGHED: Final = 64
"""Most members of an object that are weighed thoroughly before they are freed."""
_LOOKED_AT: Final = 1 << 10
"""Most members of an object that are looked at before they are freed: of more nearly all are light, and a look takes as long as freeing."""
_SCALAR: Final = 8
"""Weight of a number, and of a member's punctuation."""
_BY_LENGTH: Final = frozenset({bytes, list, dict, tuple})
"""Types of members, beside text, whose weights differ."""
_DEEP: Final = 32
"""Most levels of a value that are entered to free it."""


def pieces(text: str) -> Iterator[str]:
    """Yield text in pieces."""
    for at in range(0, len(text), CHUNK):
        yield text[at : at + CHUNK]


def joined(parts: Iterable[str]) -> str:
    """Return the parts as one text.

    CPython extends a string in place if nothing else refers to it, so each step copies one part. `str.join` would copy all parts in
    one call, with the lock held.
    """
    text = ""
    for part in parts:
        text += part
    return text


def encode(text: str) -> bytes:
    """Return text in UTF-8; raise UnicodeEncodeError for a lone surrogate."""
    if len(text) <= (COPIED if text.isascii() else _MOSTLY_ASCII):
        return text.encode()
    made, size = (
        io.BytesIO(),
        CHUNK if text.isascii() else _MOSTLY_ASCII,
    )  # it grows in place: joining would hold all parts beside the whole
    for at in range(0, len(text), size):
        made.write(text[at : at + size].encode())
    return made.getvalue()


def size(text: str) -> int:
    """Return the number of bytes that the text has in UTF-8; half of a surrogate pair counts as three."""
    return len(text) if text.isascii() else sum(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces(text))


def characters(data: bytes) -> int:
    """Return the number of characters in UTF-8, which are not made into a text; raise UnicodeDecodeError."""
    if data.isascii():
        return len(data)
    count, start = 0, 0
    while start < len(data):
        end = start + _MOSTLY_ASCII
        # A character has at most three bytes behind its first one; where there are more, decoding says so.
        while end - start < _MOSTLY_ASCII + 3 and end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        piece = data[start:end]
        count += len(piece) if piece.isascii() else len(piece.decode())
        start = end
    return count


def decode(data: bytes, errors: str = "strict") -> str:
    """Return UTF-8 as text; raise UnicodeDecodeError, unless `errors` is "replace"."""
    if len(data) <= BIG:
        return data.decode("utf-8", errors)
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    return joined(decoder.decode(data[at : at + CHUNK], at + CHUNK >= len(data)) for at in _steps(data))


def unbroken(data: bytes) -> str:
    """Return UTF-8 as text without its line feeds."""
    if len(data) <= COPIED:
        return data.replace(b"\n", b"").decode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    return joined(decoder.decode(data[at : at + CHUNK].replace(b"\n", b"")) for at in _steps(data))


def line_feeds(data: bytes) -> int:
    """Return how many line feeds there are."""
    spans = ((at, at + CHUNK) for at in _steps(data))
    # Finding none is faster than counting them.
    return sum(data.count(b"\n", *span) if data.find(b"\n", *span) >= 0 else 0 for span in spans)


def holds(data: bytes, *words: bytes) -> bool:
    """Tell whether one of the words is in the data."""
    return any(word in data for word in words) if len(data) < _SEARCHED else _search(*words)(data) is not None


@cache
def _search(*words: bytes) -> Callable[[bytes], object]:
    """Return RE2's search for words: several times as fast as `bytes.find`, and without the lock."""
    import re2

    return re2.compile(b"|".join(map(re2.escape, words))).search  # type: ignore[no-any-return]


def _steps(data: bytes) -> range:
    return range(0, len(data), CHUNK)


def is_heavy(value: object) -> bool:
    """Tell whether a value's JSON is longer than one chunk, by an estimate."""
    return weight(value) > CHUNK


def runs(members: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the members in runs of about one chunk, by the weight of samples; a heavy member that is sampled is its own run."""
    at, count = 0, 2 * _SAMPLES
    while at < len(members):
        run = members[at : at + count]
        # Estimated by the mean of the samples, a run has one chunk. If it has more, it is halved and sampled again, so that one
        # heavy member among light ones does not make all runs short: that one ends up alone.
        samples = run[:: len(run) // _SAMPLES or 1]
        fitting = CHUNK * len(samples) // sum(map(weight, samples)) or 1
        if fitting < len(run) and count > 1:
            count = max(1, min(fitting, count // 2))
            continue
        yield run
        at += len(run)
        count = min(fitting, count * 2, ITEMS)


def free(value: object, depth: int = 0) -> None:
    """Empty the big lists and dicts of a value that nobody needs any more, a chunk at a time.

    If the last reference to a value of millions of objects went, CPython would free them all in one call, with the lock held.
    """
    if type(value) is list:
        while value and (heft := weight(value)) > BIG:
            count = max(1, min(len(value) * CHUNK // heft, ITEMS))
            if count == 1 and depth < _DEEP:
                free(value[-1], depth + 1)
            del value[-count:]
    elif type(value) is dict:
        while len(value) > _LOOKED_AT:
            # One at a time, so that other threads have their turn in between: a loop in C holds all of them up.
            value.popitem()
        if depth < _DEEP and weight(value) > BIG:
            for member in value.values():
                # Of many members nearly all are light, and one look at each tells which are not.
                if len(value) <= _WEIGHED or weight(member, 1) > CHUNK // _WEIGHED:
                    free(member, depth + 1)


def weight(value: Any, budget: int = _BUDGET) -> int:
    """Estimate the length of a value's JSON from some of its members; the result is above 0."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) + _SCALAR
    if kind is not list and kind is not dict and kind is not tuple:
        return 2 * _SCALAR
    if not value:
        return 2
    if not budget:
        return _SCALAR * (1 + len(value))
    members = value.values() if kind is dict else value[:: len(value) // _SAMPLES or 1]
    total, count = 0, min(len(members), 2 * _SAMPLES)
    inner: list[Any] = []
    for member in islice(members, count):
        kind = type(member)
        if kind is str:
            total += len(member) + _SCALAR
        elif kind in _BY_LENGTH:
            inner.append(member)
        else:
            total += 2 * _SCALAR
    if inner:
        budget = (budget - 1) // min(len(inner), _SAMPLES)
        total += sum(weight(member, budget) for member in inner)
    return _SCALAR + total * len(value) // count
