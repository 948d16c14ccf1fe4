"""What tools return: blocks of text and JSON, images and documents, read from whatever form they come in."""

from __future__ import annotations

from byref.outputs.blocks import Block, text_of, to_block
from byref.outputs.forms import Piece
from byref.outputs.large import Large, LargeMedia
from byref.outputs.media import Media
from byref.outputs.output import ToolOutput, binary, to_pieces

__all__ = ["Block", "Large", "LargeMedia", "Media", "Piece", "ToolOutput", "binary", "text_of", "to_block", "to_pieces"]
