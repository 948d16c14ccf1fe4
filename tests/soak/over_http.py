"""The soak over HTTP: `byref serve` in a process of its own, and as much of engines and sessions over its API as the load needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx
from serving import serving

import byref
from byref.service import auth


class HTTPEngine:
    """An engine that is a server."""

    def __init__(self, url: str) -> None:
        with byref.Engine(url, jail="language-only") as engine:
            token = auth.create(engine.database, tenant="default", name="soak", rights=["read", "chat", "admin"])
        self._stack = ExitStack()
        self._server, base = self._stack.enter_context(serving(url, jail="full"))
        limits = httpx.Limits(max_connections=None)
        head = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=f"{base}/v1", headers=head, limits=limits, timeout=120)

    def session(self, id: str, *, tools: Iterable[str], context_window: int, **_: object) -> HTTPSession:
        """Open a session. Its policy is the server's."""
        self.ask("PUT", f"/sessions/{quote(id)}", json={"tools": list(tools), "context_window": context_window})
        return HTTPSession(self, id)

    def delete_session(self, id: str) -> None:
        """Delete a session."""
        self.ask("DELETE", f"/sessions/{quote(id)}")

    def sweep(self, **_: object) -> None:
        """Sweep."""
        self.ask("POST", "/sweep", json={})

    def close(self) -> None:
        """Stop the server."""
        self._client.close()
        self._server.terminate()
        assert self._server.wait(90) == 0
        self._stack.close()

    def ask(self, method: str, path: str, **given: Any) -> Any:
        """Send a request; an answer that is no success is an error."""
        answer = self._client.request(method, path, **given)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        is_json = answer.headers.get("Content-Type") == "application/json"
        return _attributes(answer.json()) if is_json else answer.content


class HTTPSession:
    """A session that a server has."""

    def __init__(self, engine: HTTPEngine, id: str) -> None:
        self._engine, self.id = engine, id

    def process(self, output: Any, *, tool: str, call_id: str | None = None) -> Any:
        """Process an output; pieces are streamed."""
        if isinstance(output, Iterator):
            return self._ask("POST", "/outputs", params={"tool": tool}, content=output, headers=_TEXT)
        return self._ask("POST", "/process", json={"output": output, "tool": tool, "call_id": call_id})

    def call(self, name: str, arguments: dict[str, object]) -> Any:
        """Call a tool of the session's own."""
        return self._ask("POST", "/call", json={"name": name, "arguments": arguments})

    def resolve(self, arguments: dict[str, object]) -> Any:
        """Replace references."""
        return vars(self._ask("POST", "/resolve", json={"arguments": arguments}).arguments)

    def record_usage(self, usage: dict[str, int], *, request_id: str) -> None:
        """Record usage."""
        self._ask("POST", "/usage", json={"usage": usage, "request_id": request_id})

    def on_compaction(self, tokens: int) -> None:
        """Record a compaction."""
        self._ask("POST", "/compaction", json={"tokens": tokens})

    def store_artifact(self, text: str, *, name: str) -> Any:
        """Store a text."""
        return self._ask("POST", "/artifacts", params={"name": name}, content=text.encode(), headers=_TEXT)

    def export(self, artifact: Any, file: BinaryIO) -> None:
        """Download an artifact."""
        file.write(self._ask("GET", f"/artifacts/{artifact.id}/content"))

    def reminder(self) -> None:
        """Ask for a reminder."""
        self._ask("GET", "/reminder")

    def history(self) -> None:
        """Look at the history and the ledger."""
        self._ask("GET", "/history")
        self._ask("GET", "/ledger")

    def usage(self) -> None:
        """Look at the sums."""
        self._ask("GET", "/usage")

    def variables(self) -> None:
        """Look at the variables."""
        self._ask("GET", "/variables")

    def end(self) -> None:
        """End, and go: the server keeps ledgers for ever."""
        self._ask("POST", "/end")
        self._engine.delete_session(self.id)

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        return self._engine.ask(method, f"/sessions/{quote(self.id)}{path}", **given)


_TEXT = {"Content-Type": "text/plain"}


def _attributes(value: Any) -> Any:
    """Return JSON whose objects have their members as attributes."""
    if isinstance(value, list):
        return [_attributes(one) for one in value]
    return (
        SimpleNamespace(**{key: _attributes(one) for key, one in value.items()}) if isinstance(value, dict) else value
    )
