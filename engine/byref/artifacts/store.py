"""Artifacts: stored payloads with their description, found by id, pointer or name within one session."""

from __future__ import annotations

import json
import re
import secrets
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any, TypeVar

import zstandard
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Text,
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
from byref.db.payloads import Source, StoredPayload
from byref.db.tables import CAME, IS_FILE, WAS_MADE, ArtifactRow, BlobRow, EscapedText
from byref.errors import ArtifactMissing
from byref_sandbox import jsontext

PREVIEW_CHARS = 200
MAX_FILES_LOOKED_AT = 500
"""Newest files of code among which those are chosen that a run is given."""
MANY = 500
"""Parameters of one statement; every database takes as many, and a longer list is asked in parts."""
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_ID = re.compile(r"art[_:]([\w-]{1,60})", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Artifact:
    """An immutable stored payload with its description; its bytes are read when asked for."""

    id: str
    """`art_…`, minted by byref."""
    name: str | None
    kind: str
    """json, text, image or document"""
    content_type: str
    size_bytes: int
    """UTF-8 bytes of its text; of JSON made from Python values, in compact form."""
    line_count: int
    preview: str
    """The first 200 characters, and how many more there are."""
    tokens: int
    shape: object
    step: int | None
    """The ledger step that made it; None where the host stored it."""
    stored_at: datetime
    payload: StoredPayload = field(repr=False)
    digest: bytes = field(repr=False)
    row_id: int = field(repr=False)
    packed_schema: bytes | None = field(repr=False)
    expires_at: datetime | None = field(compare=False)
    """When it goes, unless it is used before; None: with its session."""
    ttl_seconds: float | None = field(repr=False, compare=False)
    """How long it is kept after it was last used."""
    is_kept: bool = field(repr=False, compare=False)
    """Whether it survives the end of its session."""
    is_string: bool = field(repr=False)
    """Of JSON: whether it is the text that it came as, which holds JSON, rather than what that says."""

    @property
    def description(self) -> Description:
        """What its row says of its payload, for another artifact of the same bytes."""
        said = self.kind, self.content_type, self.size_bytes, self.preview, self.tokens, self.shape, self.packed_schema
        return Description(*said, name=self.name, is_string=self.is_string)

    @property
    def pointer(self) -> str:
        """The id as models are shown it: with a colon in place of the underscore."""
        return "art:" + self.id.removeprefix("art_")

    def use(self) -> None:
        """Put off its expiry, as each reading of its bytes does."""
        if self.payload.used is not None:
            self.payload.used()

    @property
    def location(self) -> str | None:
        """The path or URL at which other programs find the very bytes; None where they are in SQL, or compressed."""
        return self.payload.uri

    @property
    def value(self) -> object:
        """The whole payload as what it came as: parsed JSON, text, or the bytes of an image or a document."""
        return self.text if self.is_string else self.parsed

    @property
    def parsed(self) -> object:
        """The same, but that a text which holds JSON is what that says."""
        data = self.payload.read()
        if self.is_binary:
            return data
        return jsontext.decode(data) if self.kind == "json" else decode_text(data)

    @property
    def text(self) -> str:
        """The payload as text."""
        return decode_text(self.payload.read())

    @property
    def has_own_text(self) -> bool:
        """Whether it is text, or JSON written by somebody else: into what byref writes it puts line feeds."""
        return self.kind == "text" or (self.kind == "json" and self.size_bytes == self.payload.size)

    @property
    def is_json(self) -> bool:
        """Whether jq is given a value: it is structured, or its content type says that it is JSON, as of a scalar's text."""
        declared = self.content_type.partition(";")[0].strip().lower()
        is_declared = declared in ("application/json", "text/json") or declared.endswith("+json")
        return self.kind == "json" or is_declared

    @property
    def is_binary(self) -> bool:
        """Whether it is an image or a document, whose bytes are no text to be searched."""
        return self.kind in ("image", "document") and not self.content_type.startswith("text/")

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of a structured output; None of text, and of what a host, a model or code stored."""
        if self.packed_schema is None:
            return None
        try:
            schema: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(self.packed_schema))
        except (zstandard.ZstdError, ValueError) as error:
            raise ArtifactMissing(f"the schema of {self.id} is damaged: {error}") from None
        return schema


@dataclass(frozen=True, slots=True)
class Description:
    """What an artifact's row says of its payload."""

    kind: str
    content_type: str
    size_bytes: int
    preview: str
    tokens: int
    shape: object
    packed_schema: bytes | None = None
    name: str | None = None
    is_string: bool = False
    """As of the artifact. Its row is one of a text then, with the shape of JSON."""


def is_id(value: str) -> bool:
    """Tell whether a key is spelled as an id or a pointer is."""
    return _ID.fullmatch(value) is not None


def is_pointer(value: object) -> bool:
    """Tell whether a value is a string in the pointer spelling, `art:…`."""
    return isinstance(value, str) and value.startswith("art:")


def approx_byte_size(value: object) -> int:
    """Return the UTF-8 bytes of a text, of any other value those of its compact JSON.

    0 where JSON cannot hold the value (it contains itself, say), so that it never exceeds a threshold. An iterator is
    read to its end.
    """
    block = to_block(value)
    return 0 if first_note(value, block) else block.size


def decode_text(data: bytes) -> str:
    """Return stored text as the model reads it: lone surrogates as they came, undecodable bytes as U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def pack_schema(schema: object) -> bytes:
    """Return a JSON Schema as it is kept."""
    return zstandard.ZstdCompressor(level=3).compress(json.dumps(schema, separators=(",", ":")).encode())


def new_id(*, as_uuid: bool = False) -> str:
    """Return a fresh artifact id: 60 random bits, few tokens; or a UUID, as memory pointers have."""
    if as_uuid:
        return f"art_{uuid.uuid4()}"
    return "art_" + "".join(_ALPHABET[byte % 32] for byte in secrets.token_bytes(12))


def publish(
    connection: Connection,
    source: Source,
    blob: Published,
    about: Description,
    *,
    tenant: str,
    session_row: int,
    step: int | None,
    origin: str,
    ttl: timedelta | None,
    public_id: str | None = None,
) -> Artifact:
    """Insert an artifact of a published blob and return it as it would be read; `public_id` is one of `new_id`."""
    now = datetime.now(UTC)
    row = {
        "public_id": public_id or new_id(),
        "tenant": tenant,
        "session_id": session_row,
        "step": step,
        "blob_id": blob.id,
        "origin": origin,
        "kind": "text" if about.is_string else about.kind,
        "content_type": about.content_type,
        "name": about.name,
        "size_bytes": about.size_bytes,
        "preview": about.preview,
        "tokens": about.tokens,
        "shape": json.dumps(about.shape),
        "json_schema": about.packed_schema,
        "created_at": now,
        "ttl_seconds": None if ttl is None else ttl.total_seconds(),
        "expires_at": None if ttl is None else now + ttl,
    }
    row_id = int(connection.execute(_INSERT, row).scalar_one())
    of_blob = {"blob_key": blob.key, "blob_store": blob.store, "digest": blob.digest}
    sizes = {"stored_bytes": blob.size, "line_count": blob.lines}
    return _artifact(SimpleNamespace(id=row_id, kept=False, **row, **of_blob, **sizes), source)


def is_live(now: ColumnElement[datetime] | None = None) -> ColumnElement[bool]:
    """The condition of artifacts that have not expired: what has is not found any more, swept or not."""
    return or_(ArtifactRow.expires_at.is_(None), ArtifactRow.expires_at > (datetime.now(UTC) if now is None else now))


# Built once: building takes longer than running what it builds.
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
    .join(BlobRow, BlobRow.id == ArtifactRow.blob_id)
    .where(ArtifactRow.session_id == bindparam("of_session"), is_live(bindparam("now")))
)
_ALL = _LIVE.where(ArtifactRow.id > bindparam("beyond")).order_by(ArtifactRow.id)
_OLDER = _LIVE.where(ArtifactRow.id < bindparam("beyond")).order_by(ArtifactRow.id.desc())
_LIVE_ROWS = _LIVE.where(ArtifactRow.id.in_(bindparam("ids", expanding=True)))
_LIVE_IDS = _LIVE.where(ArtifactRow.public_id.in_(bindparam("ids", expanding=True)))


def _newest_named(each: Any, *is_live: Any) -> Any:
    """For each of some names, as they are stored: the newest that was made so, and the newest that came in outputs."""
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
"""Names as rows, for look-ups of each, and no list: there may be any number of artifacts of one name."""
_NAMED = {dialect: _newest_named(wanted, is_live(bindparam("now"))) for dialect, wanted in _WANTED.items()}
_EVER_NAMED = {dialect: _newest_named(wanted) for dialect, wanted in _WANTED.items()}
_INSERT = insert(ArtifactRow).returning(ArtifactRow.id)


def _now_of(session_row: int) -> dict[str, Any]:
    return {"of_session": session_row, "now": datetime.now(UTC)}


def find(connection: Connection, source: Source, session_row: int, key: str) -> Artifact | None:
    """Return the session's artifact of that id, pointer or name, as `by_names`."""
    found = by_ids(connection, source, session_row, [key]) or by_names(connection, source, session_row, [key])
    return found.get(key)


def by_row_ids(connection: Connection, source: Source, session_row: int, ids: Collection[int]) -> dict[int, Artifact]:
    """Return the session's artifacts with these row ids, of which there may be any number."""
    found: dict[int, Artifact] = {}
    for some in batched(ids):
        rows = connection.execute(_LIVE_ROWS, {**_now_of(session_row), "ids": some}).all()
        found |= {row.id: _artifact(row, source) for row in rows}
    return found


def by_ids(connection: Connection, source: Source, session_row: int, keys: Collection[str]) -> dict[str, Artifact]:
    """Return the session's artifacts by those of the keys that are ids or pointers."""
    given = {key: "art_" + match[1] for key in keys if (match := _ID.fullmatch(key))}
    found: dict[str, Artifact] = {}
    for some in batched(set(given.values())):
        rows = connection.execute(_LIVE_IDS, {**_now_of(session_row), "ids": some}).all()
        found |= {row.public_id: _artifact(row, source) for row in rows}
    return {key: found[id_] for key, id_ in given.items() if id_ in found}


def by_names(connection: Connection, source: Source, session_row: int, names: Collection[str]) -> dict[str, Artifact]:
    """Return the session's artifacts by name, the newest of each.

    What a host, a model or code named goes before the names that documents in outputs happen to have.
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
    """Row ids by name: of the newest that was made so, and of the newest that came in outputs."""
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


def files_of_runs(
    connection: Connection, source: Source, session_row: int, text: str, *, most: int, max_bytes: int
) -> dict[str, Artifact]:
    """Return files that code wrote, the newest of each name: those that a text names, then others as far as there is room."""
    newest: dict[str, tuple[int, int]] = {}
    for row_id, name, size in connection.execute(_FILES, _now_of(session_row)):
        newest.setdefault(str(name), (row_id, size))
    chosen: dict[str, int] = {}
    for name in sorted(newest, key=lambda name: name.rpartition("/")[2] not in text):  # stable: newest first
        row_id, size = newest[name]
        is_named = name.rpartition("/")[2] in text
        if len(chosen) < most and (is_named or size <= max_bytes):
            max_bytes -= size
            chosen[name] = row_id
    return _by_key(connection, source, session_row, chosen)


def batched(values: Collection[T]) -> Iterator[list[T]]:
    """Yield as many values at a time as a statement takes as parameters on every database."""
    left = iter(values)
    while some := list(islice(left, MANY)):
        yield some


def all_of(
    connection: Connection, source: Source, session_row: int, *, after: str | None = None, limit: int | None = None
) -> list[Artifact] | None:
    """Return the session's artifacts, oldest first, those behind the one with the id `after`, which has to be there: else None."""
    return _page(connection, source, session_row, _ALL.limit(limit), after, 0)


def older(
    connection: Connection, source: Source, session_row: int, *, before: str | None = None, limit: int
) -> list[Artifact] | None:
    """Return the artifacts stored last, newest first, those before the one with the id `before`: None if that is gone."""
    return _page(connection, source, session_row, _OLDER.limit(limit), before, 2**63 - 1)


def _page(
    connection: Connection, source: Source, session_row: int, query: Any, beyond: str | None, end: int
) -> list[Artifact] | None:
    """The artifacts of a query beyond the one with an id, or beyond the row id of an end of the list."""
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


def _artifact(row: Any, source: Source) -> Artifact:
    shape = json.loads(row.shape)
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
    )
