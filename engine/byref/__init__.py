"""Pass big tool outputs to a language model by reference."""

from byref import db
from byref.artifacts.store import Artifact, is_pointer
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
)
from byref.explain import Explanation
from byref.ledger import Entry, Totals
from byref.lifecycle import SessionInfo
from byref.models import ModelInfo, Models, Price
from byref.policy import Policy
from byref.result import Result, ToolReply
from byref.session import HistoryEntry, Session
from byref.tokens import CharCounter, SampledCounter, TokenCounter
from byref.usage import Usage
from byref.variables import Variable

__all__ = [
    "Artifact",
    "ArtifactMissing",
    "ByrefError",
    "CharCounter",
    "ConfigurationError",
    "Engine",
    "Entry",
    "Explanation",
    "HistoryEntry",
    "InvalidId",
    "ModelInfo",
    "Models",
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
    "TokenCounter",
    "ToolError",
    "ToolReply",
    "Totals",
    "Usage",
    "Variable",
    "db",
    "is_pointer",
]
