"""str.format without attribute walks."""

from __future__ import annotations

from _string import formatter_field_name_split, formatter_parser  # type: ignore[import-not-found]
from collections.abc import Callable
from functools import lru_cache

from byref_sandbox.language import names
from byref_sandbox.language.refusal import NotAllowed


def safe_template(template: str, method: str) -> Callable[..., str]:
    """`template.format`, once every attribute that the template names is found to be an ordinary one."""
    refused = refused_attribute(template)
    if refused is not None:
        raise NotAllowed(f"attribute {refused!r} is not available in a format string", "use an f-string")
    bound: Callable[..., str] = getattr(template, method)
    return bound


@lru_cache(maxsize=1024)
def refused_attribute(template: str, depth: int = 0) -> str | None:
    """The first attribute that a template names and must not, if any."""
    try:
        for _, field, spec, _ in formatter_parser(template):
            for is_attribute, name in formatter_field_name_split(field)[1] if field else ():
                if is_attribute and not names.is_ordinary(name):
                    return str(name)
            # A field's format may hold fields itself, and no deeper.
            if spec and depth < 2 and (refused := refused_attribute(spec, depth + 1)):
                return refused
    except ValueError:
        pass  # str.format says what is wrong with it
    return None
