"""What code gets when it asks for something that this language does not have."""

from __future__ import annotations


class NotAllowed(Exception):
    """Refused by the sandbox; the message names what was asked for, the hint what to use instead."""

    def __init__(self, message: str, hint: str = "", *, about_files: bool = False) -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint
        self.about_files = about_files


KEPT = "assign the value to a name at top level: it is kept for later calls"


def not_written(what: str) -> NotAllowed:
    """The refusal of what would write a file or a database."""
    return NotAllowed(f"{what} is not available: there are no files here", KEPT)


def no_files(what: str, hint: str = "") -> NotAllowed:
    """The refusal of anything that would touch a file, a database or the network; where the data is gets added when it is explained."""
    return NotAllowed(f"{what} is not available: there are no files here", hint, about_files=True)
