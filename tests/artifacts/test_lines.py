from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payloads import Memory, sed

from byref.artifacts import lines
from byref.artifacts.lines import Page, behind, read_lines
from byref.errors import ToolError


def contents(page: Page) -> list[str]:
    """The text of each row, without numbers and without the note on how to go on."""
    rows = page.text.split("\n\n[INCOMPLETE: cut ")[0].split("\n")
    return [row.partition("| ")[2] for row in rows]


def test_numbered_lines():
    page = read_lines(Memory(b"alpha\nbeta\n\ngamma"), max_chars=1_000)
    assert page.text == "   1| alpha\n   2| beta\n   3| \n   4| gamma"
    assert page == Page(page.text, 1, 4, None, 1, 4)


def test_numbers_are_aligned_over_all_pages_of_an_artifact():
    payload = Memory(b"x\n" * 14_020)
    assert read_lines(payload, 9, 10, max_chars=1_000).text == "      9| x\n     10| x"
    assert read_lines(payload, 14_020, max_chars=1_000).text == "  14020| x"


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\r\r\n", ["a\rb\r"]),
        (b"\r\n\r", ["", ""]),
        ("a\u2028b\x0bc\x0cd\x85\x1ce".encode(), ["a\u2028b\x0bc\x0cd\x85\x1ce"]),
        (b"a\0b\n\xff\xfe\n\xed\xa0\x80", ["a\ufffdb", "\ufffd\ufffd", "\ufffd" * 3]),
        ("\ufeffé\n中".encode(), ["\ufeffé", "中"]),
    ],
)
@pytest.mark.parametrize("frame", [1, 2, 3, 1 << 20])
def test_what_a_line_is(data, lines, frame):
    page = read_lines(Memory(data, frame), max_chars=1_000)
    assert (contents(page), page.last, page.next_line) == (lines, len(lines), None)


TEN = Memory("\n".join(f"line {i}" for i in range(1, 11)).encode(), frame=16)


def test_ranges_are_inclusive():
    assert contents(read_lines(TEN, 2, 4, max_chars=1_000)) == ["line 2", "line 3", "line 4"]
    assert contents(read_lines(TEN, 10, 10, max_chars=1_000)) == ["line 10"]
    assert contents(read_lines(TEN, 9, 99, max_chars=1_000)) == ["line 9", "line 10"]


@pytest.mark.parametrize(
    ("start", "end", "column", "message"),
    [
        (0, None, 1, "line 0: lines are numbered from 1"),
        (-3, 4, 1, "line -3"),
        (5, 4, 1, "the last line, 4, is before the first, 5"),
        (1, 0, 1, "the last line, 0, is before the first, 1"),
        (11, None, 1, "line 11 is past the end: there are 10 lines"),
        (11, 12, 1, "past the end"),
        (10**30, None, 1, "past the end"),
        (1, None, 0, "start_column=0"),
        (3, None, 7, "start_column=7 is past the end of line 3"),
        (10, None, 10**30, "past the end of line 10"),
    ],
)
def test_ranges_that_are_not_there_are_explained(start, end, column, message):
    with pytest.raises(ToolError, match=message):
        read_lines(TEN, start, end, column=column, max_chars=1_000)


def test_an_empty_artifact_has_no_lines():
    with pytest.raises(ToolError, match="the artifact is empty"):
        read_lines(Memory(b""), max_chars=1_000)


def test_a_page_must_hold_something():
    with pytest.raises(ValueError, match="180 or more"):
        read_lines(TEN, max_chars=179)


def test_a_cut_between_lines_says_how_to_go_on():
    page = read_lines(Memory(b"0123456789\n" * 100), 1, 90, max_chars=300)
    assert page.text.endswith(
        "    7| 0123456789\n\n[INCOMPLETE: cut before line 8 of 100. Go on with start_line=8, end_line=90.]"
    )
    assert (page.first, page.last, page.next_line, page.next_column) == (1, 7, 8, 1)
    beyond = read_lines(Memory(b"0123456789\n" * 100), 1, 10**100, max_chars=300)
    assert beyond.text.endswith("[INCOMPLETE: cut before line 8 of 100. Go on with start_line=8, end_line=100.]")


def test_a_cut_inside_a_line_says_how_to_go_on():
    data = b"short\n" + bytes(range(97, 123)) * 100
    page = read_lines(Memory(data), max_chars=300)
    assert (page.last, page.next_line) == (2, 2)
    assert page.text.endswith(f"Go on with start_line=2, start_column={page.next_column}.]")
    following = read_lines(Memory(data), 2, column=page.next_column, max_chars=300)
    assert (contents(page)[1] + contents(following)[0]).encode() == data[6 : 6 + following.next_column - 1]


def test_a_line_that_fits_into_a_page_is_not_cut():
    page = read_lines(Memory(b"a" * 70 + b"\n" + b"b" * 120 + b"\nc"), max_chars=300)
    assert (contents(page), page.next_line, page.next_column) == (["a" * 70], 2, 1)


@settings(max_examples=settings.default.max_examples * 2)
@given(
    lines=st.lists(
        st.one_of(
            st.text(st.sampled_from("ab é中😀\u2028\t"), max_size=30),
            st.integers(100, 1_500).map(lambda n: "é中x" * (n // 3)),
        ),
        min_size=1,
        max_size=25,
    ),
    frame=st.sampled_from([3, 64, 500, 1 << 20]),
    max_chars=st.integers(200, 2_000),
    newline=st.booleans(),
)
def test_pages_put_together_are_the_artifact(lines, frame, max_chars, newline):
    data = "\n".join(lines).encode() + b"\n" * newline
    payload = Memory(data, frame)
    expected = lines if newline or lines[-1] else lines[:-1]
    read: dict[int, str] = {}
    at, column = 1, 1
    for _ in range(2_000):
        if not expected:
            break
        page = read_lines(payload, at, column=column, max_chars=max_chars)
        assert len(page.text) <= max_chars
        rows = contents(page)
        assert [page.first, page.total_lines] == [at, len(expected)]
        assert page.last - page.first + 1 == len(rows)
        for number, text in enumerate(rows, at):
            read[number] = read.get(number, "") + text
        if page.next_line is None:
            break
        assert (page.next_line, page.next_column) > (at, column)
        at, column = page.next_line, page.next_column
    assert list(read.values()) == expected


@pytest.mark.parametrize(("first", "last"), [(45, 55), (1, 1), (998, 1_003), (3_000, 3_000)])
def test_sed_prints_the_same_lines(first, last):
    data = "".join(
        f"row {i}: né {i * i}\r\n" if i % 3 else f"row {i}\x0b\x0c\u2028\n" for i in range(1, 3_001)
    ).encode()
    page = read_lines(Memory(data, 1_000), first, last, max_chars=10_000)
    assert page.text.split("\n") == [f"{number:6}| {text}" for number, text in enumerate(sed(data, first, last), first)]


def test_only_the_frames_that_are_needed_are_read():
    payload = Memory(b"0123456789abcde\n" * (1 << 20))
    read_lines(payload, 1_000_000, 1_000_010, max_chars=2_000)
    assert len(payload.read) <= 2
    payload = Memory(b"x" * (16 << 20) + b"\nlast")
    page = read_lines(payload, max_chars=2_000)
    assert len(payload.read) == 1
    assert page.next_column > 1_500
    assert contents(read_lines(payload, 2, max_chars=2_000)) == ["last"]
    deep = read_lines(payload, 1, column=(16 << 20) - 10, max_chars=2_000)
    assert contents(deep) == ["x" * 11, "last"]


@pytest.mark.slow
@given(st.lists(st.sampled_from([b"", b"a", b"longer", b"\r"]), max_size=30), st.integers(0, 32), st.integers(1, 9))
@settings(max_examples=300)
def test_where_a_line_begins(rows: list[bytes], feeds: int, stride: int) -> None:
    data = b"\n".join(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_STRIDE", stride)
        found = behind(data, feeds)
    expected = None if data.count(b"\n") < feeds else len(data) - len(data.split(b"\n", feeds)[-1])
    assert found == expected
