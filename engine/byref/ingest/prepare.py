"""An output made ready to be judged: read into blocks, freed of instructions, mapped, measured. No SQL, but for a mapper."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from blake3 import blake3

from byref.accounting import ledger
from byref.content import Block, Large, Piece, formats, instructions, to_pieces
from byref.conversation.scope import Scope
from byref.describe.schema import NotPlain, Schema, TooDeep, infer
from byref.ingest import mappers
from byref.ingest.streamed import Taken
from byref.policy import ToolPolicy, gates
from byref.policy.gates import Verdict
from byref.stores.frames import Ahead

logger = logging.getLogger("byref")

APPLIED = "applied"
UNSEEN_TOKENS = 1_600
"""Of an image whose bytes are elsewhere, where the policy counts images by their bytes."""


@dataclass(eq=False)
class Measured:
    """One block of an output, measured."""

    piece: Piece
    size: int
    """UTF-8 bytes of what the model would read, or bytes of an image or document."""
    tokens: int
    digest: bytes
    note: str | None = None
    """Why text is not structured, where it might have been."""
    ahead: Ahead | None = None
    """Its frames, where they are being compressed already."""
    is_string: bool = False
    """A pointer to it stands for the text that it came as, though that be JSON."""

    @property
    def weight(self) -> int:
        """Its bytes as the gates count them: what is seen rather than read weighs what its tokens do, if that is more."""
        is_text = isinstance(self.piece.block, Block)
        return self.size if is_text else max(self.size, self.tokens * gates.BYTES_PER_TOKEN)

    @cached_property
    def schema(self) -> Schema | None:
        """The schema of a structured block; None of any other, and of JSON that is nested too deeply to be described."""
        block = self.piece.block
        if not isinstance(block, Block) or block.kind != "json":
            return None
        if block.described is not None:
            return block.described.schema
        try:
            try:
                return infer(block.parsed[1], plain=not block.from_value)
            except (NotPlain, TooDeep):
                # A Python value that is not exactly JSON, or very deep: its JSON text says what it is to everybody else.
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


@dataclass(eq=False)
class Prepared:
    """An output, read and measured."""

    scope: Scope
    """With the policy for this tool's outputs."""
    tool: str
    blocks: Sequence[Measured]
    verdict: Verdict
    is_error: bool
    digest: bytes
    call_id: str | None
    call_digest: bytes | None
    arguments: str | None
    instructions: str | None
    mapped: str | None
    """What became of the tool's mapper, None if it has none."""
    taken: Taken | None
    """The stream that it came as, if that was too large to be held."""

    @cached_property
    def count(self) -> Callable[..., int]:
        """Counts the tokens of what stands for the output, as `Scope.count`, each text once."""
        return cache(self.scope.count)

    @property
    def tokens(self) -> int:
        """Of all blocks."""
        return sum(block.tokens for block in self.blocks)

    @property
    def size(self) -> int:
        """Of all blocks, in bytes."""
        return sum(block.size for block in self.blocks)

    @property
    def weight(self) -> int:
        """Of all blocks, in bytes as the gates count them."""
        return sum(block.weight for block in self.blocks)

    @property
    def content(self) -> str | list[Any]:
        """What the model reads where the output passes whole: text, or the blocks as they came."""
        [first, *more] = self.blocks
        if not more and first.piece.original is None and isinstance(first.piece.block, Block):
            return first.piece.block.text
        return [block.piece.content for block in self.blocks]

    def discard(self) -> None:
        """Free what was parsed; nothing of the output is used any more."""
        for measured in self.blocks:
            if measured.ahead is not None:
                measured.ahead.close()
            if measured.piece.block is not None:
                measured.piece.block.discard()


def prepare(
    scope: Scope, output: object, tool: str, call_id: str | None, arguments: object, is_error: bool
) -> Prepared:
    """Read, map and measure an output and judge it by itself."""
    shaping = scope.policy.tool(tool)
    scope = replace(scope, policy=scope.policy.for_tool(tool))
    own_tool = tool in scope.tools
    taken = output if type(output) is Taken else None
    pieces, says_error = to_pieces(output) if taken is None else ([Piece(taken.block)], False)
    is_error = is_error or says_error
    told = _lift(pieces) if not own_tool else None
    told = told if taken is None else taken.instructions
    told, mapped = told if scope.policy.trusted_instructions == "all" else None, None
    if not own_tool and not is_error and (shaping.mapper is not None or shaping.template is not None):
        pieces, said, mapped, is_error = _map(scope, shaping, pieces)
        if mapped != APPLIED:
            logger.warning("the mapper of %r %s", tool, mapped)
        told = said or told
    parses = scope.policy.enabled and not own_tool  # what passes whole whatever it is, is not worth parsing
    blocks = [_measured(scope, piece, parses=parses) for piece in pieces]
    verdict = gates.per_output(
        scope.policy,
        size=sum(block.weight for block in blocks),
        tokens=sum(block.tokens for block in blocks),
        window=scope.window,
        is_error=is_error,
        own_tool=own_tool,
    )
    if verdict.reason not in ("disabled", "own_tool", "below_floor"):
        for measured in blocks:
            if isinstance(measured.piece.block, Block) and measured.piece.block.kind == "text":
                measured.note = measured.piece.block.parse_error
    return Prepared(
        scope=scope,
        tool=tool,
        blocks=blocks,
        verdict=verdict,
        is_error=is_error,
        digest=blocks[0].digest if len(blocks) == 1 else _digest(b"".join(block.digest for block in blocks)),
        call_id=call_id[: ledger.CALL_ID_CHARS] if call_id else None,
        call_digest=ledger.digest(call_id) if call_id else None,
        arguments=ledger.cut_arguments(arguments),
        instructions=told if scope.policy.trusted_instructions != "none" else None,
        mapped=mapped,
        taken=taken,
    )


def _lift(pieces: list[Piece]) -> str | None:
    """Take the instructions out of every block and return the first."""
    told = None
    for at, piece in enumerate(pieces):
        if piece.block is None and type(piece.original) is dict:
            original, said = instructions.lift_value(piece.original)
            if said is not None and type(original) is dict:
                pieces[at], told = Piece(None, original), told or said
        elif isinstance(piece.block, Block) and not isinstance(piece.block, Large):
            rest, said = instructions.lift(piece.block)
            if said is not None:
                pieces[at], told = formats.replaced(piece, rest), told or said
    return told


def _map(scope: Scope, shaping: ToolPolicy, pieces: list[Piece]) -> tuple[list[Piece], str | None, str, bool]:
    """Shape the blocks as the tool's policy says.

    Returns the blocks, instructions, what became of the mapping, and whether the result says that it is an error. Of
    several blocks the structured ones are mapped; all of them, or, where one fails, none.
    """
    texts = [piece for piece in pieces if isinstance(piece.block, Block)]
    structured = [piece for piece in texts if isinstance(piece.block, Block) and piece.block.kind == "json"]
    chosen = {id(piece) for piece in (texts if len(pieces) == 1 else structured or texts)}
    shaped: list[Piece] = []
    told, is_error = None, False
    for piece in pieces:
        if id(piece) not in chosen or not isinstance(piece.block, Block):
            shaped.append(piece)
            continue
        kind, value = piece.block.parsed
        try:
            result = mappers.apply(scope, shaping, value if kind == "json" else piece.block.text)
        except mappers.MapperFailed as failure:
            return pieces, None, f"failed, the output is unmapped: {failure}", False
        result, said = instructions.lift_value(result)
        made, failed = to_pieces(result)
        told, is_error = told or said or _lift(made), is_error or failed
        shaped += made
    return shaped, told, APPLIED, is_error


def _measured(scope: Scope, piece: Piece, *, parses: bool) -> Measured:
    block, policy = piece.block, scope.policy
    if isinstance(block, Block):
        if parses or isinstance(block, Large):
            kind = block.kind
        else:
            kind = "json" if block.from_value or block.text[:1] in ("{", "[") else "text"
        is_string = policy.envelope_form == "pointers" and not block.is_written
        return Measured(piece, block.size, block.tokens(scope.count, kind), block.digest, is_string=is_string)
    if block is not None:
        tokens = gates.media_tokens(policy, is_image=block.kind == "image", size=block.size)
        return Measured(piece, block.size, tokens, block.digest)
    written = formats.to_json([piece.content])
    seen = piece.original is not None and formats.is_image(piece.original)
    tokens = (policy.image_tokens or UNSEEN_TOKENS) if seen else scope.count(written, "json")
    return Measured(piece, len(written), tokens, _digest(written.encode()))


def _digest(data: bytes) -> bytes:
    return bytes(blake3(data).digest())
