"""Many threads and processes over one store: whatever they do, every invariant holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from placed import NOW, TOOLS, Opened, Placed, keys_of, problems, records

from byref.stores import FileStore

OTHERS = """
import os
import sys
from datetime import timedelta
from byref import Engine
from byref.stores import FileStore
from byref_sandbox import Sandbox
url, folder, number = sys.argv[1], sys.argv[2], 0
records = lambda count: [{"id": i, "name": f"user {i}", "role": "user"} for i in range(count)]
with Engine(url, blobs=FileStore(folder), interpreter=Sandbox()) as engine:
    go()
    for number in range(12):
        name = f"s {number % 3}"
        session = engine.session(name)
        [artifact] = session.process(records(1_500 + number % 5), tool="users").artifacts or [None]
        if artifact is not None and number % 3:
            assert len(artifact.value) == 1_500 + number % 5
        if number % 4 == 3:
            engine.delete_session(f"own {os.getpid()}")
            engine.sweep(grace=timedelta(seconds=5))
        engine.session(f"own {os.getpid()}").store_artifact(f"text {number} " * 1_000)
print("done")
"""


@pytest.mark.slow
def test_processes_over_one_folder(shared_url: str, race: Callable[..., list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    assert race(4, OTHERS, shared_url, str(folder)) == ["done"] * 4
    opened = Opened(shared_url, None)
    engine = opened(FileStore(folder))
    engine.sweep(grace=NOW)
    assert problems(shared_url, FileStore(folder)) == []
    for number in range(3):
        found = engine.session(f"s {number}").artifacts()
        assert len(found) == 16 and all(artifact.value[-1]["id"] >= 1_499 for artifact in found)  # type: ignore[index]
    engine.close()


@pytest.mark.slow
def test_threads_over_one_store(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                session = engine.session(f"shared {turn % 2}", tools=TOOLS)
                [artifact] = session.process(records(1_500 + turn), tool="users").artifacts
                assert artifact.value == records(1_500 + turn)
                own = engine.session(f"own {number}", tools=TOOLS)
                own.store_artifact(f"text {turn} " * 1_000)
                session.call("artifact_read", {"artifact_id": artifact.id, "start_line": 700})
                if turn == 2:
                    engine.delete_session(f"own {number}")
                if turn == 3:
                    engine.sweep(grace=timedelta(seconds=5))
                    own.end() if number % 2 else None
        except BaseException as error:
            if "deleted" not in str(error) and "ended" not in str(error):
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    engine.sweep(grace=NOW)
    assert problems(opened.url, placed.store) == []
    assert len({artifact.digest for turn in (0, 1) for artifact in engine.session(f"shared {turn}").artifacts()}) == 5
    assert len(keys_of(placed.store)) == 7, "five outputs, and the texts of the last two turns"
