"""The HTTP service: everything that an engine and its sessions do, for programs in any language (extra `byref[serve]`)."""

from byref.adapters.common.extras import missing

try:
    import starlette as _starlette  # noqa: F401
except ImportError as _error:
    raise missing("byref.service", "starlette", "serve") from _error

from byref.service.application import app
from byref.service.auth import Auth, Grant, Right, Tokens
from byref.service.inspector import Redact

__all__ = ["Auth", "Grant", "Redact", "Right", "Tokens", "app"]
