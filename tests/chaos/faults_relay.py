"""A relay in front of a server, of bytes it knows nothing of: it refuses, cuts, goes silent, crawls, or leads elsewhere."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable

Address = str | tuple[str, int]
"""A socket's path, or host and port."""


class Relay:
    """Listens on the loopback and passes what comes on to `behind`, as `mode` says.

    pass; refuse: nobody listens; silent: connections are taken and nothing is ever answered; crawl: 4 KiB at a time.
    """

    def __init__(self, behind: Address) -> None:
        self.behind = behind
        self.connections = 0
        self._mode = "pass"
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener: socket.socket | None = _listening(0)
        self.port: int = self._listener.getsockname()[1]
        self._closed = False
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def mode(self) -> str:
        """What becomes of connections, those that are open and new ones."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._mode = mode
        with self._lock:
            if mode == "refuse" and self._listener is not None:
                self._listener.close()
                self._listener = None
            elif mode != "refuse" and self._listener is None:
                self._listener = _listening(self.port)
        if mode == "refuse":
            self.cut()

    def cut(self, chance: random.Random | None = None) -> int:
        """Reset every open connection, or by chance every second, and return how many went."""
        with self._lock:
            chosen = [pair for pair in self._pairs if chance is None or chance.random() < 0.5]
        for pair in chosen:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
                    end.shutdown(socket.SHUT_RDWR)
        return len(chosen)

    def close(self) -> None:
        """Cut everything and stop listening."""
        self._closed = True
        self.mode = "refuse"
        self._thread.join()

    def _accept(self) -> None:
        while not self._closed:
            listener = self._listener
            try:
                if listener is None:
                    time.sleep(0.01)
                    continue
                client, _ = listener.accept()
            except OSError:  # a timeout, or closed
                continue
            self.connections += 1
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(client)
            stack.enter_context(contextlib.suppress(OSError))
            path = isinstance(self.behind, str)
            server = stack.enter_context(socket.socket(socket.AF_UNIX if path else socket.AF_INET))
            server.connect(self.behind)
            pair = client, server
            with self._lock:
                self._pairs.add(pair)
            stack.callback(lambda: self._pairs.discard(pair))
            with selectors.DefaultSelector() as ready:
                ready.register(client, selectors.EVENT_READ, server)
                ready.register(server, selectors.EVENT_READ, client)
                while self._mode != "refuse":
                    if self._mode == "silent":
                        time.sleep(0.01)
                        continue
                    for key, _ in ready.select(0.1):
                        if self._mode == "silent":
                            break
                        crawls = self._mode == "crawl"
                        data = key.fileobj.recv(4_096 if crawls else 65_536)  # type: ignore[union-attr]
                        if not data:
                            return
                        if crawls:
                            time.sleep(0.005)
                        key.data.sendall(data)


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.settimeout(0.05)
    listener.listen(64)
    return listener


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return once a condition holds; fail if it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
