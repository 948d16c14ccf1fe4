"""Artifacts: stored payloads with their descriptions, found by id, pointer or name within one session."""

from __future__ import annotations

import json
import re
import secrets
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from blake3 import blake3
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    insert,
    or_,
    select,
    text,
    type_coerce,
)

from byref.artifacts.blobs import Published
from byref.artifacts.notes import first_note
from byref.content import to_block
from byref.db.column_types import EscapedText
from byref.db.payloads import Converted, Source, StoredPayload
from byref.db.tables import CAME, IS_FILE, WAS_MADE, ArtifactRow, BlobRow
from byref.describe.packing import unpack_schema
from byref.errors import ArtifactMissing, ToolError
from byref.stores.frames import line_count
from byref_sandbox import EXACT, jsontext, tabletext
from byref_sandbox.values import files

PREVIEW_CHARS = 200
MAX_FILES_LOOKED_AT = 500
"""Number of the newest files written by code among which those given to a run are chosen."""
MANY = 500
"""Most parameters of one statement, which every database accepts; longer lists are split."""
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
ID = re.compile(r"art[_:]([\w-]{1,60})", re.ASCII)
"""Matches an artifact's id or pointer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Artifact:
    """An immutable stored payload with its description; its bytes are read on demand."""

    id: str
    """`art_…`, minted by byref."""
    name: str | None
    kind: str
    """json, text, image or document"""
    content_type: str
    size_bytes: int
    """UTF-8 bytes of the text; for JSON made from Python values, of its compact form."""
    line_count: int
    preview: str
    """The first 200 characters, and the number of those left out."""
    tokens: int
    shape: object
    step: int | None
    """The ledger step that made it; None if the host stored it."""
    stored_at: datetime
    payload: StoredPayload = field(repr=False)
    digest: bytes = field(repr=False)
    row_id: int = field(repr=False)
    packed_schema: bytes | None = field(repr=False)
    expires_at: datetime | None = field(compare=False)
    """When it expires, unless it is used before; None: with its session."""
    ttl_seconds: float | None = field(repr=False, compare=False)
    """How long it is kept after its last use, in seconds."""
    is_kept: bool = field(repr=False, compare=False)
    """Whether it survives the end of its session."""
    is_string: bool = field(repr=False)
    """Whether the value is a text that contains JSON or tables: `value` is then the text, `parsed` is what it contains."""
    reading: str | None = field(repr=False)
    """How the tables in a text are read, as `byref_sandbox.tabletext` wrote it; None for all else."""

    @property
    def description(self) -> Description:
        """The description of the payload, for another artifact of the same bytes."""
        shared = (
            self.kind,
            self.content_type,
            self.size_bytes,
            self.preview,
            self.tokens,
            self.shape,
            self.packed_schema,
        )
        return Description(*shared, name=self.name, is_string=self.is_string, reading=self.reading)

    @property
    def pointer(self) -> str:
        """The id in the form that models see: with a colon in place of the underscore."""
        return "art:" + self.id.removeprefix("art_")

    @property
    def is_exact(self) -> bool:
        """Whether it is a value that code left with its types, and that was too big to be stored as JSON too."""
        return self.content_type == EXACT

    @property
    def readable(self) -> Artifact:
        """The artifact as hosts and tools read it: itself, but of a value stored with its types alone, its JSON, which is made here.

        Raises ToolError if it cannot be made: it is too big, or there is no sandbox, which alone reads what code wrote.
        """
        if not self.is_exact:
            return self
        stored = self.payload
        if stored.source.as_json is None:
            raise ToolError(f"{self.preview} ({self.id}) is stored with its types alone, which only a sandbox reads")
        try:
            data = stored.source.as_json(stored, self.digest)
        except ToolError as error:
            raise ToolError(f"{self.preview} ({self.id}) cannot be handed on: {error}") from None
        of_stored = stored.blob_id, stored.key, stored.store, len(data), line_count(data), stored.source, stored.used
        payload = Converted(*of_stored, data=data)
        of_json = replace(self, kind="json", content_type="application/json", size_bytes=len(data))
        return replace(of_json, payload=payload, digest=blake3(data).digest())

    def use(self) -> None:
        """Postpone the expiry, as each reading of the bytes does."""
        if self.payload.used is not None:
            self.payload.used()

    @property
    def location(self) -> str | None:
        """The path or URL at which other programs find the plain bytes; None if they are in SQL, or compressed."""
        return self.payload.uri

    @property
    def value(self) -> object:
        """The whole payload in the form in which it came: parsed JSON, text, or the bytes of an image or a document."""
        return self.text if self.is_string else self.parsed

    @property
    def parsed(self) -> object:
        """As `value`, but a text that contains JSON is parsed, and one that contains tables is the records of these."""
        if self.is_exact:
            return self.readable.parsed
        data = self.payload.read()
        if self.reading is not None:
            try:
                return tabletext.read(self.reading, data)
            except tabletext.Damaged as error:
                raise ArtifactMissing(f"artifact {self.id}: {error}") from None
        if self.is_binary:
            return data
        if self.kind != "json":
            return decode_text(data)
        try:
            return jsontext.decode(data)
        except jsontext.NotJSON as error:
            raise ArtifactMissing(f"artifact {self.id} is said to be JSON, and is none: {error}") from None

    @property
    def text(self) -> str:
        """The payload as text."""
        return decode_text(self.payload.read())

    @property
    def has_own_text(self) -> bool:
        """Whether the bytes are text or JSON exactly as somebody else wrote them: byref puts line feeds into its own JSON."""
        return self.kind == "text" or (self.kind == "json" and self.size_bytes == self.payload.size)

    @property
    def is_json(self) -> bool:
        """Whether jq gets a parsed value: the payload is structured, or its content type says JSON, as for a scalar."""
        declared = self.content_type.partition(";")[0].strip().lower()
        is_declared = declared in ("application/json", "text/json") or declared.endswith("+json")
        return self.kind == "json" or is_declared

    @property
    def is_binary(self) -> bool:
        """Whether it is an image or a document, whose bytes cannot be searched as text."""
        return self.kind in ("image", "document") and not self.content_type.startswith("text/")

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of a structured output; None for text, and for artifacts stored by a host, a model or code."""
        if self.packed_schema is None:
            return None
        try:
            return unpack_schema(self.packed_schema)
        except ValueError as error:
            raise ArtifactMissing(f"the schema of {self.id} is damaged: {error}") from None


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a payload, as an artifact's row has it."""

    kind: str
    content_type: str
    size_bytes: int
    preview: str
    tokens: int
    shape: object
    packed_schema: bytes | None = None
    name: str | None = None
    is_string: bool = False
    """As in `Artifact`. The row then has the kind `text` and the shape of the JSON."""
    reading: str | None = None
    """As in `Artifact`. The row then has the kind and the shape of a text, which it is for older releases."""


def is_id(value: str) -> bool:
    """Tell whether a key has the form of an id or a pointer."""
    return ID.fullmatch(value) is not None


def is_pointer(value: object) -> bool:
    """Tell whether a value is a string in the pointer spelling, `art:…`."""
    return isinstance(value, str) and value.startswith("art:")


def approx_byte_size(value: object) -> int:
    """Return the number of UTF-8 bytes of a text, or of the compact JSON of any other value.

    0 if JSON cannot hold the value (for example because it contains itself), so that it never exceeds a threshold. An
    iterator is read to its end.
    """
    block = to_block(value)
    return 0 if first_note(value, block) else block.size


def decode_text(data: bytes) -> str:
    """Return stored text as the model reads it: lone surrogates stay, undecodable bytes become U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def new_id(*, as_uuid: bool = False) -> str:
    """Return a new artifact id: 60 random bits, which are few tokens; or a UUID, as in memory pointers."""
    if as_uuid:
        return f"art_{uuid.uuid4()}"
    return "art_" + "".join(_ALPHABET[byte % 32] for byte in secrets.token_bytes(12))


def new_row(
    about: Description,
    *,
    tenant: str,
    session_row: int,
    step: int | None,
    origin: str,
    ttl: timedelta | None,
    public_id: str | None = None,
) -> dict[str, Any]:
    """Return the columns of a new artifact, without its blob's id; `public_id` comes from `new_id`."""
    now = datetime.now(UTC)
    return {
        "public_id": public_id or new_id(),
        "tenant": tenant,
        "session_id": session_row,
        "step": step,
        "origin": origin,
        "kind": "text" if about.is_string else about.kind,
        "reading": None if about.reading is None else json.dumps([about.shape, about.reading]),
        "content_type": about.content_type,
        "name": about.name,
        "size_bytes": about.size_bytes,
        "preview": about.preview,
        "tokens": about.tokens,
        "shape": json.dumps(about.shape if about.reading is None else "text"),
        "json_schema": about.packed_schema,
        "created_at": now,
        "ttl_seconds": None if ttl is None else ttl.total_seconds(),
        "expires_at": None if ttl is None else now + ttl,
    }


def inserted(row: Mapping[str, Any], row_id: int, blob: Published, source: Source) -> Artifact:
    """Return the artifact of a row that was just inserted, as a later read would."""
    of_blob = {"blob_id": blob.id, "blob_key": blob.key, "blob_store": blob.store, "digest": blob.digest}
    sizes = {"stored_bytes": blob.size, "line_count": blob.lines}
    return _artifact(SimpleNamespace(id=row_id, kept=False, **row, **of_blob, **sizes), source)


def publish(connection: Connection, source: Source, blob: Published, row: Mapping[str, Any]) -> Artifact:
    """Insert an artifact of a published blob, with the columns that `new_row` gave, and return it."""
    row_id = int(connection.execute(_INSERT, {**row, "blob_id": blob.id}).scalar_one())
    return inserted(row, row_id, blob, source)


def is_live(now: ColumnElement[datetime] | None = None) -> ColumnElement[bool]:
    """Return the condition that an artifact has not expired: an expired one is not found, even before a sweep."""
    return or_(ArtifactRow.expires_at.is_(None), ArtifactRow.expires_at > (datetime.now(UTC) if now is None else now))


# Built once, because building a statement takes longer than running it.
_LIVE: Any = (  # SQLAlchemy 2.0 and 2.1 spell the type of a query differently
    select(
        ArtifactRow.id,
        ArtifactRow.public_id,
        ArtifactRow.name,
        ArtifactRow.kind,
        ArtifactRow.content_type,
        ArtifactRow.size_bytes,
        ArtifactRow.preview,
        ArtifactRow.tokens,
        ArtifactRow.shape,
        ArtifactRow.json_schema,
        ArtifactRow.reading,
        ArtifactRow.step,
        ArtifactRow.created_at,
        ArtifactRow.expires_at,
        ArtifactRow.ttl_seconds,
        ArtifactRow.kept,
        BlobRow.id.label("blob_id"),
        BlobRow.key.label("blob_key"),
        BlobRow.store.label("blob_store"),
        BlobRow.digest,
        BlobRow.size_bytes.label("stored_bytes"),
        BlobRow.line_count,
    )
    # The tenant, too: a connection of the host's may not enforce foreign keys.
    .join(BlobRow, and_(BlobRow.id == ArtifactRow.blob_id, BlobRow.tenant == ArtifactRow.tenant))
    .where(ArtifactRow.session_id == bindparam("of_session"), is_live(bindparam("now")))
)
_ALL = _LIVE.where(ArtifactRow.id > bindparam("beyond")).order_by(ArtifactRow.id)
_OLDER = _LIVE.where(ArtifactRow.id < bindparam("beyond")).order_by(ArtifactRow.id.desc())
_LIVE_ROWS = _LIVE.where(ArtifactRow.id.in_(bindparam("ids", expanding=True)))
_LIVE_IDS = _LIVE.where(ArtifactRow.public_id.in_(bindparam("ids", expanding=True)))


def _newest_named(each: Any, *is_live: Any) -> Any:
    """Select, for each stored name: the newest artifact made under that name, and the newest that came in an output."""
    same = ArtifactRow.session_id == bindparam("of_session"), type_coerce(ArtifactRow.name, Text) == each.c.value
    newest = select(ArtifactRow.id).where(*same, *is_live).order_by(ArtifactRow.id.desc()).limit(1)
    return select(
        each.c.value, *(newest.where(text(origin)).scalar_subquery().correlate(each) for origin in (WAS_MADE, CAME))
    )


_WANTED = {
    "sqlite": func.json_each(bindparam("names", type_=Text)).table_valued("value").alias("wanted"),
    "postgresql": func.json_array_elements_text(cast(bindparam("names", type_=Text), JSON))
    .table_valued(column("value", Text(collation="C")), name="wanted")
    .render_derived(),
}
"""The names as rows of a table, so that each is one look-up in the index, however many artifacts have the same name."""
_NAMED = {dialect: _newest_named(wanted, is_live(bindparam("now"))) for dialect, wanted in _WANTED.items()}
_EVER_NAMED = {dialect: _newest_named(wanted) for dialect, wanted in _WANTED.items()}
_INSERT = insert(ArtifactRow).returning(ArtifactRow.id)
GIVEN = [column.name for column in ArtifactRow.__table__.c if column.name not in ("id", "blob_id", "kept")]
"""The columns that `new_row` gives."""


def _now_of(session_row: int) -> dict[str, Any]:
    return {"of_session": session_row, "now": datetime.now(UTC)}


def find(connection: Connection, source: Source, session_row: int, key: str) -> Artifact | None:
    """Return the session's artifact with that id, pointer or name; see `by_names` for the choice among equal names."""
    found = by_ids(connection, source, session_row, [key]) or by_names(connection, source, session_row, [key])
    return found.get(key)


def by_row_ids(connection: Connection, source: Source, session_row: int, ids: Collection[int]) -> dict[int, Artifact]:
    """Return the session's artifacts with these row ids, of which there may be any number, by row id."""
    found: dict[int, Artifact] = {}
    for some in batched(ids):
        rows = connection.execute(_LIVE_ROWS, {**_now_of(session_row), "ids": some}).all()
        found |= {row.id: _artifact(row, source) for row in rows}
    return found


def by_ids(connection: Connection, source: Source, session_row: int, keys: Collection[str]) -> dict[str, Artifact]:
    """Return the session's artifacts for the keys that are ids or pointers, by key."""
    given = {key: "art_" + match[1] for key in keys if (match := ID.fullmatch(key))}
    found: dict[str, Artifact] = {}
    for some in batched(set(given.values())):
        rows = connection.execute(_LIVE_IDS, {**_now_of(session_row), "ids": some}).all()
        found |= {row.public_id: _artifact(row, source) for row in rows}
    return {key: found[id_] for key, id_ in given.items() if id_ in found}


def by_names(connection: Connection, source: Source, session_row: int, names: Collection[str]) -> dict[str, Artifact]:
    """Return the session's newest artifact of each name.

    A name given by a host, a model or code is preferred to one that a document in an output happens to have.
    """
    found = _rows_named(connection, session_row, names, _NAMED)
    rows = {name: row for name, (made, came) in found.items() if (row := made or came)}
    return _by_key(connection, source, session_row, rows)


def rows_ever_named(connection: Connection, session_row: int, names: Collection[str]) -> set[int]:
    """Return the row ids of the session's newest artifacts of these names, whether or not they have expired."""
    found = _rows_named(connection, session_row, names, _EVER_NAMED)
    return {row for both in found.values() for row in both if row is not None}


def _rows_named(
    connection: Connection, session_row: int, names: Collection[str], query: Mapping[str, Any]
) -> dict[str, tuple[int | None, int | None]]:
    """Return row ids by name: of the newest artifact made under it, and of the newest that came in an output."""
    escaped = EscapedText()
    stored = {escaped.process_bind_param(name, connection.dialect): name for name in names}
    if not stored:
        return {}
    about = {**_now_of(session_row), "names": json.dumps(list(stored))}
    found = connection.execute(query[connection.dialect.name], about)
    return {stored[name]: (made, came) for name, made, came in found}


_FILES = (
    select(ArtifactRow.id, ArtifactRow.name, ArtifactRow.size_bytes)
    .where(
        ArtifactRow.session_id == bindparam("of_session"),
        text(IS_FILE),
        is_live(bindparam("now")),
    )
    .order_by(ArtifactRow.id.desc())
    .limit(MAX_FILES_LOOKED_AT)
)

_NEWER_FILES = _FILES.with_only_columns(ArtifactRow.name).where(ArtifactRow.id > bindparam("after"))


def files_of_runs(
    connection: Connection, source: Source, session_row: int, text: str, *, most: int, max_bytes: int
) -> tuple[dict[str, Artifact], int]:
    """Return files that code wrote, the newest of each name: first those that `text` mentions, then others that fit.

    The number is the row id of the newest file of all, 0 if there is none: see `files_since`.
    """
    newest: dict[str, tuple[int, int]] = {}
    for row_id, name, size in connection.execute(_FILES, _now_of(session_row)):
        if not files.is_name(str(name)):  # a damaged row's
            continue
        newest.setdefault(str(name), (row_id, size))
    chosen: dict[str, int] = {}
    for name in sorted(newest, key=lambda name: name.rpartition("/")[2] not in text):  # stable: newest first
        row_id, size = newest[name]
        is_named = name.rpartition("/")[2] in text
        if len(chosen) < most and (is_named or size <= max_bytes):
            max_bytes -= size
            chosen[name] = row_id
    last = max((row_id for row_id, _ in newest.values()), default=0)
    return _by_key(connection, source, session_row, chosen), last


def files_since(connection: Connection, session_row: int, row_id: int) -> set[str]:
    """Return the names of the files that code wrote after the one of a row."""
    return {str(name) for name in connection.execute(_NEWER_FILES, _now_of(session_row) | {"after": row_id}).scalars()}


def batched(values: Collection[T]) -> Iterator[list[T]]:
    """Yield the values in lists of at most `MANY`, the number of parameters that every database accepts in a statement."""
    left = iter(values)
    while some := list(islice(left, MANY)):
        yield some


def all_of(
    connection: Connection, source: Source, session_row: int, *, after: str | None = None, limit: int | None = None
) -> list[Artifact] | None:
    """Return the session's artifacts after the one with the id `after`, oldest first; None if that does not exist."""
    return _page(connection, source, session_row, _ALL.limit(limit), after, 0)


def older(
    connection: Connection, source: Source, session_row: int, *, before: str | None = None, limit: int
) -> list[Artifact] | None:
    """Return the artifacts stored before the one with the id `before`, newest first; None if that does not exist."""
    return _page(connection, source, session_row, _OLDER.limit(limit), before, 2**63 - 1)


NO_SHAPE: Final = "unknown (its description is damaged)"
UNREADABLE: Final = "text (how its tables are read is damaged)"
"""The shape of a text whose tables cannot be read any more; the text itself can."""


def _page(
    connection: Connection, source: Source, session_row: int, query: Any, beyond: str | None, end: int
) -> list[Artifact] | None:
    """Return the artifacts of a query beyond the one with the id `beyond`; without one, beyond the row id `end`."""
    if beyond is not None:
        found = by_ids(connection, source, session_row, [beyond]).get(beyond)
        if found is None:
            return None
        end = found.row_id
    rows = connection.execute(query, {**_now_of(session_row), "beyond": end}).all()
    return [_artifact(row, source) for row in rows]


def _by_key(connection: Connection, source: Source, session_row: int, rows: Mapping[str, int]) -> dict[str, Artifact]:
    artifacts = by_row_ids(connection, source, session_row, set(rows.values()))
    return {key: artifacts[row] for key, row in rows.items() if row in artifacts}


def shape_in(column: str, kind: str) -> str | dict[str, Any]:
    """Return the shape of an artifact's row; of a damaged column, words that say so, or that it is text, which needs no other."""
    try:
        match json.loads(column):
            case str() | dict() as shape:
                return shape
    except (ValueError, RecursionError):
        pass
    return "text" if kind == "text" else NO_SHAPE


def _read_as(column: str) -> tuple[Any, str]:
    """Return the shape of the tables in a text, and how they are read. Of a damaged column, that is nothing that can be read."""
    try:
        match json.loads(column):
            case [str() | dict() as shape, str(reading)]:
                return shape, reading
    except (ValueError, RecursionError):
        pass
    return UNREADABLE, ""


def _artifact(row: Any, source: Source) -> Artifact:
    shape, reading = shape_in(row.shape, row.kind), None
    if row.reading is not None:
        shape, reading = _read_as(row.reading)
    used = source.follow(row.id, row.ttl_seconds, row.expires_at) if source.follow else None
    is_string = row.kind == "text" and shape != "text"
    return Artifact(
        id=row.public_id,
        name=row.name,
        kind="json" if is_string else row.kind,
        content_type=row.content_type,
        size_bytes=row.size_bytes,
        line_count=row.line_count,
        preview=row.preview,
        tokens=row.tokens,
        shape=shape,
        step=row.step,
        stored_at=row.created_at,
        payload=StoredPayload(
            row.blob_id, row.blob_key, row.blob_store, row.stored_bytes, row.line_count, source, used
        ),
        digest=bytes(row.digest),
        row_id=row.id,
        packed_schema=None if row.json_schema is None else bytes(row.json_schema),
        expires_at=row.expires_at,
        ttl_seconds=row.ttl_seconds,
        is_kept=row.kept,
        is_string=is_string,
        reading=reading,
    )
