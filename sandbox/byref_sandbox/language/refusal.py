"""The error that code gets when it asks for something that this language does not have."""

from __future__ import annotations


class NotAllowed(Exception):
    """Refused by the sandbox. The message names what was asked for, the hint says what to use instead."""

    def __init__(self, message: str, hint: str = "", *, about_files: bool = False) -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint
        self.about_files = about_files


KEPT = "assign the value to a name at top level: it is kept for later calls"


NO_SPREADSHEETS = "spreadsheets cannot be written here: to_csv(name) writes a file that is kept"


def not_written(what: str) -> NotAllowed:
    """Return the refusal of a call that would write a file or a database."""
    if what.endswith("to_excel()"):
        return NotAllowed(f"{what} is not available", NO_SPREADSHEETS)
    return NotAllowed(f"{what} is not available", f"{KEPT}; to_csv(name) writes a file")


def not_loaded(name: str) -> NotAllowed:
    """Return the refusal of a variable that the run was not given. It is no KeyError and no NameError: the name is bound."""
    return NotAllowed(f"{name!r} is bound, but was not loaded", NOT_LOADED_HINT)


NOT_LOADED_HINT = "write its name in the code"


def no_files(what: str, hint: str = "") -> NotAllowed:
    """Return the refusal of a call that would touch a file, a database or the network. `hints` adds where the data is."""
    return NotAllowed(
        f"{what} is not available: there are only the files that code has written", hint, about_files=True
    )
