"""Pass big tool outputs to a language model by reference.

The names below are the public interface; each is imported when it is first used, so that `byref --help` and a host's
start do not wait for SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from byref.accounting import logs as _logs

if TYPE_CHECKING:
    from byref import db
    from byref.accounting.explain import Explanation
    from byref.accounting.ledger import Entry, Totals
    from byref.accounting.models import ModelInfo, Models, Price
    from byref.accounting.telemetry import Telemetry
    from byref.accounting.tokens import CharCounter, SampledCounter, TokenCounter
    from byref.aio import AsyncEngine, AsyncSession
    from byref.artifacts.store import Artifact, approx_byte_size, is_pointer
    from byref.artifacts.variables import Variable
    from byref.calling.submodels import model_function
    from byref.content import ToolOutput
    from byref.conversation.interpreters import Interpreter
    from byref.conversation.lifecycle import Swept
    from byref.conversation.listing import SessionInfo, TenantInfo
    from byref.conversation.result import Pending, PendingRun, Result, ToolReply
    from byref.engine import Engine
    from byref.errors import (
        ArtifactMissing,
        ByrefError,
        ConfigurationError,
        InvalidId,
        QuotaExceeded,
        SchemaMismatch,
        SessionGone,
        StorageFailure,
        ToolError,
        TransactionConflict,
        UnknownSession,
    )
    from byref.functions import Function
    from byref.policy import Policy, ToolPolicy
    from byref.session import HistoryEntry, Session
    from byref.usage import Usage

__all__ = [
    "Artifact",
    "ArtifactMissing",
    "AsyncEngine",
    "AsyncSession",
    "ByrefError",
    "CharCounter",
    "ConfigurationError",
    "Engine",
    "Entry",
    "Explanation",
    "Function",
    "HistoryEntry",
    "Interpreter",
    "InvalidId",
    "ModelInfo",
    "Models",
    "Pending",
    "PendingRun",
    "Policy",
    "Price",
    "QuotaExceeded",
    "Result",
    "SampledCounter",
    "SchemaMismatch",
    "Session",
    "SessionGone",
    "SessionInfo",
    "StorageFailure",
    "Swept",
    "Telemetry",
    "TenantInfo",
    "TokenCounter",
    "ToolError",
    "ToolOutput",
    "ToolPolicy",
    "ToolReply",
    "Totals",
    "TransactionConflict",
    "UnknownSession",
    "Usage",
    "Variable",
    "approx_byte_size",
    "db",
    "is_pointer",
    "model_function",
]

_logs.keep_plain()

_HOMES = {
    "aio": ("AsyncEngine", "AsyncSession"),
    "artifacts.store": ("Artifact", "approx_byte_size", "is_pointer"),
    "engine": ("Engine",),
    "errors": (
        "ArtifactMissing",
        "ByrefError",
        "ConfigurationError",
        "InvalidId",
        "QuotaExceeded",
        "SchemaMismatch",
        "SessionGone",
        "StorageFailure",
        "ToolError",
        "TransactionConflict",
        "UnknownSession",
    ),
    "accounting.explain": ("Explanation",),
    "accounting.ledger": ("Entry", "Totals"),
    "conversation.lifecycle": ("Swept",),
    "conversation.listing": ("SessionInfo", "TenantInfo"),
    "accounting.models": ("ModelInfo", "Models", "Price"),
    "content": ("ToolOutput",),
    "calling.submodels": ("model_function",),
    "functions": ("Function",),
    "policy": ("Policy", "ToolPolicy"),
    "conversation.result": ("Pending", "PendingRun", "Result", "ToolReply"),
    "conversation.interpreters": ("Interpreter",),
    "session": ("HistoryEntry", "Session"),
    "accounting.telemetry": ("Telemetry",),
    "accounting.tokens": ("CharCounter", "SampledCounter", "TokenCounter"),
    "usage": ("Usage",),
    "artifacts.variables": ("Variable",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker that sees it takes any name for an object

    def __getattr__(name: str) -> object:
        """Import a public name from its home on first use."""
        if name == "db":
            return import_module("byref.db")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'byref' has no attribute {name!r}")
        value = getattr(import_module(f"byref.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
