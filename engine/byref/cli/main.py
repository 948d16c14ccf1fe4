"""Runs the verb of a command line. Only the verbs' modules import the library."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

from byref.cli.failures import exit_code, open_what_is_closed, warnings_on_stderr, writing
from byref.cli.parser import make_parser

_VERBS = {
    "process": "conversation",
    "run": "conversation",
    "tool": "conversation",
    "sessions": "inspect",
    "tenants": "inspect",
    "show": "inspect",
    "learned": "inspect",
    "pending": "inspect",
    "ledger": "inspect",
    "explain": "inspect",
    "history": "inspect",
    "delete": "deletion",
    "sweep": "deletion",
    "db": "database",
    "doctor": "doctor",
    "modules": "modules",
    "mcp": "mcp",
    "gateway": "gateway",
    "inspect": "inspector",
    "serve": "serve",
    "token": "token",
}
"""The module of each verb; the function in it has the verb's name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; a wrong command line raises SystemExit(2), and help SystemExit(0), as argparse does."""
    open_what_is_closed()
    try:
        options = make_parser().parse_args(argv)
        with warnings_on_stderr():
            code = _verb(options)(options)
            with writing():
                sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the outermost handler
        return exit_code(error)
    return code


def _verb(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    module = importlib.import_module(f"byref.cli.{_VERBS[options.verb]}")
    verb: Callable[[argparse.Namespace], int] = getattr(module, options.verb)
    return verb
