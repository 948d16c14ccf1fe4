"""The command `byref`: what the library does, from a shell."""

from byref.cli.main import main

__all__ = ["main"]
