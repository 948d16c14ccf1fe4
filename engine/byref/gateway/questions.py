"""Servers' questions to a client: only those that the client declared to answer, in the asking server's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED

from byref.errors import one_line
from byref.gateway import labels

Json = dict[str, Any]

QUESTIONS: Final[Mapping[str, str]] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Every question of the protocol, with the capability that a client needs for it."""
MAX_AT_ONCE = 100
"""Questions in place of one answer."""
MAX_URL_CHARS = 8_192
MAX_FIELDS = 100
MAX_DESCRIPTION_CHARS = 1_000
"""Characters of the description of one field in a form."""


def shown(server: str, method: str, params: Json | None, able: Mapping[str, Any]) -> Json | None:
    """Return the parameters of a server's question as the client gets them; `able`: the client's capabilities.

    Raises:
        MCPError: the protocol has no such question, or this client does not answer it.
    """
    if method not in QUESTIONS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found", data=method)
    declared = able.get(QUESTIONS[method])
    if not isinstance(declared, dict):
        raise MCPError(INVALID_REQUEST, f"the client did not say that it answers {method}")
    if params is not None and "task" in params:
        raise MCPError(INVALID_PARAMS, f"{method} as a task: the gateway carries no tasks")
    return _FORMS[method](server, params or {}, declared) if method in _FORMS else params


def asked_in(result: Json, server: str, able: Mapping[str, Any]) -> dict[str, tuple[str, Json | None]]:
    """Return method and parameters of each question in a result; none if the server only wants the call to be made again.

    Raises:
        MCPError: the protocol has no such questions, or this client does not answer them.
    """
    questions = result.get("inputRequests")
    if not questions and isinstance(result.get("requestState"), str):
        return {}
    given = questions if isinstance(questions, dict) and len(questions) <= MAX_AT_ONCE else {}
    found = {
        key: (method, params)
        for key, question in given.items()
        if isinstance(question, dict)
        and isinstance(method := question.get("method"), str)
        and method in QUESTIONS
        and isinstance(params := question.get("params"), dict | None)
    }
    if not found or len(found) < len(given):
        raise MCPError(INTERNAL_ERROR, f"the server {server!r} asked something that is no question of this protocol")
    return {key: (method, shown(server, method, params, able)) for key, (method, params) in found.items()}


def wire(method: str, params: Json | None) -> Json:
    """Return a question in the form that it has in a result's `inputRequests`."""
    return {"method": method, "params": params or {}}


def refused(server: str, error: MCPError, able: Mapping[str, Any]) -> MCPError:
    """Return a server's error as the client gets it: pages that the user is asked to visit get the server's label."""
    data = error.error.data
    pages = data.get("elicitations") if isinstance(data, dict) else None
    if error.code != URL_ELICITATION_REQUIRED or pages is None:
        return error
    found = []
    for page in pages[:MAX_AT_ONCE] if isinstance(pages, list) else ():
        try:
            found.append(shown(server, "elicitation/create", {**page, "mode": "url"}, able))
        except (MCPError, TypeError):
            continue
    return MCPError(error.code, error.error.message, {**data, "elicitations": found})


def named(server: str, id: object) -> str:
    """Return the id of a page for the user: ids are unique only within a server, so the server's name is put in front."""
    return f"{server}/{id}"


def _elicitation(server: str, params: Json, declared: Json) -> Json:
    mode, message = params.get("mode", "form"), params.get("message")
    if not isinstance(message, str):
        raise MCPError(INVALID_PARAMS, 'elicitation/create: expected a text as "message"')
    if mode not in ("form", "url"):
        raise MCPError(INVALID_PARAMS, 'elicitation/create: expected "form" or "url" as "mode"')
    # A client that names no mode has "form": the protocol's first version of elicitation had no other.
    if mode not in declared and (mode == "url" or "url" in declared):
        raise MCPError(INVALID_REQUEST, f"the client did not say that it answers elicitation/create with mode {mode!r}")
    changed = {"message": labels.quoted(server, message)}
    if mode == "url":
        url = params.get("url")
        if not isinstance(url, str) or not _is_page(url):
            raise MCPError(INVALID_PARAMS, 'elicitation/create: expected an address, http:// or https://, as "url"')
        if "elicitationId" in params:
            changed["elicitationId"] = named(server, params["elicitationId"])
        return {**params, **changed}
    return {**params, **changed, "requestedSchema": _form(server, params.get("requestedSchema"))}


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_plain = parts.username is None and parts.password is None
    except ValueError:
        return False
    sound = len(url) <= MAX_URL_CHARS and url.isprintable() and " " not in url and "\\" not in url
    return sound and is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _form(server: str, schema: object) -> Json:
    """Return a form's schema with the server's label in the titles, and with every other visible text on one line."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        raise MCPError(INVALID_PARAMS, 'elicitation/create: expected an object\'s schema as "requestedSchema"')
    if len(properties) > MAX_FIELDS or not all(map(_is_plain, [*properties, *map(_choices, properties.values())])):
        raise MCPError(INVALID_PARAMS, "elicitation/create: expected names and choices of one visible line each")
    return {**_field(server, schema), "properties": {name: _field(server, one) for name, one in properties.items()}}


def _choices(schema: object) -> list[Any]:
    """Return a field's possible values. They come back in the answer, so they cannot be changed for display."""
    if not isinstance(schema, dict):
        return []
    options = [option for key in ("oneOf", "anyOf") if isinstance(schema.get(key), list) for option in schema[key]]
    found = [option.get("const") for option in options if isinstance(option, dict)]
    items = schema.get("items")
    return [*found, *(schema["enum"] if isinstance(schema.get("enum"), list) else ()), *_choices(items)]


def _is_plain(text: object) -> bool:
    if isinstance(text, list):
        return all(map(_is_plain, text))
    return not isinstance(text, str) or one_line(text, MAX_DESCRIPTION_CHARS) == text


def _field(server: str, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    changed: Json = {}
    if isinstance(title := schema.get("title"), str):
        changed["title"] = labels.titled(server, title)
    if isinstance(description := schema.get("description"), str):
        changed["description"] = one_line(description, MAX_DESCRIPTION_CHARS)
    if isinstance(names := schema.get("enumNames"), list):
        changed["enumNames"] = [one_line(name) if isinstance(name, str) else name for name in names]
    for key in ("oneOf", "anyOf"):
        if isinstance(options := schema.get(key), list):
            changed[key] = [_option(option) for option in options]
    if isinstance(items := schema.get("items"), dict) and items.keys().isdisjoint(("items", "properties")):
        changed["items"] = _field(server, items)
    return {**schema, **changed}


def _option(option: Any) -> Any:
    title = option.get("title") if isinstance(option, dict) else None
    return {**option, "title": one_line(title)} if isinstance(title, str) else option


def _sampling(server: str, params: Json, declared: Json) -> Json:
    if "tools" not in declared and not params.keys().isdisjoint(("tools", "toolChoice")):
        raise MCPError(INVALID_REQUEST, "the client did not say that it answers sampling/createMessage with tools")
    prompt = params.get("systemPrompt")
    # For the client "this server" is the gateway with all servers behind it, so no single server may have their context.
    kept = {key: value for key, value in params.items() if key != "includeContext"}
    text = prompt if isinstance(prompt, str) else ""
    return {**kept, "systemPrompt": f"{labels.label(server)} asks this.\n{text}".rstrip()}


_FORMS: Final[Mapping[str, Callable[[str, Json, Json], Json]]] = {
    "elicitation/create": _elicitation,
    "sampling/createMessage": _sampling,
}
