"""Reads and checks the gateway's configuration: a client's `mcpServers` file, or one command."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal
from urllib.parse import urlsplit

from byref.errors import ConfigurationError, shown, within
from byref.gateway import jsonc
from byref.gateway.names import NAME_CHARS, SEPARATOR, Names
from byref.policy import Policy, check_tools
from byref.stores.paths import read_whole

MAX_CONFIG_BYTES = 1 << 20
MAX_SERVERS = 100
LIST_SECONDS = 30.0
"""Seconds for one list of a server; the pages that come later are left out."""
MAX_RESULT_BYTES = 100_000
"""Default ceiling in bytes for the part of one result that the model reads: about 25,000 tokens, the most that clients such as
Claude Code accept from a tool. Clients do not report how full the model's context is, so only this gate keeps long texts out."""
DEFAULT_LEDGER_DAYS = 30
"""Each start of the gateway makes a conversation, so ledgers without an expiry would pile up."""

Kind = Literal["stdio", "http", "sse", "auto"]
_KINDS: Mapping[str, Kind] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PRESETS = ("variables", "references", "pointers", "previews")
_INHERITED = re.compile(
    r"HOME|LANG|LANGUAGE|LC_(ALL|COLLATE|CTYPE|MESSAGES|MONETARY|NUMERIC|TIME)|LOGNAME|PATH|SHELL|TERM|TMPDIR|TZ|USER"
    r"|XDG_(CACHE_HOME|CONFIG_DIRS|CONFIG_HOME|DATA_DIRS|DATA_HOME|RUNTIME_DIR|STATE_HOME)"
    r"|SSL_CERT_(DIR|FILE)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|NO_PROXY|no_proxy"
)
"""Variables of the gateway's own environment that a server of a config file gets beside its `env`: what programs need to start, and
npx or uvx to fetch them. Only names of places are inherited. Variables that may hold a secret, such as a package index with its
password, must be named in the file's `env`."""
_PROXIES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "http_proxy", "https_proxy")
"""Inherited too, but only scheme, host and port: name and password are removed."""
_PROXY = re.compile(
    r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)(?:.*@)?((?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?)/?", re.DOTALL
)
_RUNNERS = frozenset({"npx", "uvx", "uv", "pipx", "bunx", "deno", "node", "python", "python3", "docker", "run", "exec"})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One upstream server. Fields that may hold secrets are left out of the repr, and so out of logs."""

    name: str
    kind: Kind
    """`auto`: streamable HTTP, or SSE if the server refuses that."""
    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The whole environment of the process."""
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class FunctionsConfig:
    """Which tools code may call as functions, by patterns of their names."""

    tools: tuple[str, ...] = ("*",)
    allow: tuple[str, ...] | None = None
    """Those that code calls without asking the user; None: those that their servers annotate as read-only."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The servers, their timeouts, and the policy for their results."""

    servers: tuple[ServerConfig, ...]
    policy: Policy = field(default_factory=lambda: default_policy({}))
    start_timeout: float = 60.0
    """Seconds for a server's handshake."""
    call_timeout: float | None = None
    """Seconds for a tool call, a read or a prompt; None: as long as the client waits."""
    functions: FunctionsConfig | None = None
    """None: code calls no tools."""
    tools_tokens: int | None = None
    """Tokens of the list of tools, beyond which it is short and has a tool by which others are found; None: it has all."""
    links: bool = True
    """Whether a result has links to what was stored of it; some clients refuse the whole result because of one."""


def read_config(path: str | Path) -> GatewayConfig:
    """Read a file of the form `{"mcpServers": {name: {…}}}`; unknown keys of servers are ignored.

    Comments and trailing commas are allowed, as in VS Code's file. A section `byref` beside the servers may have `policy` (fields
    of `Policy`), `preset`, `start_timeout`, `call_timeout`, `functions`, `tools_tokens` and `links`.

    Raises:
        ConfigurationError: the file cannot be read, or has a value of a wrong type; the text names server and key.
    """
    try:
        raw = read_whole(path, MAX_CONFIG_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    if raw is None:
        raise ConfigurationError(f"{str(path)!r} has more than {MAX_CONFIG_BYTES:,} bytes; is it the right file?")
    try:
        parsed = jsonc.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{str(path)!r} is not JSON: {error}") from error
    with within(repr(str(path))):
        return parse_config(parsed)


def parse_config(parsed: object) -> GatewayConfig:
    """Return the configuration in a parsed file; it raises as `read_config` does."""
    if not isinstance(parsed, dict):
        raise ConfigurationError(f'expected an object with "mcpServers", not {_kind(parsed)}')
    key = "mcpServers" if "mcpServers" in parsed or "servers" not in parsed else "servers"
    named = parsed.get(key)
    if key not in parsed:
        raise ConfigurationError('expected an object of servers under "mcpServers" (or "servers"); there is neither')
    if not isinstance(named, dict):
        raise ConfigurationError(f'"{key}": expected an object of servers by their names, not {_kind(named)}')
    if len(named) > MAX_SERVERS:
        raise ConfigurationError(f'"{key}": {len(named):,} servers; at most {MAX_SERVERS} are allowed')
    servers = tuple(server for name, given in named.items() if (server := _server(name, given)) is not None)
    if not servers:
        raise ConfigurationError(f'"{key}": there is no server that is not disabled')
    return _settings(servers, parsed.get("byref", {}))


def command_config(command: Sequence[str]) -> GatewayConfig:
    """Return the configuration of one server started by a command; it inherits the environment except `BYREF_…`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("BYREF_")}
    return GatewayConfig((ServerConfig(_name_of(command), "stdio", command=tuple(command), env=env),))


def default_policy(knobs: Mapping[str, Any], preset: str | None = None) -> Policy:
    """Return `Policy`, or a preset of it, with the gateway's defaults, overridden by `knobs`, which are fields of `Policy`.

    A gateway never learns how full its client's context is: the gate of headroom is off, and the ceiling is lower. A conversation's
    ledger expires some time after its last step, because nobody deletes it.
    """
    base: Policy = Policy() if preset is None else getattr(Policy, preset)()
    tools = base.tools
    listing = () if "list_artifacts" in tools else ("list_artifacts",)
    floor = knobs.get("min_threshold_bytes")
    given = {
        "headroom_percentage": 1.0,
        "max_threshold_bytes": max(MAX_RESULT_BYTES, floor if type(floor) is int else 0),
        "wholesale_tokens": None,  # the ceiling bounds texts, too
        "ledger_ttl": DEFAULT_LEDGER_DAYS * 86_400,
        "tools": (*tools, *listing),
    }
    return base.override(**{**given, **knobs})


def _settings(servers: tuple[ServerConfig, ...], given: object) -> GatewayConfig:
    if not isinstance(given, dict):
        raise ConfigurationError(f'"byref": expected an object of settings, not {_kind(given)}')
    known = ("policy", "preset", "start_timeout", "call_timeout", "functions", "tools_tokens", "links")
    for key in given:
        if key not in known:
            raise ConfigurationError(f'"byref": {key!r} is no setting; there are {list(known)}')
    preset, knobs = given.get("preset"), given.get("policy", {})
    if preset is not None and preset not in _PRESETS:
        raise ConfigurationError(f'"byref"."preset": expected one of {list(_PRESETS)}, not {shown(preset)}')
    if not isinstance(knobs, dict):
        raise ConfigurationError(f'"byref"."policy": expected an object of knobs, not {shown(knobs)}')
    if "tools" in knobs:
        knobs = {**knobs, "tools": check_tools(knobs["tools"])}
    if isinstance(knobs.get("per_tool"), dict):
        knobs = {**knobs, "per_tool": _of_all(knobs["per_tool"], servers)}
    with within('"byref"."policy"'):
        policy = default_policy(knobs, preset)
    tokens = _tokens(given.get("tools_tokens"))
    functions = _functions(given.get("functions", tokens is not None))
    if tokens is not None and functions is None:
        raise ConfigurationError(
            '"byref"."tools_tokens": what is not in the list is called from code: "functions" is false'
        )
    links = given.get("links", True)
    if not isinstance(links, bool):
        raise ConfigurationError(f'"byref"."links": expected true or false, not {shown(links)}')
    return GatewayConfig(
        servers,
        policy,
        start_timeout=_seconds(given, "start_timeout") or 60.0,
        call_timeout=_seconds(given, "call_timeout"),
        functions=functions,
        tools_tokens=tokens,
        links=links,
    )


def _functions(given: object) -> FunctionsConfig | None:
    if isinstance(given, bool):
        return FunctionsConfig() if given else None
    if not isinstance(given, dict) or not given.keys() <= {"tools", "allow"}:
        raise ConfigurationError(
            '"byref"."functions": expected true, or {"tools": […], "allow": […]} with patterns of names, '
            f"not {shown(given)}"
        )
    for key, patterns in given.items():
        if not isinstance(patterns, list) or not all(isinstance(one, str) and one for one in patterns):
            raise ConfigurationError(
                f'"byref"."functions"."{key}": expected patterns of names, such as ["search_*"], not {shown(patterns)}'
            )
    allow = given.get("allow")
    return FunctionsConfig(tuple(given.get("tools", ["*"])), None if allow is None else tuple(allow))


def _tokens(given: object) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 10_000_000:
        raise ConfigurationError(f'"byref"."tools_tokens": expected a number of tokens, not {shown(given)}')
    return given


def _of_all(per_tool: Mapping[str, Any], servers: tuple[ServerConfig, ...]) -> dict[str, Any]:
    """Apply settings of a tool to its long names too: which name it gets is not known before the servers are running."""
    names = Names(servers=[server.name for server in servers])
    long = [
        (f"{names.prefix(one.name)}{SEPARATOR}{tool}", settings)
        for one in servers
        for tool, settings in per_tool.items()
    ]
    return {
        **per_tool,
        **{name: settings for name, settings in long if name not in per_tool and len(name) <= NAME_CHARS},
    }


def _seconds(given: Mapping[str, Any], key: str) -> float | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise ConfigurationError(f'"byref"."{key}": expected seconds, above 0 and at most a day, not {shown(value)}')
    return float(value)


def _server(name: str, given: object) -> ServerConfig | None:
    """Return one server's configuration; None if it is disabled."""
    if not name.strip() or len(name) > 200 or not name.isprintable():  # the name is the label of the server's texts
        raise ConfigurationError(
            f"server {shown(name)}: expected a name of 1 to 200 characters, none of them a line break or invisible"
        )
    if not isinstance(given, dict):
        raise ConfigurationError(f"server {name!r}: expected an object, not {_kind(given)}")
    for key, switched_off in (("disabled", True), ("enabled", False)):
        if key in given:
            if not isinstance(given[key], bool):
                raise _wrong(name, key, "true or false", given[key])
            if given[key] is switched_off:
                return None
    kind = given.get("type", given.get("transport"))
    if kind is not None and (not isinstance(kind, str) or kind not in _KINDS):
        raise _wrong(name, "type", 'one of "stdio", "http", "sse"', kind)
    found: Kind = _KINDS[kind] if kind else "stdio" if "command" in given else "auto"
    if found == "stdio":
        return _stdio(name, given)
    url = _expanded(name, "url", _text(name, given, "url"))
    _check_url(name, url)
    if found == "auto" and url.partition("?")[0].rstrip("/").endswith("/sse"):
        found = "sse"
    headers = {key: _expanded(name, f"headers.{key}", value) for key, value in _texts(name, given, "headers").items()}
    for key, value in headers.items():
        if not _HEADER_NAME.fullmatch(key):
            raise ConfigurationError(f'server {name!r}: "headers": {shown(key)} is no name of a header')
        if _UNSENDABLE.search(value):
            raise ConfigurationError(
                f'server {name!r}: "headers.{key}": a header has no line break and no other control character'
            )
    return ServerConfig(name, found, url=url, headers=headers)


def _stdio(name: str, given: Mapping[str, Any]) -> ServerConfig:
    arguments = given.get("args", [])
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise _wrong(name, "args", "an array of strings", arguments)
    command = _expanded(name, "command", _text(name, given, "command"))
    own = {key: _expanded(name, f"env.{key}", value) for key, value in _texts(name, given, "env").items()}
    cwd = given.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise _wrong(name, "cwd", "a string", cwd)
    words = [_expanded(name, f"args[{at}]", text) for at, text in enumerate(arguments)]
    folder = None if cwd is None else str(Path(_expanded(name, "cwd", cwd)).expanduser())
    named = {f"args[{at}]": word for at, word in enumerate(words)} | {f"env.{key}": key + own[key] for key in own}
    for key, text in {"command": command, "cwd": folder or "", **named}.items():
        if "\0" in text:
            raise ConfigurationError(f"server {name!r}: {shown(key)}: it has a NUL, which no process takes")
    for key in own:
        if not key or "=" in key:
            raise ConfigurationError(f'server {name!r}: "env": {shown(key)} is no name of a variable')
    return ServerConfig(
        name,
        "stdio",
        command=(command, *words),
        env={**_inherited(), **own},
        cwd=folder,
    )


def _inherited() -> dict[str, str]:
    """Return the part of the gateway's environment that every server gets; a proxy that is no valid address is left out."""
    passed = {key: value for key, value in os.environ.items() if _INHERITED.fullmatch(key)}
    for key in _PROXIES:
        if address := _PROXY.fullmatch(os.environ.get(key, "").strip()):
            passed[key] = address[1] + address[2]
    return passed


def _check_url(name: str, url: str) -> None:
    """Refuse an invalid address without quoting it: it may contain a key."""
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound or _UNSENDABLE.search(url) or " " in url:
        raise ConfigurationError(
            f'server {name!r}: "url": expected an address, http://HOST[:PORT]/PATH or https://…; this one is none'
        )


def _text(name: str, given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        if key not in given:
            raise ConfigurationError(
                f'server {name!r}: expected "command" (stdio) or "url" (HTTP); there is '
                + ("neither" if given.keys().isdisjoint(("command", "url")) else f'no "{key}", which its "type" needs')
            )
        raise _wrong(name, key, "a string", value)
    return value


def _texts(name: str, given: Mapping[str, Any], key: str) -> dict[str, str]:
    values = given.get(key)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong(name, key, "an object of strings", values)
    for member, value in values.items():
        if not isinstance(value, str):
            raise _wrong(name, f"{key}.{member}", "a string", value)
    return dict(values)


def _expanded(name: str, key: str, text: str) -> str:
    """Replace `${VAR}`, `${VAR:-default}` and `${env:VAR}` in a text, as clients do."""

    def value(found: re.Match[str]) -> str:
        variable, otherwise = found[1], found[2]
        if (known := os.environ.get(variable)) is not None:
            return known
        if otherwise is None:
            raise ConfigurationError(f'server {name!r}: "{key}": the environment variable {variable!r} is not set')
        return otherwise

    return _VARIABLE.sub(value, text)


def _wrong(name: str, key: str, expected: str, value: object) -> ConfigurationError:
    """Return the error for a wrong value, which it names by its type where it may be a secret."""
    given = shown(value) if key in ("type", "disabled", "enabled") else _kind(value)
    return ConfigurationError(f'server {name!r}: "{key}": expected {expected}, not {given}')


def _kind(value: object) -> str:
    """Name the JSON type of a value, without quoting the value."""
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _name_of(command: Sequence[str]) -> str:
    """Return a server's name made from its command: `npx -y @scope/server-files@1` becomes `server-files`."""
    for word in (word for word in command if not word.startswith("-") and PurePath(word).name not in _RUNNERS):
        stem = (
            PurePath(word.rpartition("@")[0] if "@" in word[1:] else word).name.removesuffix(".py").removesuffix(".js")
        )
        if named := "".join(character for character in stem if character.isprintable()).strip():
            return named[:40]
    return "server"
