"""The envelope forms: one entry for each `Policy.envelope_form`, with everything in which the forms differ.

A new form needs a name in `byref.policy.EnvelopeForm`, a builder in a module of this package, and an entry here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from byref.content import Media
from byref.ingest.envelope.artifact import ArtifactBuilder, PointerBuilder
from byref.ingest.envelope.base import Brief, Builder
from byref.ingest.envelope.outline import OutlineArtifactBuilder, OutlineVariablesBuilder
from byref.ingest.envelope.previews import PreviewBuilder
from byref.ingest.envelope.shortened import PlaceholderBuilder, TruncatedBuilder
from byref.ingest.envelope.variables import VariablesBuilder
from byref.policy import FOLLOWING, READERS, EnvelopeForm
from byref.policy.routes import Route


@dataclass(frozen=True)
class Form:
    """The rules of one form for outputs that are replaced by a reference."""

    builder: Callable[[Brief], Builder]
    """Makes the envelope of the route `artifact`."""
    variables_builder: Callable[[Brief], Builder] = VariablesBuilder
    """Makes the envelope of the route `variables`."""
    followers: tuple[str, ...] = FOLLOWING
    """Tools that can follow its reference. `mode="auto"` chooses an artifact only if the session has one of them."""
    binds_variables: bool = False
    """Whether structured data takes the route `variables` if the session has the interpreter."""
    takes_media: bool = False
    """Whether images and documents get an envelope rather than a placeholder."""
    takes_all_blocks: bool = False
    """Whether one envelope stands for all blocks of an output rather than for one large block."""
    has_uuids: bool = False
    """Whether the ids of artifacts are UUIDs rather than short ids."""
    keeps_text: bool = False
    """Whether a reference to JSON that arrived as text means the text rather than the parsed data."""


def _outline_or_text(brief: Brief) -> Builder:
    """Return the builder of an artifact that is described if it is structured; text has only a preview."""
    return OutlineArtifactBuilder(brief) if brief.blocks[0].is_structured else ArtifactBuilder(brief)


FORMS: Mapping[EnvelopeForm, Form] = {
    "outline": Form(_outline_or_text, OutlineVariablesBuilder, binds_variables=True),
    "variables": Form(ArtifactBuilder, binds_variables=True),
    "references": Form(partial(ArtifactBuilder, has_preview=False), followers=READERS),
    "pointers": Form(PointerBuilder, takes_media=True, has_uuids=True, keeps_text=True),
    "previews": Form(PreviewBuilder, takes_media=True, takes_all_blocks=True),
}


def builder_of(route: Route, brief: Brief) -> Builder:
    """Return the builder that replaces a brief's blocks on a route."""
    form = FORMS[brief.policy.envelope_form]
    [measured, *more] = brief.blocks
    if route is Route.ARTIFACT:
        joins = more and not form.takes_all_blocks
        return PreviewBuilder(brief, has_preview=False) if joins else form.builder(brief)
    if more:
        return TruncatedBuilder(brief)
    if isinstance(measured.piece.block, Media):
        return PlaceholderBuilder(brief)
    return form.variables_builder(brief) if route is Route.VARIABLES else TruncatedBuilder(brief)


def envelope_in(route: Route, content: str) -> dict[str, Any] | None:
    """Return the envelope whose JSON a text of the ledger is; None for a text without an envelope.

    A text with an envelope is a JSON object; the texts of the other forms begin with a bracket.
    """
    return json.loads(content) if route.is_reference and content.startswith("{") else None
