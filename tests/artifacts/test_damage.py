"""What is read is what was stored, or an error: one flipped bit, a torn write, whichever reader meets it."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine as Database
from sqlalchemy import create_engine, text

from byref import ArtifactMissing, Engine, Policy, Session, ToolError
from byref.artifacts.tombstones import GONE
from byref.db.integrity import examine
from byref.stores import FileStore

ROWS = [{"id": i, "name": f"user {i}", "about": "x" * (i % 17)} for i in range(25_000)]
LINE = 24_000
"""In the second frame of two."""
MANY = 500


@dataclass
class Stored:
    """Records that are stored, and how their bytes are got at from outside."""

    engine: Engine
    url: str
    session: Session
    database: Database
    files: Path | None
    given: dict[str, object] = field(default_factory=dict)
    """What each reader gave before there was damage."""

    @property
    def artifact(self) -> Any:
        """As it is now."""
        return self.session.artifacts()[0]

    def frames(self) -> list[dict[str, Any]]:
        """Rows of the payload, in their order."""
        with self.database.connect() as connection:
            rows = connection.execute(text("SELECT * FROM byref_frames ORDER BY number")).mappings()
            return [dict(row) for row in rows]

    def write_frame(self, number: int, **columns: object) -> None:
        """Overwrite columns of a frame's row."""
        given = ", ".join(f"{name} = :{name}" for name in columns)
        with self.database.begin() as connection:
            connection.execute(text(f"UPDATE byref_frames SET {given} WHERE number = :n"), {**columns, "n": number})

    def file(self) -> Path:
        """The object's."""
        assert self.files is not None
        return max((path for path in self.files.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)

    def read(self, number: int) -> bytes:
        """What is stored of a frame."""
        row = self.frames()[number]
        if self.files is None:
            return bytes(row["data"])
        return self.file().read_bytes()[row["object_offset"] :][: row["object_bytes"]]

    def write(self, number: int, data: bytes) -> None:
        """Put other bytes in the place of a frame's."""
        if self.files is None:
            self.write_frame(number, data=data)
        else:
            before, path, row = self.file().read_bytes(), self.file(), self.frames()[number]
            begin, end = row["object_offset"], row["object_offset"] + row["object_bytes"]
            path.chmod(0o600)
            path.write_bytes(before[:begin] + data + before[end:])


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow), "files"])
def stored(
    request: pytest.FixtureRequest, tmp_path: Path, shared_sandbox: None, caplog: pytest.LogCaptureFixture
) -> Iterator[Stored]:
    caplog.set_level(logging.CRITICAL, "byref")  # a record that is kept keeps the payload with it
    url = request.getfixturevalue("postgres_url" if request.param == "postgresql" else "sqlite_url")
    files = tmp_path / "blobs" if request.param == "files" else None
    store = None if files is None else FileStore(files)
    engine = Engine(url, blobs=store, policy=Policy.variables())
    session = engine.session("chat", context_window=200_000)
    session.process(ROWS, tool="get_users", arguments={"limit": 25_000}, call_id="first")
    database = create_engine(url)
    made = Stored(engine, url, session, database, files)
    assert wrong_answers(made) == ([], 0) and made.given["value"] == ROWS
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

    return {
        "read": artifact.payload.read,
        "value": lambda: artifact.value,
        "resolve": lambda: session.resolve({"x": "$get_users"}),
        "export": exported,
        "lines": told("artifact_read", start_line=LINE, end_line=LINE),
        "grep": told("artifact_grep", pattern=f"user {LINE - 2}\\b"),
        "jq": told("artifact_jq", expression=f".[{LINE - 2}] | tojson"),
    }


def wrong_answers(stored: Stored, names: Collection[str] = ()) -> tuple[list[str], int]:
    """Readers that give something else than before, and how many give an error in words."""
    wrong: list[str] = []
    errors = 0
    for name, read in readers(stored).items():
        if names and name not in names:
            continue
        try:
            given = read()
        except (ArtifactMissing, ToolError):
            errors += 1
            continue
        if isinstance(given, str) and given.startswith(GONE):
            assert given == f'{GONE}. Call get_users again with {{"limit":25000}} to have it again.'
            errors += 1
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


def damaged(stored: Stored, times: int, random: Random, names: tuple[str, ...] = ()) -> int:
    """Damage and mend one frame after the other; return how often a reader said so."""
    said = 0
    for turn in range(times):
        for harm in (flipped, torn):
            number = random.randrange(len(stored.frames()))
            before = stored.read(number)
            after = harm(before, random)
            if after == before:
                continue
            whole = None if stored.files is None else stored.file().read_bytes()
            stored.write(number, after)
            wrong, errors = wrong_answers(stored, () if (turn, harm) == (0, flipped) else names)
            assert not wrong, (harm.__name__, number, wrong)
            assert errors >= 1, (harm.__name__, number)
            assert examine(stored.url, blobs=FileStore(stored.files) if stored.files else None).problems
            said += errors
            if whole is None:
                stored.write(number, before)
            else:
                stored.file().write_bytes(whole)
    assert wrong_answers(stored) == ([], 0)
    return said


def test_damage_is_an_error_and_never_an_answer(stored: Stored) -> None:
    assert damaged(stored, 2, Random(3), ("read", "lines", "grep")) > 8


@pytest.mark.slow
def test_damage_is_an_error_and_never_an_answer_many_times(stored: Stored) -> None:
    assert damaged(stored, MANY, Random(5), ("read", "value", "resolve", "lines", "grep", "jq")) > 2 * MANY


def test_a_frame_in_another_place_is_no_answer(stored: Stored) -> None:
    """Its bytes are whole, but what the row says of them is not what was stored."""
    last = stored.frames()[-1]
    for column, value in (
        ("first_line", last["first_line"] + 1),
        ("byte_offset", last["byte_offset"] + 1),
        ("size_bytes", last["size_bytes"] - 1),
        ("codec", "none" if last["codec"] == "zstd" else "zstd"),
        ("checksum", bytes(8)),
    ):
        stored.write_frame(last["number"], **{column: value})
        wrong, errors = wrong_answers(stored, ("read", "lines"))
        assert (wrong, errors) == ([], 2), column
        stored.write_frame(last["number"], **{column: last[column]})
    assert wrong_answers(stored, ("read", "lines")) == ([], 0)


def test_the_same_output_again_mends_what_is_damaged(stored: Stored) -> None:
    random = Random(11)
    other = stored.engine.session("other", context_window=200_000)

    def again(session: Session, call_id: str) -> object:
        return session.process(ROWS, tool="get_users", arguments={"limit": 25_000}, call_id=call_id).artifacts[0].value

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
        assert wrong_answers(stored, ("read", "lines", "grep")) == ([], 0), way
    assert not examine(stored.url, deep=True, blobs=FileStore(stored.files) if stored.files else None).problems


def test_frames_without_a_checksum_are_compared_and_get_theirs(
    stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "byref")
    number = len(stored.frames()) - 1
    stored.write_frame(0, checksum=None)
    stored.write_frame(number, checksum=None)
    before = stored.read(number)
    stored.write(number, flipped(before, Random(1)))
    assert wrong_answers(stored, ("read", "lines")) == ([], 2)
    assert examine(stored.url, blobs=FileStore(stored.files) if stored.files else None).problems
    assert all(frame["checksum"] is None for frame in stored.frames() if frame["number"] in (0, number))
    stored.write(number, before)
    assert wrong_answers(stored, ("lines",)) == ([], 0)
    assert all(frame["checksum"] is not None for frame in stored.frames())
    assert "gave its frames checksums" in caplog.text
