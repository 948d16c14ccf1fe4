"""str.format without access to arbitrary attributes: `'{0.__class__}'` reads one."""

from __future__ import annotations

from _string import formatter_field_name_split, formatter_parser  # type: ignore[import-not-found]
from collections.abc import Callable
from functools import lru_cache

from byref_sandbox.language import names
from byref_sandbox.language.refusal import NotAllowed


def safe_template(template: str, method: str) -> Callable[..., str]:
    """Return `template.format`, if every attribute that the template names is an ordinary one; raise NotAllowed."""
    refused = refused_attribute(template)
    if refused is not None:
        raise NotAllowed(f"attribute {refused!r} is not available in a format string", "use an f-string")
    bound: Callable[..., str] = getattr(template, method)
    return bound


@lru_cache(maxsize=1024)
def refused_attribute(template: str, depth: int = 0) -> str | None:
    """Return the first attribute that a template names and must not; None if there is none."""
    try:
        for _, field, spec, _ in formatter_parser(template):
            for is_attribute, name in formatter_field_name_split(field)[1] if field else ():
                if is_attribute and not names.is_ordinary(name):
                    return str(name)
            # A field's format may contain fields again, but those may not.
            if spec and depth < 2 and (refused := refused_attribute(spec, depth + 1)):
                return refused
    except ValueError:
        pass  # str.format says what is wrong with it
    return None
