"""Pages made of templates: all text is escaped, and what steers a terminal or is not seen is written as an escape."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from byref.errors import visible

FILES = {
    "inspector.css": "text/css; charset=utf-8",
    "inspector.js": "text/javascript; charset=utf-8",
    "inspector.svg": "image/svg+xml",
}
"""What pages load, and the type of each."""
CONTENTS = {name: files(__package__).joinpath("files", name).read_bytes() for name in FILES}
VERSION = sha256(b"".join(CONTENTS.values())).hexdigest()[:12]
"""Of the files, in their links, so that browsers keep them until they change."""
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def page(template: str, values: dict[str, Any]) -> bytes:
    """Return the HTML of a page."""
    return _ENVIRONMENT.get_template(f"{template}.html").render(values).encode(errors="backslashreplace")


def url(name: str, **query: object) -> str:
    """Return the link to a page. All pages lie side by side, so it is relative to any of them."""
    given = {key: value for key, value in query.items() if value is not None and value != ""}
    if not given:
        return name or "./"
    return f"{name or './'}?{urlencode(given, errors='surrogatepass')}"


def when(moment: datetime | None) -> Markup:
    """Return a time, which the browser writes in the reader's own zone."""
    if moment is None:
        return Markup("–")
    at = moment.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"), at.strftime("%Y-%m-%d %H:%M:%S UTC"), at.strftime("%Y-%m-%d %H:%M UTC")
    )


def count(number: int | None) -> str:
    """Return a number with separators."""
    return "–" if number is None else f"{number:,}"


def size(number: int | None) -> Markup:
    """Return a number of bytes, rounded; the exact one is its title."""
    if number is None:
        return Markup("–")
    shown, unit = float(number), 0
    while shown >= 999.5 and unit < len(_UNITS) - 1:
        shown, unit = shown / 1000, unit + 1
    digits = f"{shown:.0f}" if unit == 0 or shown >= 99.5 else f"{shown:.1f}"
    return Markup('<span title="{:,} bytes">{} {}</span>').format(number, digits, _UNITS[unit])


def dollars(cost: Decimal | None) -> Markup:
    """Return a cost in US dollars; the exact one is its title."""
    return Markup("–") if cost is None else Markup('<span title="{} US dollars">${:.4f}</span>').format(cost, cost)


def milliseconds(number: float | None) -> str:
    """Return a time that something took."""
    if number is None:
        return "–"
    return f"{number:,.1f} ms" if number < 1000 else f"{number / 1000:,.2f} s"


def in_json(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _shown(value: object) -> object:
    """Every value that a template prints comes through here, and is escaped behind it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__, "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals |= {"url": url, "version": VERSION}
_ENVIRONMENT.filters |= {
    "when": when,
    "count": count,
    "size": size,
    "dollars": dollars,
    "milliseconds": milliseconds,
    "in_json": in_json,
}
