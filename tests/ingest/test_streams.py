"""Outputs that come piece by piece are one output, judged at its end."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from material import prose, records

from byref import AsyncEngine, ConfigurationError, Engine, Policy, Session
from byref_sandbox import Sandbox

TEXT = prose(60_000)


def pieces(whole: Any, size: int = 600) -> Iterator[Any]:
    for at in range(0, len(whole), size):
        yield whole[at : at + size]


def test_a_stream_is_the_output_that_it_gives(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(TEXT)
    first = session.process(TEXT, tool="t", call_id="c")
    with path.open() as text, path.open("rb") as data:
        streams: list[Any] = [
            pieces(TEXT),
            pieces(TEXT.encode()),
            text,
            data,
            io.StringIO(TEXT),
            io.BytesIO(TEXT.encode()),
        ]
        for stream in streams:
            again = session.process(stream, tool="t", call_id="c")
            assert (again.step, again.content) == (first.step, first.content)
    assert len(session.ledger()) == 1


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_sixty_kilobytes_in_a_hundred_pieces_are_one_artifact(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy.pointers())
    result = session.process(pieces(TEXT), tool="t")
    [artifact] = session.artifacts()
    assert result.route == "artifact"
    assert artifact.value == TEXT
    assert len(session.ledger()) == 1


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_a_stream_that_fails_midway_leaves_nothing(session: Session) -> None:
    def failing() -> Iterator[str]:
        yield TEXT
        raise ConnectionError("the line is dead")

    with pytest.raises(ConnectionError, match="the line is dead"):
        session.process(failing(), tool="t")
    with pytest.raises(ConnectionError):
        session.store_artifact(failing())
    assert (session.ledger(), session.artifacts()) == ([], [])


def test_records_are_no_stream_of_text(session: Session) -> None:
    assert session.process(iter(records(2)), tool="t").content == session.process(records(2), tool="t").content
    assert session.process(iter([]), tool="t").content == "[]"
    assert session.process((i * i for i in range(3)), tool="t").content == "[0,1,4]"

    def failing(after: int) -> Iterator[dict[str, int]]:
        for i in range(after):
            yield {"id": i}
        raise ConnectionError

    for after in (0, 1):
        assert session.process(failing(after), tool="t").text == "[generator could not be read: ConnectionError]"


def test_json_in_pieces_is_structured(session: Session) -> None:
    result = session.process(
        pieces(b'[{"id": 1, "name": "a"},' + b'{"id": 2, "name": "b"},' * 5_000 + b'{"id": 3}]'), tool="rows"
    )
    assert result.route == "variables"
    assert session.call("code_interpreter", {"code": "len(rows)"}).content == "5002"


def test_files_of_libraries_are_streams(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    with gzip.open(path) as unpacked:
        assert session.store_artifact(unpacked, name="log").value == TEXT
    assert session.store_artifact(pieces(b"\x89PNG\r\n\x1a\n" + b"\1" * 1000)).kind == "image"


def test_an_endless_stream_is_cut(engine: Engine, tenant: str) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "line after line\n"

    session = engine.session("s", tenant=tenant, policy=Policy(max_artifact_bytes=100_000))
    result = session.process(endless(), tool="t")
    assert "[The stream was cut after 100,000 bytes; what followed was not read.]" in result.text


def test_pieces_of_text_and_bytes_are_not_mixed(session: Session) -> None:
    with pytest.raises(ConfigurationError, match="a piece of type 'bytes'"):
        session.process(iter(["a", b"b"]), tool="t")


def test_asynchronous_streams(sandbox: Sandbox) -> None:
    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces(TEXT.encode()):
            await asyncio.sleep(0)
            yield piece

    async def failing() -> AsyncIterator[str]:
        yield TEXT
        raise ConnectionError

    async def main() -> None:
        async with AsyncEngine("sqlite:///:memory:", interpreter=sandbox) as engine:
            session = await engine.session("s")
            streamed = await session.process(arriving(), tool="t")
            assert streamed.variables[0].value() == TEXT == streamed.content
            assert (
                f"identical to the output of step {streamed.step}." in (await session.process(TEXT, tool="t")).content
            )
            stored = await session.store_artifact(arriving(), name="log")
            assert await session.value(stored) == TEXT
            with pytest.raises(ConnectionError):
                await session.process(failing(), tool="t")
            assert len(await session.ledger()) == 2

    asyncio.run(main())
