"""Turn failures that neither the model nor its call caused into text that the model can act on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from byref.artifacts import tombstones
from byref.conversation.scope import Scope
from byref.errors import ArtifactMissing, ConfigurationError, ToolError
from byref_sandbox import SandboxClosed, SandboxUnavailable

logger = logging.getLogger("byref")


@contextmanager
def readable_failures(scope: Scope) -> Iterator[None]:
    """Turn failures that keep code from running at all into text for the model, and log them for the host."""
    try:
        yield
    except ArtifactMissing as error:
        logger.exception("stored data could not be bound")
        raise ToolError(cure(scope, error)) from error
    except SandboxClosed as error:  # no reply is recorded: under the same call id the call runs anew
        raise ConfigurationError("the engine is closed, or its interpreter is") from error
    except SandboxUnavailable as error:
        logger.exception("the sandbox could not be started")
        raise ToolError("code cannot be run right now; try once more later") from error


def bind_again(name: str) -> str:
    """Return the text for the model if a value that code kept under a name is damaged."""
    return f"{tombstones.GONE}. Bind {name} again to have it again."


def cure(scope: Scope, error: ArtifactMissing) -> str:
    """Return the text that tells the model how to make missing data again."""
    if error.name is not None:
        return bind_again(error.name)
    text: str = scope.read(lambda connection: tombstones.cure(connection, scope.row, error.blob_id))
    return text
