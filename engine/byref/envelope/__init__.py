"""What the model reads in place of an output: bounded, always parsing where it is JSON, stating what is missing."""

from __future__ import annotations

from byref.envelope.artifact import ArtifactDraft, PointerDraft
from byref.envelope.draft import Draft, Reference, Rendered
from byref.envelope.inplace import PlaceholderDraft, TruncateDraft
from byref.envelope.previews import Offloaded, PreviewDraft
from byref.envelope.variables import VariablesDraft

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
