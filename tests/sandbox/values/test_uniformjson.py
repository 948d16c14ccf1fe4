"""Records that are split at their quotes are what a reader of JSON makes of them, or are left to one."""

from __future__ import annotations

import json
import mmap
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from byref_sandbox import wire
from byref_sandbox.values import flatjson, tables
from byref_sandbox.values.uniformjson import Template

FIELDS = {"n": int, "te xt": str, "x": float, "é": str, "ok": bool}
TYPES = [flatjson._TYPES[frozenset({type_})] for type_ in FIELDS.values()]
RECORD = {"n": 1, "te xt": "a,b:{}[] ", "x": 1.5, "é": "", "ok": True}


def _lines(records: list[Any], separators: tuple[str, str] = (",", ":"), *, ascii_: bool = False) -> list[str]:
    return [json.dumps(record, separators=separators, ensure_ascii=ascii_) for record in records]


def _read(lines: list[str]) -> list[dict[str, Any]] | None:
    template = Template.of(lines[0].encode(), [*FIELDS], TYPES)
    if template is None:
        return None
    made = template.table(np.frombuffer("\n".join(lines).encode(), np.uint8))
    rows: list[dict[str, Any]] | None = None if made is None else made.to_pylist()
    return rows


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "n": st.integers(-(2**63), 2**63 - 1) | st.none(),
                "te xt": st.text(max_size=12)
                | st.sampled_from(["\\", '"', '\\"', '\\\\"', "null", '"te xt":null', "\n"]),
                "x": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
                "é": st.text(max_size=3) | st.none(),
                "ok": st.booleans() | st.none(),
            }
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    st.booleans(),
)
def test_records_that_are_alike_are_read(
    records: list[dict[str, Any]], separators: tuple[str, str], ascii_: bool
) -> None:
    records = [{field: record[field] for field in FIELDS} for record in records]
    lines = _lines([RECORD, *records], separators, ascii_=ascii_)
    if ascii_ and "\\u00e9" in lines[0]:
        lines = [line.replace('"\\u00e9"' + separators[1], '"é"' + separators[1]) for line in lines]
    assert _read(lines) == [RECORD, *records]


@pytest.mark.parametrize(
    "other",
    [
        '{"n":1,"te xt":"a","x":1.5,"é":""}',
        '{"n":1,"te xt":"a","x":1.5,"ok":true,"é":""}',
        '{"n":1,"te xt":5,"x":1.5,"é":"","ok":true}',
        '{"n":1,"te xt":5,"k":"x","é":"","ok":true}',
        '{"n":"1","te xt":5,"x":1.5,"é":"","ok":true}',
        '{"n":1,"te xt":"a","x":{},"é":"","ok":true}',
        '{"n":1,"te xt":"a","x":[1],"é":"","ok":true}',
        '{"n":1,"te xt":"a","x":1.5,"é":"","ok":1}',
        '{"n":1.0,"te xt":"a","x":1.5,"é":"","ok":true}',
        '{"n":9223372036854775808,"te xt":"a","x":1.5,"é":"","ok":true}',
        '{"n":1,"te xt":"\\ud800","x":1.5,"é":"","ok":true}',
        '{"n":1,"te xt":"a","x":1.5,"é":"","ok":true ,"n":2}',
        '{"n":1,"te xt":["a"],"x":1.5,"é":"","ok":true}',
        '{"n":1,"te xu":"a","x":1.5,"é":"","ok":true}',
        '{"n":1,"te xt":"a","x":1.5,"é":"","ok":true} , {"n":1,"te xt":"a","x":1.5,"é":"","ok":true}',
        '{"n":true,"te xt":"a","x":1.5,"é":"","ok":true}',
        '{"n" :1,"te xt":"a","x":1.5,"é":"","ok":true}',
        "[]",
    ],
)
def test_others_are_not(other: str) -> None:
    assert _read(_lines([RECORD] * 3)) == [RECORD] * 3
    assert _read([*_lines([RECORD] * 3), other]) is None
    assert _read([*_lines([RECORD] * 3), other, *_lines([RECORD])]) is None


@pytest.mark.parametrize("first", ['{"n":1}', "{}", '{"n":1,"te xt":"a","x":"1.5","é":"","ok":true}', "5", ""])
def test_a_first_record_that_is_not_like_that(first: str) -> None:
    assert _read([first]) is None


def test_blocks_that_are_not_alike_are_read_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [RECORD | {"n": number} for number in range(80_000)]
    records[10_000:10_001] = [dict(reversed(RECORD.items()))]
    text = json.dumps(records, separators=(",", ":"), ensure_ascii=False).encode()
    found = []
    whole = Template.table
    monkeypatch.setattr(Template, "table", lambda self, lines: found.append(whole(self, lines)) or found[-1])
    frame = tables.from_json(text, ())
    assert sorted({made is None for made in found}) == [False, True]
    assert_frame_equal(frame, tables.from_records(records))


@pytest.mark.parametrize("path", [(), ("page", "rows")])
def test_of_a_mapped_payload_little_is_held(path: tuple[str, ...]) -> None:
    records: Any = [RECORD | {"n": number} for number in range(60_000)]
    payload = json.dumps({"total": 1, "page": {"rows": records}} if path else records, ensure_ascii=False).encode()
    mapped = wire.map_memory_file(wire.memory_file([payload]))
    assert isinstance(mapped, mmap.mmap)
    frame = tables.from_json(mapped, path)
    assert isinstance(frame, pd.DataFrame)
    assert_frame_equal(frame, tables.from_records(records))
    assert mapped[:] == payload
