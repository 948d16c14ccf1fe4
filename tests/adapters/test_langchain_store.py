"""LangChain's key-value store over byref: LangChain's own contract, hostile keys, several processes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from langchain_core.stores import BaseStore, InvalidKeyException
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from byref import ConfigurationError, Engine, Policy, QuotaExceeded
from byref.adapters.langchain import ByrefStore

VALUES = (b"foo", b"", b"\x00\xff\xfe {" + b"x" * 100_000)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(f"sqlite:///{tmp_path / 'byref.db'}") as made:
        yield made


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class TestSync(BaseStoreSyncTests[bytes]):
    @pytest.fixture
    def kv_store(self, engine: Engine) -> BaseStore[str, bytes]:
        return ByrefStore(engine)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return VALUES


@pytest.mark.anyio
class TestAsync(BaseStoreAsyncTests[bytes]):
    @pytest.fixture
    async def kv_store(self, engine: Engine) -> AsyncIterator[BaseStore[str, bytes]]:
        yield ByrefStore(engine)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return VALUES


KEYS = ("a", "A", "a/b", "../a", "a b", "é", "\U0001f600", "\0", "a\0b", "\ud800", "a%", "a_", "art_k7m2p9x4q8wz", "art:k7m2p9x4q8wz",
        "$a", "'; DROP TABLE byref_artifacts; --", "\n", " ", "x" * 256, "é" * 256)  # fmt: skip


def test_any_text_is_a_key(engine: Engine) -> None:
    store = ByrefStore(engine)
    store.mset([(key, key.encode("utf-8", "surrogatepass")) for key in KEYS])
    assert store.mget(KEYS) == [key.encode("utf-8", "surrogatepass") for key in KEYS]
    assert list(store.yield_keys()) == sorted(KEYS)
    for prefix in ("a", "A", "a%", "a_", "\0", "art", "é", "nope"):
        assert list(store.yield_keys(prefix=prefix)) == sorted(key for key in KEYS if key.startswith(prefix))
    store.mdelete(KEYS[::2])
    assert list(store.yield_keys()) == sorted(KEYS[1::2])


@pytest.mark.parametrize("wrong", ["", "x" * 257, 5, None, b"a"])
def test_what_is_no_key_is_refused_where_it_is_set_and_not_there_where_it_is_read(
    engine: Engine, wrong: object
) -> None:
    store = ByrefStore(engine)
    with pytest.raises(InvalidKeyException, match="a key is a text of 1 to 256 characters"):
        store.mset([("good", b"1"), (wrong, b"2")])  # type: ignore[list-item]
    assert store.mget(["good", wrong]) == [None, None]  # type: ignore[list-item]
    store.mdelete([wrong])  # type: ignore[list-item]


def test_what_is_no_bytes_is_refused(engine: Engine) -> None:
    store = ByrefStore(engine)
    with pytest.raises(
        ConfigurationError, match=r"the value of 'a' is str: ByrefStore keeps bytes; EncoderBackedStore"
    ):
        store.mset([("b", b"1"), ("a", "text")])  # type: ignore[list-item]
    assert list(store.yield_keys()) == []
    store.mset([("a", bytearray(b"1")), ("a", memoryview(b"2"))])  # type: ignore[list-item]
    assert store.mget(["a"]) == [b"2"]


def test_tenants_and_sessions_are_apart_and_gone_with_themselves(engine: Engine) -> None:
    mine, theirs = ByrefStore(engine, tenant="acme"), ByrefStore(engine, tenant="other")
    elsewhere = ByrefStore(engine, tenant="acme", session="elsewhere")
    for store in (mine, theirs, elsewhere):
        store.mset([("a", repr(id(store)).encode())])
    assert len({store.mget(["a"])[0] for store in (mine, theirs, elsewhere)}) == 3
    engine.delete_session("elsewhere", tenant="acme")
    assert list(elsewhere.yield_keys()) == [] and mine.mget(["a"]) != [None]
    engine.delete_tenant("acme")
    assert mine.mget(["a"]) == [None] and theirs.mget(["a"]) != [None]


def test_what_is_overwritten_or_deleted_is_gone_from_the_database(engine: Engine, tmp_path: Path) -> None:
    store = ByrefStore(engine)
    for value in (b"first" * 1_000, b"second" * 1_000, b"first" * 1_000):
        store.mset([("a", value), ("b", b"kept" * 1_000)])
    store.mdelete(["a", "a", "none"])

    def rows(table: str) -> int:
        with sqlite3.connect(tmp_path / "byref.db") as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    assert (rows("byref_artifacts"), rows("byref_blobs")) == (1, 1)
    store.mdelete(["b"])
    assert (rows("byref_artifacts"), rows("byref_blobs"), rows("byref_frames")) == (0, 0, 0)


def test_what_is_set_has_no_time_and_the_sizes_of_the_policy(engine: Engine) -> None:
    store = ByrefStore(engine, policy=Policy(max_artifact_bytes=10_000, max_session_bytes=20_000))
    store.mset([(str(n), bytes([n]) * 9_000) for n in range(5)])
    assert len(list(store.yield_keys())) == 5
    with pytest.raises(QuotaExceeded):
        store.mset([("new", b"1"), ("big", b"x" * 10_001)])
    assert store.mget(["new"]) == [None]
    assert all(one.expires_at is None for one in engine.session("langchain-store").artifacts())


@pytest.mark.slow
def test_many_keys_at_once(engine: Engine) -> None:
    store = ByrefStore(engine)
    pairs = [(f"key-{n}", str(n).encode()) for n in range(510)]
    store.mset(pairs)
    assert store.mget([key for key, _ in pairs]) == [value for _, value in pairs]
    store.mdelete([key for key, _ in pairs[1:]])
    assert list(store.yield_keys()) == ["key-0"]


OTHER = """
import sys
from byref import Engine
from byref.adapters.langchain import ByrefStore
with Engine(sys.argv[1]) as engine:
    store = ByrefStore(engine)
    for n in range(5):
        store.mset([("shared", sys.argv[2].encode() * 5_000), ("both", sys.argv[2].encode() * 5_000), (f"{sys.argv[2]}-{n}", b"1")])
        one, other = store.mget(["shared", f"{sys.argv[2]}-{n}"])
        assert one is not None and len(one) == 5_000 and len(set(one)) == 1 and other == b"1", (one, other)
"""


@pytest.mark.slow
def test_two_processes_write_at_once(engine: Engine, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'byref.db'}"
    others = [subprocess.Popen([sys.executable, "-c", OTHER, url, name]) for name in "xy"]
    assert [other.wait(60) for other in others] == [0, 0]
    store = ByrefStore(engine)
    assert len(list(store.yield_keys())) == 12
    shared, both = store.mget(["shared", "both"])
    assert shared is not None and shared == both  # set in one transaction
    asyncio.run(store.amdelete(["shared"]))
    assert store.mget(["shared"]) == [None]
