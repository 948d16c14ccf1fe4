"""The scan of a stream gives the same description as reading all of it."""

from __future__ import annotations

import codecs
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byref.content import to_block
from byref.describe.rows import Rows
from byref.describe.schema import TooDeep, infer
from byref.describe.shape import kind_of, shape
from byref.jsonscan import Scanned, Scanner, sizes

CHUNKS = st.sampled_from([1, 3, 7, 64, 1_000, 1 << 20])


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """So that documents of some hundred bytes are read slice by slice."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {
            "BLOCK": 32,
            "END": 24,
            "TEXT_END": 50,
            "SAMPLE": 8,
            "SAMPLES": 9,
            "ITEM_SAMPLES": 4,
        }.items():
            patch.setattr(sizes, name, size)
        yield


def scan(data: bytes, chunk: int = 1 << 20) -> Scanned:
    scanner = Scanner()
    for at in range(0, len(data), chunk):
        scanner.feed(data[at : at + chunk])
    return scanner.finish()


def written(value: object) -> str:
    """The value's text, which tells NaN from NaN and 1 from 1.0."""
    return json.dumps(value)


def check(data: bytes, chunk: int) -> Scanned:
    """Scan the data and compare all that is said of it with what the whole says."""
    scanned = scan(data, chunk)
    block = to_block(data)
    value, problem, schema = block.parsed[1], block.parse_error, None
    if problem is None:
        try:
            schema = infer(value, plain=True)
        except TooDeep as error:
            value, problem = None, str(error)
    assert scanned.parse_error == problem
    assert (scanned.size, scanned.lines, scanned.lossy) == (len(data), block.line_count, block.lossy)
    text = block.text
    assert (scanned.text.characters, scanned.text.size) == (len(text), block.size)
    assert (scanned.text.head, scanned.text.tail) == (text[: sizes.TEXT_END], text[-sizes.TEXT_END :])
    if schema is None:
        assert scanned.schema is None and scanned.value is None
        return scanned
    assert scanned.schema is not None
    assert scanned.schema.folded == schema.folded
    assert scanned.schema.fitted(500, len) == schema.fitted(500, len)
    if schema.folded:
        assert scanned.schema.fitted(1_000_000, len) == schema.fitted(1_000_000, len)
    else:
        assert written(scanned.schema.full()) == written(schema.full())
    same(scanned.value, value)
    if type(value) is dict:
        assert list(scanned.value) == list(value)  # type: ignore[call-overload]
        for key, member in value.items():
            same(scanned.value[key], member)  # type: ignore[index]
    assert shape(scanned.value) == shape(value)
    return scanned


def same(found: Any, value: Any) -> None:
    if type(found) is Rows:
        assert len(found) == len(value) > len(found.head) + len(found.tail)
        assert found.head and found.tail and found.samples
        assert written(found.head) == written(value[: len(found.head)])
        assert written(found.tail) == written(value[-len(found.tail) :])
        assert kind_of(found) == kind_of(value)
    elif type(value) is not dict:
        assert written(found) == written(value)


TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["\\", '\\"', '"', "a\\\\", "[", "],[", '{"a":', "é" * 20, "\ud800", "\U0001f600" * 9, "\x00\n\r"]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([2**64, -(10**40)]), st.floats(width=32), TEXTS
)
INNER = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
ARRAYS = st.one_of(
    st.lists(INNER, max_size=30),
    st.builds(lambda items, times: items * times, st.lists(INNER, max_size=4), st.sampled_from([10, 60])),
    st.builds(lambda item, n: [{f"k{i + j}": item for j in range(35)} for i in range(n)], INNER, st.integers(1, 12)),
)
OBJECTS = st.one_of(
    st.dictionaries(TEXTS, st.one_of(INNER, ARRAYS), max_size=8),
    st.builds(lambda values: {f"key {i}": value for i, value in enumerate(values)}, st.lists(ARRAYS, max_size=45)),
)
DOCUMENTS = st.builds(
    lambda value, ascii, style: json.dumps(value, ensure_ascii=ascii, **style).encode("utf-8", "replace"),
    st.one_of(ARRAYS, OBJECTS),
    st.booleans(),
    st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"indent": "\r\n\t"}]),
)
RANDOM = settings(max_examples=settings.default.max_examples * 2 // 5)


@given(DOCUMENTS, CHUNKS)
@RANDOM
def test_documents(data: bytes, chunk: int) -> None:
    check(data, chunk)


PIECES = st.sampled_from(
    [
        b",",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\",
        b":",
        b" ",
        b"\n",
        b"0",
        b"-",
        b"NaN",
        b"e9",
        b"\xff",
        b"\xc3",
        b"nul",
        b",,",
    ]
)


@given(DOCUMENTS, CHUNKS, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), PIECES), min_size=1, max_size=3))
@RANDOM
def test_documents_with_mistakes(data: bytes, chunk: int, mistakes: list[tuple[float, int, bytes]]) -> None:
    for where, left_out, put_in in mistakes:
        at = int(where * len(data))
        data = data[:at] + put_in + data[at + left_out :]
    if not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        check(data, chunk)


@given(DOCUMENTS, CHUNKS, st.floats(0, 1))
@RANDOM
def test_documents_cut_off(data: bytes, chunk: int, where: float) -> None:
    check(data[: int(where * len(data))], chunk)


@given(st.one_of(st.binary(max_size=400), st.text(max_size=400).map(str.encode)), CHUNKS)
@example(b"\xe2\x82" * 40, 7)
@example("€".encode() * 30 + b"\xe2\x82", 1)
@RANDOM
def test_texts(data: bytes, chunk: int) -> None:
    if not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        check(data, chunk)


RECORDS = ",".join(f'{{"id": {i}, "name": "user {i}"}}' for i in range(60))


@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "{}",
        " \n\t[1]\r\n ",
        "\ufeff[1, 2]",
        "\ufeff\n" + f"[{RECORDS}, x]",
        "\ufeff\ufeff[1]",
        " " * 4_095 + "[1]",
        " " * 4_096 + "[1]",
        "[1,2]" + " " * 500 + "\nx",
        f"[{RECORDS}]]",
        f"[{RECORDS},]",
        f"[{RECORDS}}}",
        f"[{RECORDS}",
        f"[{RECORDS}, NaN, -Infinity, 1e999, {10**30}, {'9' * 5_000}, -0, -0.0]",
        f'["\\ud800", "\\udc00\\ud800", {RECORDS}]',
        f'{{"rows": [{RECORDS}], "total": 60, "more": [{RECORDS}]}}',
        f'{{"rows": [{RECORDS}], "rows": 1}}',
        f'{{"rows": 1, "a": 2, "rows": [{RECORDS}]}}',
        f'{{"rows": [{RECORDS}], "rows": [{RECORDS}, null]}}',
        f'{{"": [{RECORDS}], "b": [0, [{RECORDS}]], "c": {{"d": [{RECORDS}]}}}}',
        f'{{"rows" [{RECORDS}]}}',
        f'{{"rows": [{RECORDS}], 5: [{RECORDS}]}}',
        f'{{"rows": [{RECORDS}}}, "b": 1}}',
        f'{{"rows": [{RECORDS}]] "b": 1}}',
        f'{{"rows": [{RECORDS}]}} [{RECORDS}]',
        f'{{"a\\"b": [{RECORDS}], "\\\\": [{RECORDS}]}}',
        "[" + '"\\\\\\"",' * 50 + '"\\\\"]',
        "[" + "[" * 200 + "]" * 200 + f",{RECORDS}]",
        "[" + "[" * 248 + "1" + "]" * 248 + f",{RECORDS}]",
        "[" * 249 + "1" + "]" * 249,
        "[" * 250 + "1" + "]" * 250,
        "[" * 251 + "1" + "]" * 251,
        f"[{RECORDS}," + "[" * 500 + "]" * 500 + "]",
        f'{{"a": [{RECORDS}], "b":' + "[" * 500 + "]" * 500 + "}",
        "[" * 2_000 + "]" * 2_000,
        f"[{RECORDS}," + '{"a":' * 2_000 + "1" + "}" * 2_000 + "]",
        '{"a":' * 20_000,
        "[" * 300_000,
        f"[{RECORDS}][{RECORDS}]",
        "[" + "[] " * 400,
        "[,null" + ", null" * 60 + "]",
        "[" * 5_000,
        "{" + '"a":[' * 5_000,
        "[" + "1 " * 400,
        "[" + "1,\n" * 400 + "\n\n tru",
        '{"a": "' + "x" * 1_000,
        '{"a": [' + '"x,y",' * 100 + '"]"' + "]}",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_odd_texts(text: str, chunk: int) -> None:
    if len(text) < 50_000 or chunk > 1:
        check(text.encode(), chunk)


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_maps_of_arrays(count: int) -> None:
    value = {f"key {i}": [{"a": j, "b": "x" * 9} for j in range(50)] for i in range(min(count, 60))}
    check(json.dumps(value).encode(), 1 << 20)


def test_samples_are_spread_evenly() -> None:
    lines = [f"{i:07}\n" for i in range(1_000)]
    samples = scan("".join(lines).encode()).samples.splitlines(keepends=True)
    assert sizes.SAMPLES / 2 <= len(samples) <= sizes.SAMPLES
    step = int(samples[1])
    assert samples == lines[::step][: len(samples)] and len(lines) - int(samples[-1]) <= 2 * step


def test_samples_of_a_short_text_are_the_text() -> None:
    assert scan(b"a short text, 1, 2, 3", 5).samples == "a short text, 1, 2, 3"


def test_elements_between_the_ends_are_sampled() -> None:
    value = [{"id": i} for i in range(1_000)]
    rows = scan(json.dumps(value).encode()).value
    assert type(rows) is Rows
    assert sizes.ITEM_SAMPLES / 2 <= len(rows.samples) <= sizes.ITEM_SAMPLES
    ids = [row["id"] for row in rows.samples]
    assert ids == sorted(ids) and ids[-1] - ids[0] > 500


@pytest.mark.parametrize("place", [0, 200, 399])
def test_how_often_a_member_is_there_is_told_only_where_all_elements_were_counted(place: int) -> None:
    value = [{"id": i, "inner": {"n": i}} for i in range(400)]
    del value[place]["inner"]["n"]  # type: ignore[attr-defined]
    schema = scan(json.dumps(value).encode(), 40).schema
    assert schema is not None
    outlined = schema.outline.fitted(1_000, len)
    assert outlined is not None and outlined.text == "[400 of {id:int,inner:{n?:int}}]"


def test_of_many_arrays_less_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "ENDS", 400)
    value = {f"key {i}": [{"id": j} for j in range(50)] for i in range(20)}
    scanned = check(json.dumps(value).encode(), 1 << 20)
    kept = [len(rows.head) + len(rows.tail) for rows in scanned.value.values() if type(rows) is Rows]  # type: ignore[attr-defined]
    assert len(kept) == 20 and sum(kept) < 100


@pytest.mark.parametrize(
    "text",
    [
        "[" + '"x",' * 999 + '"' + "x" * 4_000,
        '{"' + "x" * 4_000,
        '{"a": 1, "b": {"c": [' + "1," * 4_000,
        "[[" + "{}," * 400,
    ],
)
def test_what_would_take_too_much_memory_is_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MOST", 2_000)
    scanned = scan(text.encode() + b" more")
    assert scanned.parse_error == (
        "one element, or all outside of the big arrays, is more than 2,000 bytes: too large to be described"
    )
    assert (scanned.value, scanned.schema, scanned.size) == (None, None, len(text) + 5)


def test_cuts_fall_anywhere() -> None:
    data = json.dumps({"n": 1, "é": [{"é\\": '"€', "t": "\U0001f600"}] * 40}, ensure_ascii=False).encode()
    random.seed(1)
    for _ in range(50):
        scanner, at = Scanner(), 0
        while at < len(data):
            step = random.choice([0, 1, 2, 3, 30, 300])
            scanner.feed(data[at : at + step])
            at += step
        scanned = scanner.finish()
        assert scanned.parse_error is None and scanned.text.characters == len(data.decode())
