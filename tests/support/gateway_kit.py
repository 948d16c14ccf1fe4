"""The gateway as a process, real servers behind it, and official clients before it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from forking import FORKS
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

ROOT = Path(__file__).parents[2]
SHOP = str(ROOT / "tests/gateway/shop_server.py")
LIAR = str(ROOT / "tests/gateway/liar_server.py")
NPM_VERSION = "2026.8.31"
NPM_PACKAGES = ("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem")


@dataclass
class Heard:
    """What a client was asked and told."""

    logs: list[Any] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    async def sampling(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.asked.append(params)
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="two"), model="toy")

    async def elicitation(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return types.ElicitResult(action="accept", content={"size": "XL"})

    async def roots(self, context: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp/root", name="root")])

    async def log(self, params: Any) -> None:
        self.logs.append(params)

    async def message(self, message: Any) -> None:
        self.told.append(getattr(message, "method", repr(message)))

    def callbacks(self) -> dict[str, Any]:
        return {
            "sampling_callback": self.sampling,
            "elicitation_callback": self.elicitation,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
            "message_handler": self.message,
            "log_level": "debug",
        }


@dataclass
class Place:
    """A folder with a configuration, and the gateway run in it."""

    folder: Path

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    def shop(self, name: str, **more: Any) -> dict[str, Any]:
        env = {"SHOP_NOTES": str(self.notes), **more.pop("env", {})}
        command, *args = FORKS.command(SHOP, name)
        return {"command": command, "args": args, "env": env, **more}

    def write(self, servers: dict[str, Any], **byref: Any) -> str:
        path = self.folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers, **({"byref": byref} if byref else {})}))
        return str(path)

    def command(self, *words: str) -> list[str]:
        return FORKS.command(*self._gateway(words))

    def own_command(self, *words: str) -> list[str]:
        """The same program, not forked."""
        return [sys.executable, *self._gateway(words)]

    def _gateway(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return ("-m", "byref.cli", "gateway", "--db", str(self.folder / "gateway.db"), *words)

    @asynccontextmanager
    async def client(
        self, *words: str, mode: str = "legacy", heard: Heard | None = None, **settings: Any
    ) -> AsyncIterator[Client]:
        command, *arguments = self.command(*words)
        started = StdioServerParameters(command=command, args=arguments, env=dict(os.environ), cwd=self.folder)
        callbacks = heard.callbacks() if heard else {}
        with (self.folder / "stderr").open("a") as log:
            async with Client(stdio_client(started, log), mode=mode, **callbacks, **settings) as client:
                yield client

    def noted(self, text: str, seconds: float = 5.0) -> bool:
        """Whether a server noted something, soon."""
        return soon(lambda: self.notes.exists() and text in self.notes.read_text(), seconds)

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()


class Liars:
    """Servers that do as they are told: by stdio, at an address by streamable HTTP, and by SSE."""

    def __init__(self, place: Place, port: int) -> None:
        self.place, self.port = place, port

    def stdio(self, name: str, *words: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-S", LIAR, name, *words], "env": {"LIARS": str(self.place.folder)}}

    def near(self, name: str) -> dict[str, Any]:
        return {"type": "http", "url": f"http://127.0.0.1:{self.port}/{name}/mcp"}

    def far(self, name: str) -> dict[str, Any]:
        return {"type": "sse", "url": f"http://127.0.0.1:{self.port}/{name}/sse"}

    def lists(self, name: str, **lists: Any) -> None:
        (self.place.folder / f"{name}.json").write_text(json.dumps(lists))


def soon(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


async def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return found


class Held:
    """A client that is held open on a loop of its own, for any number of tests."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._over: asyncio.Event | None = None
        self._error: BaseException | None = None
        self.client: Client | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Held:
        self._thread.start()
        assert self._ready.wait(90)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        assert self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)

    def run(self, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        assert self.client is not None
        return asyncio.run_coroutine_threadsafe(work(self.client), self._loop).result(60)

    def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> types.CallToolResult:
        async def work(client: Client) -> Any:
            return await client.call_tool(name, arguments or {}, **more)

        result = self.run(work)
        assert isinstance(result, types.CallToolResult)
        return result

    def _run(self) -> None:
        async def hold() -> None:
            self._over = asyncio.Event()
            async with self._opened() as self.client:
                self._ready.set()
                await self._over.wait()

        try:
            self._loop.run_until_complete(hold())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()
            self._loop.close()


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def module_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("gateway"))


@pytest.fixture(scope="module")
def liars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liars]:
    place, port = Place(tmp_path_factory.mktemp("liars")), free_port()
    with serving(FORKS.command(LIAR, "--http", str(port)), port, env={**os.environ, "LIARS": str(place.folder)}):
        yield Liars(place, port)


@pytest.fixture(scope="session")
def npm() -> Path:
    """The folder of programs of the reference servers."""
    return npm_programs(NPM_VERSION, *(f"{package}@{NPM_VERSION}" for package in NPM_PACKAGES))


def npm_programs(name: str, *packages: str) -> Path:
    """The folder of programs of npm packages, installed once into a cache of the repository."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine: {', '.join(packages)} cannot be run")
    folder = ROOT / ".cache" / f"npm-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *packages]
            installed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert installed.returncode == 0, installed.stderr[-2000:]
            (folder / "done").touch()
    return folder / "node_modules" / ".bin"


@contextmanager
def serving(command: list[str], port: int, *, log: Any = subprocess.DEVNULL, **settings: Any) -> Iterator[None]:
    """A server at a port of this machine, ended at the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, **settings)
    try:
        assert soon(lambda: _listens(port) or process.poll() is not None, 60)
        assert process.poll() is None
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0
