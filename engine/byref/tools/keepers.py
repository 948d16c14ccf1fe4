"""store_artifact, get_artifact and list_artifacts: data kept under names of the model's choice."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from blake3 import blake3
from msgspec import Meta
from sqlalchemy import Connection

from byref import variables
from byref.artifacts import staging, store
from byref.artifacts.store import Artifact, Description
from byref.describe.shape import shape
from byref.describe.truncate import head_of, truncate
from byref.errors import ConfigurationError, QuotaExceeded, ToolError
from byref.outputs import Block, to_block
from byref.scope import Scope
from byref.tools.record import Answer, Arguments, Tool
from byref.tools.targets import lookup, walk

MAX_NAME_CHARS = 256
LISTED = 20


class StoreArguments(Arguments, frozen=True):
    """Arguments of store_artifact."""

    name: Annotated[str, Meta(description="Name to find it by; storing the name again makes it mean the newer value.")]
    value: Annotated[Any, Meta(description="The text or JSON to keep.")]
    content_type: Annotated[str | None, Meta(description="MIME type, if it matters.")] = None


class GetArguments(Arguments, frozen=True):
    """Arguments of get_artifact."""

    pointer_or_name: Annotated[str, Meta(description="Pointer, id or name of what was stored.")]


class ListArguments(Arguments, frozen=True):
    """Arguments of list_artifacts."""

    prefix: Annotated[str, Meta(description="Only names or ids that begin with this.")] = ""
    limit: Annotated[int, Meta(description="Most entries.", ge=1, le=100)] = LISTED
    after: Annotated[str, Meta(description="Pointer of the last entry of the page before.")] = ""


def store_value(
    scope: Scope,
    value: object,
    *,
    name: str | None,
    content_type: str | None,
    preview_chars: int = store.PREVIEW_CHARS,
) -> tuple[Block, bytes, int, Description]:
    """Check and stage a value that is to be kept; return its block, digest, blob and description."""
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS):
        raise ConfigurationError(f"name={name!r:.100}: expected text of 1 to {MAX_NAME_CHARS} characters")
    if content_type is not None and not (
        isinstance(content_type, str) and 0 < len(content_type) <= 255 and content_type.isprintable()
    ):
        raise ConfigurationError(f"content_type={content_type!r:.100}: expected a MIME type")
    block = to_block(value)
    if len(block.data) > scope.policy.max_artifact_bytes:
        raise QuotaExceeded(
            f"{len(block.data):,} bytes are more than max_artifact_bytes={scope.policy.max_artifact_bytes:,} allows"
        )
    kind, parsed = block.parsed
    if kind == "json" and block.from_value:
        block.reparse()
        kind, parsed = block.parsed
    own_type = {"json": "application/json", "text": "application/octet-stream" if block.lossy else "text/plain"}[kind]
    about = Description(
        kind,
        content_type or own_type,
        block.size,
        head_of(block.text, preview_chars),
        scope.count(block.text, kind),
        shape(parsed) if kind == "json" else "text",
    )
    digest = bytes(blake3(block.data).digest())
    return block, digest, staging.stage(scope.stage, scope.tenant, block.data, digest, block.line_count), about


def insert_value(
    connection: Connection,
    scope: Scope,
    staged: tuple[Block, bytes, int, Description],
    *,
    name: str | None,
    origin: str,
    step: int | None,
) -> str:
    """Publish a staged value as an artifact of the session and return its id."""
    block, digest, blob_id, about = staged
    published = staging.publish_kept(connection, scope.tenant, blob_id, digest, block.data, block.line_count)
    public_id = store.new_id()
    store.insert_artifact(
        connection,
        tenant=scope.tenant,
        session_id=scope.row,
        blob_id=published,
        public_id=public_id,
        step=step,
        origin=origin,
        name=name,
        about=about,
    )
    return public_id


def _store(scope: Scope, arguments: StoreArguments) -> Answer:
    try:
        staged = store_value(scope, arguments.value, name=arguments.name, content_type=arguments.content_type)
    except (ConfigurationError, QuotaExceeded) as error:
        raise ToolError(f"store_artifact: {error}") from None
    block = staged[0]

    def commit(connection: Connection, step: int) -> str:
        public_id = insert_value(connection, scope, staged, name=arguments.name, origin="model", step=step)
        kept = {
            "pointer": "art:" + public_id.removeprefix("art_"),
            "preview": head_of(block.text, store.PREVIEW_CHARS),
            "sizeBytes": block.size,
            "name": arguments.name,
        }
        bare = arguments.name.removeprefix("$")
        if variables.find(connection, scope.read, scope.row, [bare]):
            kept["note"] = f"the name means the variable {bare}: get this by its pointer"
        return _json(kept)

    return Answer("", commit=commit)


def _get(scope: Scope, arguments: GetArguments) -> Answer:
    key = arguments.pointer_or_name
    bare = key.strip().removeprefix("$")
    target = lookup(scope, [bare]).get(bare)
    if target is None:
        return Answer(f"[no artifact found for '{key[:200]}']")
    artifact = target.artifact
    if artifact.kind == "text":
        text = store.decode_text(artifact.payload.read())
    else:
        text = to_block(walk(artifact.value, target.path, key)).text
    limit = scope.policy.reply_tokens
    shown = truncate(text, budget=limit - 80, measure=scope.count)
    if not shown.omitted_bytes:
        return Answer(text)
    readers = [name for name in ("artifact_read", "artifact_grep") if name in scope.tools]
    how = f" Read the rest with {' or '.join(readers)}." if readers else ""
    return Answer(f"{shown.text}\n[INCOMPLETE: {shown.omitted_bytes:,} bytes are left out.{how}]")


def _list(scope: Scope, arguments: ListArguments) -> Answer:
    artifacts = scope.read(lambda connection: store.all_of(connection, scope.read, scope.row))
    if arguments.after:
        marks = [i for i, artifact in enumerate(artifacts) if arguments.after in (artifact.pointer, artifact.id)]
        if not marks:
            raise ToolError(f"after={arguments.after[:100]!r} is no pointer in this conversation")
        artifacts = artifacts[marks[0] + 1 :]
    prefix = arguments.prefix
    matching = [a for a in artifacts if (a.name or "").startswith(prefix) or a.id.startswith(prefix)]
    entries: list[dict[str, object]] = [_entry(artifact) for artifact in matching[: arguments.limit]]
    while entries and scope.count(_json(entries)) > scope.policy.reply_tokens - 100:
        entries = entries[: len(entries) * 3 // 4]
    content = _json(entries)
    if left := len(matching) - len(entries):
        last = f' Go on with after="{entries[-1]["pointer"]}".' if entries else ""
        content += f"\n[INCOMPLETE: {left:,} more.{last}]"
    return Answer(content)


def _entry(artifact: Artifact) -> dict[str, object]:
    return {
        "pointer": artifact.pointer,
        "name": artifact.name,
        "sizeBytes": artifact.size_bytes,
        "preview": artifact.preview,
        "contentType": artifact.content_type,
        "storedAt": int(artifact.stored_at.timestamp() * 1000),
    }


def _json(value: object) -> str:
    return to_block(msgspec.to_builtins(value)).text


STORE_ARTIFACT = Tool(
    "store_artifact",
    "Keep a text or JSON under a name, for later calls.",
    StoreArguments,
    _store,
    spellings={"contentType": "content_type"},
)
GET_ARTIFACT = Tool(
    "get_artifact",
    "Get what was stored, by pointer or name.",
    GetArguments,
    _get,
    spellings={"pointerOrName": "pointer_or_name", "pointer": "pointer_or_name", "name": "pointer_or_name"},
)
LIST_ARTIFACTS = Tool("list_artifacts", "List what is stored in this conversation.", ListArguments, _list)
