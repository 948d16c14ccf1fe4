"""Servers without any library that do as their callers tell them: `liar_server.py NAME [--modern] | --http PORT`.

By stdio it is one server; at a port it is any number of them: `/NAME/mcp` speaks streamable HTTP, `/NAME/sse` SSE. What NAME lists
is in the folder `LIARS` as `NAME.json`; with `--modern` it knows no handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[None]]
OBJECT = {"type": "object"}
TOOLS = ("work", "plot", "ask", "answers", "become", "question", "fail", "leave")


class Liar:
    """One server, for one client."""

    def __init__(self, name: str, *, is_modern: bool = False) -> None:
        path = Path(os.environ["LIARS"]) / f"{name}.json"
        self.lists: Json = json.loads(path.read_text()) if path.exists() else {}
        self.name, self.is_modern = name, is_modern
        self.answers: dict[str, Any] = {}
        self.answered = asyncio.Condition()
        self.tasks: set[asyncio.Task[None]] = set()
        self.aside: Send | None = None
        """To the stream that is of no request."""
        own = [{"name": f"{name}_{tool}", "inputSchema": OBJECT} for tool in TOOLS]
        self.tools = [*own, *self.lists.get("tools", [])]

    async def take(self, message: Json, send: Send) -> None:
        if "method" not in message:
            async with self.answered:
                self.answers[str(message["id"])] = message.get("result", message.get("error"))
                self.answered.notify_all()
        elif "id" in message:
            answer = await self.result(message["method"], message.get("params") or {}, send)
            await send({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def result(self, method: str, params: Json, send: Send) -> Json:
        page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.is_modern else {}
        able = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}}
        about = {"instructions": self.lists["instructions"]} if "instructions" in self.lists else {}
        match method:
            case "initialize" if not self.is_modern:
                await asyncio.sleep(self.lists.get("delay", 0))
                hello = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "x", "version": "1"}}
                return {"result": {**hello, "capabilities": able, **about}}
            case "server/discover" if self.is_modern:
                return {"result": {**page, "supportedVersions": ["2026-07-28"], "capabilities": able, **about}}
            case "tools/list":
                return {"result": {**page, "tools": self.tools}}
            case "prompts/list":
                return {"result": {**page, "prompts": self.lists.get("prompts", [])}}
            case "prompts/get":
                text = {"type": "text", "text": f"{params['name']} of {self.name}"}
                return {"result": {**page, "messages": [{"role": "user", "content": text}]}}
            case "resources/list":
                return {"result": {**page, "resources": self.lists.get("resources", [])}}
            case "resources/templates/list":
                return {"result": {**page, "resourceTemplates": self.lists.get("templates", [])}}
            case "resources/read" if self.lists.get("reads", True):
                contents = [{"uri": params["uri"], "text": f"{params['uri']} of {self.name}"}]
                return {"result": {**page, "contents": contents}}
            case "completion/complete":
                return {"result": {**page, "completion": {"values": [self.name]}}}
            case "logging/setLevel":
                return {"result": {}}
            case "tools/call":
                given = params.get("arguments") or {}
                tool = params["name"].removeprefix(f"{self.name}_")
                return await self.called(tool, given, params, send, page)
        return {"error": {"code": -32601, "message": "Method not found"}}

    async def called(self, tool: str, given: Json, params: Json, send: Send, page: Json) -> Json:
        match tool:
            case "work":
                await asyncio.sleep(given["seconds"])
                text = f"done by {self.name}"
            case "plot":
                self.background(self.plot(given["messages"], given.get("after", 0)))
                text = "plotted"
            case "ask":
                to = self.aside if given.get("aside") else send
                assert to is not None
                ids = {str(message["id"]) for message in given["messages"] if "id" in message}
                for message in given["messages"]:
                    await to({"jsonrpc": "2.0", **message})
                    if given.get("in_turn"):
                        await self.answer_to(message["id"])
                if not given.get("leaves"):
                    async with self.answered:
                        await self.answered.wait_for(lambda: ids <= self.answers.keys())
                await asyncio.sleep(given.get("stays", 0))
                told = given.get("told", list(self.answers))
                text = json.dumps({id: self.answers[id] for id in told})
            case "answers":
                wanted = set(given.get("ids", []))
                async with self.answered:
                    with contextlib.suppress(TimeoutError):
                        waiting = self.answered.wait_for(lambda: wanted <= self.answers.keys())
                        await asyncio.wait_for(waiting, 5)
                text = json.dumps(self.answers)
            case "become":
                self.tools = [*self.tools[: len(TOOLS)], *given["tools"]]
                self.lists.update(given.get("lists", {}))
                if self.aside is not None:
                    await self.aside({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                text = "became"
            case "question" if "inputResponses" not in params:
                return {"result": given["result"]}
            case "question":
                text = json.dumps({key: params.get(key) for key in ("inputResponses", "requestState")})
            case "leave":
                os._exit(3)
            case "fail":
                return {"error": given["error"]}
            case _:
                text = f"{params['name']} of {self.name}"
        return {"result": {**page, "content": [{"type": "text", "text": text}]}}

    async def answer_to(self, id: str) -> None:
        async with self.answered:
            await self.answered.wait_for(lambda: id in self.answers)

    async def plot(self, messages: list[Json], after: float) -> None:
        await asyncio.sleep(after)
        assert self.aside is not None
        for message in messages:
            await self.aside({"jsonrpc": "2.0", **message})

    def background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def by_stdio(liar: Liar) -> None:
    async def send(message: Json) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    liar.aside = send
    while line := await asyncio.to_thread(sys.stdin.readline):
        liar.background(liar.take(json.loads(line), send))


def by_http(port: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    liars: dict[str, Liar] = {}

    def stream(of: asyncio.Queue[Json | None], first: str = "") -> StreamingResponse:
        async def events() -> Any:
            yield first
            while (message := await of.get()) is not None:
                yield f"event: message\ndata: {json.dumps(message)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def posted(request: Request) -> Response:
        name, message = request.path_params["name"], await request.json()
        headers: dict[str, str] = {}
        if name.startswith("modern"):
            liar = liars.setdefault(name, Liar(name, is_modern=True))
        elif message.get("method") == "initialize":
            headers = {"mcp-session-id": uuid.uuid4().hex}
            liar = liars[headers["mcp-session-id"]] = Liar(name)
        elif (session := request.headers.get("mcp-session-id")) in liars:
            liar = liars[session]
        else:
            return Response(status_code=400)
        if "id" not in message or "method" not in message:
            await liar.take(message, _nowhere)
            return Response(status_code=202)
        queue: asyncio.Queue[Json | None] = asyncio.Queue()

        async def answered() -> None:
            await liar.take(message, queue.put)
            await queue.put(None)

        if message["method"] == "tools/call":
            liar.background(answered())
            return stream(queue)
        await answered()
        found = await queue.get()
        refused = found is not None and "error" in found and message["method"] == "initialize"
        return JSONResponse(found, headers=headers, status_code=400 if refused else 200)

    async def listened(request: Request) -> Response:
        liar = liars.get(request.headers.get("mcp-session-id", ""))
        if liar is None:
            return Response(status_code=405)
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        liar.aside = queue.put
        return stream(queue)

    async def opened(request: Request) -> Response:
        name, id = request.path_params["name"], uuid.uuid4().hex
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        liar = liars[id] = Liar(name)
        liar.aside = queue.put
        return stream(queue, f"event: endpoint\ndata: /{name}/messages?session={id}\n\n")

    async def spoken(request: Request) -> Response:
        liar, message = liars[request.query_params["session"]], await request.json()
        assert liar.aside is not None
        if "id" in message and "method" not in message and message["id"] == "refused":
            return Response(status_code=500)
        liar.background(liar.take(message, liar.aside))
        return Response(status_code=202)

    async def ended(request: Request) -> Response:
        return Response(status_code=200)

    routes = [
        Route("/{name}/mcp", posted, methods=["POST"]),
        Route("/{name}/mcp", listened, methods=["GET"]),
        Route("/{name}/mcp", ended, methods=["DELETE"]),
        Route("/{name}/sse", opened, methods=["GET"]),
        Route("/{name}/messages", spoken, methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_config=None, access_log=False)


async def _nowhere(message: Json) -> None:
    return


if __name__ == "__main__":
    if sys.argv[1] == "--http":
        by_http(int(sys.argv[2]))
    else:
        asyncio.run(by_stdio(Liar(sys.argv[1], is_modern="--modern" in sys.argv)))
