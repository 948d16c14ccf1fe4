"""Runs untrusted Python and jq over big data: a language wall for clear errors, a jailed process for safety."""

from byref_sandbox.documents.kinds import looks_like
from byref_sandbox.host.interpreter import Interpreter
from byref_sandbox.host.pool import Sandbox, probe
from byref_sandbox.host.runner import Runner
from byref_sandbox.jail.jail import NO_BOUNDARY, Layer, SandboxClosed, SandboxUnavailable
from byref_sandbox.outcome import (
    Aside,
    Bound,
    Column,
    Failure,
    Figure,
    File,
    JqOutcome,
    LeftOut,
    Limits,
    Member,
    Outcome,
    Rendered,
    Same,
    Table,
    Tables,
    Usage,
)
from byref_sandbox.values.data import EXACT, Data, Snapshot, State
from byref_sandbox.values.gathering import Every

__all__ = [
    "EXACT",
    "NO_BOUNDARY",
    "Aside",
    "Bound",
    "Column",
    "Data",
    "Every",
    "Failure",
    "Figure",
    "File",
    "Interpreter",
    "JqOutcome",
    "Layer",
    "LeftOut",
    "Limits",
    "Member",
    "Outcome",
    "Rendered",
    "Runner",
    "Same",
    "Sandbox",
    "SandboxClosed",
    "SandboxUnavailable",
    "Snapshot",
    "State",
    "Table",
    "Tables",
    "Usage",
    "looks_like",
    "probe",
]
