"""What tools return: blocks of text and JSON, images and documents, read from whatever form they come in."""

from __future__ import annotations

from byref.outputs.blocks import Block, to_block

__all__ = ["Block", "to_block"]
