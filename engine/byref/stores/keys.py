"""Keys of objects: `<32 hex digits of the hashed tenant>/<32 hex digits>` and a file extension for human readers."""

from __future__ import annotations

import re

from blake3 import blake3

from byref.errors import InvalidId

FILE_NAME = r"[0-9a-f]{32}(?:\.[a-z0-9]{1,8})?"
_KEY = re.compile(rf"[0-9a-f]{{32}}/{FILE_NAME}", re.ASCII)

_EXTENSIONS = {
    "application/json": ".json",
    "application/msword": ".doc",
    "application/pdf": ".pdf",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/x-ndjson": ".jsonl",
    "application/xml": ".xml",
    "application/yaml": ".yaml",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/tab-separated-values": ".tsv",
    "text/xml": ".xml",
}


def object_key(tenant: str, blob: str, content_type: str = "") -> str:
    """Return the key of a tenant's blob (32 hex digits). The key does not reveal the tenant, whose name is hashed."""
    return check_key(f"{folder_of(tenant)}/{blob}{extension(content_type)}")


def folder_of(tenant: str) -> str:
    """Return the part of a tenant's keys before the slash: the hash of the tenant's name."""
    return str(blake3(tenant.encode("utf-8", "surrogatepass")).hexdigest(length=16))


def extension(content_type: str) -> str:
    """Return the usual file extension of a content type, such as `.json`; empty for an unknown type."""
    return _EXTENSIONS.get(content_type.partition(";")[0].strip().lower(), "")


def check_key(key: str) -> str:
    """Return a valid key unchanged; else `InvalidId`, so that no key can lead outside the store."""
    if isinstance(key, str) and is_key(key):
        return key
    raise InvalidId(
        f"{repr(key)[:200]} is no key of an object: expected 32 hex digits, a slash, 32 hex digits, .extension"
    )


def is_key(text: str) -> bool:
    """Tell whether a text has the form of a key."""
    return _KEY.fullmatch(text) is not None


def check_range(offset: int, size: int) -> None:
    """Raise ValueError if an offset or a size is negative."""
    if offset < 0 or size < 0:
        raise ValueError(f"offset={offset!r}, size={size!r}: expected numbers of bytes, 0 or more")
