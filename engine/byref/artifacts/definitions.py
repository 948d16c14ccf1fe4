"""What code bound and JSON does not tell: exact values of variables, and definitions as their source.

Variables are JSON for every tool; beside that, code finds its own values again with their types, and its functions,
classes and imports. An exact value was written by a run: only a run reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import zstandard
from blake3 import blake3
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from byref.artifacts import store
from byref.db import sums
from byref.db.payloads import Read
from byref.db.tables import NameRow, VariableRow
from byref.errors import ArtifactMissing
from byref.stores.frames import unpack
from byref_sandbox import EXACT, Data

MAX_DEFINITIONS = 500
"""Most definitions that a session keeps; further ones are refused by name."""
MAX_DEFINITION_CHARS = 500_000
"""Of all of them together: each run of code that names them reads them on the host."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a session's code has bound before."""

    sources: Mapping[str, str] = field(default_factory=dict)
    """Definitions by name, in the order in which they were made."""
    exact: Mapping[str, tuple[int, int | None, bytes]] = field(default_factory=dict)
    """Of exact values that are asked for, by name: row id, artifact's row id, digest."""
    damaged: frozenset[str] = frozenset()
    """Definitions that are not what was kept."""


_DEFINITIONS = (
    select(NameRow.name, NameRow.digest, NameRow.size_bytes, NameRow.data)
    .where(NameRow.session_id == bindparam("of_session"), NameRow.kind == "source")
    .order_by(NameRow.id)
)
_EXACT = select(NameRow.name, NameRow.id, NameRow.artifact_id, NameRow.digest).where(
    NameRow.session_id == bindparam("of_session"),
    NameRow.name.in_(bindparam("names", expanding=True)),
    NameRow.kind == "exact",
)
_DATA = select(NameRow.name, NameRow.data, NameRow.size_bytes).where(
    NameRow.id == bindparam("row"), NameRow.digest == bindparam("of_digest")
)


def definitions(connection: Connection, session_row: int) -> Names:
    """Return the definitions, in the order in which they were made: at most `MAX_DEFINITIONS`."""
    sources, damaged = dict[str, str](), set[str]()
    for row in connection.execute(_DEFINITIONS, {"of_session": session_row}):
        try:
            sources[row.name] = _unpacked(row.name, row.data, row.size_bytes, bytes(row.digest)).decode()
        except ArtifactMissing:
            damaged.add(row.name)
    return Names(sources, damaged=frozenset(damaged))


def exact(connection: Connection, session_row: int, names: Collection[str]) -> dict[str, tuple[int, int | None, bytes]]:
    """Return where the exact values of those of the names are that have one."""
    return {
        row.name: (row.id, row.artifact_id, bytes(row.digest))
        for some in store.batched(names)
        for row in connection.execute(_EXACT, {"of_session": session_row, "names": some})
    }


@dataclass(frozen=True, slots=True)
class ValueLoad:
    """Reads an exact value for a run; another machine finds in it where the value is."""

    row_id: int
    digest: bytes
    read: Read = field(compare=False, repr=False)

    def __call__(self) -> bytes:
        """Return the value as a run wrote it."""
        kept = {"row": self.row_id, "of_digest": self.digest}
        found = self.read(lambda connection: connection.execute(_DATA, kept).one_or_none())
        if found is None:
            raise ArtifactMissing(f"the kept value {self.row_id} is gone")
        return _unpacked(found.name, found.data, found.size_bytes, self.digest)


def data_of(read: Read, row_id: int, digest: bytes) -> Data:
    """Return an exact value as the sandbox takes it: read only if no warm zygote holds it."""
    return Data(digest.hex(), ValueLoad(row_id, digest, read), EXACT)


def digest_of(data: bytes) -> bytes:
    """Return the digest by which a warm zygote knows an exact value."""
    return bytes(blake3(data).digest())


def keep(
    connection: Connection,
    *,
    tenant: str,
    session_row: int,
    name: str,
    data: bytes,
    artifact_row: int | None,
    step: int,
) -> None:
    """Keep the exact value of a variable bound to an artifact, or, without one, the source of a definition."""
    forget(connection, session_row, [name])
    connection.execute(
        insert(NameRow).values(
            tenant=tenant,
            session_id=session_row,
            name=name,
            kind="source" if artifact_row is None else "exact",
            artifact_id=artifact_row,
            digest=digest_of(data),
            size_bytes=len(data),
            data=zstandard.ZstdCompressor(level=1).compress(data),
            step=step,
        )
    )


def forget(connection: Connection, session_row: int, names: Collection[str]) -> None:
    """Let go of what was kept under names that are bound anew."""
    for some in store.batched(names):
        bound = NameRow.session_id == session_row, NameRow.name.in_(some)
        if connection.execute(delete(NameRow).where(*bound)).rowcount:
            sums.freed(connection, [session_row])


def last(connection: Connection, session_row: int) -> tuple[int, int]:
    """Return the row ids of the name and of the variable that were made last."""
    newest = (
        select(func.coalesce(func.max(row.id), 0)).where(row.session_id == session_row)
        for row in (NameRow, VariableRow)
    )
    name, variable = connection.execute(select(*(query.scalar_subquery() for query in newest))).one()
    return name, variable


def reset(connection: Connection, session_row: int, upto: tuple[int, int], most: int) -> bool:
    """Forget some of the names that code bound, up to row ids that `last` told; tell whether there may be more."""
    is_more, (name, variable) = False, upto
    # By the index of origins: there may be many variables of outputs.
    of_code = VariableRow.session_id == session_row, VariableRow.origin == "run", VariableRow.id + 0 <= variable
    for table, some in (
        (NameRow, select(NameRow.id).where(NameRow.session_id == session_row, NameRow.id <= name)),
        (VariableRow, select(VariableRow.id).where(*of_code)),
    ):
        is_more |= connection.execute(delete(table).where(table.id.in_(some.limit(most)))).rowcount == most
    sums.freed(connection, [session_row])
    return is_more


def _unpacked(name: str, data: bytes, size: int, digest: bytes) -> bytes:
    try:
        value = unpack("zstd", bytes(data), size)
        if digest_of(value) != digest:
            raise ValueError("it has another digest")
    except ValueError as error:
        raise ArtifactMissing(f"what code kept as {name!r} is damaged: {error}", name=name) from None
    return value
