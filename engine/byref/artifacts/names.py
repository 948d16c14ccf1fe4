"""What code keeps beside artifacts: the state of its session, and tables with their types.

For every tool a variable is JSON. In addition, later runs of code find their own names again as they were: functions, objects,
what names share. A run wrote all of that, so it is untrusted: only a run, in the sandbox, reads it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec
import zstandard
from blake3 import blake3
from sqlalchemy import Connection, bindparam, case, delete, func, insert, or_, select

from byref.artifacts import store, tombstones
from byref.db import sums
from byref.db.payloads import Read
from byref.db.tables import NameRow, VariableRow
from byref.errors import ArtifactMissing
from byref.stores.frames import unpack
from byref_sandbox import EXACT, Data
from byref_sandbox.code.analysis import Analysed
from byref_sandbox.contents import NO_VERSIONS, Contents, encode_contents

MAX_LOST = 100
"""Most names of which it is remembered why they were lost."""
_STATE = ".state"
"""The name of the row that holds the record of a session's state; a blob of it has its digest after a dot. Code cannot spell either."""
_LAST = ".last"
"""The name of the row that holds the last value of its runs."""
_SMALL_BYTES = 64 << 10
"""Blobs of up to so many bytes are read together with the record."""


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """A name of the state."""

    artifact_row: int = 0
    """The artifact with its data, as tools have it; 0: only code can use it."""
    what: str = ""
    """What it is, if there is no artifact: `function`, `class`, `import`, or the name of a type."""
    shown: bytes = b""
    """The digest of that data; without an artifact, of how a run has written it that may have changed it."""


class Meant(msgspec.Struct, array_like=True, frozen=True):
    """Data that was given to a run under a name, which may be bound to other data since."""

    artifact_row: int
    path: str = "[]"
    """As `variables.to_text` writes it."""
    is_frame: bool = False
    exact: bytes = b""
    """The digest of the table with its types, if there was one."""


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """The names as one run has written them: `byref_sandbox.Snapshot`."""

    contents: bytes
    names: list[str] = []
    meant: dict[str, Meant] = {}
    """The data that the first steps of its paths mean. In earlier records there is none: they mean what the names mean now."""


class Record(msgspec.Struct, frozen=True):
    """What a session's row of state says."""

    snapshots: list[Snapshot] = []
    entries: dict[str, Entry] = {}
    lost: dict[str, str] = {}
    """Why names are not there any more."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept beside a session's artifacts."""

    record: Record = field(default_factory=Record)
    digest: bytes = b""
    """Of the record as it is stored; empty if there is none."""
    blobs: Mapping[bytes, bytes | tuple[int, int]] = field(default_factory=dict)
    """The state's blobs by digest: small ones, and the row id and size of others."""
    damaged: Mapping[bytes, str] = field(default_factory=dict)
    """Blobs that cannot be read."""
    is_damaged: bool = False
    """The record cannot be read."""
    last: bytes = b""
    """The last value of the runs, as the sandbox wrote it."""
    exact: Mapping[str, tuple[int, int | None, bytes]] = field(default_factory=dict)
    """The tables with their types that were asked for, by name: row id, artifact's row id, digest."""
    rows: Mapping[int, bytes] = field(default_factory=dict)
    """The digests of blobs and definitions, by row id."""

    def not_needed(self, blobs: Collection[bytes]) -> list[int]:
        """Return the rows of a state that consists of these blobs alone: earlier releases kept definitions beside it."""
        return [row for row, digest in self.rows.items() if digest not in blobs]


_KEPT = (
    select(
        NameRow.id,
        NameRow.name,
        NameRow.kind,
        NameRow.digest,
        NameRow.size_bytes,
        case(
            (
                or_(NameRow.size_bytes <= _SMALL_BYTES, NameRow.kind == "source", NameRow.name.in_([_STATE, _LAST])),
                NameRow.data,
            ),
        ).label("data"),
    )
    .where(NameRow.session_id == bindparam("of_session"), NameRow.kind.in_(["source", "state"]))
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


def kept(connection: Connection, session_row: int) -> Kept:
    """Return what a session keeps, without tables. Whatever is damaged is named, and nothing is raised for it."""
    record, digest, is_damaged, last = Record(), b"", False, b""
    sources, blobs, damaged = dict[str, str](), dict[bytes, bytes | tuple[int, int]](), dict[bytes, str]()
    rows = dict[int, bytes]()
    for row in connection.execute(_KEPT, {"of_session": session_row}):
        its = bytes(row.digest)
        if row.name not in (_STATE, _LAST):
            rows[row.id] = its
        try:
            data = None if row.data is None else _unpacked(row.name, row.data, row.size_bytes, its)
            if row.name == _STATE:
                digest = its
                record = _RECORDS.decode(data or b"")
            elif row.name == _LAST:
                last = data or b""
            elif row.kind == "source":
                sources[row.name] = (data or b"").decode()
            else:
                blobs[its] = (row.id, row.size_bytes) if data is None else data
        except (ArtifactMissing, msgspec.MsgspecError, UnicodeDecodeError):
            is_damaged |= row.name == _STATE or row.kind == "source"
            damaged[its] = tombstones.GONE
    if sources and not record.snapshots:
        record = _record_of(sources, record.lost)
    return Kept(record, digest, blobs, damaged, is_damaged, last, rows=rows)


def _record_of(sources: Mapping[str, str], lost: dict[str, str]) -> Record:
    """Return the record of definitions that an earlier release kept by their source, in the order in which they were made.

    It is that of another version, so the next run defines them again.
    """
    texts = {name: Analysed(source) for name, source in sources.items()}
    definitions = {name: digest_of(text.encode()) for name, text in texts.items()}
    programs = {definitions[name]: str(text) for name, text in texts.items()}
    looks_up = {name: sorted(text.uses.names) for name, text in texts.items()}
    contents = Contents(NO_VERSIONS, [], programs, definitions, looks_up)
    entries = {name: Entry(0, _what(text)) for name, text in texts.items()}
    return Record([Snapshot(encode_contents(contents))], entries, lost)


def _what(text: Analysed) -> str:
    kinds = {type(node) for statement in text.statements for node in statement[:1]}
    return "class" if ast.ClassDef in kinds else "import" if kinds & {ast.Import, ast.ImportFrom} else "function"


_RECORDS = msgspec.msgpack.Decoder(Record)


def write_record(
    connection: Connection,
    *,
    tenant: str,
    session_row: int,
    record: Record,
    step: int,
    blobs: Mapping[bytes, bytes] = MappingProxyType({}),
    gone: Collection[int] = (),
) -> None:
    """Replace the record of a session's state, keep further blobs of it, by digest, and delete the rows `gone`."""
    lost = dict(list(record.lost.items())[-MAX_LOST:])
    data = {f".{digest.hex()}": blob for digest, blob in blobs.items()}
    data[_STATE] = msgspec.msgpack.encode(Record(record.snapshots, record.entries, lost))
    _keep(connection, tenant, session_row, data, None, step, gone)


def write_last(connection: Connection, *, tenant: str, session_row: int, last: bytes, step: int) -> None:
    """Replace the last value of a session's runs; empty, forget it."""
    if last:
        _keep(connection, tenant, session_row, {_LAST: last}, None, step)
    else:
        forget(connection, session_row, [_LAST])


def exact(connection: Connection, session_row: int, names: Collection[str]) -> dict[str, tuple[int, int | None, bytes]]:
    """Return, for each of the names that has an exact value: its row id, its artifact's row id and its digest."""
    return {
        row.name: (row.id, row.artifact_id, bytes(row.digest))
        for some in store.batched(names)
        for row in connection.execute(_EXACT, {"of_session": session_row, "names": some})
    }


@dataclass(frozen=True, slots=True)
class ValueLoad:
    """Reads what is kept for a run; its fields tell an interpreter on another machine where the value is."""

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


def data_of(read: Read, row_id: int, digest: bytes, content_type: str = EXACT) -> Data:
    """Return a table or a blob in the form that the sandbox takes; it is read only if no warm zygote has it already."""
    return Data(digest.hex(), ValueLoad(row_id, digest, read), content_type)


def digest_of(data: bytes) -> bytes:
    """Return the digest by which a warm zygote identifies it."""
    return bytes(blake3(data).digest())


def keep(
    connection: Connection, *, tenant: str, session_row: int, name: str, data: bytes, artifact_row: int, step: int
) -> None:
    """Keep the table, with its types, of a variable bound to an artifact."""
    _keep(connection, tenant, session_row, {name: data}, artifact_row, step)


def _keep(
    connection: Connection,
    tenant: str,
    session_row: int,
    named: Mapping[str, bytes],
    artifact_row: int | None,
    step: int,
    gone: Collection[int] = (),
) -> None:
    """Keep data under names: of a variable, or, without its artifact, of the state; the rows `gone` are deleted in the same step."""
    forget(connection, session_row, named, gone)
    kind = "state" if artifact_row is None else "exact"
    compressor = zstandard.ZstdCompressor(level=1)
    rows = [
        {
            "tenant": tenant,
            "session_id": session_row,
            "name": name,
            "kind": kind,
            "artifact_id": artifact_row,
            "digest": digest_of(data),
            "size_bytes": len(data),
            "data": compressor.compress(data),
            "step": step,
        }
        for name, data in named.items()
    ]
    connection.execute(_INSERT, rows)


_INSERT = insert(NameRow)
_OF_SESSION = NameRow.session_id == bindparam("of_session")
_FORGET = delete(NameRow).where(_OF_SESSION, NameRow.name.in_(bindparam("some", expanding=True)))
_FORGET_ROWS = delete(NameRow).where(_OF_SESSION, NameRow.id.in_(bindparam("some", expanding=True)))


def forget(connection: Connection, session_row: int, names: Collection[str], rows: Collection[int] = ()) -> None:
    """Delete what is kept under some names, because the names are bound anew, and further rows of the session."""
    deleted = sum(
        connection.execute(statement, {"of_session": session_row, "some": some}).rowcount
        for statement, of in ((_FORGET, names), (_FORGET_ROWS, rows))
        for some in store.batched(of)
    )
    if deleted:
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
