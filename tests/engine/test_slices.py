"""In slices or whole, a big payload becomes the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from material import records

from byref import Engine, Policy, slices
from byref_sandbox import jsontext


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of tens of characters is as good as one of hundreds of thousands."""
    for name, size in {"BIG": 0, "SLICE": 40, "CHUNK": 7, "ITEMS": 3, "_SHORT": 10, "_ENTERED": 3}.items():
        monkeypatch.setattr(slices, name, size)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text('{}[]",: \\n\n\ud800é', max_size=8)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.sampled_from(["a", "b", "},{", "c d"]), inner),
)
shapes = st.fixed_dictionaries(
    {"id": st.integers(), "tags": st.lists(values, max_size=3), "name": st.sampled_from(["},{", '"', "x"])}
)
tables = st.lists(shapes, min_size=5, max_size=30)
documents = values | tables | st.fixed_dictionaries({"a": tables, "n": values, "b": tables}) | st.lists(tables)


def same(one: object, other: object) -> bool:
    return repr(one) == repr(other)  # NaN is NaN, 1 is not 1.0, and members keep their order


@given(documents, st.sampled_from([None, 1]), st.booleans())
def test_json_is_the_same_value(value: Any, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    data = text.encode("utf-8", "surrogatepass")
    assert same(slices.parse(text, data), jsontext.decode(data))


@given(tables, st.data())
def test_what_is_no_json_is_refused_with_the_same_words(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + data.draw(st.sampled_from(["", "]", "}", '"', ",", "x", "\\"])) + text[at + 1 :]
    try:
        expected = jsontext.decode(broken.encode())
    except jsontext.NotJSON as error:
        with pytest.raises(jsontext.NotJSON) as raised:
            slices.parse(broken, broken.encode())
        assert str(raised.value) == str(error)
    else:
        assert same(slices.parse(broken, broken.encode()), expected)


def test_arrays_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = []
    monkeypatch.setattr(slices, "_decode", lambda text: cut.append(len(text)) or json.loads(text))
    text = json.dumps({"total": 5, "users": records(1_000), "next": None})
    assert slices.parse(text, text.encode()) == json.loads(text)
    assert sum(cut) > 0.4 * len(text)
    assert max(cut) < 200


@given(st.text("aé\n\ud800🙂"))
def test_text_is_the_same_bytes(text: str) -> None:
    try:
        expected = text.encode()
    except UnicodeEncodeError:
        with pytest.raises(UnicodeEncodeError):
            slices.encode(text)
        return
    assert slices.encode(text) == expected
    assert slices.line_feeds(expected) == text.count("\n")
    assert slices.unbroken(expected) == text.replace("\n", "")


@given(st.binary(max_size=30) | st.text("aé🙂").map(str.encode))
def test_bytes_are_the_same_text(data: bytes) -> None:
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            slices.decode(data)
        return
    assert slices.decode(data) == expected


@given(st.binary(max_size=30), st.sampled_from([b"\0", b"ab", b"\0\0\0"]))
def test_a_word_is_found_across_slices(data: bytes, word: bytes) -> None:
    assert slices.holds(data, word) == (word in data)
    assert slices.holds(b"123456" + word + data, word)


def test_what_is_freed_is_empty_or_small() -> None:
    inner, few, big = list(range(10)), [1, 2], {str(i): i for i in range(10)}
    value = {"inner": inner, "few": few, "map": {"big": big}}
    slices.free(value)
    assert len(inner) <= 3
    assert few == [1, 2]
    assert len(big) <= 3
    slices.free("text")


def test_freeing_leaves_the_envelope_whole(local: Engine, tenant: str) -> None:
    policy = Policy(preview_tokens=50_000, envelope_tokens=60_000, max_result_tokens=1_000)
    value = {"small": list(range(50)), "inner": {"list": list(range(50))}, "big": records(1_000)}
    result = local.session("s", tenant=tenant, policy=policy).process(json.dumps(value), tool="t")
    assert result.route == "variables"
    assert json.loads(str(result.content)) == result.envelope
    assert '"inner":{"list":[0,1,2' in str(result.content)
