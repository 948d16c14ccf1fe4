"""A way to a server, whatever carries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


class Broken(Exception):
    """The connection is of no more use; the text says why."""


class Unavailable(Exception):
    """The server did not answer; the text says to the model what happened and what comes next."""


@dataclass(frozen=True, slots=True)
class Channel:
    """What is received and what is sent."""

    received: Any
    """A stream that the SDK's dispatcher reads, of its session messages and of exceptions."""
    sent: Any
    """A stream that it writes to."""
    ending: Callable[[], Awaitable[str]]
    """Why nothing more is received."""
