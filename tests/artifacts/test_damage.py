"""A read gives the stored bytes or an error, after one flipped bit, a torn write, a lost row or file, in every reader."""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard
from sqlalchemy import Engine as Database
from sqlalchemy import create_engine, text

from byref import ArtifactMissing, Engine, Policy, Session, ToolError
from byref.adapters.mcp import content
from byref.artifacts.tombstones import GONE
from byref.db.integrity import examine
from byref.stores import BlobStore, FileStore, ObjectStore, frames
from byref_sandbox import Sandbox, jsontext

ROWS = [{"id": i, "name": f"user {i}", "about": "x" * (i % 17)} for i in range(1_500)]
FRAME = 16_384
"""Bytes, instead of a mebibyte: five frames are read as soon as one."""
LINE = 1_100
"""In the fourth frame of five."""
MANY = 500
IN_PROCESSES = ("code", "table", "query")
CHEAP = ("read", "lines", "grep")
QUICK = ("read", "head", "first line", "lines", "last line", "resource's lines")


@dataclass
class Stored:
    """Records that are stored, and how their bytes are got at from outside."""

    engine: Engine
    url: str
    session: Session
    database: Database
    sandbox: Sandbox
    store: BlobStore | None
    files: Path | None
    given: dict[str, object] = field(default_factory=dict)
    """What each reader gave before there was damage."""

    @property
    def artifact(self) -> Any:
        """As it is now."""
        return self.session.artifacts()[0]

    def sql(self, statement: str, **given: object) -> list[dict[str, Any]]:
        """Run a statement past the engine; a query's rows."""
        with self.database.begin() as connection:
            done = connection.execute(text(statement), given)
            return [dict(row) for row in done.mappings()] if done.returns_rows else []

    def frames(self) -> list[dict[str, Any]]:
        """Rows of the payload, in their order."""
        return self.sql("SELECT * FROM byref_frames WHERE blob_id = :blob ORDER BY number", blob=self.blob)

    @property
    def blob(self) -> int:
        """The payload's."""
        return int(self.artifact.payload.blob_id)

    def write_frame(self, number: int, /, **columns: object) -> None:
        """Overwrite columns of a frame's row."""
        given = ", ".join(f"{name} = :{name}" for name in columns)
        self.sql(
            f"UPDATE byref_frames SET {given} WHERE blob_id = :blob AND number = :n",
            **columns,
            blob=self.blob,
            n=number,
        )

    def put_back(self, rows: list[dict[str, Any]]) -> None:
        """Have the payload the rows that it had."""
        self.sql("DELETE FROM byref_frames WHERE blob_id = :blob", blob=self.blob)
        for row in rows:
            names = ", ".join(row)
            self.sql(f"INSERT INTO byref_frames ({names}) VALUES ({', '.join(f':{name}' for name in row)})", **row)

    def file(self) -> Path:
        """The object's."""
        return Path(self.artifact.location)

    def whole(self) -> bytes:
        """The object."""
        assert self.store is not None
        return self.store.read(self.artifact.payload.key, 0, sum(row["object_bytes"] for row in self.frames()))

    def write_whole(self, data: bytes) -> None:
        """Put another object in its place."""
        assert self.store is not None
        self.store.write(self.artifact.payload.key, [data], content_type="application/json")

    def read(self, number: int) -> bytes:
        """What is stored of a frame."""
        row = self.frames()[number]
        if self.store is None:
            return bytes(row["data"])
        return self.whole()[row["object_offset"] :][: row["object_bytes"]]

    def write(self, number: int, data: bytes) -> None:
        """Put other bytes in the place of a frame's."""
        if self.store is None:
            self.write_frame(number, data=data)
        else:
            before, row = self.whole(), self.frames()[number]
            begin, end = row["object_offset"], row["object_offset"] + row["object_bytes"]
            self.write_whole(before[:begin] + data + before[end:])

    def forget(self) -> None:
        """Have the next run of code read what it names: no warm process holds it."""
        with self.sandbox._lock:
            self.sandbox._forget_sessions()

    def problems(self, *, deep: bool = False) -> tuple[Any, ...]:
        """What `verify` finds."""
        return examine(self.url, deep=deep, blobs=self.store).problems


def opened_store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore | None:
    if request.param == "files":
        return FileStore(tmp_path / "blobs")
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        return ObjectStore(f"s3://{server.bucket()}", **server.settings)
    return None


DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
IN_DATABASES = pytest.mark.parametrize("stored", DATABASES, indirect=True)


@pytest.fixture(params=[*DATABASES, "files", pytest.param("s3", marks=pytest.mark.slow)])
def stored(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    sandbox: Sandbox,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stored]:
    monkeypatch.setattr(frames, "FRAME_BYTES", FRAME)
    monkeypatch.setattr(frames, "_PIECE_BYTES", FRAME // 8)
    caplog.set_level(logging.CRITICAL, "byref")  # a record that is kept keeps the payload with it
    url = request.getfixturevalue("postgres_url" if request.param == "postgresql" else "sqlite_url")
    store = opened_store(request, tmp_path)
    engine = Engine(url, blobs=store, policy=Policy.variables(), interpreter=sandbox)
    tools = (*Policy.variables().tools, "artifact_sql", "get_artifact")
    session = engine.session("chat", context_window=200_000, tools=tools)
    session.process(ROWS, tool="get_users", arguments={"limit": 1_500}, call_id="first")
    database = create_engine(url)
    files = tmp_path / "blobs" if request.param == "files" else None
    made = Stored(engine, url, session, database, sandbox, store, files)
    assert len(made.frames()) == 5
    yield made
    database.dispose()
    engine.close()


def readers(stored: Stored) -> Mapping[str, Callable[[], object]]:
    """Each way to read the payload."""
    session, artifact = stored.session, stored.artifact

    def exported() -> bytes:
        session.export(artifact, written := io.BytesIO())
        return written.getvalue()

    def told(tool: str, **arguments: object) -> Callable[[], object]:
        return lambda: session.call(tool, {"artifact_id": artifact.id, **arguments}).text

    def code(program: str) -> Callable[[], object]:
        def run() -> object:
            stored.forget()
            outcome = session.run(program)
            assert outcome.error is None, outcome.error
            return outcome.value

        return run

    def queried() -> object:
        stored.forget()
        return session.call("artifact_sql", {"query": "SELECT sum(id), max(name), count(*) FROM $get_users"}).text

    def resource(of: str) -> Callable[[], object]:
        return lambda: content.read(session, f"byref://artifact/{artifact.id}{of}")

    return {
        "read": artifact.payload.read,
        "head": lambda: artifact.payload.head(FRAME * 2),
        "value": lambda: artifact.value,
        "variable": lambda: session.variable("get_users").value(),
        "resolve": lambda: session.resolve({"x": "$get_users"}),
        "part": lambda: session.resolve({"x": {"$var": "get_users", "jq": f".[{LINE}]"}}),
        "export": exported,
        "first line": told("artifact_read", start_line=1, end_line=1),
        "lines": told("artifact_read", start_line=LINE, end_line=LINE),
        "last line": told("artifact_read", start_line=1_500),
        "grep": told("artifact_grep", pattern=f"user {LINE - 2}\\b"),
        "jq": told("artifact_jq", expression=f".[{LINE - 2}] | tojson"),
        "resource": resource(""),
        "resource's lines": resource(f"/lines/{LINE}-{LINE + 2}"),
        "code": code("[get_users[0], get_users[-1], len(get_users), sum(row['id'] for row in get_users)]"),
        "table": code("[int(df('get_users').id.sum()), df('get_users').about.str.len().sum().item()]"),
        "query": queried,
    }


def wrong_answers(stored: Stored, names: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Readers that give something else than before, and those that give an error in words."""
    wrong: list[str] = []
    errors = list[str]()
    for name, read in readers(stored).items():
        if names and name not in names:
            continue
        try:
            given = read()
        except (ArtifactMissing, ToolError):
            errors.append(name)
            continue
        if isinstance(given, str) and given.startswith(GONE):
            assert given == f'{GONE}. Call get_users again with {{"limit":1500}} to have it again.'
            errors.append(name)
        elif given != stored.given.setdefault(name, given):
            wrong.append(f"{name}: {given!r:.200}")
    return wrong, errors


def flipped(data: bytes, random: Random) -> bytes:
    """One bit is another."""
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def torn(data: bytes, random: Random) -> bytes:
    """A write that was not finished: sectors of zeros, of something else, none, or those of another place."""
    begin = random.randrange(len(data))
    end = min(len(data), begin + random.choice([1, 512, 4096, len(data)]))
    filling = random.choice(
        [bytes(end - begin), random.randbytes(end - begin), b"", data[: end - begin], data[begin - 1 : end - 1]]
    )
    return data[:begin] + filling + data[end:]


def damaged(stored: Stored, times: int, random: Random) -> int:
    """Damage and mend one frame after the other; return how often a reader said so.

    What runs in a process of its own, made anew, takes longest: those readers take turns.
    """
    said = 0
    assert wrong_answers(stored) == ([], [])
    rows, whole = stored.frames(), None if stored.store is None else stored.whole()
    turns = cycle(IN_PROCESSES)
    for turn in range(times):
        for harm in (flipped, torn):
            names = (*readers(stored).keys() - set(IN_PROCESSES), next(turns))
            number = random.randrange(len(rows))
            before = stored.read(number)
            while (after := harm(before, random)) == before:
                pass
            stored.write(number, after)
            wrong, errors = wrong_answers(stored, names)
            assert not wrong, (harm.__name__, number, wrong)
            assert errors, (harm.__name__, number)
            assert not stored.artifact.payload.is_sound()
            assert turn % 50 or stored.problems() != ()
            said += len(errors)
            if whole is None:
                stored.write(number, before)
            else:
                stored.write_whole(whole)
    assert wrong_answers(stored) == ([], [])
    return said


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("times", "least"), [(2, 30), pytest.param(MANY, 14 * MANY, marks=pytest.mark.slow)])
def test_damage_is_an_error_and_never_an_answer(stored: Stored, times: int, least: int) -> None:
    assert damaged(stored, times, Random(3)) > least


def _first_deleted(stored: Stored) -> None:
    stored.sql("DELETE FROM byref_frames WHERE blob_id = :blob AND number = 0", blob=stored.blob)


def _deleted(number: int) -> Callable[[Stored], None]:
    return lambda stored: (
        stored.sql("DELETE FROM byref_frames WHERE blob_id = :blob AND number = :n", blob=stored.blob, n=number)
        and None
    )


def _renumbered(stored: Stored) -> None:
    """The first is gone, and the others say that they are one place before."""
    _first_deleted(stored)
    for number in range(1, 5):
        stored.write_frame(number, number=number - 1)


def _swapped(*columns: str) -> Callable[[Stored], None]:
    def swap(stored: Stored) -> None:
        one, other = stored.frames()[1:3]
        stored.write_frame(1, **{name: other[name] for name in columns})
        stored.write_frame(2, **{name: one[name] for name in columns})

    return swap


def _of_another(stored: Stored) -> None:
    """A frame of another artifact's, whole as it is, in the place of one."""
    other = stored.session.store_artifact([{**row, "id": row["id"] + 7} for row in ROWS], name="other")
    theirs = stored.sql("SELECT * FROM byref_frames WHERE blob_id = :blob ORDER BY number", blob=other.payload.blob_id)
    stored.write_frame(
        2, **{name: theirs[2][name] for name in ("data", "checksum", "size_bytes", "first_line", "byte_offset")}
    )


EVERYWHERE: dict[str, Callable[[Stored], None]] = {
    "no first frame": _first_deleted,
    "no frame in the middle": _deleted(3),
    "no last frame": _deleted(4),
    "no frame at all": lambda stored: stored.put_back([]),
    "frames one place before": _renumbered,
}
IN_SQL: dict[str, Callable[[Stored], None]] = {
    "nothing in a frame": lambda stored: stored.write(1, b""),
    "half of a frame": lambda stored: stored.write(3, stored.read(3)[:99]),
    "more than a frame": lambda stored: stored.write(3, stored.read(3) + b"x"),
    "a frame twice": lambda stored: stored.write(3, stored.read(2)),
    "frames swapped": _swapped("data"),
    "frames swapped with their checksums": _swapped("data", "checksum"),
    "frames swapped with all they say": _swapped(
        "data", "checksum", "byte_offset", "first_line", "size_bytes", "codec"
    ),
    "another artifact's frame": _of_another,
}


def _emptied(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _a_folder(path: Path) -> None:
    path.unlink()
    (path / "x").mkdir(parents=True)


def _linked(path: Path, to: Path) -> None:
    path.unlink()
    path.symlink_to(to)


def _zeros(path: Path) -> None:
    os.truncate(path, FRAME * 3)
    os.truncate(path, FRAME * 9)


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


IN_FILES: dict[str, Callable[[Path], None]] = {
    "no file": lambda path: path.unlink(),
    "an empty file": lambda path: os.truncate(path, 0),
    "a shorter file": lambda path: os.truncate(path, FRAME * 3),
    "zeros at the end": _zeros,
    "an empty folder": _emptied,
    "a folder": _a_folder,
    "a link to itself": lambda path: _linked(path, path),
    "a link to somewhere": lambda path: _linked(path, Path(__file__)),
    "a pipe": _a_pipe,
    "no folder": lambda path: shutil.rmtree(path.parent),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("names", [QUICK, pytest.param((), marks=pytest.mark.slow)], ids=["some", "all"])
def test_what_is_lost_is_an_error_and_comes_back(stored: Stored, names: tuple[str, ...]) -> None:
    assert wrong_answers(stored, names) == ([], [])
    harms: dict[str, Callable[[Stored], None]] = dict(EVERYWHERE)
    if stored.store is None:
        harms |= IN_SQL
    if stored.files is not None:
        harms |= {name: lambda stored, harm=harm: harm(stored.file()) for name, harm in IN_FILES.items()}
    for name, harm in harms.items():
        harm(stored)
        wrong, errors = wrong_answers(stored, names)
        assert not wrong and errors, (name, wrong)
        assert not stored.artifact.payload.is_sound(), name
        assert names or stored.problems() != (), name
        stored.session.process(ROWS, tool="get_users", arguments={"limit": 1_500}, call_id="first")
        assert wrong_answers(stored, names) == ([], []), name
        assert names or stored.problems(deep=True) == (), name
    stored.engine.sweep()
    assert stored.problems(deep=True) == ()


@pytest.mark.slow
def test_a_frame_in_another_place_is_no_answer(stored: Stored) -> None:
    """Its bytes are whole, but what the row says of them is not what was stored."""
    assert wrong_answers(stored) == ([], [])
    last = stored.frames()[-1]
    for column, value in (
        ("first_line", last["first_line"] + 1),
        ("byte_offset", last["byte_offset"] + 1),
        ("size_bytes", last["size_bytes"] - 1),
        ("codec", "none" if last["codec"] == "zstd" else "zstd"),
        ("checksum", bytes(8)),
    ):
        stored.write_frame(last["number"], **{column: value})
        assert wrong_answers(stored, ("read", "last line")) == ([], ["read", "last line"]), column
        stored.write_frame(last["number"], **{column: last[column]})
    assert wrong_answers(stored, CHEAP) == ([], [])


@IN_DATABASES
def test_bytes_that_were_forged_with_their_checksum_are_no_whole_payload(stored: Stored) -> None:
    """Whoever reads on learns that the bytes do not become what the frame's row says."""
    payload, row, packed = stored.artifact.payload, stored.frames()[3], stored.read(3)
    last = stored.frames()[4]["first_line"]
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 26))
    for forged in (packed[: len(packed) // 2], packed[:5], b"", zstandard.compress(bytes(1 << 26)), bomb):
        place = row["number"], row["byte_offset"], row["first_line"], row["size_bytes"], row["codec"]
        stored.write_frame(3, data=forged, checksum=frames.checksum(payload.key, *place, forged))
        reads = [lambda line=line: list(payload.chunks(line)) for line in range(row["first_line"], last + 1, 50)]  # type: ignore[misc]
        for read in (*reads, payload.read, lambda: list(payload.span(row["byte_offset"], row["byte_offset"] + 1))):
            with pytest.raises(ArtifactMissing, match="is damaged: frame 3"):
                read()


def test_the_same_output_again_mends_what_is_damaged(stored: Stored) -> None:
    random = Random(11)
    other = stored.engine.session("other", context_window=200_000)
    assert wrong_answers(stored, CHEAP) == ([], [])

    def again(session: Session, call_id: str) -> object:
        return session.process(ROWS, tool="get_users", arguments={"limit": 1_500}, call_id=call_id).artifacts[0].value

    ways: dict[str, Callable[[], object]] = {
        "the same call": lambda: again(stored.session, "first"),
        "another call": lambda: again(stored.session, "second"),
        "another session": lambda: again(other, "first"),
        "the host": lambda: other.store_artifact(ROWS).value,
        "a stream": lambda: other.process(iter(ROWS), tool="get_users").artifacts[0].value,
    }
    for way, store in ways.items():
        stored.write(1, flipped(stored.read(1), random))
        assert store() == ROWS, way
        assert stored.artifact.value == ROWS, way
        assert wrong_answers(stored, CHEAP) == ([], []), way
    assert stored.problems(deep=True) == ()


def test_frames_without_a_checksum_are_compared_and_get_theirs(
    stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "byref")
    assert wrong_answers(stored, CHEAP) == ([], [])
    number = len(stored.frames()) - 1
    stored.write_frame(0, checksum=None)
    stored.write_frame(number, checksum=None)
    before = stored.read(number)
    stored.write(number, flipped(before, Random(1)))
    assert wrong_answers(stored, ("read", "last line")) == ([], ["read", "last line"])
    assert stored.problems()
    assert all(frame["checksum"] is None for frame in stored.frames() if frame["number"] in (0, number))
    stored.write(number, before)
    assert wrong_answers(stored, ("last line",)) == ([], [])
    assert all(frame["checksum"] is not None for frame in stored.frames())
    assert "gave its frames checksums" in caplog.text


def test_what_has_no_checksums_and_cannot_get_them_is_compared_once(stored: Stored) -> None:
    """As where the database is read-only."""
    stored.sql("UPDATE byref_frames SET checksum = NULL")
    asked = []
    read = stored.artifact.payload.source.read
    source = replace(stored.artifact.payload.source, read=lambda work: asked.append(1) or read(work), write=None)
    payload = replace(stored.artifact.payload, source=source)
    whole = payload.read()
    once = len(asked)
    assert jsontext.decode(whole) == ROWS and payload.read() == whole and len(asked) - once < once
    assert all(frame["checksum"] is None for frame in stored.frames())
    stored.write(4, flipped(stored.read(4), Random(2)))
    for each in (payload, replace(payload, compared={})):
        with pytest.raises(ArtifactMissing):
            each.read()


@pytest.mark.slow
def test_what_a_warm_process_holds_is_what_was_stored(stored: Stored) -> None:
    """It was read before the damage, or it is not there: a run that failed leaves nothing of it."""
    program, session = "[len(get_users), get_users[-1], int(df(get_users).id.sum())]", stored.session
    given = session.run(program).value
    before = stored.read(4)
    stored.write(4, flipped(before, Random(7)))
    assert session.run(program).value == given
    stored.forget()
    for _ in range(2):
        with pytest.raises(ToolError, match=GONE):
            session.run(program)
    assert session.run("1 + 1").value == 2
    stored.write(4, before)
    assert session.run(program).value == given


@IN_DATABASES
def test_a_name_whose_data_is_damaged_is_there_for_code(stored: Stored) -> None:
    """And for tools again, once code has changed it."""
    session = stored.session
    session.run("rows = [{'n': n} for n in range(2000)]")
    blob = session.variable("rows").artifact.payload.blob_id
    stored.sql("UPDATE byref_frames SET data = :data WHERE blob_id = :blob", data=b"x", blob=blob)
    stored.forget()
    assert session.run("len(rows)").value == 2000
    count = {"artifact_id": "rows", "expression": "length"}
    assert session.call("artifact_jq", count).content.startswith(f"{GONE}. ")
    session.run("rows.append(1)")
    assert session.call("artifact_jq", count).content == "2001"


@IN_DATABASES
@pytest.mark.parametrize("path", ["[1", "[7]"])
def test_a_variable_whose_path_is_damaged_is_an_error_only_where_it_is_asked_for(stored: Stored, path: str) -> None:
    session = stored.session
    session.process({"rows": ROWS, "total": len(ROWS)}, tool="list_rows")
    stored.sql("UPDATE byref_variables SET path = :path WHERE name = 'rows'", path=path)
    assert {one.name for one in session.variables()} == {"get_users", "list_rows"}
    assert session.run("[len(get_users), list_rows['total'], list_rows['rows'][-1]['id']]").value == [1500, 1500, 1499]
    with pytest.raises(ArtifactMissing, match="'rows' is damaged"):
        session.variable("rows")
    asked: dict[str, Callable[[], object]] = {
        "code": lambda: session.run("len(rows)"),
        "a reference": lambda: session.resolve({"x": "$rows"}),
    }
    for ask in asked.values():
        with pytest.raises(ToolError, match=f"{GONE}. Call list_rows again"):
            ask()
    for tool, arguments in {
        "artifact_jq": {"artifact_id": "rows", "expression": "length"},
        "artifact_sql": {"query": "SELECT 1 FROM $rows"},
        "code_interpreter": {"code": "rows[0]"},
    }.items():
        assert session.call(tool, arguments).content.startswith(f"{GONE}. Call list_rows again"), tool


@IN_DATABASES
@pytest.mark.parametrize("name", ["a\x1fb", "", "7"])
def test_a_variable_whose_name_is_damaged_is_left_out(stored: Stored, name: str) -> None:
    session = stored.session
    session.process({"rows": ROWS, "total": len(ROWS)}, tool="list_rows")
    stored.sql("UPDATE byref_variables SET name = :name WHERE name = 'list_rows'", name=name)
    assert {one.name for one in session.variables()} == {"get_users", "rows"}
    assert "the data is in: get_users, rows" in session.call("code_interpreter", {"code": "open('none.txt')"}).content
    assert "rows (array(1500)" in session.call("code_interpreter", {"code": "missing"}).content
    assert session.run("[len(get_users), len(rows)]").value == [1500, 1500]
    assert [(one.check, one.table) for one in stored.problems()] == [("name", "byref_variables")]


@pytest.mark.slow
def test_a_damaged_image_is_told_wherever_it_is_shown(stored: Stored) -> None:
    session = stored.session
    program = {"code": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n'drawn'"}
    reply = session.call("code_interpreter", program, call_id="drawn")
    assert [block["type"] for block in reply.content] == ["text", "image"]
    plot = session.get_artifact("plot_1")
    assert plot is not None
    key, blob = plot.payload.key, plot.payload.blob_id
    if stored.store is None:
        stored.sql("UPDATE byref_frames SET data = :data WHERE blob_id = :blob", data=b"x", blob=blob)
    else:
        stored.store.write(key, [b"\x89PNG".ljust(plot.payload.size)], content_type="image/png")
    again = session.call("code_interpreter", program, call_id="drawn")
    assert (
        again.text.startswith(reply.content[0]["text"])
        and f"[plot_1: {GONE}. Call code_interpreter again" in again.text
    )
    for read in (lambda: plot.value, lambda: session.export(plot, io.BytesIO())):
        with pytest.raises(ArtifactMissing):
            read()
    with pytest.raises(ToolError, match=GONE):
        session.resolve({"x": plot.id})
    with pytest.raises(ArtifactMissing):
        content.read(session, f"byref://artifact/{plot.id}")
    shown = session.call("get_artifact", {"artifact_id": plot.id}) if session.owns("get_artifact") else None
    assert shown is None or (shown.is_error and shown.text.startswith(GONE))
