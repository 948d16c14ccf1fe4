"""Runs untrusted Python and jq over big data: a language wall for clear errors, a jailed process for safety."""

from byref_sandbox.host.interpreter import Interpreter
from byref_sandbox.host.pool import Sandbox, probe
from byref_sandbox.host.runner import Runner
from byref_sandbox.jail.jail import NO_BOUNDARY, Layer, SandboxUnavailable
from byref_sandbox.outcome import (
    Bound,
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
from byref_sandbox.values.data import EXACT, Data, Snapshot, State
from byref_sandbox.values.gathering import Every

__all__ = [
    "EXACT",
    "NO_BOUNDARY",
    "Bound",
    "Data",
    "Every",
    "Failure",
    "Figure",
    "File",
    "Interpreter",
    "JqOutcome",
    "Layer",
    "Limits",
    "Outcome",
    "Rendered",
    "Runner",
    "Same",
    "Sandbox",
    "SandboxUnavailable",
    "Snapshot",
    "State",
    "Usage",
    "probe",
]
