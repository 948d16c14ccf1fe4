"""Big payloads encoded, parsed and freed in slices, so that other threads get their turn in between.

One call of a C function keeps the interpreter's lock until it returns: half a second for parsing 50 MB of JSON. A slice
takes a few milliseconds.
"""

from byref.slices import sizes
from byref.slices.parsing import parse, parse_sliced
from byref.slices.text import decode, encode, holds, joined, line_feeds, pieces, size, unbroken
from byref.slices.weights import free, is_heavy, runs

__all__ = [
    "decode",
    "encode",
    "free",
    "holds",
    "is_heavy",
    "joined",
    "line_feeds",
    "parse",
    "parse_sliced",
    "pieces",
    "runs",
    "size",
    "sizes",
    "unbroken",
]
