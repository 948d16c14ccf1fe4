"""byref's storages under the contracts of Strands' two protocols, and inside what Strands builds on them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.models.model import Model
from strands.session import SnapshotSessionManager
from strands.storage import Storage
from strands.storage.search import StorageSearchResult
from strands.types.exceptions import StorageError
from strands.vended_plugins.context_offloader import ContextOffloader
from strands.vended_plugins.context_offloader import Storage as OffloaderStorage

from byref import Engine, Policy, StorageFailure
from byref.adapters.strands import ByrefOffloadStorage, ByrefStorage

run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
BYTES = [
    b"",
    b"hello",
    bytes(range(256)),
    "ö\n".encode("utf-16"),
    b"\xef\xbb\xbf{}",
    b'{"a": [1]}',
    PNG,
    b"\xff\xfe",
    b"x" * 3_000_000,
]


@pytest.fixture(scope="module")
def one_engine() -> Iterator[Engine]:
    with Engine("sqlite://") as engine:
        yield engine


@pytest.fixture
def engine(one_engine: Engine) -> Iterator[Engine]:
    yield one_engine
    for tenant in ("default", "other"):
        one_engine.delete_tenant(tenant)


@pytest.fixture
def storage(engine: Engine) -> ByrefStorage:
    return ByrefStorage(engine)


@pytest.fixture
def offloaded(engine: Engine) -> ByrefOffloadStorage:
    return ByrefOffloadStorage(engine, session="chat")


# Keys and bytes


def test_both_are_what_strands_takes(storage: ByrefStorage, offloaded: ByrefOffloadStorage) -> None:
    assert isinstance(storage, Storage) and not isinstance(storage, OffloaderStorage)
    assert isinstance(offloaded, OffloaderStorage)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("data", BYTES, ids=lambda data: repr(data[:8]))
def test_bytes_come_back_as_they_went_in(storage: ByrefStorage, data: bytes) -> None:
    run(storage.write("key", data))
    assert run(storage.read("key")) == data


def test_what_is_written_is_copied(storage: ByrefStorage) -> None:
    async def write() -> None:
        data = bytearray(b"mutable")
        writing = asyncio.create_task(storage.write("key", data))
        await asyncio.sleep(0)
        data[0] = 0
        await writing

    run(write())
    assert run(storage.read("key")) == b"mutable"


def test_the_last_write_holds_and_nothing_of_the_others_is_left(engine: Engine, storage: ByrefStorage) -> None:
    for data in (b"first", b"second", b"second"):
        run(storage.write("key", data))
    assert run(storage.read("key")) == b"second" and run(storage.list("")) == ["key"]
    assert len(engine.session("strands-storage").artifacts()) == 1
    run(storage.delete("key"))
    run(storage.delete("key"))
    assert run(storage.read("key")) is None and run(storage.list("")) == []
    assert engine.database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM byref_blobs").scalar()) == 0


def test_equal_bytes_under_two_keys_are_apart(storage: ByrefStorage) -> None:
    run(storage.write("a", b"same"))
    run(storage.write("b", b"same"))
    run(storage.delete("a"))
    assert run(storage.read("b")) == b"same"


def test_keys_are_listed_by_prefix_in_order(storage: ByrefStorage) -> None:
    for key in ("b/2", "a/1", "a_/1", "A/1", "c%/3", "a/sub/\\3".replace("\\", ""), "ö\0\ud800/x"):
        run(storage.write(key, b""))
    assert run(storage.list("")) == sorted(["b/2", "a/1", "a_/1", "A/1", "c%/3", "a/sub/3", "ö\0\ud800/x"])
    assert run(storage.list("a/")) == ["a/1", "a/sub/3"] and run(storage.list("c%")) == ["c%/3"]
    assert run(storage.list("ö\0\ud800")) == ["ö\0\ud800/x"] and run(storage.list("x")) == []


@pytest.mark.parametrize("key", ["", "///", "../x", "a/../b", "a\\b", "k" * 257])
def test_keys_that_are_none_are_refused(storage: ByrefStorage, key: str) -> None:
    with pytest.raises(StorageError):
        run(storage.write(key, b""))


def test_slashes_are_collapsed(storage: ByrefStorage) -> None:
    run(storage.write("//foo///bar.../", b"x"))
    assert run(storage.read("/foo/bar...")) == b"x" and run(storage.list("/foo//")) == ["foo/bar..."]


def test_a_key_that_looks_like_an_artifact_is_a_key(engine: Engine, storage: ByrefStorage) -> None:
    run(storage.write("key", b"x"))
    (artifact,) = engine.session("strands-storage").artifacts()
    assert run(storage.read(artifact.id)) is None
    run(storage.write("art_abcdefgh1234", b"y"))
    assert run(storage.read("art_abcdefgh1234")) == b"y"


def test_namespaces_share_the_data_and_see_their_own(storage: ByrefStorage) -> None:
    scoped = storage.namespace("memory").namespace("/agent/")
    run(scoped.write("notes.md", b"blue green deploys"))
    run(storage.write("other/memory-agent.md", b"memory agent"))
    assert isinstance(scoped, ByrefStorage) and run(scoped.list("")) == ["notes.md"]
    assert run(storage.list("memory/")) == ["memory/agent/notes.md"]
    assert [found.key for found in run(scoped.search("memory agent deploys"))] == ["notes.md"]
    scoped.clear()
    assert run(storage.list("")) == ["other/memory-agent.md"]
    storage.clear()
    assert run(storage.list("")) == []


@pytest.mark.slow
def test_strands_gives_a_namespace_to_what_has_none(engine: Engine) -> None:
    with_one, without = ByrefStorage(engine).namespace("mine"), ByrefStorage(engine)
    for storage in (with_one, without):
        Agent(session_manager=SnapshotSessionManager("chat", storage=storage), model="unused")
    run(with_one.write("a", b""))
    run(without.write("b", b""))
    assert run(ByrefStorage(engine).list("")) == ["b", "mine/a"]


class Strategy:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def index(self, storage: Any, key: str, data: bytes, **kwargs: Any) -> None:
        self.seen.append((storage, key, data))
        if data == b"bad":
            raise RuntimeError("no index")

    async def search(self, storage: Any, query: str, **kwargs: Any) -> list[StorageSearchResult]:
        return [StorageSearchResult(key=query, score=1.0)]


def test_a_search_strategy_is_told_and_asked(engine: Engine) -> None:
    strategy = Strategy()
    scoped = ByrefStorage(engine, search_strategy=strategy).namespace("x")
    run(scoped.write("key", b"data"))
    assert strategy.seen == [(scoped, "key", b"data")]
    assert [found.key for found in run(scoped.search("q"))] == ["q"]
    with pytest.raises(StorageError, match="indexing failed"):
        run(scoped.write("key", b"bad"))


def test_tenants_and_conversations_are_apart_and_engines_share(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with Engine(url) as engine:
        run(ByrefStorage(engine).write("key", b"mine"))
        assert run(ByrefStorage(engine, tenant="other").read("key")) is None
        assert run(ByrefStorage(engine, session="another").read("key")) is None
        assert run(ByrefStorage(engine, session="another").list("")) == []
    with Engine(url) as engine:
        assert run(ByrefStorage(engine).read("key")) == b"mine"


def test_nothing_expires_whatever_the_policy_says(engine: Engine) -> None:
    storage = ByrefStorage(engine, policy=Policy(ttl=timedelta(microseconds=1), max_session_bytes=10))
    run(storage.write("key", b"x" * 100))
    engine.sweep(grace=timedelta(0))
    assert run(storage.read("key")) == b"x" * 100


def test_what_byref_cannot_do_is_a_storage_error(
    engine: Engine, storage: ByrefStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="QuotaExceeded"):
        run(ByrefStorage(engine, policy=Policy(max_artifact_bytes=10)).write("key", b"x" * 11))

    def down(*args: Any, **kwargs: Any) -> Any:
        raise StorageFailure("away")

    monkeypatch.setattr(Engine, "session", down)
    monkeypatch.setattr(engine.database, "read", down)
    monkeypatch.setattr(engine.database, "write", down)
    for call in (storage.write("k", b""), storage.read("k"), storage.delete("k"), storage.list("")):
        with pytest.raises(StorageError, match="StorageFailure: away"):
            run(call)
    with pytest.raises(StorageError):
        storage.clear()


@pytest.mark.slow
def test_a_value_is_there_while_it_is_overwritten(tmp_path: Path) -> None:
    with Engine(f"sqlite:///{tmp_path / 'a.db'}") as engine, ThreadPoolExecutor(3) as pool:
        storage = ByrefStorage(engine)
        run(storage.write("key", b"0" * 1_000))
        writing = pool.map(lambda n: run(storage.write("key", str(n % 10).encode() * 1_000)), range(30))
        read = list(pool.map(lambda _: run(storage.read("key")), range(30)))
        list(writing)
        assert {len(value) for value in read} == {1_000} and all(len(set(value)) == 1 for value in read)


def test_writers_at_once_leave_one_value(tmp_path: Path) -> None:
    with Engine(f"sqlite:///{tmp_path / 'a.db'}") as engine, ThreadPoolExecutor(4) as pool:
        storage = ByrefStorage(engine)
        list(pool.map(lambda n: run(storage.write("key", str(n).encode())), range(20)))
        assert int(run(storage.read("key"))) in range(20)
        assert len(engine.session("strands-storage").artifacts()) == 1


# Content under references


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("data", BYTES, ids=lambda data: repr(data[:8]))
@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "image/png", "application/docx"])
def test_content_comes_back_with_its_type(offloaded: ByrefOffloadStorage, data: bytes, content_type: str) -> None:
    assert run(offloaded.retrieve(run(offloaded.store("key", data, content_type)))) == (data, content_type)


def test_text_is_the_default_and_each_reference_is_new(engine: Engine, offloaded: ByrefOffloadStorage) -> None:
    first, second = (run(offloaded.store("key", data)) for data in (b"a", b"b"))
    assert run(offloaded.retrieve(first)) == (b"a", "text/plain") and run(offloaded.retrieve(second))[0] == b"b"
    assert run(offloaded.store("key", b"a")) not in (first, second)
    assert run(ByrefOffloadStorage(engine, session="chat").retrieve(first))[0] == b"a"


def test_any_key_will_do(offloaded: ByrefOffloadStorage) -> None:
    for key in ("", "../../etc/passwd", "k" * 5_000, "\0\ud800", "art_abcdefgh1234"):
        assert run(offloaded.retrieve(run(offloaded.store(key, b"x"))))[0] == b"x"


def test_what_is_no_reference_is_a_key_error(engine: Engine, offloaded: ByrefOffloadStorage) -> None:
    reference = run(offloaded.store("key", b"x"))
    for wrong in ("nonexistent", "key", "offloaded/key", "../../etc/passwd", "", "art_", reference[:-1]):
        with pytest.raises(KeyError, match="Reference not found"):
            run(offloaded.retrieve(wrong))
    for other in (
        ByrefOffloadStorage(engine, session="another"),
        ByrefOffloadStorage(engine, session="chat", tenant="other"),
    ):
        with pytest.raises(KeyError):
            run(other.retrieve(reference))


def test_clear_takes_what_was_offloaded_and_nothing_else(engine: Engine, offloaded: ByrefOffloadStorage) -> None:
    offloaded.clear()
    reference = run(offloaded.store("key", b"x"))
    kept = engine.session("chat").store_artifact("mine", name="mine")
    offloaded.clear()
    with pytest.raises(KeyError):
        run(offloaded.retrieve(reference))
    assert [artifact.id for artifact in engine.session("chat").artifacts()] == [kept.id]


def test_what_has_expired_is_a_key_error(engine: Engine) -> None:
    storage = ByrefOffloadStorage(engine, session="chat", policy=Policy(ttl=timedelta(seconds=0.5)))
    reference = run(storage.store("key", b"x"))
    time.sleep(0.6)
    with pytest.raises(KeyError):
        run(storage.retrieve(reference))


def test_threads_at_once(offloaded: ByrefOffloadStorage) -> None:
    with ThreadPoolExecutor(4) as pool:
        references = list(pool.map(lambda n: run(offloaded.store(f"k{n}", str(n).encode())), range(20)))
    assert [run(offloaded.retrieve(one))[0] for one in references] == [str(n).encode() for n in range(20)]


# Strands on top


class Silent(Model):
    """Is never asked."""

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any: ...

    def stream(self, *args: Any, **kwargs: Any) -> Any: ...


@tool
def report() -> dict[str, Any]:
    """Report."""
    content = [
        {"text": "line\n" * 8_000},
        {"json": {"n": list(range(5_000))}},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
    ]
    return {"status": "success", "content": content}


@pytest.mark.parametrize("legacy", [False, True])
def test_the_context_offloader_stores_and_retrieves(
    engine: Engine, storage: ByrefStorage, offloaded: ByrefOffloadStorage, legacy: bool
) -> None:
    offloader = ContextOffloader(storage=offloaded if legacy else storage)
    agent = Agent(model=Silent(), tools=[report], plugins=[offloader], callback_handler=None)
    given = agent.tool.report()["content"]
    lines = given[0]["text"].rpartition("[Stored references:]\n")[2].splitlines()
    references = [line.split()[0] for line in lines]
    assert len(references) == 3
    retrieve = agent.tool.retrieve_offloaded_content
    full = [retrieve(reference=reference)["content"][0] for reference in references]
    assert full[0] == {"text": "line\n" * 8_000} and full[1] == {"json": {"n": list(range(5_000))}}
    assert full[2]["image"]["source"]["bytes"] == PNG
    if legacy:
        reply = engine.session("chat", tools=["artifact_jq"]).call(
            "artifact_jq", {"id": references[1], "program": ".n | length"}
        )
        assert json.loads(str(reply.content)) == 5_000


def test_snapshots_of_an_agent_are_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"

    def begin(engine: Engine) -> Agent:
        manager = SnapshotSessionManager("chat-42", storage=ByrefStorage(engine))
        return Agent(model=Silent(), tools=[report], session_manager=manager, callback_handler=None)

    with Engine(url) as engine:
        agent = begin(engine)
        agent.messages.append(
            {"role": "user", "content": [{"text": "hello"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]}
        )
        agent.state.set("n", 1)
        run(agent._session_manager.save_snapshot(agent, is_latest=True))
        keys = run(ByrefStorage(engine).list("session/chat-42/"))
        assert [key.rpartition("/")[2] for key in keys] == ["snapshot_latest.json"]
    with Engine(url) as engine:
        agent = begin(engine)
        assert agent.state.get("n") == 1 and agent.messages[0]["content"][1]["image"]["source"]["bytes"] == PNG
