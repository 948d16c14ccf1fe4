"""Large JSON whose equal texts are shared is the value that it is without that."""

from __future__ import annotations

import json
import mmap
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref_sandbox import jsontext
from byref_sandbox.values import sharing

FEW = 100
"""Records of which the smallest texts here consist: several slices."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MIN_BYTES", 100)
    monkeypatch.setattr(sharing, "_SLICE_BYTES", 200)


def _records(**members: Any) -> list[dict[str, Any]]:
    return [{"id": number, "state": ("open", "paid")[number % 2]} | members for number in range(FEW)]


def _same(text: bytes) -> Any:
    """The value, which is the very one, down to types, the order of keys and the sign of zero, that is there without sharing."""
    value = sharing.decode(text)
    assert json.dumps(value) == json.dumps(jsontext.decode(text))
    return value


@pytest.mark.parametrize(
    "around", ["%s", '{"orders": %s}', '{"n": 1, "t": ["[{"], "data": {"rows": %s, "next": null}}']
)
@pytest.mark.parametrize("written", [{}, {"separators": (",", ":")}, {"indent": 2}])
def test_texts_are_shared_wherever_the_array_is(around: str, written: dict[str, Any]) -> None:
    value = _same((around % json.dumps(_records(), **written)).encode())
    records = value if isinstance(value, list) else value.get("orders") or value["data"]["rows"]
    assert len({id(record["state"]) for record in records}) < 10  # those after the last cut are read as they are
    assert len({id(record) for record in records}) == FEW


def test_texts_in_memory_of_a_file_are_shared() -> None:
    text = json.dumps(_records()).encode()
    descriptor = os.memfd_create("records")
    os.write(descriptor, text)
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as mapped:
        os.close(descriptor)
        assert sharing.decode(mapped) == json.loads(text)


def test_what_looks_like_a_cut_is_none() -> None:
    _same(json.dumps(_records(note='}, {"id": 1}, {"id": 2}')).encode())
    _same(json.dumps(_records(lines=[{"id": 1}, {"id": 2}])).encode())
    _same(json.dumps(_records(lines=[{"id": 1}, {"id": 2}], last={"id": 3})).encode())
    _same(json.dumps({"note": json.dumps(_records()), "orders": _records()}).encode())


def test_other_arrays_and_members_stay_where_they_are() -> None:
    records = json.dumps(_records())
    _same(f'{{"a": {records}, "b": {records}, "a": 1}}'.encode())
    _same(f'{{"a": {records}, "a": [{{"id": 1}}]}}'.encode())
    _same(f"[{records}, {records}]".encode())
    _same(json.dumps([*_records(), [1], None, "x", *_records(), {"id": 1}]).encode())


def test_equal_numbers_stay_what_they_are() -> None:
    mixed = [1, True, 1.0, "1", None, 0.0, -0.0, 0, False, [], {}]
    for first in ("text", None, 1):
        _same(json.dumps([{"id": 1, "x": first}, *({"id": 1, "x": mixed[n % 11]} for n in range(FEW))]).encode())


def test_of_many_different_texts_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MAX_DIFFERENT", 5)
    value = _same(json.dumps([{"note": f"number {number // 2}"} for number in range(FEW)]).encode())
    assert len({id(record["note"]) for record in value}) > FEW * 0.8


def test_text_that_is_no_strict_json_is_read_as_ever() -> None:
    for odd in ("NaN", "1e999", r'"\ud800"', "1" * 30, r'"é\n"'):
        _same(json.dumps(_records(x=1)).replace('"id": 50', f'"id": {odd}').encode())
    for broken in (b"", b"]", b"]}", b",]", b"}]", b'},{"id": 1'):
        with pytest.raises(jsontext.NotJSON):
            sharing.decode(json.dumps(_records()).encode().removesuffix(b"]") + broken + b"x")


members = st.fixed_dictionaries(
    {"id": st.integers(0, 5) | st.sampled_from([1.0, True, "1", None, '"},{"id":'])},
    optional={"s": st.text(max_size=3), "in": st.lists(st.dictionaries(st.sampled_from("ab"), st.text(max_size=2)))},
)


@given(st.lists(members, min_size=20, max_size=60), st.sampled_from([",", ", ", " ,\n"]), st.booleans())
def test_any_records_are_what_they_are(records: list[dict[str, Any]], between: str, is_within: bool) -> None:
    text = json.dumps(records, separators=(between, ":"))
    _same((f'{{"rows":{text},"id":"x"}}' if is_within else text).encode())


def test_a_value_is_mutable_and_goes_through_json() -> None:
    value: Any = sharing.decode(json.dumps(_records()).encode())
    value[0]["state"] += "!"
    assert (value[0]["state"], value[2]["state"]) == ("open!", "open")
    assert msgspec.json.decode(msgspec.json.encode(value)) == value
