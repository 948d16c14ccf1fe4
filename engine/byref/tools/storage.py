"""store_artifact, get_artifact and list_artifacts: data stored under names that the model chooses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from byref.artifacts import listing, staging, store, variables
from byref.artifacts.counted import Counted
from byref.artifacts.notes import first_note
from byref.artifacts.staging import Content, Staged
from byref.artifacts.store import Description
from byref.content import Block, Media, binary, to_block
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.describe.jsontext import noted
from byref.describe.shape import kind_of, shape
from byref.describe.truncate import head_of
from byref.errors import ConfigurationError, QuotaExceeded, ToolError, shown
from byref.ingest.ingested import Ingested
from byref.policy import gates
from byref.references.coercion import as_key
from byref.references.targets import expired, find, lookup
from byref.tools import viewing
from byref.tools.record import KEYS, Answer, Arguments, Tool, bounded
from byref.tools.texts import opening

MAX_NAME_CHARS = 256
MAX_PREVIEW_CHARS = 10_000
LISTED = 20
_WHOLE = 1_000
"""Characters of a name, type or preview in a list: enough for everything that the model or byref made."""
_CLIPPED = (100, 30, 8, 1)
"""The same for a list in which otherwise not even one entry would fit."""
_MOST_CHARS = 16
"""Upper limit of the characters per token: no text that is worth reading has more."""

_CHARSET = re.compile(r"""(;\s*charset\s*=\s*)(?:"[^"]*"|[^;\s]*)""", re.IGNORECASE)


class StoreArguments(Arguments, frozen=True):
    """Arguments of store_artifact."""

    name: Annotated[str, Meta(description="Name to find it by; storing the name again makes it mean the newer value.")]
    value: Annotated[Any, Meta(description="The text or JSON to keep.")]
    content_type: Annotated[str | None, Meta(description="MIME type, if it matters.")] = None


class GetArguments(Arguments, frozen=True):
    """Arguments of get_artifact."""

    pointer_or_name: Annotated[str, Meta(description="Pointer, id or name of what was stored.")]
    offset: Annotated[int, Meta(description="Characters to skip, as an incomplete reply says.", ge=0)] = 0


class ListArguments(Arguments, frozen=True):
    """Arguments of list_artifacts."""

    prefix: Annotated[str, Meta(description="Only names or ids that begin with this.")] = ""
    limit: Annotated[int, Meta(description="Most entries (default 20).", ge=1, le=100)] = LISTED
    after: Annotated[str, Meta(description="Go on behind this pointer, as an incomplete reply says.")] = ""


def check(name: object, content_type: object, preview_chars: object) -> None:
    """Raise ConfigurationError for a name, type or preview that no artifact can have."""
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS):
        raise ConfigurationError(f"name={shown(name)}: expected text of 1 to {MAX_NAME_CHARS} characters")
    if content_type is not None and not (
        isinstance(content_type, str) and 0 < len(content_type) <= 255 and content_type.isprintable()
    ):
        raise ConfigurationError(f"content_type={shown(content_type)}: expected a MIME type")
    if not (type(preview_chars) is int and 0 <= preview_chars <= MAX_PREVIEW_CHARS):
        raise ConfigurationError(
            f"preview_chars={shown(preview_chars)}: expected a whole number from 0 to {MAX_PREVIEW_CHARS:,}"
        )


def store_value(
    scope: Scope,
    value: object,
    *,
    name: str | None,
    content_type: str | None,
    preview_chars: int = store.PREVIEW_CHARS,
) -> tuple[Staged, Description]:
    """Check, stage and describe a value that is to be stored.

    Raises:
        ConfigurationError: the name, type or preview is out of range, or JSON cannot hold the value or a part of it.
        QuotaExceeded: the value alone, or together with all that is stored already, is more than the policy allows.
    """
    check(name, content_type, preview_chars)
    if type(value) is Ingested:
        return value.staged, _described(scope, value.block, value, content_type, preview_chars)
    block = binary(value, content_type) or to_block(value)
    about = _described(scope, block, value, content_type, preview_chars)
    return staging.stage(scope.place, Content(block.data, block.digest, block.line_count, about.content_type)), about


def _described(
    scope: Scope, block: Block | Media, value: object, content_type: str | None, preview_chars: int
) -> Description:
    room.check(scope, {block.digest: block.stored_size})
    if isinstance(block, Media):
        placeholder = block.placeholder if preview_chars else ""
        tokens = gates.media_tokens(scope.policy, is_image=block.kind == "image", size=block.size)
        return Description(block.kind, content_type or block.content_type, block.size, placeholder, tokens, block.words)
    if block.kind == "json" and block.from_value and block.described is None:
        block.reparse()
    kind = block.kind
    if type(value) is not Ingested and (lost := first_note(value, block)):
        raise ConfigurationError(f"{lost}. Store text, bytes, or what JSON can hold")
    words: object = shape(block.outline) if kind == "json" else "text"
    if kind == "text" and block.from_value:  # a number, a boolean or None: JSON that is neither text nor a structure
        kind, words = "json", kind_of(block.value)
    own_type = {"json": "application/json", "text": "application/octet-stream" if block.lossy else "text/plain"}[kind]
    return Description(
        kind,
        _as_stored(content_type, block, value) or own_type,
        block.size,
        head_of(block.ends, preview_chars) if preview_chars else "",
        block.tokens(scope.count, kind),
        words,
        is_string=block.kind == "json" and (value.is_text if type(value) is Ingested else issubclass(type(value), str)),
    )


def _as_stored(content_type: str | None, block: Block, value: object) -> str | None:
    """Return the content type that a host gave of text, with the encoding in which it is stored."""
    if content_type is None or _CHARSET.search(content_type) is None:
        return content_type
    if type(value) is Ingested:
        is_same = not value.is_text
    else:
        is_same = issubclass(type(value), bytes | bytearray | memoryview) and block.data == value
    return content_type if is_same else _CHARSET.sub(r"\g<1>utf-8", content_type)


def insert_value(
    connection: Connection,
    scope: Scope,
    staged: Staged,
    about: Description,
    *,
    name: str | None,
    origin: str,
    step: int | None,
) -> str:
    """Publish a staged value as an artifact of the session and return its id."""
    room.check_within(connection, scope, {staged.digest: staged.size})
    blob = staging.publish_kept(connection, scope.place, staged)
    return scope.publish(connection, blob, replace(about, name=name), step=step, origin=origin).id


def _store(scope: Scope, arguments: StoreArguments) -> Answer:
    try:
        staged, about = store_value(scope, arguments.value, name=arguments.name, content_type=arguments.content_type)
    except (ConfigurationError, QuotaExceeded) as error:
        raise ToolError(f"store_artifact: {error}") from None

    def commit(connection: Connection, step: int) -> str:
        public_id = insert_value(connection, scope, staged, about, name=arguments.name, origin="model", step=step)
        kept = {
            "pointer": "art:" + public_id.removeprefix("art_"),
            "preview": about.preview,
            "sizeBytes": about.size_bytes,
            "name": arguments.name,
        }
        bare = arguments.name.removeprefix("$")
        if variables.find(connection, scope.source, scope.row, [bare], without_damaged=True):
            kept["note"] = f"the name means the variable {bare}: get this by its pointer"
        return _json(kept)

    return Answer(None, commit=commit)


def _get(scope: Scope, arguments: GetArguments) -> Answer:
    key, limit = arguments.pointer_or_name, scope.policy.reply_tokens
    bare = key.removeprefix("$")
    target = lookup(scope, [bare]).get(bare)
    if target is None:
        gone = expired(scope, [key])
        return Answer(f"[{gone[key]}]" if gone else f"[no artifact found for '{key[:200]}']")
    begin = arguments.offset
    if target.artifact.is_exact:
        target = find(scope, bare)
    if target.artifact.is_binary:
        if begin:
            viewing.refuse(scope, target.artifact, "offset does not apply, it has no characters")
        return viewing.show(scope, target.artifact)
    text = opening(target, key, begin, limit * _MOST_CHARS + 1)
    if begin and not text:
        raise ToolError(f"offset={begin}: the artifact has no more characters than that")
    if len(text) <= limit * _MOST_CHARS and scope.count(text) <= limit:
        return Answer(text)
    how = " Or search it with artifact_grep." if "artifact_grep" in scope.tools else ""

    def page(characters: int) -> str:
        shown = text[:characters]
        of = (
            f"characters {begin + 1:,} to {begin + len(shown):,} of an artifact of {target.artifact.size_bytes:,} bytes"
        )
        return f"{shown}\n[INCOMPLETE: {of}. Go on with offset={begin + len(shown)}.{how}]"

    return Answer(bounded(scope, page, least=1))


def _list(scope: Scope, arguments: ListArguments) -> Answer:
    prefix = arguments.prefix
    if prefix.startswith("art:"):
        prefix = "art_" + prefix.removeprefix("art:")

    def work(connection: Connection) -> listing.Page:
        after = listing.row_id_of(connection, scope.row, arguments.after) if arguments.after else 0
        if after is None:
            raise ToolError(f"after={arguments.after[:100]!r} is no pointer in this conversation")
        page = listing.page_of(connection, scope.row, prefix=prefix, after=after, limit=arguments.limit)
        if page is None:
            raise ToolError(f"after={arguments.after[:100]!r} is not in the list by prefix={arguments.prefix[:100]!r}")
        return page

    listed, total = scope.read(work)
    count = len(listed)
    content = _page(listed, total, _WHOLE)
    while count > 1 and (tokens := scope.count(content)) > scope.policy.reply_tokens:
        count = max(1, min(count - 1, int(count * scope.policy.reply_tokens / tokens)))
        content = _page(listed[:count], total, _WHOLE)
    for most in _CLIPPED:  # a single entry with a long name or preview does not fit
        if scope.count(content) <= scope.policy.reply_tokens:
            break
        content = _page(listed[:1], total, most)
    return Answer(content)


def _page(listed: list[listing.Listed], total: Counted, most: int) -> str:
    content = _json([_entry(artifact, most) for artifact in listed])
    left = total.beside(len(listed))
    return (
        noted(content, f'INCOMPLETE: {left} more. Go on with after="{_pointer(listed[-1].id)}".') if left else content
    )


def _entry(artifact: listing.Listed, most: int) -> dict[str, object]:
    return {
        "pointer": _pointer(artifact.id),
        "name": None if artifact.name is None else _clipped(artifact.name, most),
        "sizeBytes": artifact.size_bytes,
        "preview": _clipped(artifact.preview, most),
        "contentType": _clipped(artifact.content_type, most),
        "storedAt": int(artifact.stored_at.timestamp() * 1000),
    }


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _pointer(public_id: str) -> str:
    return "art:" + public_id.removeprefix("art_")


def _json(value: object) -> str:
    return to_block(msgspec.to_builtins(value)).text


STORE_ARTIFACT = Tool(
    "store_artifact",
    "Keep a text or JSON under a name, for later calls.",
    StoreArguments,
    _store,
    example={"name": "report", "value": {"total": 3}},
    spellings={
        **dict.fromkeys(("key", "title", "artifact_name"), "name"),
        **dict.fromkeys(("data", "content", "text", "json"), "value"),
        **dict.fromkeys(("mime_type", "type"), "content_type"),
    },
)
GET_ARTIFACT = Tool(
    "get_artifact",
    "Get what was stored, by pointer or name.",
    GetArguments,
    _get,
    example={"pointer_or_name": "report"},
    spellings={
        **dict.fromkeys(KEYS, "pointer_or_name"),
        **dict.fromkeys(("start", "skip", "position"), "offset"),
    },
    coerce={"pointer_or_name": as_key},
)
LIST_ARTIFACTS = Tool(
    "list_artifacts",
    "List what is stored in this conversation.",
    ListArguments,
    _list,
    example={"prefix": "report", "limit": 20},
    spellings={
        **dict.fromkeys(("name", "starts_with", "filter", "query", "search"), "prefix"),
        **dict.fromkeys(("max", "count", "max_results", "page_size"), "limit"),
        **dict.fromkeys(("cursor", "start_after", "next", "page_token"), "after"),
    },
    coerce={"after": as_key},
)
