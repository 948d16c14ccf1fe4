"""Coercion of the values that models write into what they plainly mean. Each function returns other values unchanged.

Nothing here guesses: an ambiguous value stays as it is, so that a later error can say what is expected.
"""

from __future__ import annotations

import re
from typing import Any

from byref_sandbox import jsontext

_TRAILING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|,(?=\s*[}\]])', re.DOTALL)
"""Matches a whole string, so that commas inside it stay, or a comma before a closing bracket."""
_SPAN = re.compile(r"\s*L?(\d{1,15})\s*(?:-|–|:|,|\.\.\.?|\bto\b)\s*L?(\d{1,15})\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\s*[+-]?\d{1,300}(?:\.0{1,20})?\s*", re.ASCII)
_COMMAND = re.compile(r"jq(?:\s+--?[a-z][a-z-]*){0,9}\s+(?=['\"`.\[{(])")
_KEY = re.compile(r"[$\w.:-]{1,300}")
_PASTED = re.compile(r"(?:[-*•]\s+)?(art[_:][\w-]{1,60})\s*\(.{0,300}\)", re.ASCII | re.DOTALL)
"""A line of a list of references: `art_k7m2p9x4q8wz (json, 42,000 bytes)`."""
_ENDS = {
    "start": ("start", "from", "first", "begin", "startline"),
    "end": ("end", "to", "last", "stop", "endline"),
    "column": ("column", "startcolumn", "col", "startcol", "startchar"),
}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def unfenced(text: str) -> str:
    """Return the content of a Markdown code fence, if the text is one fence and nothing else."""
    stripped = text.strip()
    if len(stripped) < 6 or not (stripped.startswith("```") and stripped.endswith("```")):
        return text
    body = stripped[3:-3]
    if "```" in body:
        return text
    language, line_feed, rest = body.partition("\n")
    if not line_feed:
        return body.strip()
    return rest.rstrip() if re.fullmatch(r"[\w+.#-]{0,30}\s*", language) else body.strip("\n")


def without_trailing_commas(text: str) -> str:
    """Return JSON text without commas before closing brackets; strings stay as they are."""
    return _TRAILING.sub(lambda found: "" if found[0] == "," else found[0], text)


def as_code(value: Any) -> Any:
    """Return code without its Markdown fence; a list of lines becomes one text."""
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        value = "\n".join(line.removesuffix("\n") for line in value)
    return unfenced(value) if isinstance(value, str) else value


def as_filter(value: Any) -> Any:
    """Return a jq filter without a Markdown fence, a shell's quotes, or the command `jq` before it."""
    if not isinstance(value, str):
        return value
    text = unfenced(value).strip()
    if command := _COMMAND.match(text):
        text = text[command.end() :].strip()
    for quote in "'`":  # neither can begin a filter
        if len(text) > 1 and text[0] == text[-1] == quote and quote not in text[1:-1]:
            text = text[1:-1].strip()
    if text.startswith('".') and text.endswith('"'):
        try:
            inner = jsontext.loads(text)
        except ValueError:
            return text
        text = inner if isinstance(inner, str) else text
    return text


def as_key(value: Any) -> Any:
    """Return a name, id or pointer without the quotes, blanks or words of a listing around it; a number becomes text."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    value = as_text(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    for quote in "\"'`":
        if len(text) > 2 and text[0] == text[-1] == quote and _KEY.fullmatch(text[1:-1]):
            return text[1:-1]
    return pasted[1] if (pasted := _PASTED.fullmatch(text)) else text


def as_text(value: Any) -> Any:
    """Return a number as text, and text as plain text."""
    if isinstance(value, str):
        return str.__str__(value)  # a subclass may override `__str__`
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 1_000:
        return str(value)
    return repr(value) if isinstance(value, float) else value


def as_integer(value: Any) -> Any:
    """Return a whole number that is written as text or as a float."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value.strip().partition(".")[0])
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_boolean(value: Any) -> Any:
    """Return the boolean that a text or a number stands for."""
    text = value.strip().lower() if isinstance(value, str) else str(value) if value in (0, 1) else ""
    return True if text in _TRUE else False if text in _FALSE else value


def as_span(value: Any) -> Any:
    """Return the span of lines, `{start, end, column}`, that `[10, 20]`, `"10-20"`, `10` or `{"from": 10, "to": 20}` means."""
    if isinstance(value, str):
        if span := _SPAN.fullmatch(value):
            return {"start": int(span[1]), "end": int(span[2])}
        value = _decoded(value)
    if isinstance(value, list) and len(value) in (1, 2):
        value = {"start": value[0], "end": value[-1]}
    if not isinstance(value, dict):
        line = as_integer(value)
        return {"start": line, "end": line} if isinstance(line, int) and not isinstance(line, bool) else value
    ends: dict[str, Any] = {}
    for key, member in value.items():
        plain = re.sub(r"[^a-z]", "", str(key).lower())
        name = next((name for name, spellings in _ENDS.items() if plain in spellings), None)
        if name is None or name in ends:
            return value
        if member is not None:
            ends[name] = as_integer(member)
    return ends


def _decoded(text: str) -> Any:
    try:
        return jsontext.loads(text)
    except ValueError:
        return text
