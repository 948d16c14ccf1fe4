"""Data that host and model store: previews, values that are not JSON, sizes, lists."""

from __future__ import annotations

import json
from collections import UserDict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

import byref
from byref import ConfigurationError, Engine, Policy, Session
from byref.policy import TOOL_NAMES

ALL = list(TOOL_NAMES)


@pytest.fixture
def keeper(local: Engine, tenant: str) -> Session:
    """A conversation in memory with all tools."""
    return local.session("keeper", tenant=tenant, tools=ALL)


@pytest.mark.parametrize("wrong", [-1, 10_001, 1.0, True, "5", None, 10**30])
def test_previews_out_of_range_are_refused(keeper: Session, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"preview_chars=.*: expected a whole number from 0 to 10,000"):
        keeper.store_artifact("x", preview_chars=wrong)


CIRCLE: list[Any] = [1]
CIRCLE.append({"again": CIRCLE})


class Plain:
    """No JSON of its own."""

    def __repr__(self) -> str:
        """Say something of it."""
        return "<Plain one>"


class Refusing(dict):  # type: ignore[type-arg]
    """A mapping that cannot be read."""

    def items(self) -> Any:
        """Fail."""
        raise RuntimeError("no")

    __iter__ = keys = values = items


def deep(levels: int) -> list[Any]:
    value: list[Any] = [object()]
    for _ in range(levels):
        value = [value]
    return value


@dataclass
class Record:
    """A record of anything."""

    part: Any


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "value: object is not JSON: <object object"),
        (Plain(), "value: Plain is not JSON: <Plain one>. Store text, bytes, or what JSON can hold"),
        (len, "value: builtin_function_or_method is not JSON"),
        (Plain, "value: type is not JSON"),
        (json, "value: module is not JSON"),
        ({"rows": [1, Plain()]}, r"value\['rows'\]\[1\]: Plain is not JSON"),
        ([{"a": ("x", object())}], r"value\[0\]\['a'\]\[1\]: object is not JSON"),
        ({"a": "[Plain is not JSON: x]", "b": Plain()}, r"value\['b'\]: Plain is not JSON"),
        (Record(Plain()), r"value\['part'\]: Plain is not JSON"),
        ((item for item in (1, Plain())), r"value\[1\]: Plain is not JSON"),
        ({1, Plain}, r"value\[\d\]: type is not JSON"),
        (SimpleNamespace(a=1), "value: SimpleNamespace is not JSON"),
        (CIRCLE, r"value\[1\]\['again'\]: circular reference to list"),
        (deep(2_000), r"value(\[0\]){66}.*: nested deeper than 200 levels"),
        ({"n": 2**20_000}, r"value\['n'\]: integer of 20001 bits"),
    ],
)
def test_what_is_no_json_is_named_with_its_place(keeper: Session, value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        keeper.store_artifact(value)
    assert keeper.artifacts() == []


def test_a_tools_output_of_the_same_kind_goes_on(keeper: Session) -> None:
    for value in (object(), {"rows": [1, Plain()]}, CIRCLE, Refusing(a=1)):
        assert keeper.process(value, tool="t").route == "inline"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("text", "text"),
        (b"bytes", "bytes"),
        ("[Plain is not JSON: x]", "[Plain is not JSON: x]"),
        (["[Plain is not JSON: x]"], ["[Plain is not JSON: x]"]),
        ({"a": "[circular reference to list]"}, {"a": "[circular reference to list]"}),
        ({"a": [1, 2]}, {"a": [1, 2]}),
        ({1, }, [1]),
        ((1, None, 1.5), [1, None, 1.5]),
        (range(3), [0, 1, 2]),
        (Record(1), {"part": 1}),
        (UserDict(a=1), {"a": 1}),
        ([Decimal("1.5"), date(2026, 1, 2), UUID(int=1), PurePosixPath("/a")], [1.5, "2026-01-02", str(UUID(int=1)), "/a"]),
        ([datetime(2026, 1, 2, tzinfo=UTC)], ["2026-01-02T00:00:00Z"]),
        (pandas.DataFrame({"a": [1, 2]}), [{"a": 1}, {"a": 2}]),
    ],
)  # fmt: skip
def test_what_has_a_rule_is_kept_by_it(keeper: Session, value: Any, kept: Any) -> None:
    assert keeper.store_artifact(value).value == kept


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("é", 2), ("", 0), ("x" * 51_200, 51_200), ({"a": 1}, 7), ({"a": [1, 2]}, 11), ([], 2), (None, 4), (True, 4),
        (12, 2), (b"\xc3\xa9", 2), ({"é": "é"}, 11), (CIRCLE, 0), ({"x": CIRCLE}, 0), (object(), 0), ((1, 2), 5),
        ("\ud800", 3),
    ],
)  # fmt: skip
def test_approximate_sizes(value: Any, size: int) -> None:
    assert byref.approx_byte_size(value) == size


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples * 2)
@given(JSON)
def test_a_size_is_that_of_compact_json(value: Any) -> None:
    expected = len(value.encode()) if isinstance(value, str) else len(msgspec.json.encode(value))
    assert byref.approx_byte_size(value) == expected


# What the model's tools answer


def test_text_comes_back_as_it_was_written(keeper: Session) -> None:
    for value in ('{"a":  [1,\n 2]}', "plain \n text\n", "[not json", "", " "):
        keeper.call("store_artifact", {"name": "n", "value": value})
        assert keeper.call("get_artifact", {"pointer_or_name": "n"}).content == value
    keeper.call("store_artifact", {"name": "n", "value": {"rows": [{"a": "x\ny"}, {"a": 2}]}})
    assert keeper.call("get_artifact", {"pointer_or_name": "n"}).content == '{"rows":[{"a":"x\\ny"},{"a":2}]}'


def test_an_offset_past_the_end_is_an_error(keeper: Session) -> None:
    keeper.store_artifact("abc", name="n")
    assert keeper.call("get_artifact", {"pointer_or_name": "n", "offset": 2}).content == "c"
    reply = keeper.call("get_artifact", {"pointer_or_name": "n", "offset": 3})
    assert (reply.is_error, reply.content) == (True, "offset=3: the artifact has no more characters than that")


@pytest.mark.postgresql("order and prefixes are those of the database's collation")
def test_prefixes_are_exact(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, tools=ALL)
    for name in ("Report", "report", "rep%rt", "re\\port", "re\\", "r_port", "\0x", "\ud800y", "日本", None):
        session.store_artifact("v", name=name)

    def listed(prefix: str) -> list[str]:
        return [entry["name"] for entry in json.loads(session.call("list_artifacts", {"prefix": prefix}).content)]

    assert listed("rep") == ["report", "rep%rt"]
    assert listed("Rep") == ["Report"]
    assert listed("rep%") == ["rep%rt"]
    assert listed("r_") == ["r_port"]
    assert listed("re\\") == ["re\\port", "re\\"]
    assert listed("\0") == ["\0x"]
    assert listed("日") == ["日本"]
    pointer = session.artifacts()[-1].pointer
    assert listed(pointer) == listed(pointer.replace("art:", "art_")) == [None]
    assert len(listed("")) == len(listed("art_")) == 10


def test_a_list_reads_no_schemas_and_a_page_of_rows(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, context_window=200_000, tools=ALL, policy=Policy(reply_tokens=4_000))
    session.process({"users": [{"id": i, "name": "x" * 40} for i in range(2_000)]}, tool="list_users")
    for i in range(30):
        session.store_artifact(f"value {i}", name=f"name {i}")
    statements: list[str] = []
    bind = engine._database.engine

    def listen(_c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    event.listen(bind, "before_cursor_execute", listen)
    try:
        content = session.call("list_artifacts", {"limit": 5}).content
    finally:
        event.remove(bind, "before_cursor_execute", listen)
    assert "[INCOMPLETE: 26 more." in content
    selects = [text for text in statements if "byref_artifacts" in text and text.lstrip().startswith("SELECT")]
    assert selects
    assert not any("json_schema" in text or "byref_blobs" in text for text in selects)
    assert all("LIMIT" in text or "count" in text for text in selects)
