"""Every error byref raises: `ByrefError` is for the host, `ToolError` carries text that the model can act on.

An error's docstring is its default message.
"""

from __future__ import annotations

from byref.plain import visible


class ByrefError(Exception):
    """Something the host has to mend."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(visible(message or (type(self).__doc__ or "").strip()))


class ConfigurationError(ByrefError, ValueError):
    """A setting is unknown, out of range, or at odds with another."""


class InvalidId(ByrefError, ValueError):
    """An id that the host gave cannot be used."""


class SchemaMismatch(ByrefError):
    """The database is not at the revision that this version of byref needs."""


class SessionGone(ByrefError):
    """The session was deleted or has ended."""


class StorageFailure(ByrefError):
    """The database or the blob store could not be reached or did not take the write."""


class TransactionConflict(ByrefError):
    """The host's transaction lost to a concurrent one: roll it back and run it again from the start."""


class ArtifactMissing(ByrefError):
    """An artifact has a record but its bytes are not there, or are not the ones that were stored."""

    def __init__(self, message: str | None = None, *, blob_id: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.blob_id = blob_id
        """The row of the stored bytes, where it is known."""
        self.name = name
        """What code called it, of a value that code kept."""


class QuotaExceeded(ByrefError):
    """A payload is larger than the policy allows to be stored."""


class ToolError(Exception):
    """Text for the model: what was wrong with a call and what to do instead."""
