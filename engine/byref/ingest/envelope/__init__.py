"""Envelopes: the texts that the model reads in place of an output. Each is bounded and says what is missing; JSON stays valid."""

from __future__ import annotations

from byref.ingest.envelope.base import Brief, Builder, Reference, Rendered
from byref.ingest.envelope.forms import FORMS, Form, builder_of, envelope_in
from byref.ingest.envelope.shortened import TruncatedBuilder

__all__ = [
    "FORMS",
    "Brief",
    "Builder",
    "Form",
    "Reference",
    "Rendered",
    "TruncatedBuilder",
    "builder_of",
    "envelope_in",
]
