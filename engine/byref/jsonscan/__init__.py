"""JSON and text read without holding, or without parsing, all of it: the one door to it.

- `Scanner` reads a stream once, in bounded memory, and returns a `Scanned`: what it is, its schema, its ends.
- `describe_text` does the same for JSON text in memory, without parsing most of it: a `Described`, or None.
- `LazyJSON` is JSON text of a run of code, described as far as somebody asks.
- `parse` returns the value of JSON text, and `chunks` encodes, weighs and frees big payloads: both do it chunk by chunk, so
  that other threads get their turn in between. `parse_chunked` refuses where it cannot.

What stands behind the first three, and why it is exact: docs/decisions/matching-json.md.
"""

from byref.jsonscan import chunks
from byref.jsonscan.lazy import LazyJSON
from byref.jsonscan.memory import Described, describe_text
from byref.jsonscan.parsing import parse, parse_chunked
from byref.jsonscan.scanner import Scanned, Scanner

__all__ = ["Described", "LazyJSON", "Scanned", "Scanner", "chunks", "describe_text", "parse", "parse_chunked"]
