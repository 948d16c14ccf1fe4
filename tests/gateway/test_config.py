"""The gateway's configuration: which files and commands are understood, and which error each mistake gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from byref import ConfigurationError
from byref.gateway.config import FunctionsConfig, command_config, parse_config, read_config

STDIO = {"command": "serve"}


def parsed(**server: Any) -> Any:
    (found,) = parse_config({"mcpServers": {"s": server}}).servers
    return found


def test_the_form_of_clients_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    servers = {
        "a": {
            "command": "npx",
            "args": ["-y", "x", "${TOKEN}"],
            "env": {"K": "${TOKEN}", "L": "${NONE:-d}"},
            "autoApprove": [],
        },
        "b": {"url": "https://x.example/${TOKEN}", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
        "c": {"type": "sse", "url": "http://x.example/events"},
        "d": {"type": "streamable-http", "url": "http://x.example"},
        "e": {"url": "http://x.example/sse"},
        "off": {"command": "x", "disabled": True},
        "out": {"command": "x", "enabled": False},
    }
    a, b, c, d, e = parse_config({"mcpServers": servers, "inputs": []}).servers
    assert a.command == ("npx", "-y", "x", "secret") and a.env["K"] == "secret" and a.env["L"] == "d"
    assert "TOKEN" not in a.env and "PATH" in a.env
    assert b.url == "https://x.example/secret" and b.headers == {"Authorization": "Bearer secret"}
    assert [one.kind for one in (a, b, c, d, e)] == ["stdio", "auto", "sse", "http", "sse"]
    assert "secret" not in repr((a, b))


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ([], "mcpServers"),
        ({}, "mcpServers"),
        ({"mcpServers": []}, "mcpServers"),
        ({"mcpServers": {}}, "no server"),
        ({"mcpServers": {"s": []}}, "'s'"),
        ({"mcpServers": {"": STDIO}}, "1 to 200"),
        *(({"mcpServers": {f"a{evil}b": STDIO}}, "invisible") for evil in "\n\x1b\u202e\u2028\u200b"),
        ({"mcpServers": {"s": {}}}, "'s'.*command.*url"),
        ({"mcpServers": {"s": {"command": 3}}}, "'s': \"command\""),
        ({"mcpServers": {"s": {"command": "x", "args": "y"}}}, "'s': \"args\""),
        ({"mcpServers": {"s": {"command": "x", "env": {"K": 1}}}}, "'s': \"env.K\""),
        ({"mcpServers": {"s": {"command": "x", "cwd": 1}}}, "'s': \"cwd\""),
        ({"mcpServers": {"s": {"command": "x", "disabled": "yes"}}}, "'s': \"disabled\""),
        ({"mcpServers": {"s": {"type": "carrier pigeon"}}}, "'s': \"type\""),
        ({"mcpServers": {"s": {"url": "ftp://x"}}}, "'s': \"url\""),
        ({"mcpServers": {"s": {"url": "http://[bad/mcp"}}}, "'s': \"url\""),
        ({"mcpServers": {"s": {"url": "http://x:99999/mcp"}}}, "'s': \"url\""),
        ({"mcpServers": {"s": {"url": "http://"}}}, "'s': \"url\""),
        ({"mcpServers": {"s": {"url": "http://x/a\nb"}}}, "'s': \"url\""),
        ({"mcpServers": {"s": {"url": "http://x", "headers": {"A": "b\nc"}}}}, "'s': \"headers.A\".*line break"),
        ({"mcpServers": {"s": {"url": "http://x", "headers": {"A b": "c"}}}}, "'s': \"headers\".*'A b'"),
        ({"mcpServers": {"s": {"command": "x\0"}}}, "'s': 'command'.*NUL"),
        ({"mcpServers": {"s": {"command": "x", "args": ["a", "\0"]}}}, "'s': 'args\\[1\\]'.*NUL"),
        ({"mcpServers": {"s": {"command": "x", "env": {"K": "\0"}}}}, "'s': 'env.K'.*NUL"),
        ({"mcpServers": {"s": {"command": "x", "env": {"K=": "v"}}}}, "'s': \"env\".*'K='"),
        ({"mcpServers": {"s": {"command": "x", "cwd": "\0"}}}, "'s': 'cwd'.*NUL"),
        ({"mcpServers": {"s": {"args": []}}}, "there is neither"),
        ({"mcpServers": {"s": {"type": "http", "command": "x"}}}, 'no "url", which its "type" needs'),
        ({"mcpServers": {"s": {"url": "http://x", "headers": {"A": 1}}}}, "'s': \"headers.A\""),
        ({"mcpServers": {"s": {"command": "${NOBODY_HAS_SET_THIS}"}}}, "'s': \"command\".*NOBODY_HAS_SET_THIS"),
        ({"mcpServers": {"s": STDIO}, "byref": {"polcy": {}}}, "polcy"),
        ({"mcpServers": {"s": STDIO}, "byref": {"policy": {"max_result_token": 1}}}, "max_result_tokens"),
        ({"mcpServers": {"s": STDIO}, "byref": {"preset": "none"}}, "preset"),
        ({"mcpServers": {"s": STDIO}, "byref": {"call_timeout": -1}}, "call_timeout"),
        ({"mcpServers": {"s": STDIO}, "byref": {"functions": ["a"]}}, "functions"),
        ({"mcpServers": {"s": STDIO}, "byref": {"functions": {"allowed": ["a"]}}}, "functions"),
        ({"mcpServers": {"s": STDIO}, "byref": {"functions": {"allow": "a"}}}, "allow"),
        ({"mcpServers": {"s": STDIO}, "byref": {"functions": {"tools": [1]}}}, "tools"),
        ({"mcpServers": {"s": STDIO}, "byref": {"tools_tokens": -1}}, "tools_tokens"),
        ({"mcpServers": {"s": STDIO}, "byref": {"tools_tokens": True}}, "tools_tokens"),
        ({"mcpServers": {"s": STDIO}, "byref": {"links": "no"}}, "links"),
        ({"mcpServers": {"s": STDIO}, "byref": {"tools_tokens": 5, "functions": False}}, "tools_tokens"),
    ],
)
def test_what_is_wrong_is_named(config: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_config(config)


@pytest.mark.parametrize(("content", "told"), [(b"{", "not JSON"), (b"\xff", "not JSON"), (b"[" * 200_000, "not JSON")])
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=told):
        read_config(path)


def test_what_is_said_of_a_tool_holds_under_its_long_names() -> None:
    """A server that lists a tool of the same name takes nothing of it away."""
    per_tool = {"read": {"enabled": False}, "b__read": {"enabled": True}}
    config = parse_config({"mcpServers": {"a a": STDIO, "b": STDIO}, "byref": {"policy": {"per_tool": per_tool}}})
    names = ("read", "a_a__read", "b__read", "c__read")
    assert [config.policy.for_tool(name).enabled for name in names] == [False, False, True, True]


def test_tools_are_functions_of_code_if_the_configuration_says_so() -> None:
    for given, expected in [
        ({}, None),
        ({"functions": False}, None),
        ({"functions": True}, FunctionsConfig()),
        ({"functions": {"allow": []}}, FunctionsConfig(("*",), ())),
        ({"functions": {"tools": ["a*"]}}, FunctionsConfig(("a*",), None)),
        ({"tools_tokens": 5}, FunctionsConfig()),
    ]:
        assert parse_config({"mcpServers": {"s": STDIO}, "byref": given}).functions == expected


def test_the_policy_is_of_the_configuration() -> None:
    config = parse_config(
        {"mcpServers": {"s": STDIO}, "byref": {"policy": {"max_result_tokens": 99}, "call_timeout": 5, "links": False}}
    )
    assert not config.links
    assert config.policy.max_result_tokens == 99 and config.call_timeout == 5.0
    assert config.policy.headroom_percentage == 1.0


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-everything@1.2"], "server-everything"),
        (["uvx", "mcp-server-git"], "mcp-server-git"),
        (["/usr/bin/python3", "/opt/my_server.py", "--x"], "my_server"),
        (["python"], "server"),
    ],
)
def test_a_command_has_a_name(command: list[str], name: str) -> None:
    (server,) = command_config(command).servers
    assert server.name == name


@pytest.mark.parametrize(
    "config",
    [
        ["s3cret"],
        {"mcpServers": ["s3cret"]},
        {"mcpServers": {"s": ["s3cret"]}},
        {"mcpServers": {"s": "s3cret"}},
        {"mcpServers": {"s": {"command": "x", "args": ["--key", "s3cret", 5]}}},
        {"mcpServers": {"s": {"command": "x", "args": "s3cret"}}},
        {"mcpServers": {"s": {"command": {"a": "s3cret"}}}},
        {"mcpServers": {"s": {"command": "x", "env": ["s3cret"]}}},
        {"mcpServers": {"s": {"command": "x", "env": {"K": ["s3cret"]}}}},
        {"mcpServers": {"s": {"command": "x", "cwd": ["s3cret"]}}},
        {"mcpServers": {"s": {"url": ["s3cret"]}}},
        {"mcpServers": {"s": {"url": "https://u:s3cret@/x"}}},
        {"mcpServers": {"s": {"url": "https://x", "headers": {"A": {"s3cret": 1}}}}},
        {"mcpServers": {"s": {"url": "https://x", "headers": "s3cret"}}},
        {"mcpServers": {"s": {"command": "x"}}, "byref": ["s3cret"]},
    ],
)
def test_a_wrong_file_is_told_without_what_may_be_a_secret(config: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(config)
    assert "s3cret" not in str(caught.value)
