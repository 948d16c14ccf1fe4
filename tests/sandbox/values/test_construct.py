"""What is made for `pd.DataFrame(records)` is what pandas makes of them: types, missing values, order and labels."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref_sandbox import jsontext
from byref_sandbox.values import construct, tables

_CELLS = {
    "integers": st.sampled_from([0, 1, -7, 2**53, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63), 2**70]),
    "small": st.integers(-100, 100),
    "floats": st.sampled_from([0.0, -0.0, 1.5, 2.0, 1e300, -1e-300, 1e400]),
    "truth": st.booleans(),
    "text": st.sampled_from(["", "a", "é", "1", "nan", "None", "2024-01-02", "2024-01-02T03:04:05Z", "\ud800"]),
    "nothing": st.none(),
    "lists": st.just([1, {"a": 2}]),
    "objects": st.just({"x": 1}),
}
_COLUMN = st.tuples(
    st.lists(st.sampled_from(sorted(_CELLS)), min_size=1, max_size=2),
    st.booleans(),  # with nulls
    st.booleans(),  # some records lack it
)


@st.composite
def _texts(draw: st.DrawFn) -> bytes:
    columns = draw(st.dictionaries(st.sampled_from(["a", "b", "", "é"]), _COLUMN, min_size=1, max_size=3))
    records = []
    for _ in range(draw(st.integers(1, 5))):
        record = {}
        for name, (kinds, has_nulls, is_lacking) in columns.items():
            if not (is_lacking and draw(st.booleans())):
                kind = draw(st.sampled_from([*kinds, "nothing"] if has_nulls else kinds))
                record[name] = draw(_CELLS[kind])
        records.append(record)
    text = json.dumps(records, ensure_ascii=draw(st.booleans())).replace("Infinity", "1e400")
    return text.encode("utf-8", "surrogatepass")


def _is_same(made: pd.DataFrame, wanted: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(made, wanted, check_exact=True, check_column_type="exact", check_index_type="exact")
    for name in wanted:
        ours, theirs = made[name], wanted[name]
        assert repr(ours.dtype) == repr(theirs.dtype)
        if ours.dtype == object:
            pairs = zip(ours, theirs, strict=True)
            assert all(
                type(one) is type(other) and (one == other or (one != one and other != other)) for one, other in pairs
            )
        elif ours.dtype.kind == "f":
            assert (np.signbit(ours.to_numpy()) == np.signbit(theirs.to_numpy())).all()
        elif isinstance(ours.dtype, pd.StringDtype):
            assert ours.dtype.storage == theirs.dtype.storage
            assert ours.array._pa_array.type == theirs.array._pa_array.type


def _check(text: bytes) -> bool:
    """Compare the ways; return whether the text alone was enough."""
    made = construct.from_json(text, [])
    try:
        value = jsontext.decode(text)
        wanted = pd.DataFrame(value)
    except ValueError:  # no JSON, or lone surrogates
        assert made is None
        return False
    for one in (made, construct.from_records(value)):
        if one is not None:
            given = pd.DataFrame(one)
            assert type(given) is pd.DataFrame
            _is_same(given, wanted)
    return made is not None


@given(_texts())
def test_records_of_any_kind_become_what_pandas_makes_of_them(text: bytes) -> None:
    _check(text)
    flat_bytes = tables._FLAT_BYTES
    tables._FLAT_BYTES = 0  # type: ignore[misc]
    try:
        _check(text)
    finally:
        tables._FLAT_BYTES = flat_bytes  # type: ignore[misc]


@pytest.mark.parametrize("between", [",", ", "])
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], "int64"),
        ([1, None], "float64"),
        ([2**53 + 1, None], "float64"),
        ([1, 2.5], "float64"),
        ([1.5, 2**70], "object"),
        ([1.5, 2**64 - 1], "float64"),
        ([0, -0.0], "float64"),
        ([True, False], "bool"),
        ([True, None], "object"),
        (["2024-01-02", None], "str"),
        (["00123", "7"], "str"),
        (["a", 1], "object"),
        ([None, None], "object"),
        ([None, ...], "float64"),
        ([True, ...], "object"),
        ([{"x": 1}, ...], "object"),
        (["a", ...], "str"),
    ],
)
def test_the_text_is_enough_where_pandas_rules_allow_it(
    values: list[Any], dtype: str, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"key": "k", "a": value} if value is not ... else {"key": "k"} for value in values]
    text = json.dumps(records, separators=(between, ":")).encode()
    wanted = pd.DataFrame(json.loads(text))
    assert str(wanted["a"].dtype) == dtype
    assert _check(text)
    monkeypatch.setattr(tables, "_FLAT_BYTES", 0)
    assert _check(text)
    at_path = construct.from_json(b'{"items": %b}' % text, ["items"])
    assert at_path is not None
    _is_same(pd.DataFrame(at_path), wanted)


@pytest.mark.parametrize(
    "text", [b"[]", b"[{}]", b"[1]", b'{"a": 1}', b"null", b"[[1]]", b'[{"a": 1}, 2]', b"[", b'"x"']
)
def test_what_is_no_array_of_records_is_left_to_pandas(text: bytes) -> None:
    assert construct.from_json(text, []) is None
    try:
        value = json.loads(text)
    except ValueError:
        return
    assert construct.from_records(value) is None


def test_a_value_is_expected_by_identity_and_without_further_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construct, "_expected", {})
    construct.install()
    construct.install()  # it does nothing twice
    value: list[dict[str, Any]] = [{"a": 1}]
    construct.expect([(value, construct.Constructed({"b": [math.inf]}))])
    assert list(pd.DataFrame(value)) == ["b"]
    assert list(pd.DataFrame(list(value))) == ["a"]
    assert list(pd.DataFrame(value, columns=["a"])) == ["a"]
    assert list(pd.DataFrame(data=value)) == ["b"]
