"""An output that comes piece by piece is one output, judged at its end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from material import prose, records

from byref import ConfigurationError, Session

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


@pytest.mark.parametrize(
    ("items", "content"),
    [
        (["2 hits", "", {"id": 1}, "the end", {"id": 2}], '["2 hits","",{"id":1},"the end",{"id":2}]'),
        (["a", None], '["a",null]'),
        ([b"a", 1, "b"], '["YQ==",1,"b"]'),
    ],
)
def test_text_that_records_follow_is_one_of_them(session: Session, items: list[object], content: str) -> None:
    assert session.process(iter(items), tool="t").content == content
    assert session.process((item for item in items), tool="t").content == content


def test_pieces_of_text_and_bytes_are_not_mixed(session: Session) -> None:
    with pytest.raises(ConfigurationError, match="a piece of type 'bytes'"):
        session.process(iter(["a", b"b"]), tool="t")
