"""The mixed load of a soak: conversations that do everything a chat backend does with byref, again and again."""

from __future__ import annotations

import io
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

from over_http import HTTPEngine, HTTPSession

from byref import CharCounter, Engine, Policy
from byref.session import Session
from byref_sandbox import Sandbox

TOOLS = ("code_interpreter", "artifact_jq", "artifact_grep", "artifact_read", "artifact_sql", "store_artifact")
POLICY = Policy(mode="variables", ttl=timedelta(minutes=5), ledger_ttl=timedelta(minutes=5), headroom_percentage=1.0)
"""Longer than a conversation is left alone, where a machine has other things to do."""
TURNS = 40
"""Acts after which a conversation ends, or is deleted, and another takes its place."""
WARM = 6
"""Sessions that the sandbox keeps warm: fewer than there are, so that they come and go."""


class Conversation:
    """One place at the table: a conversation, and the next one in its place when it is over."""

    def __init__(self, engine: Engine | HTTPEngine, place: str, seed: int) -> None:
        self._engine, self._place, self._chance = engine, place, random.Random(seed)
        self._number = 0
        self.lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._turns, self._counted = 0, 0
        self._session: Session | HTTPSession = self._engine.session(
            f"{self._place} {self._number}", policy=POLICY, tools=TOOLS, context_window=1_000_000
        )
        self._rows: tuple[str, str, int] | None = None
        """Variable, artifact and number of records of the last output."""

    def act(self) -> str:
        """Do one thing."""
        self._turns += 1
        if self._turns > TURNS:
            return self._over()
        names = (
            "records",
            "text",
            "small",
            "stream",
            "blocks",
            "code",
            "code",
            "frame",
            "jq",
            "grep",
            "read",
            "sql",
            "plot",
        )
        more = ("usage", "compaction", "references", "store", "look")
        weights = [6] * (len(names) - 1) + [1] + [3] * len(more)
        name = self._chance.choices((*names, *more), weights)[0]
        work: Callable[[], None] = getattr(self, f"_{name}")
        work()
        return name

    def _over(self) -> str:
        ends = self._chance.random() < 0.5
        if ends:
            self._session.end()
        else:
            self._engine.delete_session(self._session.id)
        self._begin()
        return "end" if ends else "delete"

    def _records(self) -> None:
        count = self._chance.choice((30, 300, 3_000, 12_000))
        records = [{"id": i, "group": i % 7, "text": f"record {i} {self._chance.random()}"} for i in range(count)]
        result = self._session.process(records, tool="rows", call_id=f"call {self._turns}")
        if result.variables:
            self._rows = result.variables[0].name, result.artifacts[0].id, count

    def _text(self) -> None:
        size = self._chance.choice((100, 3_000, 60_000, 400_000))
        self._session.process("\n".join(f"line {i} {self._chance.random()}" for i in range(size // 25)), tool="log")

    def _small(self) -> None:
        self._session.process(f"ok {self._chance.random()}", tool="small")

    def _stream(self) -> None:
        def pieces() -> Iterator[bytes]:
            for number in range(self._chance.choice((5, 300))):
                yield f"{number} {self._chance.random()}\n".encode() * 200

        self._session.process(pieces(), tool="lines")

    def _blocks(self) -> None:
        text = f"text {self._chance.random()} " * 4_000
        self._session.process(
            [{"type": "text", "text": text}, {"type": "text", "text": '{"a": [1, 2]}'}], tool="blocks"
        )

    def _code(self) -> None:
        before = "n" if self._counted else "0"
        text = self._call("code_interpreter", {"code": f"n = {before} + 1\nprint('counted', n)"})
        self._counted += 1
        assert f"counted {self._counted}" in text, text

    def _frame(self) -> None:
        if self._rows:
            name, _, count = self._rows
            text = self._call(
                "code_interpreter", {"code": f"f = df('{name}')\ng = f.groupby('group')['id'].count()\nint(g.sum())"}
            )
            assert str(count) in text, text

    def _jq(self) -> None:
        if self._rows:
            _, id_, count = self._rows
            assert str(count) in self._call("artifact_jq", {"artifact_id": id_, "expression": "map(.id) | length"})

    def _grep(self) -> None:
        if self._rows:
            assert "record 17" in self._call("artifact_grep", {"artifact_id": self._rows[1], "pattern": "record 17 "})

    def _read(self) -> None:
        if self._rows:
            self._call("artifact_read", {"artifact_id": self._rows[1], "start_line": self._chance.randrange(1, 30)})

    def _sql(self) -> None:
        if self._rows:
            name, _, count = self._rows
            assert str(count) in self._call("artifact_sql", {"query": f"SELECT count(*) AS n FROM {name}"})

    def _plot(self) -> None:
        if self._rows:
            code = f"import matplotlib.pyplot as plt\nplt.plot([r['id'] for r in {self._rows[0]}][:50])\nplt.show()"
            self._session.call("code_interpreter", {"code": code})

    def _usage(self) -> None:
        self._session.record_usage({"prompt_tokens": 5_000, "completion_tokens": 50}, request_id=f"{self._turns}")

    def _compaction(self) -> None:
        self._session.on_compaction(1_000)
        self._session.reminder()

    def _references(self) -> None:
        if self._rows:
            name, _, count = self._rows
            found = self._session.resolve({"ids": {"$var": name, "jq": "map(.id)"}})
            assert len(found["ids"]) == count

    def _store(self) -> None:
        artifact = self._session.store_artifact(f"{self._chance.random()}" * 2_000, name="note")
        self._session.export(artifact, io.BytesIO())

    def _look(self) -> None:
        self._session.history()
        self._session.usage()
        self._session.variables()

    def _call(self, tool: str, arguments: dict[str, object]) -> str:
        reply = self._session.call(tool, arguments)
        assert not reply.is_error, (tool, arguments, reply.content)
        return str(reply.content)


class Load:
    """Workers that each take the next free conversation; until `stop`, or until one fails."""

    def __init__(self, url: str, *, sessions: int, workers: int, seed: int, mark: str = "", http: bool = False) -> None:
        self.sandbox = None if http else Sandbox(sessions=WARM).start()
        self.engine = HTTPEngine(url) if http else Engine(url, interpreter=self.sandbox, counter=CharCounter())
        self._places = [
            Conversation(self.engine, f"{mark}{number}", seed * 1_000 + number) for number in range(sessions)
        ]
        self._stopping = threading.Event()
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self._took: list[float] = []
        self._threads = [threading.Thread(target=self._work, args=(seed + number,)) for number in range(workers)]
        self._threads.append(threading.Thread(target=self._sweep))
        for thread in self._threads:
            thread.start()

    def latencies(self) -> list[float]:
        """Seconds that each act took since the last call."""
        took, self._took = self._took, []
        return took

    def stop(self) -> None:
        """Until every worker has come back, and the engine and the sandbox are closed."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(120)
        self.failures += [f"{thread.name} did not come back" for thread in self._threads if thread.is_alive()]
        self._places.clear()
        self.engine.close()
        if self.sandbox is not None:
            self.sandbox.close()

    @property
    def is_over(self) -> bool:
        """Whether a worker has failed."""
        return self._stopping.is_set()

    def _work(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._stopping.is_set():
            place = chance.choice(self._places)
            if not place.lock.acquire(blocking=False):
                time.sleep(0.001)
                continue
            try:
                began = time.perf_counter()
                self.done[place.act()] += 1
                self._took.append(time.perf_counter() - began)
            except BaseException as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                self._stopping.set()
            finally:
                place.lock.release()

    def _sweep(self) -> None:
        while not self._stopping.wait(5):
            self.engine.sweep(grace=timedelta(seconds=60))
