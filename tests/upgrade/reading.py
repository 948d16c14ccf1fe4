"""Everything that a database tells a host, as JSON: written down with the old package, compared with the new one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection
from story import HOSTILE, PLAIN

import byref
from byref.adapters.common.items import Items
from byref.stores import FileStore

OF_AN_ARTIFACT = (
    "id", "name", "kind", "content_type", "size_bytes", "line_count", "preview", "tokens", "shape", "step", "stored_at",
    "digest", "expires_at", "ttl_seconds", "is_kept", "schema",
)  # fmt: skip
OF_A_VARIABLE = ("name", "shape", "path", "step", "origin", "kind", "revision")


def engine_on(url: str, folder: Path, **options: Any) -> byref.Engine:
    """An engine that reads the bytes of both tenants."""
    return byref.Engine(url, blobs=FileStore(folder), **options)


def observe(engine: byref.Engine) -> dict[str, Any]:
    """What each session of both tenants holds; nothing is changed by asking, but when artifacts expire."""
    return {
        tenant: {
            "sessions": {info.id: _told(info) for info in engine.sessions(tenant)},
            "conversations": {info.id: _conversation(engine, tenant, info.id) for info in engine.sessions(tenant)},
        }
        for tenant in (PLAIN, HOSTILE)
    }


def _conversation(engine: byref.Engine, tenant: str, name: str) -> dict[str, Any]:
    session = engine.session(name, tenant=tenant, context_window=200_000)
    ledger = session.ledger()
    items = Items(engine, name, tenant)
    return {
        "ledger": [_told(entry) for entry in ledger],
        "explained": {
            str(entry.step): str(session.explain(entry.step)) for entry in ledger if entry.kind in ("output", "reply")
        },
        "history": [_told(entry) for entry in session.history()],
        "usage": _told(session.usage()),
        "context": session.context_tokens(),
        "artifacts": [_artifact(artifact) for artifact in session.artifacts()],
        "variables": [
            _some(variable, OF_A_VARIABLE) | {"artifact": variable.artifact.id, "value": _digest(variable.value())}
            for variable in session.variables()
        ],
        "items": {name: _told(items.last(name)) for name in items.names()},
        "policy": session.policy.ttl.total_seconds() if session.policy.ttl else None,
    }


def _artifact(artifact: byref.Artifact) -> dict[str, Any]:
    bytes_ = hashlib.sha256(artifact.payload.read()).hexdigest()
    return _some(artifact, OF_AN_ARTIFACT) | {"bytes": bytes_}


def _some(thing: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _told(getattr(thing, name)) for name in names}


def _digest(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return hashlib.sha256(data).hexdigest()


def _told(value: Any) -> Any:
    """Anything as JSON has it."""
    if isinstance(value, byref.Artifact):
        return value.id
    if is_dataclass(value):
        return {field.name: _told(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (bytes, Decimal)):
        return value.hex() if isinstance(value, bytes) else str(value)
    if isinstance(value, (list, tuple)):
        return [_told(part) for part in value]
    if hasattr(value, "items"):
        return {str(key): _told(part) for key, part in value.items()}
    return value


def differences(expected: Any, found: Any, place: str = "") -> Iterator[str]:
    """Where something is not as it was; what a later release adds is no difference."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            if key in found:
                yield from differences(value, found[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}: gone"
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif expected != found:
        yield f"{place}: {expected!r:.200} was expected, not {found!r:.200}"


def rows(connection: Connection) -> dict[str, list[str]]:
    """Every row of each of our tables, as the database gives it without our types."""
    looked, quoted = inspect(connection), connection.dialect.identifier_preparer.quote
    found = {}
    for table in looked.get_table_names():
        if table.startswith("byref_"):
            columns = ", ".join(quoted(name) for name in sorted(column["name"] for column in looked.get_columns(table)))
            found[table] = sorted(
                repr(tuple(row)) for row in connection.execute(text(f"SELECT {columns} FROM {table}"))
            )
    return found
