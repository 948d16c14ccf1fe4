"""A policy as JSON, in the form in which it is stored with its session."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from byref.errors import ConfigurationError
from byref.policy import Policy, ToolPolicy
from byref.policy.checks import MissingMapper

logger = logging.getLogger("byref")


def dumps(policy: Policy) -> str:
    """Return a policy as JSON. A Python callable cannot be stored, so only its name is kept."""
    kept = {knob.name: getattr(policy, knob.name) for knob in dataclasses.fields(policy)}
    kept["per_tool"] = {tool: _plain(policy.tool(tool).settings) for tool in policy.per_tool}
    return json.dumps(kept, default=timedelta.total_seconds)


def loads(text: str, own: Policy, session: str) -> Policy:
    """Return a stored policy.

    Callables are taken from the engine's `own` policy for the same tool. Knobs of another version are left out. If the rest is
    not a valid policy, this is logged and the engine's policy is returned.
    """
    try:
        kept = _known(json.loads(text), {knob.name for knob in dataclasses.fields(Policy)})
        kept["per_tool"] = {
            tool: _tool_policy(tool, settings, own) for tool, settings in kept.get("per_tool", {}).items()
        }
        return Policy(**kept)
    except (ConfigurationError, ValueError, TypeError, AttributeError) as error:
        logger.warning("the policy kept with session %.100r cannot be used, the engine's holds: %s", session, error)
        return own


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    mapper = settings.get("mapper")
    return (
        settings if mapper is None or isinstance(mapper, str) else {**settings, "mapper": {"callable": _name(mapper)}}
    )


def _name(mapper: object) -> str:
    """Return the module and qualified name of a callable; for an object with `__call__`, those of its class."""
    if isinstance(mapper, MissingMapper):
        return mapper.name
    named = mapper if hasattr(mapper, "__qualname__") else type(mapper)
    return f"{getattr(named, '__module__', None) or 'builtins'}.{named.__qualname__}"  # methods of built-in types have none


def _tool_policy(tool: str, kept: Mapping[str, Any], own: Policy) -> ToolPolicy:
    settings = _known(
        kept,
        {knob.name for knob in dataclasses.fields(Policy)}
        | {"mapper", "template", "names", "references", "format", "schema"},
    )
    if isinstance(mapper := settings.get("mapper"), dict):
        present = own.tool(tool).mapper
        usable = present is not None and not isinstance(present, str)
        settings["mapper"] = present if usable else MissingMapper(str(mapper.get("callable")), tool)
    return ToolPolicy(**settings)


def _known(kept: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in kept.items() if name in names}
