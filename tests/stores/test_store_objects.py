"""Object storage: a real S3 server, as it should be and through a proxy that goes wrong."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store
from s3server import S3, Faults
from sampled import sampled

from byref.errors import ArtifactMissing, ConfigurationError, StorageFailure
from byref.stores import ObjectStore, object_key, objects

SOON = datetime.now(UTC) + timedelta(hours=1)
KEY = object_key("acme", "0" * 32, "application/json")
DATA = random.Random(1).randbytes(3 << 20)
QUICK = {"timeout": "500ms", "connect_timeout": "500ms"}
STALL = pytest.param("stall", marks=pytest.mark.slow)


def parts(data: bytes = DATA) -> Iterator[bytes]:
    return (data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20))


def big() -> bytes:
    """More than one part of an upload."""
    return DATA * 7


def store_of(server: S3, bucket: str, **settings: Any) -> ObjectStore:
    options = {**server.settings, **settings}
    options["client_options"] = {**server.settings["client_options"], **settings.get("client_options", {})}
    options["retry_config"] = {
        "max_retries": 3,
        "backoff": {"init_backoff": timedelta(milliseconds=10)},
    } | settings.get("retry_config", {})
    return ObjectStore(f"s3://{bucket}", prefix="tool-results", **options)


@pytest.fixture
def bucket(s3: S3) -> str:
    return s3.bucket()


@pytest.fixture
def direct(s3: S3, bucket: str) -> ObjectStore:
    return store_of(s3, bucket)


@pytest.fixture
def through(faulty_s3: tuple[S3, Faults], bucket: str) -> tuple[ObjectStore, Faults]:
    server, faults = faulty_s3
    return store_of(server, bucket, client_options=QUICK), faults


def test_an_object_is_the_payload_with_its_content_type(s3: S3, direct: ObjectStore, bucket: str) -> None:
    for data in (b'{"a": 1}\n', big()):
        direct.write(KEY, parts(data), content_type="application/json")
        assert direct.uri(KEY) == f"s3://{bucket}/tool-results/{KEY}"
        status, headers, body = s3.request("GET", f"/{bucket}/tool-results/{KEY}")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert body == data


def test_a_small_object_is_one_request_and_a_range_another(through: tuple[ObjectStore, Faults]) -> None:
    store, faults = through
    store.write(KEY, parts(), content_type="text/plain")
    assert store.read(KEY, 1_000_000, 500) == DATA[1_000_000:1_000_500]
    assert [request.split()[0] for request in faults.requests] == ["PUT", "GET"]


def test_a_content_type_that_no_header_carries(s3: S3, direct: ObjectStore, bucket: str) -> None:
    for given, kept in {
        "text/plain; charset=utf-8": "text/plain; charset=utf-8",
        "text/plain\r\nX-Evil: 1": "application/octet-stream",
        "": "application/octet-stream",
    }.items():
        direct.write(KEY, [b"x"], content_type=given)
        assert s3.request("GET", f"/{bucket}/tool-results/{KEY}")[1]["content-type"] == kept


def test_a_store_of_the_hosts_own(s3: S3, bucket: str) -> None:
    given = S3Store(bucket, prefix="team/a", **s3.settings)
    store = ObjectStore(given, prefix="blobs", compresses=True)
    assert (store.name, store.compresses) == ("s3", True)
    store.write(KEY, [b"data"], content_type="text/plain")
    assert store.uri(KEY) == f"s3://{bucket}/team/a/blobs/{KEY}"
    assert s3.request("GET", f"/{bucket}/team/a/blobs/{KEY}")[2] == b"data"
    assert list(store.keys(older_than=SOON)) == [KEY]
    assert list(ObjectStore(given).keys(older_than=SOON)) == []


def test_what_else_is_in_the_bucket_is_passed_over(s3: S3, direct: ObjectStore, bucket: str) -> None:
    for path in ("notes.txt", f"tool-results-2/{KEY}", KEY, "tool-results/notes.txt", f"tool-results/x/{KEY}"):
        assert s3.request("PUT", f"/{bucket}/{path}", b"mine")[0] == 200
    direct.write(KEY, [b"data"], content_type="text/plain")
    assert list(direct.keys(older_than=SOON)) == [KEY]


@pytest.mark.slow
def test_a_listing_comes_in_pages(s3: S3, faulty_s3: tuple[S3, Faults], bucket: str, direct: ObjectStore) -> None:
    server, faults = faulty_s3
    written = {object_key("acme", f"{number:032x}") for number in range(1100)}
    for key in written:
        assert s3.request("PUT", f"/{bucket}/tool-results/{key}", b"x")[0] == 200
    listing = store_of(server, bucket).keys(older_than=SOON)
    first = next(listing)
    assert len([request for request in faults.requests if "list-type=2" in request]) == 1
    assert {first, *listing} == written
    direct.delete(sorted(written))
    assert list(direct.keys(older_than=SOON)) == []


@pytest.mark.slow
def test_a_busy_server_is_asked_again(through: tuple[ObjectStore, Faults]) -> None:
    store, faults = through
    for method in ("PUT", "GET", "POST"):
        faults.plan(method, "503", "503")
    store.write(KEY, parts(), content_type="text/plain")
    assert store.read(KEY, 5, 2 << 20) == DATA[5 : 5 + (2 << 20)]
    store.write(KEY, parts(big()), content_type="text/plain")
    faults.plan("PUT", "503", "503", "503")
    faults.plan("POST", "503", "503")
    store.write(KEY, parts(big()), content_type="text/plain")
    faults.plan("GET", "503")
    assert list(store.keys(older_than=SOON)) == [KEY]
    faults.plan("POST", "503")
    store.delete([KEY])
    assert list(store.keys(older_than=SOON)) == []
    assert faults.planned == []


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("fault", sampled([STALL, "cut request", "lose answer", "cut answer"], 2))
@pytest.mark.parametrize("method", ["PUT", pytest.param("POST", marks=pytest.mark.slow)])
def test_an_upload_that_is_cut_once_recovers_or_leaves_nothing_partial(
    through: tuple[ObjectStore, Faults], direct: ObjectStore, method: str, fault: str
) -> None:
    """A big object: its parts are PUT, begun and completed by POST."""
    store, faults = through
    data = big()
    faults.plan(method, fault)
    try:
        store.write(KEY, parts(data), content_type="text/plain")
    except StorageFailure:
        try:
            assert direct.read(KEY, 0, len(data)) == data
        except ArtifactMissing:
            assert list(direct.keys(older_than=SOON)) == []
    else:
        assert direct.read(KEY, 0, len(data)) == data
    assert faults.planned == []


@pytest.mark.parametrize("fault", ["503", "cut request", STALL])
@pytest.mark.parametrize("size", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_a_server_that_stays_broken(
    through: tuple[ObjectStore, Faults], direct: ObjectStore, fault: str, size: int
) -> None:
    store, faults = through
    direct.write(KEY, [b"before"], content_type="text/plain")
    for method in ("PUT", "POST", "GET", "DELETE"):
        faults.plan(method, *[fault] * 50)
    started = time.monotonic()
    with pytest.raises(StorageFailure, match="the store 's3"):
        store.write(KEY, parts(DATA * size), content_type="text/plain")
    with pytest.raises(StorageFailure, match="the store 's3"):
        store.read(KEY, 0, 6)
    assert time.monotonic() - started < 25
    assert direct.read(KEY, 0, 6) == b"before"
    with pytest.raises(ArtifactMissing):
        direct.read(KEY, 0, 7)


@pytest.mark.parametrize("fault", ["cut answer", STALL, "lose answer"])
def test_a_read_that_is_cut_is_never_short(
    through: tuple[ObjectStore, Faults], direct: ObjectStore, fault: str
) -> None:
    store, faults = through
    direct.write(KEY, parts(), content_type="text/plain")
    faults.plan("GET", fault)
    assert store.read(KEY, 100, 2 << 20) == DATA[100 : 100 + (2 << 20)]
    faults.plan("GET", *[fault] * 20)
    with pytest.raises(StorageFailure):
        store.read(KEY, 100, 2 << 20)


def test_an_answer_that_lies_about_its_length(through: tuple[ObjectStore, Faults], direct: ObjectStore) -> None:
    store, faults = through
    direct.write(KEY, parts(), content_type="text/plain")
    faults.plan("GET", "short")
    with pytest.raises((ArtifactMissing, StorageFailure)):
        store.read(KEY, 100, 2 << 20)


def test_parts_that_raise_leave_no_upload_behind(s3: S3, direct: ObjectStore, bucket: str) -> None:
    def broken() -> Iterator[bytes]:
        yield from parts(big())
        raise RuntimeError("theirs")

    with pytest.raises(RuntimeError, match="theirs"):
        direct.write(KEY, broken(), content_type="text/plain")
    assert b"<Upload>" not in s3.request("GET", f"/{bucket}?uploads")[2]


def test_refused_credentials_are_told_without_them(through: tuple[ObjectStore, Faults]) -> None:
    store, faults = through
    for use in (
        lambda: store.read(KEY, 0, 1),
        lambda: store.read(KEY, 0, 0),
        lambda: store.write(KEY, [b"x"], content_type="text/plain"),
        lambda: store.write(KEY, parts(big()), content_type="text/plain"),
        lambda: store.delete([KEY]),
        lambda: list(store.keys(older_than=SOON)),
    ):
        faults.planned.clear()
        for method in ("GET", "PUT", "POST", "HEAD"):
            faults.plan(method, "403", "403", "403")
        with pytest.raises(StorageFailure, match="403 Forbidden") as raised:
            use()
        assert "verysecret" not in str(raised.value)
        assert raised.value.__suppress_context__
        assert len(str(raised.value)) < 700


def test_a_bucket_that_does_not_exist(s3: S3) -> None:
    store = store_of(s3, "no-such-bucket")
    for use in (
        lambda: store.read(KEY, 0, 1),
        lambda: store.write(KEY, [b"x"], content_type="text/plain"),
        lambda: store.delete([KEY]),
        lambda: list(store.keys(older_than=SOON)),
    ):
        with pytest.raises(StorageFailure, match="NoSuchBucket"):
            use()


def test_a_server_that_is_not_there() -> None:
    store = ObjectStore(
        "s3://bucket",
        endpoint="http://127.0.0.1:1",
        access_key_id="id",
        secret_access_key="verysecret",
        client_options={"allow_http": True},
        retry_config={"max_retries": 1},
    )
    with pytest.raises(StorageFailure, match="the store 's3://bucket'") as raised:
        store.read(KEY, 0, 1)
    assert "verysecret" not in str(raised.value)


def test_settings_are_given_once(s3: S3) -> None:
    with pytest.raises(ConfigurationError, match="region"):
        ObjectStore(S3Store("bucket", **s3.settings), region="eu-west-1")
    with pytest.raises(ConfigurationError, match="nonsense"):
        ObjectStore("s3://bucket", nonsense=1)


@pytest.mark.parametrize("place", ["", "bucket", "s3://", "file:///tmp", "memory:///", "https://u:pw@host/x?sig=s", 7])
def test_what_is_no_object_storage(place: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ObjectStore(place)
    assert "pw" not in str(raised.value)
    assert "sig" not in str(raised.value)


def test_obstores_other_stores_are_refused(tmp_path: Path) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path)):
        with pytest.raises(ConfigurationError, match="FileStore"):
            ObjectStore(store)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", ["..", "a/../b", "a//b", "a b", "é", "a?b", "x" * 501, "a\n", ".", 7])
def test_a_prefix_that_is_none(s3: S3, prefix: Any) -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        ObjectStore(S3Store("bucket", **s3.settings), prefix=prefix)


def test_where_objects_are_in_other_clouds() -> None:
    google = ObjectStore(GCSStore("bucket", prefix="team", skip_signature=True), prefix="blobs/")
    assert (google.name, google.uri(KEY)) == ("gs", f"gs://bucket/team/blobs/{KEY}")
    azure = ObjectStore(AzureStore("container", account_name="account", account_key="a2V5"))
    assert (azure.name, azure.uri(KEY)) == ("az", f"https://account.blob.core.windows.net/container/{KEY}")


def test_deleting_where_a_missing_object_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Google and Azure; obstore's local files behave so too."""
    monkeypatch.setattr(objects, "_NAMES", {"LocalStore": "local"})
    monkeypatch.setattr(objects, "_base_uri", lambda *_: None)
    store = ObjectStore(LocalStore(tmp_path))  # type: ignore[arg-type]
    keys = [object_key("acme", f"{number:032x}") for number in range(20)]
    for key in keys[::3]:
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(b"data")
    store.delete(keys)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_without_obstore() -> None:
    script = """
import sys
sys.modules["obstore"] = None
from byref.errors import ConfigurationError
from byref.stores import MemoryStore, ObjectStore
MemoryStore()
try:
    ObjectStore("s3://bucket")
except ConfigurationError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "byref[s3]" in ran.stdout
    assert (
        "obstore"
        not in subprocess.run(
            [sys.executable, "-c", "import sys, byref.stores; print([m for m in sys.modules if 'obstore' in m])"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


@pytest.mark.slow
def test_a_write_of_any_size_takes_little_memory(s3: S3, bucket: str) -> None:
    script = r"""
import re, sys
from pathlib import Path
from byref.stores import ObjectStore, object_key
store = ObjectStore(f"s3://{sys.argv[1]}", endpoint=sys.argv[2], access_key_id="a", secret_access_key="b",
                    region="us-east-1", client_options={"allow_http": True})

store.write(object_key("acme", "1" * 32), [b"x"], content_type="text/plain")
peak = lambda: int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
store.write(object_key("acme", "0" * 32), (bytes([number]) * (1 << 20) for number in range(160)), content_type="text/plain")
print(peak() - before)
"""
    words = [sys.executable, "-c", script, bucket, s3.settings["endpoint"]]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 40 * 1024
