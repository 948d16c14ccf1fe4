"""Servers of the HTTP API that are killed while clients wait for answers: each client asks again, and nothing is done twice."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import kit
from report import Report
from serving import serving

from byref import Engine, db
from byref.service import auth

CLIENTS = 24
RETRIES_A_SECOND = 1_000 / 60
"""So that the long form has a thousand on both databases together."""
ORDERS = [{"id": number, "total": number % 500} for number in range(1_500)]
HARD_SECONDS = 900.0


def servers_killed(folder: Path, seconds: float, seed: int) -> Report:
    """Two servers, each of them killed after some answers, and clients that send each request again under its id."""
    report = Report("servers_killed")
    wanted = max(10, int(seconds * RETRIES_A_SECOND / 2))
    figures: Counter[str] = Counter()
    with kit.databases(folder) as urls:
        for kind, url in urls.items():
            with Engine(url, jail="language-only") as engine:
                token = auth.create(engine.database, tenant="acme", name="t", rights=["read", "chat"])
            fight = _Fight(url, token, wanted, random.Random(seed))
            fight.run()
            figures.update(kills=fight.kills, retries=fight.retries, requests=fight.requests)
            report.failures += [f"{kind}: {failure}" for failure in fight.failures]
            report.failures += [f"{kind}: {finding}" for finding in db.verify(url, deep=True)]
    report.figures |= figures
    return report


@dataclass
class _Fight:
    """The servers of one database, their clients, and what was found."""

    url: str
    token: str
    wanted: int
    draw: random.Random
    bases: list[str] = field(default_factory=lambda: ["", ""])
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    kills: int = 0
    retries: int = 0
    requests: int = 0
    failures: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Go on until enough requests were sent again because their server had died, then count what was done."""
        servers = [threading.Thread(target=self._serve, args=(place,)) for place in range(2)]
        clients = [threading.Thread(target=self._converse, args=(number,)) for number in range(CLIENTS)]
        for thread in (*servers, *clients):
            thread.start()
        began = time.monotonic()
        while self.retries < self.wanted and not self.failures:
            if time.monotonic() - began > HARD_SECONDS:
                self.failures.append(f"only {self.retries} retries in {HARD_SECONDS:.0f} s")
            time.sleep(0.1)
        self.over.set()
        for thread in (*clients, *servers):
            thread.join()

    def _serve(self, place: int) -> None:
        """Run a server and kill it, again and again; the last one lives until the clients have what they wait for."""
        chance = random.Random(self.draw.random() + place)
        while not self.over.is_set():
            with serving(self.url) as (process, base):
                self.bases[place] = base
                # Not after a time: on a busy machine no server would live for long enough to answer anybody.
                until = self.requests + chance.randrange(8, 60)
                while self.requests < until and not self.over.wait(chance.uniform(0.01, 0.1)):
                    pass
                if self.over.is_set():
                    while any(one.name.startswith("client ") and one.is_alive() for one in threading.enumerate()):
                        time.sleep(0.05)
                    return
                process.kill()
                self.kills += 1

    def _converse(self, number: int) -> None:
        threading.current_thread().name = f"client {number}"
        head = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(headers=head, timeout=60) as client:
            try:
                self._turns(client, f"chat-{number}", number)
            except Exception as error:
                self.failures.append(f"chat-{number}: {type(error).__name__}: {error}")

    def _turns(self, client: httpx.Client, name: str, number: int) -> None:
        answers: dict[str, tuple[str, Any]] = {}
        about = f"/v1/sessions/{name}"
        self._ask(client, "PUT", about, {}, number)
        turn = 0
        while not self.over.is_set() and not self.failures:
            turn += 1
            small = {"tool": "ping", "output": f"pong {turn}", "call_id": f"small {turn}"}
            answers[small["call_id"]] = "output", self._ask(client, "POST", f"{about}/process", small, number)
            if turn % 4 == 1:
                large = {"tool": "list_orders", "output": ORDERS, "call_id": f"large {turn}"}
                answers[large["call_id"]] = "output", self._ask(client, "POST", f"{about}/process", large, number)
            grep = {"artifact_id": "list_orders", "pattern": "499"}
            call = {"name": "artifact_grep", "arguments": grep, "call_id": f"grep {turn}"}
            answers[call["call_id"]] = "reply", self._ask(client, "POST", f"{about}/call", call, number)
            usage = {"usage": {"input_tokens": 7, "output_tokens": 1}, "request_id": f"r{turn}"}
            self._ask(client, "POST", f"{about}/usage", usage, number)
        self._check(client, about, answers, turn, number)

    def _check(
        self, client: httpx.Client, about: str, answers: dict[str, tuple[str, Any]], turns: int, number: int
    ) -> None:
        """Each call is one step, and says what the client was told; usage is counted once."""
        steps: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self._ask(client, "GET", f"{about}/ledger?after={after}&limit=1000", None, number)
            steps += page["items"]
            after = page["next"]
        found = Counter((one["call_id"], one["kind"]) for one in steps if one["kind"] in ("output", "reply"))
        expected = Counter((call_id, kind) for call_id, (kind, _) in answers.items())
        if found != expected:
            self.failures.append(f"{about}: twice or lost: {(found - expected) | (expected - found)}")
        step_of = {one["call_id"]: one["step"] for one in steps}
        if wrong := [call_id for call_id, (_, told) in answers.items() if told["step"] != step_of[call_id]]:
            self.failures.append(f"{about}: told another step: {wrong[:5]}")
        used = self._ask(client, "GET", f"{about}/usage", None, number)
        if (used["requests"], used["input_tokens"] or 0) != (turns, 7 * turns):
            self.failures.append(f"{about}: usage {used['requests']}, {used['input_tokens']} after {turns} turns")

    def _ask(self, client: httpx.Client, method: str, path: str, body: Any, number: int) -> Any:
        """Send a request until it is answered, to the other server after each time that one has died."""
        place, until = number, time.monotonic() + 300
        while time.monotonic() < until:
            place += 1
            with suppress(httpx.ConnectError, httpx.UnsupportedProtocol):
                try:
                    answer = client.request(method, f"{self.bases[place % 2]}{path}", json=body)
                except httpx.TransportError as error:
                    if isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
                        raise
                    with self.lock:  # it was on its way when the server died
                        self.retries += 1
                    continue
                if answer.status_code in (409, 503):
                    time.sleep(0.2)
                    continue
                if not answer.is_success:
                    raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
                with self.lock:
                    self.requests += 1
                return answer.json() if answer.content else None
            time.sleep(0.05)
        raise AssertionError(f"{method} {path}: no answer in 300 s")
