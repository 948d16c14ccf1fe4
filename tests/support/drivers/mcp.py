"""A client of byref's MCP server: it hands to it whatever its own tools return."""

from __future__ import annotations

import base64
import inspect
import json
from typing import Any

from drivers.base import Driver, Heard, Read, Talk
from mcp import types
from mcp.client import Client

from byref.adapters import mcp as adapter


class MCP(Driver):
    """One server for all clients, which it tells apart by what they call themselves."""

    modes = ("async",)
    knows_calls = False
    knows_schemas = False

    def adapter(self) -> Any:
        def named(context: adapter.Context) -> list[str]:
            params = context.session.client_params
            assert params is not None
            found: list[str] = json.loads(params.client_info.name)
            return found

        return adapter.server(
            self.engine,
            tenant=lambda context: f"{self.prefix}{named(context)[0]}",
            session=lambda context: named(context)[1],
            policy=self.policy,
        )

    def picture(self, data: bytes, text: str) -> Any:
        image = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}
        return [{"type": "text", "text": text}, image]

    async def talk(self, talk: Talk, mode: str) -> Heard:
        own = {tool.__name__: tool for tool in talk.tools}
        info = types.Implementation(name=json.dumps([talk.user, talk.name]), version="1")
        heard = Heard("Done.", {}, {})
        async with Client(self.by, client_info=info, mode="legacy") as client:
            heard.offered = [{*own, *(tool.name for tool in (await client.list_tools()).tools)} - {"process_output"}]
            for id, (name, arguments) in talk.calls.items():
                heard.written[id] = arguments
                if name not in own:
                    result = await client.call_tool(name, arguments)
                else:
                    output, is_error = await _called(own[name], arguments)
                    given = {"output": output, "tool": name, "is_error": is_error}
                    result = await client.call_tool("process_output", given)
                texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
                images = [block.data for block in result.content if isinstance(block, types.ImageContent)]
                heard.images += map(base64.b64decode, images)
                heard.reads[id] = Read(result.content, "\n".join(texts), result.is_error)
        return heard


async def _called(tool: Any, arguments: dict[str, Any]) -> tuple[Any, bool]:
    try:
        output = tool(**arguments)
        return (await output if inspect.isawaitable(output) else output), False
    except Exception as error:
        return str(error), True
