"""Prepare: an output is read into blocks; its instructions are removed; it is mapped, measured, and judged by itself.

This needs no SQL. A mapper or a template may run in the sandbox.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from blake3 import blake3

from byref.accounting import ledger
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.content import Block, Large, Media, Piece, formats, instructions, tables, to_block, to_pieces
from byref.conversation.result import Result
from byref.conversation.scope import Scope
from byref.describe.schema import NotPlain, Schema, TooDeep, infer
from byref.describe.shape import shape
from byref.ingest import documents, mappers
from byref.ingest.ingested import Ingested, may_be_tables
from byref.policy import ToolPolicy, gates
from byref.policy.gates import Reason, Verdict
from byref.policy.routes import Route

logger = logging.getLogger("byref")

MAPPED = "applied"
NO_MESSAGE = "[the tool failed without a message]"
"""What the model reads of a failed output without text: Anthropic refuses an error without any, and OpenAI has no mark for one."""
UNSEEN_TOKENS = 1_600
"""Tokens of an image whose bytes are elsewhere, if the policy counts images by their bytes."""


@dataclass(eq=False)
class Measured:
    """One block of an output with its size and tokens."""

    piece: Piece
    size: int
    """UTF-8 bytes of the text that the model would read, or bytes of an image or document."""
    tokens: int
    digest: bytes
    note: str | None = None
    """Why the text is not structured, if it might have been."""
    tables: Measured | None = None
    """The tables of a document, as JSON that is stored beside it."""

    @property
    def weight(self) -> int:
        """Its bytes as the gates count them. An image or document counts by its tokens, if that gives more bytes."""
        is_text = isinstance(self.piece.block, Block)
        return self.size if is_text else max(self.size, self.tokens * gates.BYTES_PER_TOKEN)

    @cached_property
    def schema(self) -> Schema | None:
        """The schema of a structured block; None for any other block, and for JSON that nests too deeply to be described."""
        block = self.piece.block
        if not isinstance(block, Block) or block.kind != "json":
            return None
        if block.described is not None:
            return block.described.schema
        try:
            try:
                return infer(block.parsed[1], plain=not block.from_value)
            except (NotPlain, TooDeep):
                # The Python value is not exactly JSON, or very deep; so the schema is that of its stored JSON.
                value = block.reparse()
                return infer(value, plain=True) if block.kind == "json" else None
        except TooDeep as error:
            block.give_up(str(error))
            self.note = block.parse_error
            return None

    @property
    def is_structured(self) -> bool:
        """Whether it is JSON that can be described."""
        return self.schema is not None

    @cached_property
    def shape(self) -> dict[str, str] | str:
        """Its shape in words; of an object, the shape of each member."""
        block = self.piece.block
        if isinstance(block, Media):
            return block.words
        return "text" if block is None or self.schema is None else shape(block.outline, self.schema.node)


@dataclass(eq=False)
class Prepared:
    """An output that was read and measured. It belongs to one call, and is used on one thread at a time."""

    scope: Scope
    """The session's scope, with the policy for this tool's outputs."""
    tool: str
    blocks: Sequence[Measured]
    verdict: Verdict
    """What the gate for each output says; of a document that would pass whole, that its tables stand for it."""
    is_error: bool
    digest: bytes
    call_id: str | None
    call_digest: bytes | None
    arguments: str | None
    instructions: str | None
    mapped: str | None
    """The outcome of the tool's mapper or template; None if none ran."""
    ingested: Ingested | None
    """The stream that the output arrived as, if it was too large for memory."""
    judged: Verdict
    """What the gate for each output says, whatever was read of a document."""

    @cached_property
    def count(self) -> Callable[..., int]:
        """A function like `Scope.count` that counts each text only once: builders measure the same texts several times."""
        return cache(self.scope.count)

    @cached_property
    def tokens(self) -> int:
        """The tokens of all blocks."""
        return sum(block.tokens for block in self.blocks)

    @cached_property
    def size(self) -> int:
        """The bytes of all blocks."""
        return sum(block.size for block in self.blocks)

    @property
    def storable(self) -> list[Measured]:
        """The blocks whose bytes are available; the others only name a place elsewhere."""
        return [block for block in self.blocks if block.piece.block is not None]

    @cached_property
    def kept(self) -> list[Measured]:
        """The blocks of text and data that are stored and bound although the gate lets them pass; see `Policy.keep_tokens`."""
        least = self.scope.policy.keep_tokens
        if least is None or self.is_error or self.verdict.reason not in ("below_floor", "fits"):
            return []
        return [block for block in self.blocks if isinstance(block.piece.block, Block) and block.tokens >= least]

    @property
    def can_buffer(self) -> bool:
        """Whether its commit may write its bytes: they are in memory, and go into SQL."""
        return self.ingested is None and self.scope.objects is None

    @property
    def content(self) -> str | list[Any]:
        """The content that the model reads if the output passes whole: text, or the blocks as they arrived."""
        [first, *more] = self.blocks
        if not more and first.piece.original is None and isinstance(first.piece.block, Block):
            return first.piece.block.text
        return [block.piece.content for block in self.blocks]

    def result(
        self,
        route: Route,
        reason: Reason,
        content: str | list[Any],
        tokens: int,
        *,
        step: int | None,
        envelope: dict[str, Any] | None = None,
        artifacts: Iterable[Artifact] = (),
        variables: Iterable[Variable] = (),
    ) -> Result:
        """Return the result of the call, with the fields that every result of this output shares."""
        return Result(
            content=content,
            route=route,
            reason=reason,
            step=step,
            envelope=envelope,
            artifacts=list(artifacts),
            variables=list(variables),
            tokens=tokens,
            original_tokens=self.tokens,
            is_error=self.is_error,
            instructions=self.instructions,
            tool=self.tool,
        )

    def is_of(self, before: ledger.Entry) -> bool:
        """Tell whether a step with the same call id and content is of this output: providers reuse call ids for other tools."""
        return (before.tool, before.is_error) == (self.tool, self.is_error)

    def leave_tables(self, note: str) -> None:
        """Do without the tables of documents, for the reason in the note: the output is what it was before they were read."""
        for block in self.blocks:
            if block.tables is not None:
                block.tables, block.note = None, note
        self.verdict = self.judged

    def discard(self) -> None:
        """Free the parsed values. The output must not be used afterwards."""
        for measured in self.storable:
            for one in (measured, measured.tables):
                if one is not None and one.piece.block is not None:
                    one.piece.block.discard()


def prepare(
    scope: Scope, output: object, tool: str, call_id: str | None, arguments: object, is_error: bool
) -> Prepared:
    """Read, map and measure an output and judge it by itself."""
    shaping = scope.policy.tool(tool)
    scope = replace(scope, policy=scope.policy.for_tool(tool))
    is_own_tool = tool in scope.tools
    ingested = output if type(output) is Ingested else None
    if ingested is not None:
        pieces, says_error, found = [Piece(ingested.block)], False, ingested.instructions
    else:
        pieces, says_error = to_pieces(output)
        found = None if is_own_tool else _lift_instructions(pieces)
    is_error = is_error or says_error
    message, mapped = found if scope.policy.trusted_instructions == "all" else None, None
    if not is_own_tool and not is_error and (shaping.mapper is not None or shaping.template is not None):
        pieces, from_mapper, mapped, is_error = _map(scope, shaping, pieces)
        if mapped != MAPPED:
            logger.warning("the mapper of %r %s", tool, mapped)
        message = from_mapper or message
    if is_error and ingested is None and all(map(_is_blank, pieces)):
        pieces = [Piece(to_block(NO_MESSAGE))]
    parses = scope.policy.enabled and not is_own_tool  # an output that passes whole in any case need not be parsed
    blocks = [_measured(scope, piece, parses=parses) for piece in pieces]
    verdict = gates.per_output(
        scope.policy,
        size=sum(block.weight for block in blocks),
        tokens=sum(block.tokens for block in blocks),
        window=scope.window,
        is_error=is_error,
        own_tool=is_own_tool,
    )
    if verdict.reason not in ("disabled", "own_tool", "below_floor"):
        for measured in blocks:
            if isinstance(measured.piece.block, Block) and measured.piece.block.kind == "text":
                measured.note = measured.piece.block.parse_error
    prepared = Prepared(
        scope=scope,
        tool=tool,
        blocks=blocks,
        verdict=verdict,
        is_error=is_error,
        digest=blocks[0].digest if len(blocks) == 1 else _digest(b"".join(block.digest for block in blocks)),
        call_id=call_id[: ledger.CALL_ID_CHARS] if call_id else None,
        call_digest=ledger.digest(call_id) if call_id else None,
        arguments=ledger.cut_arguments(arguments),
        instructions=message if scope.policy.trusted_instructions != "none" else None,
        mapped=mapped,
        ingested=ingested,
        judged=verdict,
    )
    if may_be_tables(scope.policy, shaping) and not is_own_tool and not is_error:
        for measured in prepared.kept if verdict.fits else blocks:
            _take_for_tables(measured, shaping.format)
            if not verdict.fits and not measured.is_structured:
                _read_tables(scope, measured)
        if len(blocks) == 1 and _is_unreadable(scope, verdict, blocks[0]):
            _read_tables(scope, blocks[0])
            if blocks[0].tables is not None:
                prepared.verdict = Verdict(False, "tables", blocks[0].size)
    return prepared


def _is_blank(piece: Piece) -> bool:
    block = piece.block
    return isinstance(block, Block) and (not block.text or block.text.isspace())


def _is_unreadable(scope: Scope, verdict: Verdict, measured: Measured) -> bool:
    """Whether a document that would pass whole is bytes that say nothing to a model, which could follow a reference to its tables."""
    is_document = isinstance(measured.piece.block, Media) and measured.piece.block.kind == "document"
    follows = bool(scope.tools) and scope.policy.mode != "truncate"
    return is_document and follows and verdict.reason in ("below_floor", "fits")


def _take_for_tables(measured: Measured, format: str | None) -> None:
    """Take a text for the tables in it, if it is some; otherwise note why not. It may be known to be of a format."""
    block = measured.piece.block
    if not isinstance(block, Block) or block.kind != "text":
        return
    try:
        reason = tables.take_passed(block, format) if isinstance(block, Large) else tables.take(block, format)
    except Exception:  # text can always pass as text
        logger.exception("byref could not look for tables in a text; it stays text")
        return
    if reason:
        measured.note = f"no table: {reason}"


def _read_tables(scope: Scope, measured: Measured) -> None:
    """Read the tables of a document, if it is one; otherwise note why there are none."""
    block = measured.piece.block
    if block is None:
        return
    found, reason = documents.read(scope, block)
    if found is not None and found.stored_size > scope.policy.max_artifact_bytes:
        found, reason = None, "its tables are left out: as records they are larger than max_artifact_bytes"
    if found is not None:
        measured.tables = _measured(scope, Piece(found), parses=True)
    elif reason is not None:
        measured.note = reason


def _lift_instructions(pieces: list[Piece]) -> str | None:
    """Remove the instructions from every block of the list, in place, and return the first ones."""
    first = None
    for at, piece in enumerate(pieces):
        if piece.block is None and type(piece.original) is dict:
            original, found = instructions.lift_value(piece.original)
            if found is not None and type(original) is dict:
                pieces[at], first = Piece(None, original), first or found
        elif isinstance(piece.block, Block) and not isinstance(piece.block, Large):
            rest, found = instructions.lift(piece.block)
            if found is not None:
                pieces[at], first = formats.replaced(piece, rest), first or found
    return first


def _map(scope: Scope, shaping: ToolPolicy, pieces: list[Piece]) -> tuple[list[Piece], str | None, str, bool]:
    """Apply the tool's mapper and template to the blocks.

    Returns the blocks, the instructions found in the results, the outcome of the mapping as text, and whether a result says
    that it is an error. Of several blocks only the structured ones are mapped, if there are any; if one of them fails, none is.
    """
    texts = [piece for piece in pieces if isinstance(piece.block, Block)]
    structured = [piece for piece in texts if isinstance(piece.block, Block) and piece.block.kind == "json"]
    chosen = {id(piece) for piece in (texts if len(pieces) == 1 else structured or texts)}
    shaped: list[Piece] = []
    first, is_error = None, False
    for piece in pieces:
        if id(piece) not in chosen or not isinstance(piece.block, Block):
            shaped.append(piece)
            continue
        kind, value = piece.block.parsed
        text = b"" if piece.block.from_value or shaping.mapper is None else piece.block.data
        try:
            result = mappers.apply(scope, shaping, value if kind == "json" else piece.block.text, text)
        except mappers.MapperFailed as failure:
            return pieces, None, f"failed, the output is unmapped: {failure}", False
        result, found = instructions.lift_value(result)
        made, failed = to_pieces(result)
        first, is_error = first or found or _lift_instructions(made), is_error or failed
        shaped += made
    return shaped, first, MAPPED, is_error


def _measured(scope: Scope, piece: Piece, *, parses: bool) -> Measured:
    block, policy = piece.block, scope.policy
    if isinstance(block, Block):
        if parses or isinstance(block, Large):
            kind = block.kind
        else:
            kind = "json" if block.from_value or block.text[:1] in ("{", "[") else "text"
        return Measured(piece, block.size, block.tokens(scope.count, kind), block.digest)
    if block is not None:
        tokens = gates.media_tokens(policy, is_image=block.kind == "image", size=block.size)
        return Measured(piece, block.size, tokens, block.digest)
    written = formats.to_json([piece.content])
    is_seen = piece.original is not None and formats.is_image(piece.original)
    tokens = (policy.image_tokens or UNSEEN_TOKENS) if is_seen else scope.count(written, "json")
    return Measured(piece, len(written), tokens, _digest(written.encode()))


def _digest(data: bytes) -> bytes:
    return bytes(blake3(data).digest())
