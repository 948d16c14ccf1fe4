"""What MCP's conformance suite wants of a server under test, on the official SDK: `conformance_server.py [--http PORT]`.

Names, texts and schemas are the suite's; each scenario of it says which it needs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import warnings
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from pydantic import Field

warnings.simplefilter("ignore")
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\x0bIDATx\xdac`\0\x02\0\0\x05\0\x01"
    b"\xe9\xfa\xdc\xd8\0\0\0\0IEND\xaeB`\x82"
).decode()
WAV = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0").decode()
IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
SECRET = RequestStateSecurity(keys=[b"only for tests: 32 bytes at least"])
server = MCPServer("conformance", version="1", request_state_security=SECRET)
Asking = types.InputRequiredResult


class Events(EventStore):
    """What was sent, kept for streams that are taken up again."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        if not (last_event_id.isdecimal() and int(last_event_id) < len(self._sent)):
            return None
        stream = self._sent[int(last_event_id)][0]
        for number, (of, message) in enumerate(self._sent[int(last_event_id) + 1 :], int(last_event_id) + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def tool(function: Any) -> Any:
    return server.tool(description=f"Tool of the suite: {function.__name__}")(function)


def prompt(function: Any) -> Any:
    return server.prompt(description=f"Prompt of the suite: {function.__name__}")(function)


def text(said: str) -> types.TextContent:
    return types.TextContent(text=said)


def embedded(uri: str, mime_type: str, said: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=said))


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def form(message: str, **properties: Any) -> types.ElicitRequest:
    schema = an_object(**properties)
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(said: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(said))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=50))


STRING = {"type": "string"}
NAME = form("What is your name?", name=STRING)
CONFIRM = form("Please confirm", ok={"type": "boolean"})


# Content


@tool
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tool
def test_image_content() -> list[types.ImageContent]:
    return [IMAGE]


@tool
def test_audio_content() -> list[types.AudioContent]:
    return [types.AudioContent(data=WAV, mime_type="audio/wav")]


@tool
def test_embedded_resource() -> list[types.EmbeddedResource]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool
def test_multiple_content_types() -> list[types.TextContent | types.ImageContent | types.EmbeddedResource]:
    mixed = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), IMAGE, mixed]


@tool
def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


# What is told meanwhile


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(said)
        await asyncio.sleep(0.05)
    return "logged"


@tool
async def test_logging_tool(ctx: Context) -> str:
    await ctx.info("only to who asked for it")
    return "logged"


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_reconnection(ctx: Context) -> str:
    await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    return "Reconnection test completed"


# Asked by requests, until 2025


@tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=text(prompt))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content.text}"


async def elicited(ctx: Context, message: str, schema: dict[str, Any]) -> str:
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content or {})}"


@tool
async def test_elicitation(message: str, ctx: Context) -> str:
    return "User response: " + await elicited(ctx, message, an_object(username=STRING, email=STRING))


@tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    status = {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": status,
        "verified": {"type": "boolean", "default": True},
    }
    return "Elicitation completed: " + await elicited(ctx, "Who?", {**an_object(**properties), "required": []})


@tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": plain, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return "Elicitation completed: " + await elicited(ctx, "Which?", an_object(**properties))


# Asked by answers, since 2026


@tool
def test_input_required_result_elicitation(ctx: Context) -> str | Asking:
    answer = (ctx.input_responses or {}).get("user_name")
    if isinstance(answer, types.ElicitResult) and answer.content and isinstance(answer.content.get("name"), str):
        return f"Hello, {answer.content['name']}!"
    return Asking(input_requests={"user_name": NAME})


@tool
def test_streaming_elicitation(ctx: Context) -> str | Asking:
    return "asked" if ctx.input_responses else Asking(input_requests={"user_name": NAME})


@tool
def test_input_required_result_sampling(ctx: Context) -> str | Asking:
    answer = (ctx.input_responses or {}).get("capital_question")
    if isinstance(answer, types.CreateMessageResult):
        return f"Model said: {answer.content.text}"
    return Asking(input_requests={"capital_question": sampling("What is the capital of France?")})


@tool
def test_input_required_result_list_roots(ctx: Context) -> str | Asking:
    answer = (ctx.input_responses or {}).get("client_roots")
    if isinstance(answer, types.ListRootsResult):
        return f"{len(answer.roots)} roots"
    return Asking(input_requests={"client_roots": types.ListRootsRequest()})


@tool
def test_input_required_result_request_state(ctx: Context) -> str | Asking:
    if "confirm" in (ctx.input_responses or {}) and ctx.request_state == "nonce":
        return "state-ok: confirmed"
    return Asking(input_requests={"confirm": CONFIRM}, request_state="nonce")


@tool
def test_input_required_result_multiple_inputs(ctx: Context) -> str | Asking:
    asked: Any = {"user_name": NAME, "greeting": sampling("Greet"), "client_roots": types.ListRootsRequest()}
    if asked.keys() <= (ctx.input_responses or {}).keys():
        return "All inputs received."
    return Asking(input_requests=asked, request_state="several")


@tool
def test_input_required_result_multi_round(ctx: Context) -> str | Asking:
    given, state = ctx.input_responses or {}, json.loads(ctx.request_state or '{"round": 0}')
    if state["round"] == 2 and isinstance(color := given.get("step2"), types.ElicitResult):
        return f"{state['name']} likes {(color.content or {}).get('color')}."
    if state["round"] == 1 and isinstance(name := given.get("step1"), types.ElicitResult):
        state = {"round": 2, "name": (name.content or {}).get("name")}
        step2 = form("Step 2: What is your favorite color?", color=STRING)
        return Asking(input_requests={"step2": step2}, request_state=json.dumps(state))
    step1 = form("Step 1: What is your name?", name=STRING)
    return Asking(input_requests={"step1": step1}, request_state=json.dumps({"round": 1}))


@tool
def test_input_required_result_tampered_state(ctx: Context) -> str | Asking:
    return "state-ok" if ctx.request_state else Asking(input_requests={"confirm": CONFIRM}, request_state="sealed")


@tool
def test_input_required_result_capabilities(ctx: Context) -> Asking:
    able = ctx.client_capabilities
    asked: Any = {"sample": sampling("Say hello")} if able and able.sampling is not None else {}
    asked |= {"ask": NAME} if able and able.elicitation is not None else {}
    return Asking(input_requests=asked, request_state="as able")


@tool
def test_missing_capability(ctx: Context) -> str:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        required = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client has no sampling", required)
    return "sampling"


# Schemas and headers


@tool
def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
    return region


@tool
def json_schema_2020_12_tool() -> str:
    return "kept"


server._tool_manager._tools["json_schema_2020_12_tool"].parameters = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", **an_object(street=STRING, city=STRING)}},
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# Lists that change


@tool
async def test_trigger_tool_change(ctx: Context) -> str:
    server.add_tool(test_simple_text, name="passing")
    server.remove_tool("passing")
    await ctx.notify_tools_changed()
    return "changed"


@tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    server.add_prompt(Prompt.from_function(test_simple_prompt, name="passing"))
    server.remove_prompt("passing")
    await ctx.notify_prompts_changed()
    return "changed"


# Resources


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@server.resource("test://watched-resource")
def watched() -> str:
    return "watched"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# Prompts


@prompt
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


@prompt
def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(IMAGE), UserMessage("Please analyze the image above.")]


@prompt
def test_input_required_result_prompt(ctx: Context) -> str | Asking:
    answer = (ctx.input_responses or {}).get("user_context")
    if isinstance(answer, types.ElicitResult) and answer.content:
        return f"Use the following context: {answer.content.get('context')}"
    return Asking(input_requests={"user_context": form("What context?", context=STRING)})


# Of clients until 2025, which the SDK's simple server leaves to its low level


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[], total=0, has_more=False)


async def nothing(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


for method, params in {
    "logging/setLevel": types.SetLevelRequestParams,
    "resources/subscribe": types.SubscribeRequestParams,
    "resources/unsubscribe": types.UnsubscribeRequestParams,
}.items():
    server._lowlevel_server.add_request_handler(method, params, nothing)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[2]), event_store=Events(), retry_interval=100)
    else:
        server.run()
