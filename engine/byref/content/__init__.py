"""What tools return: blocks of text and JSON, images and documents, read from whatever form they come in."""

from __future__ import annotations

from byref.content.blocks import Block, text_of, to_block
from byref.content.formats import Piece
from byref.content.large import Large, LargeMedia
from byref.content.media import Media
from byref.content.output import ToolOutput, binary, to_pieces

__all__ = ["Block", "Large", "LargeMedia", "Media", "Piece", "ToolOutput", "binary", "text_of", "to_block", "to_pieces"]
