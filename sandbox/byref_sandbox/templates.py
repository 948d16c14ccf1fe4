"""str.format without attribute walks."""

from __future__ import annotations

from _string import formatter_field_name_split, formatter_parser  # type: ignore[import-not-found]
from collections.abc import Callable

from byref_sandbox import names
from byref_sandbox.refusal import NotAllowed


def safe_template(template: str, method: str) -> Callable[..., str]:
    """`template.format`, once every attribute that the template names is found to be an ordinary one."""
    _check_fields(template, 0)
    bound: Callable[..., str] = getattr(template, method)
    return bound


def _check_fields(template: str, depth: int) -> None:
    if depth > 2:
        return
    try:
        for _, field, spec, _ in formatter_parser(template):
            if field:
                for is_attribute, name in formatter_field_name_split(field)[1]:
                    if is_attribute and not names.is_ordinary(name):
                        raise NotAllowed(f"attribute {name!r} is not available in a format string", "use an f-string")
                if "{" in field:
                    _check_fields(field, depth + 1)
            if spec:
                _check_fields(spec, depth + 1)
    except ValueError:
        return  # str.format says what is wrong with it
