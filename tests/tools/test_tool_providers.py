"""Definitions and replies as the providers' own SDKs take them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from byref import Engine, Session
from byref.conversation.result import FORMATS
from byref.policy import TOOL_NAMES
from byref.tools import TOOLS
from byref.tools.arguments import parse


@pytest.fixture
def everything(local: Engine, tenant: str) -> Session:
    """A conversation with all tools."""
    return local.session("s", tenant=tenant, tools=list(TOOL_NAMES))


def names(tools: list[Any]) -> list[str]:
    return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]


# The SDKs are imported by the tests that need them: it takes seconds, which collecting does not need.


@pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic"])
def test_parameters_of_the_sdks(everything: Session, format: Any) -> None:
    import anthropic.types
    from openai.types import chat, responses
    from pydantic import TypeAdapter

    kinds: dict[str, Any] = {
        "openai": chat.ChatCompletionToolParam,
        "openai-responses": responses.FunctionToolParam,
        "anthropic": anthropic.types.ToolParam,
    }
    given = everything.tools(format)
    taken = TypeAdapter(list[kinds[format]]).validate_python(given)  # type: ignore[misc]
    assert json.loads(json.dumps(taken)) == given  # nothing was dropped as unknown
    assert names(taken) == list(TOOL_NAMES)


def test_gemini(everything: Session) -> None:
    from google.genai import types as gemini

    [given] = everything.tools("gemini")
    declared = gemini.Tool.model_validate(given).function_declarations
    assert declared is not None
    assert [one.name for one in declared] == list(TOOL_NAMES)
    for one in declared:
        schema: Any = one.parameters_json_schema
        assert all("type" in argument for argument in schema["properties"].values())
        # Also in the older form, a subset of OpenAPI's, where hosts copy it.
        assert gemini.Schema.model_validate(schema).required == schema["required"]


def test_mcp(everything: Session) -> None:
    import mcp.types

    for given in everything.tools("mcp"):
        tool = mcp.types.Tool.model_validate(given)
        assert tool.model_dump(by_alias=True, exclude_none=True) == given


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for member in schema.get("properties", {}).values():
        yield from parts(member)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_schemas_are_of_the_words_that_all_take(tool: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.schema)
    for part in parts(tool.schema):
        assert part.keys() <= {
            *("type", "description", "properties", "required", "additionalProperties", "minimum", "maximum"),
        }
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert set(part["required"]) <= set(part["properties"])
    assert len(tool.description) < 300


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_examples_are_calls(tool: Any) -> None:
    jsonschema.validate(tool.example, tool.schema)
    assert parse(tool, tool.example) == parse(tool, json.dumps(tool.example))


@pytest.mark.parametrize("format", FORMATS)
def test_replies_are_messages_of_the_sdks(everything: Session, format: Any) -> None:
    import anthropic.types
    import mcp.types
    from google.genai import types as gemini
    from openai.types import chat, responses
    from pydantic import TypeAdapter

    for call in ({"pointer_or_name": "nope"}, {}):
        message = everything.call("get_artifact", call).message(format, "call_1")
        match format:
            case "openai":
                TypeAdapter(chat.ChatCompletionToolMessageParam).validate_python(message)
            case "openai-responses":
                TypeAdapter(responses.response_input_item_param.FunctionCallOutput).validate_python(message)
            case "anthropic":
                TypeAdapter(anthropic.types.MessageParam).validate_python(message)
            case "gemini":
                gemini.Content.model_validate(message)
            case "mcp":
                mcp.types.CallToolResult.model_validate(message)
