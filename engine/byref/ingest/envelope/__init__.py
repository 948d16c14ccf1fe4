"""What the model reads in place of an output: bounded, always parsing where it is JSON, stating what is missing."""

from __future__ import annotations

from byref.ingest.envelope.artifact import ArtifactDraft, PointerDraft
from byref.ingest.envelope.base import Draft, Reference, Rendered
from byref.ingest.envelope.inplace import PlaceholderDraft, TruncateDraft
from byref.ingest.envelope.previews import Offloaded, PreviewDraft
from byref.ingest.envelope.variables import VariablesDraft

__all__ = [
    "ArtifactDraft",
    "Draft",
    "Offloaded",
    "PlaceholderDraft",
    "PointerDraft",
    "PreviewDraft",
    "Reference",
    "Rendered",
    "TruncateDraft",
    "VariablesDraft",
]
