"""A big payload has the same result in chunks and as a whole."""

from __future__ import annotations

import gc
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_values import DOCUMENTS, FORMS, TABLES
from material import records

from byref import Engine, Policy
from byref.content import values as written
from byref.jsonscan import chunks
from byref_sandbox import jsontext


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of a few characters is as good as one of hundreds of thousands."""
    for name, size in {"BIG": 0, "CHUNK": 7, "ITEMS": 3}.items():
        monkeypatch.setattr(chunks, name, size)


@pytest.mark.slow
@given(DOCUMENTS | st.text(max_size=30) | st.lists(TABLES, min_size=20, max_size=40))
def test_objects_are_written_the_same(value: Any) -> None:
    try:
        expected = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return
    _, data, line_feeds = written.written(value)
    assert b"".join(written._compact(value, written._encoded)) == data.replace(b"\n", b"") == expected
    assert data.count(b"\n") == line_feeds
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"CHUNK": 1 << 19, "ITEMS": 1 << 13}.items():
            patch.setattr(chunks, name, size)
        assert written.written(value)[1] == data


def test_json_of_several_lines_inside_a_value_is_joined() -> None:
    raw = msgspec.Raw(b'{\n"b":1}')
    for value in ([{"a": raw}, {"a": 1}], {"x": raw, "y": [raw]}, [raw], {"x": {"y": {"z": {"a": raw}}}}, raw):
        _, data, line_feeds = written.written(value)
        assert json.loads(data) == json.loads(msgspec.json.encode(value))
        assert data.count(b"\n") == line_feeds


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS)
def test_no_more_is_encoded_at_once(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """Within a factor of what samples tell."""
    monkeypatch.setattr(chunks, "CHUNK", 8_000)
    monkeypatch.setattr(chunks, "ITEMS", 1_000)
    lengths: list[int] = []
    encoder = written._encoder

    def noted(data: bytes) -> bytes:
        lengths.append(len(data))
        return data

    monkeypatch.setattr(
        written,
        "_encoder",
        SimpleNamespace(
            encode=lambda value: noted(encoder.encode(value)),
            encode_lines=lambda values: noted(encoder.encode_lines(values)),
        ),
    )
    _, data, _ = written.written(value)
    assert json.loads(data) == value
    assert max(lengths) < 3 * 8_000


def test_one_heavy_member_among_few_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 8_000)
    heavy = {"id": 1, "meta": {"a": [1, 2]}, "rows": records(1_000)}
    for at in range(10):
        members: list[Any] = [{"id": i} for i in range(10)]
        members[at] = heavy
        assert [heavy] in list(chunks.runs(members))


@given(st.text("aé\n\ud800🙂"))
def test_text_is_the_same_bytes(text: str) -> None:
    try:
        expected = text.encode()
    except UnicodeEncodeError:
        with pytest.raises(UnicodeEncodeError):
            chunks.encode(text)
        return
    assert chunks.encode(text) == expected
    assert chunks.line_feeds(expected) == text.count("\n")
    assert chunks.unbroken(expected) == text.replace("\n", "")


@given(st.binary(max_size=30) | st.text("aé🙂").map(str.encode))
def test_bytes_are_the_same_text(data: bytes) -> None:
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            chunks.decode(data)
        return
    assert chunks.decode(data) == expected


@given(st.binary(max_size=30), st.sampled_from([b"\0", b"ab", b"\0\0\0"]))
def test_a_word_is_found_across_chunks(data: bytes, word: bytes) -> None:
    assert chunks.holds(data, word) == (word in data)
    assert chunks.holds(b"123456" + word + data, word)


def test_what_is_freed_is_empty_or_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BIG", 60)
    monkeypatch.setattr(chunks, "_LOOKED_AT", 3)
    inner, few, big = list(range(10)), [1, 2], {str(i): i for i in range(10)}
    value = {"inner": inner, "few": few, "map": {"big": big}}
    chunks.free(value)
    assert len(inner) <= 3
    assert few == [1, 2]
    assert len(big) <= 3
    chunks.free("text")
    deep: list[Any] = list(range(10_000))
    bottom = deep
    for _ in range(20):
        deep = [deep]
    chunks.free(deep)
    assert len(bottom) <= 3


def test_freeing_leaves_the_envelope_whole(local: Engine, tenant: str) -> None:
    policy = Policy.variables(preview_tokens=50_000, envelope_tokens=60_000, max_result_tokens=1_000)
    value = {"small": list(range(50)), "inner": {"list": list(range(50))}, "big": records(1_000)}
    result = local.session("s", tenant=tenant, policy=policy).process(json.dumps(value), tool="t")
    assert result.route == "variables"
    assert json.loads(str(result.content)) == result.envelope
    assert '"inner":{"list":[0,1,2' in str(result.content)


def test_threads_that_overlap_share_one_pause_of_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gc.isenabled()
    with jsontext.collector_paused():
        with jsontext.collector_paused():
            assert not gc.isenabled()
        first, second = jsontext.collector_paused(), jsontext.collector_paused()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert not gc.isenabled()  # the other is not done yet
        second.__exit__(None, None, None)
    assert gc.isenabled()
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", collected.append)
    monkeypatch.setattr(jsontext, "_LONGEST_PAUSE", 0.0)
    with jsontext.collector_paused():
        with jsontext.collector_paused():
            pass
        assert collected == [1] and not gc.isenabled()
    gc.disable()
    try:
        with jsontext.collector_paused():
            pass
        assert not gc.isenabled()  # a host's own choice
    finally:
        gc.enable()
