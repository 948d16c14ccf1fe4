"""The command `byref`: the library's functions in a shell."""

from byref.cli.main import main

__all__ = ["main"]
