"""Paths that people name: files made there belong to the owner alone, and a path that is not a file gives an error in time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import byref
from byref.cli import main
from byref.cli import serving as cli_serving
from byref.gateway import config as gateway_config
from byref.stores import FileStore, object_key, paths

KEY = object_key("acme", "0" * 32, "application/json")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@contextlib.contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


# Modes


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("mask", "url"),
    [
        (0o000, "sqlite:///{0}/new.db"),
        (0o777, "sqlite:///file:{0}/new.db?uri=true"),
        (0o022, "sqlite:///file:new.db?mode=rwc&uri=true"),
        (0o022, "sqlite:///new.db"),
        (0o002, "sqlite:///link.db"),
        (0o002, "sqlite:///old.db"),
        (0o002, "sqlite:///file:{0}/n%65w.db?uri=true"),
    ],
)
def test_a_new_database_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to("new.db")
    (tmp_path / "old.db").touch()
    (tmp_path / "old.db").chmod(0o640)
    with umask(mask), byref.Engine(url.format(tmp_path)) as engine:
        engine.session("s").process("kept " * 10_000, tool="t")
        expected = 0o640 if "old" in url else 0o600
        made = [path for path in tmp_path.iterdir() if path.suffix != ".db"]
        made += [tmp_path / ("old.db" if "old" in url else "new.db")]
        assert {path.name.partition(".")[2] for path in made} == {"db", "db-wal", "db-shm"}
        assert {path.name: oct(mode(path)) for path in made} == {path.name: oct(expected) for path in made}
    assert (tmp_path / "link.db").is_symlink() and mode(tmp_path / "old.db") == 0o640


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?uri=true&cache=shared",
        "sqlite:///file:shared?mode=memory&cache=shared&uri=true",
    ],
)
def test_a_database_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with byref.Engine(url) as engine:
        assert engine.session("s").process("text", tool="t").text == "text"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["mode=rw", "mode=ro"])
def test_a_uri_that_makes_no_file_makes_none(tmp_path: Path, how: str) -> None:
    with pytest.raises(byref.StorageFailure):
        byref.Engine(f"sqlite:///file:{tmp_path}/none.db?{how}&uri=true", create=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_a_new_store_of_files_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    with umask(mask):
        for folder in (tmp_path / "a" / "b" / "c", tmp_path / "old"):
            FileStore(folder).write(KEY, [b"{}"], content_type="application/json")
            assert FileStore(folder).read(KEY, 0, 2) == b"{}"
    made = [path for path in tmp_path.rglob("*") if path.name != "old"]
    assert len(made) == 3 + 2 * 3
    for path in made:
        assert oct(mode(path)) == oct(0o700 if path.is_dir() else 0o600), path
    assert mode(tmp_path / "old") == 0o755
    for wrong in (tmp_path / "file" / "x", tmp_path / "file", tmp_path / "loop", tmp_path / "n\0"):
        (tmp_path / "file").touch()
        with contextlib.suppress(FileExistsError):
            (tmp_path / "loop").symlink_to("loop")
        with pytest.raises((byref.ConfigurationError, ValueError)):
            FileStore(wrong)


def test_an_exported_file_is_its_owners_alone_or_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o644)
    (tmp_path / "read-only").touch()
    (tmp_path / "read-only").chmod(0o444)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    with umask(0), byref.Engine("sqlite:///:memory:") as engine:
        session = engine.session("s")
        session.store_artifact("all of it", name="it")
        for name, expected in {"new": 0o600, "old": 0o644, "read-only": 0o444}.items():
            assert session.export("it", tmp_path / name) == 9
            assert oct(mode(tmp_path / name)) == oct(expected)
            assert (tmp_path / name).read_text() == "all of it"
        for wrong in ("pipe", "to-pipe", "."):
            with pytest.raises(byref.ConfigurationError, match="no regular file"):
                session.export("it", tmp_path / wrong)
        for device in ("/dev/null", "/dev/full", "/dev/zero"):
            with pytest.raises(byref.ConfigurationError, match="no regular file"):
                session.export("it", device)
        with pytest.raises(OSError, match="No space left"), open("/dev/full", "wb", buffering=0) as full:
            session.export("it", full)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".part"]


# A folder that byref chooses


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the gateway looks for a folder of its own: first `state/byref`, then `tmp/byref-UID`."""
    monkeypatch.delenv("BYREF_DB", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in ("state", "tmp", "else"):
        (tmp_path / name).mkdir()
    return tmp_path


FOLDERS = ["state/byref", f"tmp/byref-{os.getuid()}"]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("what", ["symbolic link", "leads nowhere", "another user", "written to by other users"])
def test_a_folder_that_may_be_somebody_elses_is_refused(
    homeless: Path, capsys: pytest.CaptureFixture[str], folder: str, what: str
) -> None:
    place = homeless / folder
    if folder == FOLDERS[1]:
        (homeless / "state").rmdir()
        (homeless / "state").touch()  # nothing can be made there
    if what == "symbolic link":
        place.symlink_to(homeless / "else")
    elif what == "leads nowhere":
        what = "symbolic link"
        place.symlink_to(homeless / "none")
    else:
        place.mkdir(mode=0o700)
        if what == "another user":
            if os.geteuid():
                pytest.skip("only root can give a folder away")
            os.chown(place, 65_534, -1)
        else:
            place.chmod(0o770)
    assert main(["gateway", "--", "true"]) == 1
    told = capsys.readouterr().err
    assert what in told and str(place) in told and "--db" in told
    assert not list((homeless / "else").iterdir()) and not (homeless / "none").exists()


def test_a_folder_of_byrefs_own_is_its_owners_alone(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from argparse import Namespace

    from byref.cli.gateway import _database
    from byref.cli.parser import DEFAULT_DB

    monkeypatch.setenv("XDG_STATE_HOME", str(homeless / "deep" / "state"))
    with umask(0):
        for _ in range(2):
            url = _database(Namespace(db=DEFAULT_DB))
        with byref.Engine(url):
            made = {path.name: (mode(path), path.is_dir()) for path in (homeless / "deep").rglob("*")}
    assert made.keys() >= {"state", "byref", "gateway.db"}
    assert all(mode == (0o700 if is_folder else 0o600) for mode, is_folder in made.values())


# What is no file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with one of each kind; pipes are given up soon, and files are small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BYREF_DB", raising=False)
    monkeypatch.delenv("BYREF_DEBUG", raising=False)
    monkeypatch.setattr(paths, "PIPE_SECONDS", 0.05)
    monkeypatch.setattr(cli_serving, "MAX_TOKENS_BYTES", 10_000)
    os.mkfifo("pipe")
    os.mkdir("folder")
    os.symlink("loop", "loop")
    os.symlink("none", "dangling")
    Path("binary").write_bytes(bytes(range(256)))
    Path("sparse").touch()
    os.truncate("sparse", 1 << 41)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        yield tmp_path


KINDS = ["pipe", "folder", "loop", "dangling", "socket", "sparse", "/dev/zero", "/dev/full", "/proc/self/mem", "n\0"]
NO_FILES = {
    "process": (["process", "{}"], [k for k in KINDS if k not in ("/dev/zero", "/dev/full")]),
    "config": (["gateway", "--config", "{}"], [*KINDS, "/dev/null", "binary"]),
    "tokens": (["mcp", "--http", "127.0.0.1:0", "--tokens", "{}"], [*KINDS, "/dev/null", "binary"]),
    "db": (
        ["process", "binary", "--db", "{}"],
        [k for k in KINDS if k not in ("sparse", "dangling")] + ["/dev/null", "binary", "/proc/self/status"],
    ),
    "uri": (
        ["sessions", "--db", "sqlite:///file:{}?uri=true"],
        ["pipe", "folder", "loop", "socket", "/dev/zero", "/dev/null"],
    ),
    "blobs": (["sessions", "--blobs", "{}"], [k for k in KINDS if k != "folder"] + ["/dev/null", "binary"]),
    "new blobs": (["process", "binary", "--blobs", "{}"], ["pipe", "loop", "socket", "/dev/zero", "binary", "n\0"]),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("argument", NO_FILES)
def test_what_is_no_file_is_told_in_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    words, kinds = NO_FILES[argument]
    byref.Engine("sqlite:///byref.db").close()
    for kind in kinds:
        began = time.monotonic()
        code = main([word.replace("{}", kind) for word in words])
        told = capsys.readouterr()
        assert code == 1, (kind, told)
        assert told.err.startswith("byref: ") and told.err.count("\n") == 1, (kind, told)
        assert "BYREF_DEBUG" not in told.err, (kind, told)
        assert time.monotonic() - began < 10, kind
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode) and os.path.islink("dangling") and not os.path.exists("none")


def test_pipes_and_devices_that_end_are_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(data: bytes, wait: float) -> None:
        with open("pipe", "wb") as pipe:
            time.sleep(wait)
            pipe.write(data)

    def read(*words: str, data: bytes) -> tuple[int, str, str]:
        writer = threading.Thread(target=write, args=(data, 0.01))
        writer.start()
        time.sleep(0.02)
        code = main(words)
        writer.join(5)
        return code, *capsys.readouterr()

    assert read("process", "pipe", data=b"through a pipe\n") == (0, "through a pipe\n", "")
    long = b"line\n" * 100_000
    code, _, error = read("process", "pipe", "--json", data=long)
    assert (code, error) == (0, "")
    told = read("gateway", "--config", "pipe", data=b'{"mcpServers": {}}')
    assert told[0] == 1 and "there is no server" in told[2]
    told = read("gateway", "--config", "pipe", data=b" " * (gateway_config.MAX_CONFIG_BYTES + 10))
    assert told[0] == 1 and "more than" in told[2]
    told = read("mcp", "--http", "127.0.0.1:0", "--tokens", "pipe", data=json.dumps({"a": [1]}).encode())
    assert told[0] == 1 and "as the token of 'a'" in told[2]
    reading, writing = os.pipe()
    os.write(writing, b"of a shell")
    os.close(writing)
    assert main(["process", f"/dev/fd/{reading}"]) == 0
    os.close(reading)
    assert main(["process", "/dev/null"]) == 0
    assert main(["process", "/proc/self/comm"]) == 0
    assert capsys.readouterr().out.startswith("of a shell\n")


STREAMS = """
import gc, os, sys
import byref.cli.inspect
from byref.cli import main
os.chdir(sys.argv[1])
FULL = os.open("/dev/full", os.O_WRONLY)
gc.freeze()
for shut, full, words in eval(sys.argv[2]):
    if not os.fork():
        # As the interpreter is when it is started so.
        for descriptor in shut:
            setattr(sys, ("stdin", "stdout", "stderr")[descriptor], None)
            os.close(descriptor)
        for descriptor in full:
            os.dup2(FULL, descriptor)
        code = main(words)
        try:  # as it does when it ends
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            code = 120
        os._exit(code)
    print(f"= {os.waitstatus_to_exitcode(os.wait()[1])}", file=sys.stderr, flush=True)
"""
"""One process for all cases, of which each is a fork of its own."""

CASES = [
    ([1], [], ["show", "1"]),
    ([], [1], ["show", "1"]),
    ([], [1], ["show", "long"]),
    ([], [1], ["sessions"]),
    ([], [1], ["sessions", "--json"]),
    ([0], [], ["run", "-"]),
    ([0], [], ["sessions"]),
    ([0, 1, 2], [], ["show", "1"]),
    ([2], [], ["show", "9"]),
    ([], [2], ["show", "9"]),
    ([0, 1], [], ["delete", "--tenant", "default"]),
]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "1"], "No space left on device"),
        (["show", "long"], "No space left on device"),
        (["sessions"], "No space left on device"),
        (["sessions", "--json"], "Bad file descriptor"),
        (["process", "--help"], "No space left on device"),
        (["--version"], "Bad file descriptor"),
    ],
)
def test_output_that_nobody_takes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BYREF_DB", raising=False)
    with byref.Engine("sqlite:///byref.db") as engine:
        session = engine.session("cli")
        session.process("small", tool="t")
        session.store_artifact("line\n" * 10_000, name="long")
    place, flags = ("/dev/full", os.O_WRONLY) if "space" in why else (os.devnull, os.O_RDONLY)
    with os.fdopen(os.open(place, flags), "w") as taken, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", taken)
        assert main(words) == 1
    assert capsys.readouterr().err == f"byref: standard output cannot be written to: {why}\n"
    with os.fdopen(os.open(os.devnull, os.O_WRONLY), "r") as given, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", given)
        for reads in (["run", "-"], ["process", "-"]):
            assert main(reads) == 1
            assert capsys.readouterr().err == "byref: cannot read '-': Bad file descriptor\n"


@pytest.mark.slow
def test_closed_and_full_streams_are_told(tmp_path: Path) -> None:
    with byref.Engine(f"sqlite:///{tmp_path / 'byref.db'}") as engine:
        session = engine.session("cli")
        session.process("small", tool="t")
        session.store_artifact("line\n" * 10_000, name="long")
    ran = subprocess.run(
        [sys.executable, "-c", STREAMS, str(tmp_path), repr(CASES)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told: list[list[str]] = [[]]
    codes = []
    for line in ran.stderr.splitlines():
        if line.startswith("= "):
            codes.append(int(line[2:]))
            told.append([])
        else:
            told[-1].append(line)
    full, closed = (
        [f"byref: standard output cannot be written to: {why}"]
        for why in ("No space left on device", "Bad file descriptor")
    )
    assert told[:10] == [
        closed,
        full,
        full,
        full,
        full,
        ["byref: cannot read '-': Bad file descriptor"],
        [],
        [],
        [],
        [],
    ]
    assert len(told[10]) == 1 and "There is no terminal to ask at" in told[10][0]
    assert codes == [1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert (tmp_path / "byref.db").read_bytes().startswith(b"SQLite format 3\0"), "nothing was printed into it"


@pytest.mark.parametrize("words", [["process", "pipe"], ["gateway", "--config", "pipe"]])
def test_an_interrupt_ends_the_wait_for_a_pipe(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(paths, "PIPE_SECONDS", 30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert main(words) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("", "")


def test_a_name_that_is_no_utf_8_is_read_and_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"n\xff\x9bme")
    Path(name).write_bytes(b"in it")
    assert main(["process", name, "--tool", "t"]) == 0
    assert main(["process", f"{name}2"]) == 1
    assert main(["sessions", "--db", name]) == 1
    assert main(["sessions", "--db", f"{name}2"]) == 1
    told = capsys.readouterr()
    assert told.out == "in it\n" and told.err.count("\n") == 3 and "\\udcff" in told.err
    assert io.StringIO(told.err).read().encode()
