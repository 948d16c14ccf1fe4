"""Files: what a shell reads, who may read it, what a crash or a hostile folder does."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from byref.errors import ArtifactMissing, ConfigurationError, StorageFailure
from byref.stores import FileStore, object_key

SOON = datetime.now(UTC) + timedelta(hours=1)
KEY = object_key("acme", "0" * 32, "text/plain")
OTHER = object_key("acme", "1" * 32, "application/json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def store(folder: Path) -> FileStore:
    return FileStore(folder)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_another_store_of_the_folder_reads_it(store: FileStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(KEY, [b"data"], content_type="text/plain")
    monkeypatch.chdir(folder.parent)
    again = FileStore("blobs")
    monkeypatch.chdir("/")
    assert again.read(KEY, 0, 4) == b"data"
    assert again.uri(KEY) == store.uri(KEY) == str(folder / KEY)


def test_sidecars_tell_the_content_type(store: FileStore, folder: Path) -> None:
    store.write(KEY, [b"data"], content_type="text/plain")
    store.write(OTHER, [b"{}"], content_type="application/json")
    store.write(OTHER, [b"[]"], content_type='x\n\udcff/"é')
    sidecars = [json.loads(path.read_bytes()) for path in folder.rglob(".*.metadata.json")]
    told = {name: content_type for sidecar in sidecars for name, content_type in sidecar.items()}
    assert told == {Path(KEY).name: "text/plain", Path(OTHER).name: 'x\n\udcff/"é'}
    store.delete([KEY])
    assert everything(folder) == sorted([KEY[:32], OTHER, f"{OTHER[:33]}.{OTHER[33:]}.metadata.json"])


def test_only_the_owner_may_read(folder: Path) -> None:
    previous = os.umask(0)
    try:
        store = FileStore(folder)
        store.write(KEY, [b"data"], content_type="text/plain")
    finally:
        os.umask(previous)
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_nothing_of_a_tenant_remains(store: FileStore, folder: Path) -> None:
    store.write(KEY, [b"data"], content_type="text/plain")
    store.delete([KEY])
    assert everything(folder) == []


def test_a_failed_write_leaves_no_file(store: FileStore, folder: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"x" * (3 << 20)
        raise OSError(5, "theirs")

    with pytest.raises(OSError, match="theirs"):
        store.write(KEY, parts(), content_type="text/plain")
    assert everything(folder) == [KEY[:32]]
    assert list(store.keys(older_than=SOON)) == []
    assert everything(folder) == []


def test_a_full_disk(store: FileStore, folder: Path) -> None:
    """A limit of the file's size stands for it: the write stops at the same place with the same kind of error."""
    script = """
import resource, signal, sys
from byref.errors import StorageFailure
from byref.stores import FileStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    FileStore(sys.argv[1]).write(sys.argv[2], (b"x" * 300_000 for _ in range(10)), content_type="text/plain")
except StorageFailure as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", script, folder, KEY], capture_output=True, text=True, check=True)
    assert "File too large" in ran.stdout
    assert str(folder) in ran.stdout
    assert [path for path in folder.rglob("*") if path.is_file()] == []


WRITER = """
import os, sys, time
from byref.stores import FileStore
def parts():
    yield b"x" * (2 << 20)
    if len(sys.argv) > 3 and not os.fork():
        time.sleep(60)
    print("under way", flush=True)
    time.sleep(60)
FileStore(sys.argv[1]).write(sys.argv[2], parts(), content_type="text/plain")
"""


@contextmanager
def writing(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of a write, and its children."""
    command = [sys.executable, "-c", WRITER, str(folder), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as writer:
        try:
            assert writer.stdout
            writer.stdout.readline()
            yield writer
        finally:
            with suppress(ProcessLookupError):
                os.killpg(writer.pid, signal.SIGKILL)


def test_what_a_killed_writer_leaves_can_be_taken_at_once(store: FileStore, folder: Path) -> None:
    with writing(folder, KEY) as writer:
        [draft] = [path for path in folder.rglob("*") if path.is_file()]
        for _ in range(2):
            assert store.take_drafts(older_than=SOON) == 0 == len(list(store.drafts(older_than=SOON)))
        assert draft.exists()  # a living writer's
        writer.kill()
        writer.wait()
    with pytest.raises(ArtifactMissing):
        store.read(KEY, 0, 1)
    assert list(store.keys(older_than=SOON)) == []
    assert list(store.drafts(older_than=SOON)) == [str(draft.relative_to(folder))]
    assert store.take_drafts(older_than=datetime.now(UTC) - timedelta(hours=1)) == 0
    assert store.take_drafts(older_than=SOON, folder=OTHER[:31] + "x") == 0
    assert store.take_drafts(older_than=SOON, folder="f" * 32) == 0
    assert draft.exists()
    assert store.take_drafts(older_than=SOON, folder=KEY[:32]) == 1
    assert everything(folder) == []


def test_a_draft_that_a_forked_child_holds_goes_in_a_day(store: FileStore, folder: Path) -> None:
    """The child of a killed writer has its lock."""
    with writing(folder, KEY, "fork") as writer:
        writer.kill()
        writer.wait()
        [draft] = [path for path in folder.rglob("*") if path.is_file()]
        assert store.take_drafts(older_than=SOON) == 0
        yesterday = time.time() - 25 * 3600
        os.utime(draft, (yesterday, yesterday))
        assert store.take_drafts(older_than=SOON) == 1
        assert everything(folder) == []


@pytest.mark.slow
def test_writers_among_cleaners(store: FileStore, folder: Path, race: Callable[..., list[str]]) -> None:
    """Whatever has no lock yet is taken and made anew; no write fails, no draft remains."""
    script = """
import secrets
from datetime import UTC, datetime, timedelta
from byref.stores import FileStore, object_key
store, later = FileStore(sys.argv[1]), datetime.now(UTC) + timedelta(hours=1)
go()
for _ in range(40):
    store.write(object_key("acme", secrets.token_hex(16)), [b"data"], content_type="text/plain")
    store.take_drafts(older_than=later)
"""
    race(4, script, str(folder))
    assert len(list(store.keys(older_than=SOON))) == 160
    assert list(store.drafts(older_than=SOON)) == []
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 320


def test_links_lead_nowhere(store: FileStore, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / KEY[33:]).write_bytes(b"secret")
    (folder / KEY[:32]).symlink_to(outside)
    with pytest.raises(ArtifactMissing):
        store.read(KEY, 0, 6)
    with pytest.raises(StorageFailure):
        store.write(KEY, [b"data"], content_type="text/plain")
    store.delete([KEY])
    assert list(store.keys(older_than=SOON)) == []
    assert everything(outside) == [KEY[33:]]

    (folder / KEY[:32]).unlink()
    (folder / KEY[:32]).mkdir()
    (folder / KEY).symlink_to(outside / KEY[33:])
    with pytest.raises(ArtifactMissing):
        store.read(KEY, 0, 6)
    assert list(store.keys(older_than=SOON)) == []
    store.write(KEY, [b"data"], content_type="text/plain")
    assert (outside / KEY[33:]).read_bytes() == b"secret"
    assert store.read(KEY, 0, 4) == b"data"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_no_object(store: FileStore, folder: Path, make: Callable[[Path], None]) -> None:
    (folder / KEY[:32]).mkdir()
    make(folder / KEY)
    with pytest.raises(ArtifactMissing):
        store.read(KEY, 0, 1)
    assert list(store.keys(older_than=SOON)) == []


def test_foreign_files_are_left_alone(store: FileStore, folder: Path) -> None:
    store.write(KEY, [b"data"], content_type="text/plain")
    foreign = [folder / "notes.txt", folder / KEY[:32] / "notes.txt", folder / KEY[:32] / ".x.tmp", folder / ("g" * 32)]
    for path in foreign:
        path.write_text("mine")
        os.utime(path, (0, 0))
    assert list(store.keys(older_than=SOON)) == [KEY]
    assert store.take_drafts(older_than=SOON) == 0
    store.delete([KEY])
    assert all(path.read_text() == "mine" for path in foreign)


def test_a_folder_that_vanishes_is_not_made_again(store: FileStore, folder: Path) -> None:
    store.write(KEY, [b"data"], content_type="text/plain")
    folder.rename(folder.with_name("moved"))
    uses: list[Callable[[], object]] = [
        lambda: store.write(KEY, [b"data"], content_type="text/plain"),
        lambda: store.read(KEY, 0, 4),
        lambda: store.delete([KEY]),
        lambda: list(store.keys(older_than=SOON)),
    ]
    for use in uses:
        with pytest.raises(StorageFailure, match="No such file or directory"):
            use()
    assert not folder.exists()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="expected a folder"):
        FileStore(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="expected a folder"):
        FileStore(tmp_path / "file" / "below")


@pytest.mark.slow
def test_processes_that_write_and_delete_at_once(folder: Path, race: Callable[..., list[str]]) -> None:
    """Eight of them, in one tenant's folder, which goes whenever it is empty."""
    script = """
import json, secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from byref.stores import FileStore, object_key
store, kept = FileStore(sys.argv[1]), []
shared = object_key("acme", "f" * 32, "text/plain")
go()
for number in range(40):
    key = object_key("acme", secrets.token_hex(16), "application/json")
    data = json.dumps([number] * 1000).encode()
    store.write(key, [data[:100], data[100:]], content_type="application/json")
    assert store.read(key, 0, len(data)) == data
    store.write(shared, [bytes([number]) * 5000], content_type="text/plain")
    seen = store.read(shared, 0, 5000)
    assert seen == seen[:1] * 5000
    if number % 4:
        store.delete([key])
    else:
        kept.append(key)
    list(store.keys(older_than=datetime.now(UTC) - timedelta(hours=1)))
print(json.dumps(kept))
"""
    kept = {key for printed in race(8, script, str(folder)) for key in json.loads(printed)}
    store = FileStore(folder)
    shared = object_key("acme", "f" * 32, "text/plain")
    assert set(store.keys(older_than=SOON)) == kept | {shared}
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    names = {key[33:] for key in kept | {shared}}
    assert files == names | {f".{name}.metadata.json" for name in names}
    for name in names:
        sidecar = json.loads((folder / shared[:32] / f".{name}.metadata.json").read_bytes())
        assert sidecar == {name: "text/plain" if name.endswith(".txt") else "application/json"}


@pytest.mark.slow
def test_a_tenants_folder_made_and_removed_under_writers(folder: Path, race: Callable[..., list[str]]) -> None:
    script = """
import secrets
from byref.stores import FileStore, object_key
store = FileStore(sys.argv[1])
go()
for _ in range(150):
    key = object_key("acme", secrets.token_hex(16))
    store.write(key, [b"data"], content_type="text/plain")
    store.delete([key])
"""
    race(4, script, str(folder))
    assert everything(folder) == []


def test_a_write_of_any_size_takes_little_memory(folder: Path) -> None:
    script = r"""
import re, sys
from pathlib import Path
from byref.stores import FileStore, object_key
store = FileStore(sys.argv[1])
peak = lambda: int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
store.write(object_key("acme", "0" * 32), (bytes([number]) * (1 << 20) for number in range(200)), content_type="text/plain")
print(peak() - before)
"""
    ran = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 8 * 1024
