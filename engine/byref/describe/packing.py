"""JSON Schemas as they are stored."""

from __future__ import annotations

import json
from typing import Any

import zstandard

MAX_SCHEMA_BYTES = 64 << 20
"""Most bytes of a schema that are unpacked: of a damaged one they might be any number."""


def pack_schema(schema: object) -> bytes:
    """Return a JSON Schema in its stored form, compressed."""
    return zstandard.ZstdCompressor(level=3).compress(json.dumps(schema, separators=(",", ":")).encode())


def unpack_schema(packed: bytes) -> dict[str, Any]:
    """Return a JSON Schema from its stored form; ValueError if that is damaged."""
    try:
        if zstandard.frame_content_size(packed) > MAX_SCHEMA_BYTES:  # zstandard allocates the size in the header
            raise ValueError("it is too large")
        schema = json.loads(zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_SCHEMA_BYTES))
    except (zstandard.ZstdError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(schema, dict):
        raise ValueError("it is no object")
    return schema
