"""Big payloads encoded, parsed and freed in slices, so that other threads get their turn in between.

One call of a C function keeps the interpreter's lock until it returns: half a second for parsing 50 MB of JSON. A slice
takes a few milliseconds.
"""

from byref.jsonscan.chunks import sizes
from byref.jsonscan.chunks.parsing import parse, parse_chunked
from byref.jsonscan.chunks.text import decode, encode, holds, joined, line_feeds, pieces, size, unbroken
from byref.jsonscan.chunks.weights import free, is_heavy, runs

__all__ = [
    "decode",
    "encode",
    "free",
    "holds",
    "is_heavy",
    "joined",
    "line_feeds",
    "parse",
    "parse_chunked",
    "pieces",
    "runs",
    "size",
    "sizes",
    "unbroken",
]
