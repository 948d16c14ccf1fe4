"""Runs untrusted Python and jq over big data: a language wall for clear errors, a jailed process for safety."""

from byref_sandbox.data import EXACT, Data
from byref_sandbox.jail import NO_BOUNDARY, Layer, SandboxUnavailable
from byref_sandbox.outcome import (
    Bound,
    Definition,
    Failure,
    Figure,
    File,
    JqOutcome,
    Limits,
    Outcome,
    Rendered,
    Same,
    Usage,
)
from byref_sandbox.pool import Sandbox, probe
from byref_sandbox.runner import Runner

__all__ = [
    "EXACT",
    "NO_BOUNDARY",
    "Bound",
    "Data",
    "Definition",
    "Failure",
    "Figure",
    "File",
    "JqOutcome",
    "Layer",
    "Limits",
    "Outcome",
    "Rendered",
    "Runner",
    "Same",
    "Sandbox",
    "SandboxUnavailable",
    "Usage",
    "probe",
]
