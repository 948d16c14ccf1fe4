"""Runs untrusted Python and jq over big data: a language wall for clear errors, a jailed process for safety."""

from .data import Data
from .jail import Layer, SandboxUnavailable
from .outcome import Bound, Failure, JqOutcome, Limits, Outcome, Usage
from .pool import Sandbox, probe

__all__ = [
    "Bound",
    "Data",
    "Failure",
    "JqOutcome",
    "Layer",
    "Limits",
    "Outcome",
    "Sandbox",
    "SandboxUnavailable",
    "Usage",
    "probe",
]
