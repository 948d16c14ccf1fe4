"""Types of columns: what a database alone would store or sort in another way than the next one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.types import TypeDecorator

SURROGATE_KEY = BigInteger().with_variant(Integer, "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """An aware point in time, stored and returned in UTC on every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC, because SQLite stores no time zone; ValueError for a naive time."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an aware datetime was expected, not {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Add the time zone if the database stores none."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class EscapedText(TypeDecorator[str]):
    r"""Any Python string: backslash, NUL and lone surrogates are escaped as `\\`, `\0` and `\udXXX`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape the characters that a database refuses."""
        if value is None:
            return None
        value = value.replace("\\", "\\\\").replace("\0", "\\0")
        try:
            value.encode()
        except UnicodeEncodeError:
            return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in value)
        return value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escapes. In a damaged text, what is none stays as it is."""
        if value is None or "\\" not in value:
            return value
        return _ESCAPE.sub(_undone, value)


_ESCAPE: Final = re.compile(r"\\(?:([\\0])|u([0-9a-f]{4}))")


def _undone(escape: re.Match[str]) -> str:
    mark, code = escape.groups()
    return chr(int(code, 16)) if code else "\0" if mark == "0" else "\\"


SORTED_TEXT = EscapedText().with_variant(EscapedText(collation="C"), "postgresql")
SORTED_ID = String(64).with_variant(String(64, collation="C"), "postgresql")
"""Text sorted by code point on every database, whatever its locale, so that a prefix is one range of an index."""
