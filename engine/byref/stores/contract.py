"""The contract of `BlobStore` as tests, which an author of a store runs on it; needs pytest.

    class TestMyStore(BlobStoreContract):
        @pytest.fixture
        def store(self):
            return MyStore()

The store may contain other objects, because every test makes its own keys. If a store has `compresses = False` and its
`uri` is a path, the plain bytes must be there.
"""

from __future__ import annotations

import os
import random
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from byref.errors import ArtifactMissing
from byref.stores.protocol import BlobStore

MIB = 1 << 20
SKEW = timedelta(hours=1)
"""Larger than any difference between the clocks of a store and of its user."""
FORK_SECONDS = 60.0
HOSTILE_KEYS = [
    "",
    "/",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    f"{'a' * 32}/../{'b' * 32}",
    f"{'a' * 32}/{'b' * 32}/../../x",
    f"{'a' * 32}/{'b' * 32}/",
    f"{'a' * 32}//{'b' * 32}",
    f"{'a' * 32}/{'b' * 32}\n",
    f"{'a' * 32}/{'b' * 32}\0",
    f"{'a' * 32}/{'b' * 32}..",
    f"{'a' * 32}/{'b' * 32}.metadata.json",
    f"{'a' * 32}/.{'b' * 31}",
    f"{'A' * 32}/{'b' * 32}",
    f"{'a' * 32}/{'b' * 31}１",
    f"{'a' * 32}\\{'b' * 32}",
    f"{'a' * 32}",
    "a" * 65,
]


class Interrupted(Exception):
    """Raised by parts, as a stream that breaks does."""


class BlobStoreContract:
    """Derive from it and override `store`; every test has to pass."""

    @pytest.fixture
    def store(self) -> BlobStore:
        """Return the store to test."""
        raise NotImplementedError("override the fixture `store`")

    @pytest.fixture
    def key(self) -> str:
        """Return the key of an object that is not there."""
        return _key()

    def test_it_has_a_name_and_says_whether_it_compresses(self, store: BlobStore) -> None:
        """The name is recorded in SQL."""
        assert isinstance(store, BlobStore)
        assert store.name.isascii()
        assert store.name.isprintable()
        assert 1 <= len(store.name) <= 20
        assert store.compresses in (True, False)

    @pytest.mark.parametrize(
        "sizes",
        [[], [0], [1], [0, 3, 0, 0, 5], [MIB], [MIB, MIB, 1], [1] * 300, [MIB] * 20],
        ids=lambda sizes: f"{len(sizes)}-parts-{sum(sizes)}-bytes",
    )
    def test_what_is_written_is_read(self, store: BlobStore, key: str, sizes: list[int]) -> None:
        """Whole, and in any range."""
        data = random.Random(7).randbytes(sum(sizes))
        store.write(key, _cut(data, sizes), content_type="text/plain")
        assert store.read(key, 0, len(data)) == data
        middle = len(data) // 2
        for offset, size in [(0, middle), (middle, len(data) - middle), (max(0, len(data) - 1), min(1, len(data)))]:
            assert store.read(key, offset, size) == data[offset : offset + size]
        assert isinstance(store.read(key, 0, len(data)), bytes)
        assert store.read(key, len(data), 0) == b""

    def test_ranges_across_parts(self, store: BlobStore, key: str) -> None:
        """A range may begin and end anywhere, whatever parts were written."""
        data = random.Random(8).randbytes(3000)
        store.write(key, _cut(data, [1000, 1000, 1000]), content_type="text/plain")
        for offset in (0, 1, 999, 1000, 1001, 1999, 2000, 2999):
            for size in (1, 2, 1000, 3000 - offset):
                assert store.read(key, offset, min(size, 3000 - offset)) == data[offset : offset + size]

    def test_bytes_of_all_kinds(self, store: BlobStore, key: str) -> None:
        """A store treats nothing as text."""
        data = bytes(range(256)) + b"\r\n\xff\xfe\x00\x1a" + "é".encode()
        store.write(key, [data], content_type="application/octet-stream")
        assert store.read(key, 0, len(data)) == data

    def test_a_read_is_never_short(self, store: BlobStore, key: str) -> None:
        """A range that is not completely there is an error, and so is an invalid range."""
        store.write(key, [b"0123456789"], content_type="text/plain")
        for offset, size in [(0, 11), (9, 2), (10, 1), (11, 1), (5, MIB), (10**12, 1), (11, 0)]:
            with pytest.raises(ArtifactMissing):
                store.read(key, offset, size)
        for offset, size in [(-1, 1), (0, -1)]:
            with pytest.raises(ValueError):
                store.read(key, offset, size)

    @pytest.mark.parametrize("size", [0, 1])
    def test_a_missing_object(self, store: BlobStore, key: str, size: int) -> None:
        """The message names it."""
        with pytest.raises(ArtifactMissing, match=key):
            store.read(key, 0, size)

    def test_writing_again_replaces(self, store: BlobStore, key: str) -> None:
        """Wholly: nothing of a longer object is left."""
        store.write(key, [b"a long one"], content_type="text/plain")
        store.write(key, [b"short"], content_type="application/json")
        assert store.read(key, 0, 5) == b"short"
        with pytest.raises(ArtifactMissing):
            store.read(key, 0, 6)

    @pytest.mark.parametrize("parts", [0, 1, 20])
    def test_parts_that_raise_leave_nothing(self, store: BlobStore, key: str, parts: int) -> None:
        """The parts' exception is passed on unchanged, even if it is one of the operating system's."""
        for error in (Interrupted("gone"), FileNotFoundError("theirs"), KeyboardInterrupt()):
            with pytest.raises(type(error)) as raised:
                store.write(key, _raising(parts, error), content_type="text/plain")
            assert raised.value is error
            with pytest.raises(ArtifactMissing):
                store.read(key, 0, 1)
        assert key not in set(store.keys(older_than=_soon()))

    def test_parts_that_raise_leave_what_was_there(self, store: BlobStore, key: str) -> None:
        """A replacement that fails replaces nothing."""
        store.write(key, [b"before"], content_type="text/plain")
        with pytest.raises(Interrupted):
            store.write(key, _raising(3, Interrupted()), content_type="text/plain")
        assert store.read(key, 0, 6) == b"before"

    @pytest.mark.parametrize("parts", [3, 20])
    def test_an_object_is_seen_whole_or_not_at_all(self, store: BlobStore, key: str, parts: int) -> None:
        """Nobody sees it while it is written; and parts are taken one at a time, in the writing thread."""
        seen: list[bool] = []

        def watching() -> Iterator[bytes]:
            for _ in range(parts):
                yield b"x" * MIB
                seen.append(_is_there(store, key) or key in set(store.keys(older_than=_soon())))

        store.write(key, watching(), content_type="text/plain")
        assert seen == [False] * parts
        assert _is_there(store, key)

    @pytest.mark.parametrize(
        "content_type",
        [
            "application/json",
            "text/plain; charset=utf-8",
            "",
            "x",
            "text/é",
            "text/plain\r\nX-Evil: 1",
            "a/" + "b" * 9999,
        ],
        ids=range(7),
    )
    def test_content_types_come_from_anywhere(self, store: BlobStore, key: str, content_type: str) -> None:
        """The bytes are stored even if the content type cannot be."""
        store.write(key, [b"data"], content_type=content_type)
        assert store.read(key, 0, 4) == b"data"

    def test_deleting(self, store: BlobStore) -> None:
        """Missing objects are no error; other objects stay."""
        first, second, third = _key(), _key(), _key()
        for key in (first, second, third):
            store.write(key, [b"data"], content_type="text/plain")
        store.delete([])
        store.delete([first, _key(), second])
        store.delete([first])
        assert [_is_there(store, key) for key in (first, second, third)] == [False, False, True]
        store.delete([_key() for _ in range(1100)] + [third])
        assert not _is_there(store, third)
        store.write(first, [b"again"], content_type="text/plain")
        assert store.read(first, 0, 5) == b"again"

    def test_listing(self, store: BlobStore) -> None:
        """Every object is listed once, by the time of its last write."""
        tenant = secrets.token_hex(16)
        keys = {f"{tenant}/{secrets.token_hex(16)}{extension}" for extension in ("", ".json", ".txt") for _ in range(9)}
        for key in keys:
            store.write(key, [b"data"], content_type="text/plain")
        assert keys <= set(store.keys(older_than=_soon()))
        assert not keys & set(store.keys(older_than=datetime.now(UTC) - SKEW))
        gone = keys.pop()
        store.delete([gone])
        listed = list(store.keys(older_than=_soon()))
        assert gone not in listed
        assert len(set(listed)) == len(listed)

    def test_deleting_while_listing(self, store: BlobStore) -> None:
        """A sweep deletes objects while it lists them."""
        keys = {_key() for _ in range(10)}
        for key in keys:
            store.write(key, [b"data"], content_type="text/plain")
        for key in store.keys(older_than=_soon()):
            if key in keys:
                store.delete([key])
        assert not keys & set(store.keys(older_than=_soon()))

    def test_objects_of_two_tenants(self, store: BlobStore) -> None:
        """Keys that differ only in the tenant are two objects."""
        blob = secrets.token_hex(16)
        mine, theirs = f"{secrets.token_hex(16)}/{blob}", f"{secrets.token_hex(16)}/{blob}"
        store.write(mine, [b"mine"], content_type="text/plain")
        store.write(theirs, [b"theirs"], content_type="text/plain")
        store.delete([mine])
        assert store.read(theirs, 0, 6) == b"theirs"
        assert not _is_there(store, mine)

    @pytest.mark.parametrize("key", HOSTILE_KEYS, ids=range(len(HOSTILE_KEYS)))
    def test_other_keys_lead_nowhere(self, store: BlobStore, key: str) -> None:
        """`check_key` refuses them with `InvalidId`, a ValueError."""
        uses: list[Callable[[], object]] = [
            lambda: store.write(key, [b"data"], content_type="text/plain"),
            lambda: store.read(key, 0, 1),
            lambda: store.delete([key]),
            lambda: store.uri(key),
        ]
        for use in uses:
            with pytest.raises(ValueError):
                use()

    def test_many_threads(self, store: BlobStore, key: str) -> None:
        """Each thread reads what it wrote; of a key that all write, each reads a complete object."""
        versions = [bytes([number]) * 70_000 for number in range(4)]
        store.write(key, [versions[0]], content_type="text/plain")

        def work(number: int) -> None:
            for _ in range(4):
                own = _key()
                store.write(own, [versions[number]], content_type="text/plain")
                store.write(key, _cut(versions[number], [10_000] * 7), content_type="text/plain")
                assert store.read(own, 0, 70_000) == versions[number]
                assert store.read(key, 0, 70_000) in versions
                store.delete([own])
                assert not _is_there(store, own)

        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(work, number) for number in range(4)]:
                done.result()

    def test_a_forked_child_goes_on(self, store: BlobStore, key: str) -> None:
        """A forked child can use the store even if its parent has used it, and so can the parent afterwards."""
        store.write(key, [b"before"], content_type="text/plain")
        with warnings.catch_warnings(action="ignore"):  # of forking while threads run, which hosts do
            child = os.fork()
        if not child:
            passed = False
            try:
                own = _key()
                store.write(own, [b"child"], content_type="text/plain")
                passed = store.read(own, 0, 5) == b"child" and store.read(key, 0, 6) == b"before"
                store.delete([own])
            finally:
                os._exit(0 if passed else 1)
        assert store.read(key, 0, 6) == b"before"
        assert _status(child) == 0

    def test_what_other_programs_open(self, store: BlobStore, key: str) -> None:
        """A key always has the same `uri`; a path leads to the plain bytes, unless the store compresses."""
        store.write(key, [b"plain\n", b"bytes\n"], content_type="text/plain")
        uri = store.uri(key)
        assert store.uri(key) == uri
        assert uri != store.uri(_key()) or uri is None
        if uri and uri.startswith("/") and not store.compresses:
            assert Path(uri).read_bytes() == b"plain\nbytes\n"


def _key() -> str:
    return f"{secrets.token_hex(16)}/{secrets.token_hex(16)}"


def _soon() -> datetime:
    return datetime.now(UTC) + SKEW


def _cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for size in sizes:
        yield data[start : start + size]
        start += size


def _raising(parts: int, error: BaseException) -> Iterator[bytes]:
    for _ in range(parts):
        yield b"x" * MIB
    raise error


def _is_there(store: BlobStore, key: str) -> bool:
    try:
        store.read(key, 0, 1)
    except ArtifactMissing:
        return False
    return True


def _status(child: int) -> int:
    """Return how a child ended; it is killed if it hangs."""
    deadline = time.monotonic() + FORK_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
