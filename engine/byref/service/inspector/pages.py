"""The table of pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from byref.artifacts.store import Artifact
from byref.service.inspector import data, health, runs, sessions, totals
from byref.service.inspector.looks import Image, Look, Page

__all__ = ["PAGES", "Made"]


@dataclass(frozen=True, slots=True)
class Made:
    """How a page is made; its template has the same name. An artifact is downloaded."""

    make: Callable[[Look], Page | Artifact | Image]
    shows_session: bool = True
    """The query names a session, which has to exist."""


PAGES: Mapping[str, Made] = MappingProxyType(
    {
        "": Made(sessions.sessions, shows_session=False),
        "session": Made(sessions.session),
        "step": Made(sessions.step),
        "artifacts": Made(data.artifacts),
        "artifact": Made(data.artifact),
        "diff": Made(data.diff),
        "image": Made(data.image),
        "download": Made(data.download),
        "variables": Made(data.variables),
        "ledger": Made(totals.ledger),
        "runs": Made(runs.runs),
        "run": Made(runs.run),
        "health": Made(health.health, shows_session=False),
    }
)
"""By the last part of their paths."""
