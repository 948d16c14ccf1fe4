"""An MCP server for the tests, run as a program: `shop_server.py NAME [--http PORT | --sse PORT]`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")
NAME = sys.argv[1]
NOTES = Path(os.environ.get("SHOP_NOTES", os.devnull))
"""Where it writes down what happened to it."""
ROWS = [{"id": number, "name": f"user {number}", "score": number % 7} for number in range(20_000)]
USER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "score": {"type": "integer"}},
    "required": ["id", "name", "score"],
}
USERS = {
    "type": "object",
    "properties": {"users": {"type": "array", "items": {"$ref": "#/$defs/User"}}, "total": {"type": "integer"}},
    "required": ["users", "total"],
    "additionalProperties": False,
    "$defs": {"User": USER},
}


def tool(name: str, properties: dict[str, Any] | None = None, **more: Any) -> types.Tool:
    schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    return types.Tool(name=name, description=f"{name} of {NAME}", input_schema=schema, **more)


TOOLS = [
    tool(
        "list_users",
        {"count": {"type": "integer", "minimum": 0}},
        title="Users",
        output_schema=USERS,
        annotations=types.ToolAnnotations(read_only_hint=True),
        icons=[types.Icon(src="https://example.com/icon.png")],
        _meta={"example.com/kept": {"deep": [1, None]}},
    ),
    tool("sum_ids", {"ids": {"type": "array", "items": {"type": "integer"}, "description": "whose"}}),
    tool("whoami"),
    tool("text", {"characters": {"type": "integer"}}, _meta={"anthropic/maxResultSizeChars": 60_000}),
    tool("rows", {"count": {"type": "integer"}}, _meta={"anthropic/maxResultSizeChars": 500_000}),
    tool("prose", {"characters": {"type": "integer"}}),
    tool("fail", {"characters": {"type": "integer"}}),
    tool("refuse"),
    tool("slow", {"seconds": {"type": "number"}}),
    tool("die"),
    tool("grow", {"name": {"type": "string"}}),
    tool("log", {"level": {"type": "string"}}),
    tool("sample"),
    tool("elicit"),
    tool("roots"),
    tool("touch", {"uri": {"type": "string"}}),
    tool("meta"),
    tool("stderr", {"lines": {"type": "integer"}}),
]


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{NAME} {text}\n")


def said(text: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], **more)


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    half = len(TOOLS) // 2
    if params is not None and params.cursor == "second":
        return types.ListToolsResult(tools=TOOLS[half:])
    return types.ListToolsResult(tools=TOOLS[:half], next_cursor="second")


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    given = params.arguments or {}
    match params.name:
        case "list_users":
            found = {"users": ROWS[: given["count"]], "total": len(ROWS)}
            return said(json.dumps(found), structured_content=found)
        case "rows":
            return said(json.dumps(ROWS[: given["count"]]))
        case "sum_ids":
            ids = given["ids"]
            return said(f"{len(ids)} ids, {sum(ids)}")
        case "whoami":
            return said(NAME)
        case "text" | "prose":
            line = "All work and no play makes Jack a dull boy.\n"
            return said((line * (given["characters"] // len(line) + 1))[: given["characters"]])
        case "fail":
            return said("it broke " * (given["characters"] // 9), is_error=True)
        case "refuse":
            raise MCPError(-32050, "not today", {"why": "closed"})
        case "slow":
            note("slow began")
            try:
                for step in range(round(given["seconds"] / 0.05)):
                    passed = step * 0.05
                    await ctx.session.report_progress(passed, given["seconds"], f"{passed:.1f} s")
                    await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                note("slow cancelled")
                raise
            return said("slept")
        case "die":
            note("died")
            os._exit(3)
        case "grow":
            TOOLS.append(tool(given["name"]))
            await ctx.session.send_tool_list_changed()
            return said("grown")
        case "log":
            await ctx.session.send_log_message(given["level"], {"said": "hello"}, logger="shop")
            return said("logged")
        case "sample":
            message = types.SamplingMessage(role="user", content=types.TextContent(text="What is 1 + 1?"))
            answer = await ctx.session.create_message([message], max_tokens=10)
            return said(f"{answer.model}: {answer.content.text}")
        case "elicit":
            schema = {"type": "object", "properties": {"size": {"type": "string"}}}
            await asyncio.sleep(given.get("after", 0))
            on = ctx.request_id if "after" in given else None  # else on the stream that is of no call
            answer = await ctx.session.elicit_form("Which size?", schema, on)
            return said(f"{answer.action}: {json.dumps(answer.content)}")
        case "roots":
            found = await ctx.session.list_roots()
            return said(" ".join(str(root.uri) for root in found.roots))
        case "touch":
            await ctx.session.send_resource_updated(given["uri"])
            return said("touched")
        case "meta":
            content = types.TextContent(text="see _meta", _meta={"block": 1})
            return types.CallToolResult(content=[content], _meta={"example.com/result": params.meta or {}})
        case "stderr":
            for number in range(given["lines"]):
                sys.stderr.write(f"line {number} \x1b[31mred\n")
            sys.stderr.flush()
            return said("written")
        case name if any(known.name == name for known in TOOLS):
            return said(f"grown {name}")
    raise MCPError(-32602, f"Unknown tool: {params.name}")


async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=f"shop://{NAME}/about", name="about", mime_type="text/plain", _meta={"kept": True}),
            types.Resource(uri="shop://shared", name=f"shared of {NAME}"),
        ]
    )


async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=f"shop://{NAME}/user/{{id}}", name="user")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Any, params: Any) -> types.ReadResourceResult:
    if params.uri not in (f"shop://{NAME}/about", "shop://shared") and not params.uri.startswith(
        f"shop://{NAME}/user/"
    ):
        raise MCPError(-32002, f"no resource {params.uri}")
    contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=f"{params.uri} of {NAME}")
    return types.ReadResourceResult(contents=[contents])


async def subscribe(ctx: Any, params: Any) -> types.EmptyResult:
    note(f"subscribed {params.uri}")
    return types.EmptyResult()


async def unsubscribe(ctx: Any, params: Any) -> types.EmptyResult:
    note(f"unsubscribed {params.uri}")
    return types.EmptyResult()


async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="who", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", title="Greet", arguments=[argument])])


async def get_prompt(ctx: Any, params: Any) -> types.GetPromptResult:
    who = (params.arguments or {})["who"]
    message = types.PromptMessage(role="user", content=types.TextContent(text=f"Greet {who} from {NAME}"))
    return types.GetPromptResult(messages=[message])


async def complete(ctx: Any, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[f"{params.argument.value}-{NAME}"]))


async def set_level(ctx: Any, params: Any) -> types.EmptyResult:
    note(f"level {params.level}")
    return types.EmptyResult()


async def roots_changed(ctx: Any, params: Any) -> None:
    note("roots changed")


SERVER: Server[Any] = Server(
    NAME,
    version="1",
    instructions=f"I am {NAME}.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=set_level,
    on_roots_list_changed=roots_changed,
)


async def serve() -> None:
    options = SERVER.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (reading, writing):
        await SERVER.run(reading, writing, options)
    note("eof")


def serve_http(port: int, *, sse: bool) -> None:
    import uvicorn

    if sse:
        from mcp.server.sse import SseServerTransport
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Mount, Route

        transport = SseServerTransport("/messages/")

        async def endpoint(request: Any) -> Response:
            async with transport.connect_sse(request.scope, request.receive, request._send) as (reading, writing):
                await SERVER.run(reading, writing, SERVER.create_initialization_options())
            return Response()

        app: Any = Starlette(routes=[Route("/sse", endpoint), Mount("/messages/", transport.handle_post_message)])
    else:
        app = SERVER.streamable_http_app()
    uvicorn.run(app, port=port, log_config=None, access_log=False)


if __name__ == "__main__":
    note("started")
    if len(sys.argv) > 2:
        serve_http(int(sys.argv[3]), sse=sys.argv[2] == "--sse")
    else:
        asyncio.run(serve())
