"""Names bound by code whose values JSON cannot represent: exact values of variables, and the sources of definitions.

For every tool a variable is JSON. In addition, later runs of code find their own values again with their Python types, and
their functions, classes and imports. A run wrote an exact value, so it is untrusted: only a run, in the sandbox, loads it.
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
"""Limit of all definitions together, because the host reads them for each run of code that names them."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names that earlier code of a session has bound."""

    sources: Mapping[str, str] = field(default_factory=dict)
    """Sources of definitions by name, in the order in which they were made."""
    exact: Mapping[str, tuple[int, int | None, bytes]] = field(default_factory=dict)
    """The exact values that were asked for, by name: row id, artifact's row id, digest."""
    damaged: frozenset[str] = frozenset()
    """Names of definitions whose stored bytes are damaged."""


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
    """Return a session's definitions, in the order in which they were made."""
    sources, damaged = dict[str, str](), set[str]()
    for row in connection.execute(_DEFINITIONS, {"of_session": session_row}):
        try:
            sources[row.name] = _unpacked(row.name, row.data, row.size_bytes, bytes(row.digest)).decode()
        except ArtifactMissing:
            damaged.add(row.name)
    return Names(sources, damaged=frozenset(damaged))


def exact(connection: Connection, session_row: int, names: Collection[str]) -> dict[str, tuple[int, int | None, bytes]]:
    """Return, for each of the names that has an exact value: its row id, its artifact's row id and its digest."""
    return {
        row.name: (row.id, row.artifact_id, bytes(row.digest))
        for some in store.batched(names)
        for row in connection.execute(_EXACT, {"of_session": session_row, "names": some})
    }


@dataclass(frozen=True, slots=True)
class ValueLoad:
    """Reads an exact value for a run; its fields tell an interpreter on another machine where the value is."""

    row_id: int
    digest: bytes
    read: Read = field(compare=False, repr=False)

    def __call__(self) -> bytes:
        """Return the bytes of the value, as a run wrote them."""
        kept = {"row": self.row_id, "of_digest": self.digest}
        found = self.read(lambda connection: connection.execute(_DATA, kept).one_or_none())
        if found is None:
            raise ArtifactMissing(f"the kept value {self.row_id} is gone")
        return _unpacked(found.name, found.data, found.size_bytes, self.digest)


def data_of(read: Read, row_id: int, digest: bytes) -> Data:
    """Return an exact value in the form that the sandbox takes; it is read only if no warm zygote has it already."""
    return Data(digest.hex(), ValueLoad(row_id, digest, read), EXACT)


def digest_of(data: bytes) -> bytes:
    """Return the digest by which a warm zygote identifies an exact value."""
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
    """Delete the exact values and definitions kept under some names, because the names are bound anew."""
    for some in store.batched(names):
        bound = NameRow.session_id == session_row, NameRow.name.in_(some)
        if connection.execute(delete(NameRow).where(*bound)).rowcount:
            sums.freed(connection, [session_row])


def last(connection: Connection, session_row: int) -> tuple[int, int]:
    """Return the row ids of the session's newest name and newest variable."""
    newest = (
        select(func.coalesce(func.max(row.id), 0)).where(row.session_id == session_row)
        for row in (NameRow, VariableRow)
    )
    name, variable = connection.execute(select(*(query.scalar_subquery() for query in newest))).one()
    return name, variable


def reset(connection: Connection, session_row: int, upto: tuple[int, int], most: int) -> bool:
    """Delete up to `most` names and variables bound by code, up to the row ids of `last`; tell whether there may be more."""
    is_more, (name, variable) = False, upto
    # `+ 0` keeps the planner from the index by id, so that it uses the one by origin: outputs may have many variables.
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
