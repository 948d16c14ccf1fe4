"""What tools return is learned: the schemas of their outputs are merged for each tenant, off the path of the turn.

A turn only notes an output, which takes a microsecond. One thread reads the notes of all sessions in batches. A schema that has changed
is a new row, and a session sees the rows that were there when it was created: so what its model reads of tools never changes.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, exists, func, insert, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql.compiler import DDLCompiler

from byref.artifacts.background import Background
from byref.db.tables import SchemaRow, SessionRow
from byref.describe.packing import pack_schema, unpack_schema
from byref.stores import frames

logger = logging.getLogger("byref")

PAUSE_SECONDS: Final = 0.25
"""How long outputs wait to be learned from together with others."""
MAX_NOTED: Final = 16
"""Outputs of one tool that one batch is learned from; further ones are not noted."""
MAX_TOOLS: Final = 1_000
"""Tools of tenants of which outputs wait."""
MAX_BYTES: Final = 64 << 10
"""Larger outputs are learned from by the schema that describes them, or by some of their records."""
LONG_PLACES: Final = 2_000
"""Places of schemas from which on it takes longer than some ten milliseconds to merge them."""
MAX_SCHEMA_BYTES: Final = 256 << 10
"""A longer schema teaches nothing: hardly any of its places would be in one of `learned.MAX_CHARS`, and to find these takes seconds."""
STEADY: Final = 64
"""Outputs without news after which only one of `SAMPLED` is noted."""
SAMPLED: Final = 16
MAX_VERSIONS: Final = 100
"""Schemas of one tool that are kept: older sessions than the oldest of them see none."""
TOOL_CHARS: Final = 200
_MAX_KNOWN: Final = 1_000
_ENDED_RETRIES: Final = 3
TEXT: Final = b'{"type":"string"}'

Key = tuple[str, str]
"""A tenant and a tool."""


class Sample(msgspec.Struct, frozen=True):
    """An output: JSON text, or the JSON Schema of it."""

    data: bytes
    is_schema: bool = False
    is_packed: bool = False


class _Known(msgspec.Struct):
    schema: dict[str, Any]
    steady: int = 0
    unwritten: int = 0
    """Outputs without news, which no row counts yet."""


class Learning(Background):
    """Outputs that wait to be learned from, of all sessions of an engine.

    What is noted is lost if the process dies: later outputs teach the same.
    """

    NAME = "byref-learning"
    WHAT = "what tools return"

    def _begin(self) -> None:
        super()._begin()
        self._noted: dict[Key, list[Sample]] = {}
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._counts: dict[Key, int] = {}

    def note(self, tenant: str, tool: str, sample: Sample) -> None:
        """Note an output; it is cheap, and never fails."""
        if not _is_name(tool) or (not sample.is_schema and len(sample.data) > MAX_BYTES):
            return
        key = tenant, tool
        with self._changed:
            known = self._known.get(key)
            if known is not None and known.steady >= STEADY:
                count = self._counts[key] = self._counts.get(key, 0) + 1
                if count % SAMPLED:
                    return
            noted = self._noted.get(key)
            if noted is None:
                if self._is_closed or len(self._noted) >= MAX_TOOLS:
                    return
                noted = self._noted[key] = []
            if len(noted) < MAX_NOTED:
                noted.append(sample)
            self._start()

    def write(self, tenant: str | None = None) -> None:
        """Learn from all that is noted, or from what is noted of a tenant; raise ByrefError if the database failed."""
        with self._writing:
            with self._changed:
                keys = [key for key in self._noted if tenant in (None, key[0])]
                noted = {key: self._noted.pop(key) for key in keys}
            for key, samples in noted.items():
                self._learn(key, samples)

    def forget(self, tenant: str) -> None:
        """Forget what is noted and known of a tenant."""
        with self._writing, self._changed:
            for kept in (self._noted, self._known, self._counts):
                for key in [key for key in kept if key[0] == tenant]:
                    del kept[key]

    def _learn(self, key: Key, samples: list[Sample]) -> None:
        from byref.describe.learned import merged

        schemas = [schema for sample in samples if (schema := _schema_of(sample)) is not None]
        if not schemas:
            return
        known = self._known.get(key)
        if known is not None and merged([known.schema, *schemas]) == known.schema:
            known.steady += len(schemas)
            known.unwritten += len(schemas)
            return
        outputs = len(schemas) + (0 if known is None else known.unwritten)
        if sum(map(_size, schemas)) > LONG_PLACES:
            schemas = [merged(schemas)]  # before the transaction that others wait for
        now_known = self._write(lambda connection: _add(connection, key, schemas, outputs))
        if now_known is None:
            return
        with self._changed:
            self._known[key] = _Known(now_known)
            self._known.move_to_end(key)
            while len(self._known) > _MAX_KNOWN:
                self._counts.pop(self._known.popitem(last=False)[0], None)

    def _is_due(self) -> bool:
        until = time.monotonic() + PAUSE_SECONDS
        while self._noted and not self._is_closed and (left := until - time.monotonic()) > 0:
            self._changed.wait(left)
        return bool(self._noted)


def of_value(value: object) -> Sample | None:
    """Return what a value is learned from: its JSON text or, where that is large, some of its records; None if it is no JSON."""
    if isinstance(value, str):
        return Sample(TEXT, is_schema=True)
    if isinstance(value, list) and len(value) > SAMPLED:
        value = [*value[: SAMPLED // 2], *value[len(value) // 2 : len(value) // 2 + 2], *value[-SAMPLED // 2 :]]
    try:
        return Sample(msgspec.json.encode(value))
    except Exception:  # noqa: BLE001  objects of the host's, which may raise anything: they are no JSON
        return None


def _size(schema: Any, depth: int = 0) -> int:
    """Return how many places a schema has, down to a hundred levels."""
    if not isinstance(schema, dict) or depth > 100:
        return 0
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    return 1 + sum(_size(one, depth + 1) for one in [*below, schema.get("items"), schema.get("additionalProperties")])


def _schema_of(sample: Sample) -> dict[str, Any] | None:
    from byref.describe.learned import of_value as described
    from byref_sandbox import jsontext

    try:
        data = frames.unpack_within(sample.data, 16 << 20) if sample.is_packed else sample.data
        if sample.is_schema:
            read = json.loads(data) if len(data) <= MAX_SCHEMA_BYTES else None
            return read if isinstance(read, dict) else None
        return described(jsontext.decode(data))
    except Exception:
        logger.debug("byref could not learn from an output", exc_info=True)
        return None


class _OneWriter(ExecutableDDLElement):
    """Until the transaction ends, nobody else adds rows: so none becomes visible after one with a greater id."""


@compiles(_OneWriter)
def _lock_table(_element: _OneWriter, compiler: DDLCompiler, **_options: object) -> str:
    return f"LOCK TABLE {compiler.preparer.format_table(SchemaRow.__table__)} IN SHARE ROW EXCLUSIVE MODE"


def _add(connection: Connection, key: Key, schemas: list[dict[str, Any]], outputs: int) -> dict[str, Any] | None:
    """Merge schemas into the newest one of a tool, and return what it is then; None if the tenant has no conversation (any more)."""
    from byref.describe.learned import merged

    tenant, tool = key
    if connection.dialect.name == "postgresql":
        connection.execute(_OneWriter())
    # Looked at under that lock, for which a deletion of the tenant waits, which marks its sessions first.
    if not connection.execute(select(exists().where(SessionRow.tenant == tenant, ~SessionRow.is_deleted))).scalar():
        return None
    newest = _newest(connection, tenant, [tool], None).get(tool)
    before, count = ({}, 0) if newest is None else newest
    made = merged([*([before] if newest is not None else []), *schemas])
    if newest is not None and made == before:
        return made
    row = {"tenant": tenant, "tool": tool, "data": pack_schema(made), "outputs": count + outputs}
    connection.execute(insert(SchemaRow), row | {"created_at": datetime.now(UTC)})
    mine = SchemaRow.tenant == tenant, SchemaRow.tool == tool
    oldest = select(SchemaRow.id).where(*mine).order_by(SchemaRow.id.desc()).offset(MAX_VERSIONS).limit(1)
    if (old := connection.execute(oldest).scalar()) is not None:
        connection.execute(delete(SchemaRow).where(*mine, SchemaRow.id <= old))
    return made


def _is_name(tool: str) -> bool:
    """Tell whether a tool of this name is learned of."""
    return len(tool) <= TOOL_CHARS and tool.isprintable()


def _newest(
    connection: Connection, tenant: str, tools: Collection[str], through: int | None
) -> dict[str, tuple[dict[str, Any], int]]:
    """Return the newest schemas of tools, and of how many outputs they are. One that is damaged counts as not learned."""
    ids = select(func.max(SchemaRow.id)).where(SchemaRow.tenant == tenant, SchemaRow.tool.in_(filter(_is_name, tools)))
    if through is not None:
        ids = ids.where(SchemaRow.id <= through)
    found = connection.execute(select(SchemaRow).where(SchemaRow.id.in_(ids.group_by(SchemaRow.tool)))).mappings()
    newest = {}
    for row in found:
        try:
            newest[row["tool"]] = unpack_schema(row["data"]), row["outputs"]
        except ValueError as error:
            logger.warning(
                "byref has to learn anew what the tool %r returns: row %d is damaged: %s", row["tool"], row["id"], error
            )
    return newest


def learned(
    connection: Connection, tenant: str, tools: Collection[str], through: int | None = None
) -> Mapping[str, dict[str, Any]]:
    """Return the schemas of what tools return to a tenant, by tool; `through` is the newest row that is looked at."""
    return {tool: schema for tool, (schema, _) in _newest(connection, tenant, tools, through).items()}
