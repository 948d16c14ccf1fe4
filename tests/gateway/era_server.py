"""An MCP server of the official SDK that speaks both eras, as all of them do: `era_server.py [--http PORT]`.

Its tools ask in each of the ways that there are: by an answer (since 2026), by a request (before), and by what the SDK turns
into either.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

warnings.simplefilter("ignore")
NOTES = Path(os.environ.get("SHOP_NOTES", os.devnull))
server = MCPServer("eras")


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{os.getpid()} {text}\n")


class Size(BaseModel):
    size: str


def which_size(message: str = "Which size?") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampled() -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text="What is 1 + 1?"))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=10))


@server.tool()
def plain() -> str:
    """Asks nothing."""
    note("plain")
    return "plain"


@server.tool()
def by_answer(ctx: Context) -> str | types.InputRequiredResult:
    """Asks for one thing."""
    note("by_answer")
    answer = (ctx.input_responses or {}).get("size")
    if isinstance(answer, types.ElicitResult) and answer.content:
        return f"{answer.action} {answer.content['size']}"
    return types.InputRequiredResult(input_requests={"size": which_size()})


@server.tool()
def all_at_once(ctx: Context) -> str | types.InputRequiredResult:
    """Asks the user, the model and for the roots at once."""
    given = ctx.input_responses or {}
    if {"size", "model", "roots"} <= given.keys():
        return f"{given['size'].content['size']} {given['model'].content.text} {given['roots'].roots[0].uri}"
    asked: Any = {"size": which_size(), "model": sampled(), "roots": types.ListRootsRequest()}
    return types.InputRequiredResult(input_requests=asked, request_state="all")


@server.tool()
def in_rounds(rounds: int, ctx: Context) -> str | types.InputRequiredResult:
    """Asks one after the other."""
    done = int(ctx.request_state or 0)
    if done == rounds:
        return f"{rounds} rounds"
    return types.InputRequiredResult(
        input_requests={"size": which_size(f"Round {done + 1}?")}, request_state=str(done + 1)
    )


@server.tool()
def not_yet(ctx: Context) -> str | types.InputRequiredResult:
    """Asks for nothing, but to be asked again."""
    done = int(ctx.request_state or 0)
    return "now" if done == 3 else types.InputRequiredResult(request_state=str(done + 1))


@server.tool()
def able(ctx: Context) -> str:
    """Says what the client can do, to this request."""
    found = ctx.client_capabilities
    return " ".join(key for key in ("elicitation", "roots", "sampling") if found and getattr(found, key) is not None)


@server.tool()
def able_by_answer(ctx: Context) -> str | types.InputRequiredResult:
    """Says what the client can do, to a request that may be answered by a question."""
    return able(ctx) if ctx.request_state else types.InputRequiredResult(request_state="asked")


@server.tool()
async def by_request(ctx: Context) -> str:
    """Asks by a request of its own."""
    note("by_request")
    answer = await ctx.elicit(message="Which size?", schema=Size)
    return f"{answer.action} {answer.data.size}" if answer.action == "accept" else answer.action


def the_size() -> Elicit[Size]:
    return Elicit(message="Which size?", schema=Size)


@server.tool()
def by_either(size: Annotated[AcceptedElicitation[Size], Resolve(the_size)]) -> str:
    """Asks as the client can be asked."""
    return f"{size.action} {size.data.size}"


@server.tool()
def end(ctx: Context) -> str | types.InputRequiredResult:
    """Asks, and ends the server when it is answered."""
    if ctx.input_responses:
        os._exit(3)
    return types.InputRequiredResult(input_requests={"size": which_size()})


@server.tool()
def end_plainly() -> str:
    """Ends the server."""
    os._exit(3)


@server.tool()
def fails(ctx: Context) -> str | types.InputRequiredResult:
    """Asks, and answers by an error."""
    if ctx.input_responses:
        raise MCPError(-32050, "not today", {"why": "closed"})
    return types.InputRequiredResult(input_requests={"size": which_size()})


@server.tool()
def in_region(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], ids: list[int], ctx: Context
) -> str:
    """Wants an argument in a header as well."""
    headers = ctx.request_context.request.headers if ctx.request_context.request else {}
    return f"{region} {len(ids)} {headers.get('mcp-param-region')}"


@server.tool()
async def change(ctx: Context) -> str:
    """Changes the list of tools."""
    server.add_tool(plain, name="new_one")
    await ctx.notify_tools_changed()
    return "changed"


@server.tool()
async def touch(uri: str, ctx: Context) -> str:
    """Changes a resource."""
    await ctx.notify_resource_updated(uri)
    return "touched"


@server.prompt()
def asking_prompt(ctx: Context) -> list[UserMessage] | types.InputRequiredResult:
    """Asks."""
    answer = (ctx.input_responses or {}).get("size")
    if isinstance(answer, types.ElicitResult) and answer.content:
        return [UserMessage(role="user", content=types.TextContent(text=f"Size {answer.content['size']}"))]
    return types.InputRequiredResult(input_requests={"size": which_size()})


@server.resource("eras://{name}/size")
def asking_resource(name: str, ctx: Context) -> str | types.InputRequiredResult:
    """Asks."""
    answer = (ctx.input_responses or {}).get("size")
    if isinstance(answer, types.ElicitResult) and answer.content:
        return f"{name} {answer.content['size']}"
    return types.InputRequiredResult(input_requests={"size": which_size()})


if __name__ == "__main__":
    note("started")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run()
