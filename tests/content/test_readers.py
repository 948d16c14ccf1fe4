"""Any output becomes text or JSON by documented rules, on every database, and never raises an exception."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import itertools
import json
import math
import secrets
import sqlite3
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import numpy as np
import pandas as pd
import pyarrow as pa
import pydantic
import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st
from material import Opener, page, prose, records

from byref import Engine, Policy, Session
from byref.content import to_block
from byref_sandbox import jsontext
from byref_sandbox.values.data import at_path


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


@dataclasses.dataclass
class Price:
    amount: Decimal
    tax: float


@dataclasses.dataclass
class Order:
    id: int
    kind: str = dataclasses.field(default="order", init=False)


@dataclasses.dataclass(frozen=True)
class Token:
    id: int
    kind: str = dataclasses.field(default="token", init=False)


@dataclasses.dataclass
class Basket:
    orders: list[Order]


@attrs.define
class Revision:
    id: int
    _rev: int = 2


@attrs.define(slots=False)
class Client:
    id: int

    def __attrs_post_init__(self) -> None:
        vars(self)["token"] = "hidden"


class Moment(datetime.datetime):
    pass


class Day(datetime.date):
    pass


class Clock(datetime.time):
    pass


class Duration(datetime.timedelta):
    pass


class Money(Decimal):
    pass


class Raw(bytes):
    pass


class Recent(OrderedDict[str, int]):
    """A class of a host's own."""


def reordered(kind: type[OrderedDict[str, int]] = OrderedDict) -> OrderedDict[str, int]:
    made = kind(a=2, b=1, c=3)
    made.move_to_end("a")
    return made


def rows_of_sqlite() -> list[sqlite3.Row]:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    return connection.execute("SELECT 1 AS id, 'a' AS name, 2 AS id").fetchall()


def rows_of_sqlalchemy() -> list[sqlalchemy.Row[Any]]:
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        return list(connection.execute(sqlalchemy.text("SELECT 1 AS id, 'a' AS name, 2 AS id")))


class Page(pydantic.BaseModel):
    url: pydantic.HttpUrl
    host: ipaddress.IPv4Address
    key: pydantic.SecretStr
    price: Decimal
    size: int


class Own(pydantic.AnyUrl):
    pass


class Colour(enum.Enum):
    RED = "r"


class Loud(str, enum.Enum):  # noqa: UP042  a StrEnum is its own text
    YES = "yes"


class Level(enum.IntEnum):
    HIGH = 3


Pair = namedtuple("Pair", "a b")

UTC = datetime.UTC

FIELDS = [("id", "i4"), ("of", [("name", "U3"), ("p", "f8")])]
TWINS = pd.Series([5], index=pd.MultiIndex.from_tuples([("a", 1)], names=["k", "k"]), name="k")
NANOSECONDS = pa.table(
    {
        "t": pa.array([1767323045123456789, None], pa.timestamp("ns")),
        "c": pa.array([1_000_000_007, None], pa.time64("ns")),
        "d": pa.array([1_001, None], pa.duration("ns")),
        "n": pa.array([[{"c": 1_000_000_007}], None], pa.list_(pa.struct([("c", pa.time64("ns"))]))),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.time64("ns"))),
    }
)

SMALL: dict[str, tuple[object, str]] = {
    "text": ("plain\ttext\r\n  with odd   spacing\n", "plain\ttext\r\n  with odd   spacing\n"),
    "empty text": ("", ""),
    "json text as it is": ('{ "b": 1.0,\n  "a": "\\u00e9" , "n": 1E5 }', '{ "b": 1.0,\n  "a": "\\u00e9" , "n": 1E5 }'),
    "bytes": (b"caf\xc3\xa9", "café"),
    "bytearray": (bytearray(b"ab"), "ab"),
    "memoryview": (memoryview(b"abcd")[::2], "ac"),
    "invalid utf-8": (b"abc\x80\xff", "abc\ufffd\ufffd"),
    "byte-order mark": (b'\xef\xbb\xbf{"a":1}', '\ufeff{"a":1}'),
    "utf-16": ('{"a": "é"}'.encode("utf-16"), '{"a": "é"}'),
    "utf-32": ("déjà".encode("utf-32"), "déjà"),
    "utf-16 cut in half": ("ab".encode("utf-16")[:-1], "\ufffd\ufffda\0b"),
    "NUL": ("a\0b", "a\0b"),
    "lone surrogate": ("a\ud800b", "a\ud800b"),
    "lone surrogate in a value": ({"\udfff": "\ud800"}, '{"\\udfff":"\\ud800"}'),
    "None": (None, "null"),
    "True": (True, "true"),
    "integer": (-5, "-5"),
    "64 bits and more": ([2**64, -(10**60)], f"[{2**64},{-(10**60)}]"),
    "3,000 digits": (10**2_999, str(10**2_999)),
    "5,000 digits": ([10**4_999], '["[integer of 16607 bits]"]'),
    "5,000 digits in text": ('{"a":' + "1" * 4_000 + "}", '{"a":' + "1" * 4_000 + "}"),
    "float": (1.5, "1.5"),
    "NaN": (math.nan, "null"),
    "infinities": ([math.inf, -math.inf, 1e308 * 10], "[null,null,null]"),
    "NaN in text": ('{"a": NaN, "b": 1e999}', '{"a": NaN, "b": 1e999}'),
    "duplicate keys": ('{"a":1,"a":2}', '{"a":1,"a":2}'),
    "list": ([1, "a", None, {}], '[1,"a",null,{}]'),
    "empty list": ([], "[]"),
    "dict": ({"a": {"b": []}}, '{"a":{"b":[]}}'),
    "newlines in values": ({"a": "x\ny", "b\n": 1}, '{"a":"x\\ny","b\\n":1}'),
    "non-string keys": ({1: "a", None: "b", False: "c", 1.5: "d"}, '{"1":"a","null":"b","false":"c","1.5":"d"}'),
    "tuple keys": ({(1, 2): 3}, '{"(1, 2)":3}'),
    "tuple": ((1, (2,)), "[1,[2]]"),
    "set": ({1}, "[1]"),
    "frozenset": (frozenset("a"), '["a"]'),
    "named tuple": (Pair(1, 2), "[1,2]"),
    "ordered dict": (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    "ordered dict in another order": ([reordered()], '[{"b":1,"c":3,"a":2}]'),
    "one of a class of its own": (reordered(Recent), '{"b":1,"c":3,"a":2}'),
    "one inside another": (OrderedDict(x=reordered()), '{"x":{"b":1,"c":3,"a":2}}'),
    "mapping": (UserDict(a=1), '{"a":1}'),
    "dataclass": (Point(1, ["t"]), '{"x":1,"tags":["t"]}'),
    "dataclasses in a list": ([Point(1, [])], '[{"x":1,"tags":[]}]'),
    "a field that is no argument": (Order(1), '{"id":1,"kind":"order"}'),
    "such fields inside": (
        {"a": [Basket([Order(1)])], "b": {1}},
        '{"a":[{"orders":[{"id":1,"kind":"order"}]}],"b":[1]}',
    ),
    "such fields in what is read out": (
        deque([Order(1), OrderedDict(a=defaultdict(list, b=[Order(2)])), UserDict(c={Token(3)})]),
        '[{"id":1,"kind":"order"},{"a":{"b":[{"id":2,"kind":"order"}]}},{"c":[{"id":3,"kind":"token"}]}]',
    ),
    "private fields of attrs": ([Revision(1)], '[{"id":1,"_rev":2}]'),
    "what is no field of attrs": ((Client(1), {1}), '[{"id":1},[1]]'),
    "derived from the types of datetime": (
        [Moment(2026, 1, 2, 3, 4, tzinfo=UTC), Day(2026, 1, 2), Clock(1, 2), Duration(1), {Day(2026, 1, 2): 1}],
        '["2026-01-02T03:04:00Z","2026-01-02","01:02:00","P1D",{"2026-01-02":1}]',
    ),
    "derived from Decimal and bytes": ([Money("1.10"), {Money("1.10"): Raw(b"ab")}], '[1.10,{"1.10":"YWI="}]'),
    "rows of sqlite3": (rows_of_sqlite(), '[{"id":1,"name":"a","id_2":2}]'),
    "rows of SQLAlchemy": (rows_of_sqlalchemy(), '[{"id":1,"name":"a","id_2":2}]'),
    "enum": (Colour.RED, "r"),
    "text enum": (Loud.YES, "yes"),
    "integer enum": ([Level.HIGH], "[3]"),
    "Decimal": ({"a": Decimal("1.10")}, '{"a":1.10}'),
    "Decimal alone": (Decimal("1.10"), "1.10"),
    "Decimals in a tuple": ((0.1, Decimal("1.234567890123456789"), 1e22), "[0.1,1.234567890123456789,1e22]"),
    "Decimal in a dataclass": (Price(Decimal("1e400"), 1e-7), '{"amount":1E+400,"tax":1e-7}'),
    "Decimal in a DataFrame": (pd.DataFrame({"a": [Decimal("12345678901234.567890")]}), '[{"a":12345678901234.567890}]'),
    "Decimal beside half a character": ([Decimal("1.10"), "\ud800"], r'[1.10,"\ud800"]'),
    "Decimal in a circle": ((lambda v: [v, v.append(v)])([Decimal("1.10")])[0], '[1.10,"[circular reference to list]"]'),
    "Decimals as keys": ([{"a": 1}, {None: 2, Decimal("19.90"): {Decimal("1e2"): 3}}], '[{"a":1},{"null":2,"19.90":{"1E+2":3}}]'),
    "Decimal NaN": (Decimal("NaN"), "null"),
    "date": ([datetime.date(2026, 1, 2)], '["2026-01-02"]'),
    "datetime with seconds in its offset": (
        {"a": datetime.datetime(1874, 12, 7, 13, 43, 58, tzinfo=ZoneInfo("America/New_York"))},
        '{"a":"1874-12-07T18:40:00Z"}',
    ),
    "Timestamp with seconds in its offset": (
        [pd.DataFrame({"t": [pd.Timestamp("1874-12-07T13:43:58", tz="America/New_York")]})],
        '[[{"t":"1874-12-07T18:40:00+00:00"}]]',
    ),
    "datetime": ([datetime.datetime(2026, 1, 2, 3, 4, tzinfo=UTC)], '["2026-01-02T03:04:00Z"]'),
    "UUID": ([UUID(int=1)], '["00000000-0000-0000-0000-000000000001"]'),
    "path": ([PurePosixPath("/a/b")], '["/a/b"]'),
    "addresses": (
        [ipaddress.ip_address("::1"), ipaddress.ip_network("10.0.0.0/8"), {ipaddress.ip_interface("10.0.0.1/8"): 1}],
        '["::1","10.0.0.0/8",{"10.0.0.1/8":1}]',
    ),
    "fraction and time zone": ([Fraction(1, 3), ZoneInfo("Europe/Berlin")], '["1/3","Europe/Berlin"]'),
    "pydantic's own types": (
        Page(url="https://example.org/1", host="10.0.0.1", key="hidden", price="1.10", size=2**70),  # type: ignore[arg-type]
        f'{{"url":"https://example.org/1","host":"10.0.0.1","key":"**********","price":1.10,"size":{2**70}}}',
    ),
    "pydantic's own types elsewhere": ({pydantic.HttpUrl("https://example.org"): [Own("ftp://a/b")]}, '{"https://example.org/":["ftp://a/b"]}'),
    "exception": (ValueError("boo"), "ValueError: boo"),
    "range": (range(3), "[0,1,2]"),
    "complex": ([1j], '["[complex is not JSON: 1j]"]'),
    "type": (int, "[type is not JSON: <class 'int'>]"),
    "array": (np.arange(4).reshape(2, 2), "[[0,1],[2,3]]"),
    "numpy scalars": ([np.float64(1.5), np.int8(2), np.bool_(True), np.nan], "[1.5,2,true,null]"),
    "moments in nanoseconds": (
        [np.array(["2026-01-02T03:04:05.123456789", "NaT"], "M8[ns]"), {"t": np.datetime64("2026-01-02", "ns")}],
        '[["2026-01-02T03:04:05.123456789",null],{"t":"2026-01-02T00:00:00"}]',
    ),
    "moments in records": (np.array([(1, "2026-01-02")], dtype=[("n", "i4"), ("t", "M8[ns]")]), '[{"n":1,"t":"2026-01-02T00:00:00"}]'),
    "moments beyond a datetime": ([np.array(["12000-01-01", "2026-01-02"], "M8[D]"), np.datetime64(1, "as")], '[["12000-01-01","2026-01-02"],"1970-01-01T00:00:00.000000000000000001"]'),
    "durations": (
        [np.array([90_000_000_000_001, -5, 0, "NaT"], "m8[ns]"), np.timedelta64(5, "ms"), np.array([3], "m8[25ps]")],
        '[["P1DT3600.000000001S","-PT0.000000005S","P0D",null],"PT0.005S",["PT0.000000000075S"]]',
    ),
    "durations without a length": ([np.timedelta64(5, "M"), np.array([1, "NaT"], "m8[Y]"), np.array([5]).astype("m8")[0]], '["5 months",["1 years",null],5]'),
    "DataFrame": (pd.DataFrame({"a": [1.0, None], "b": ["x", None]}), '[{"a":1.0,"b":"x"},{"a":null,"b":null}]'),
    "DataFrame with an index": (pd.DataFrame({"a": [1]}, index=["k"]), '[{"index":"k","a":1}]'),
    "DataFrame with twin columns": (pd.DataFrame([[1, 2]], columns=["a", "a"]), '[{"a":1,"a_2":2}]'),
    "DataFrame with None as a column": (pd.DataFrame([[1, 2]], columns=[None, "a"]), '[{"null":1,"a":2}]'),
    "index of two levels of one name": (TWINS.to_frame(), '[{"k_2":"a","k_3":1,"k":5}]'),
    "such an index of a Series": (TWINS.rename(None), '[{"k":"a","k_2":1,"value":5}]'),
    "DataFrame with columns of several levels": (pd.DataFrame([[1]], index=["r"], columns=pd.MultiIndex.from_tuples([("a", "b")])), '[{"index":"r","a.b":1}]'),
    "Arrow table with twin columns": (pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"]), '[{"a":1,"a_2":2,"b":3}]'),
    "batch with twin fields": (
        pa.record_batch({"s": pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["x", "x"], mask=pa.array([False, True]))}),
        '[{"s":{"x":1,"x_2":3}},{"s":null}]',
    ),
    "Arrow array, chunks and scalars": (
        [pa.array([Decimal("1.10"), None]), pa.chunked_array([["a"], ["b"]]), pa.scalar(5), pa.scalar([1])],
        '[[1.10,null],["a","b"],5,[1]]',
    ),
    "nanoseconds of Arrow": (NANOSECONDS, '[{"t":"2026-01-02T03:04:05.123456789","c":"00:00:01.000000007","d":"PT0.000001001S","n":[{"c":"00:00:01.000000007"}],"m":[["k","00:00:00.000000001"]]},{"t":null,"c":null,"d":null,"n":null,"m":null}]'),
    "nanoseconds of Arrow in a DataFrame": (
        pd.DataFrame({"c": pd.Series([1_000_000_007, None], dtype=pd.ArrowDtype(pa.time64("ns"))), "n": [1, 2]}),
        '[{"c":"00:00:01.000000007","n":1},{"c":null,"n":2}]',
    ),
    "seconds in offsets of Arrow": (
        pa.array([-3 * 10**9, 0, None], pa.timestamp("s", "America/New_York")),
        '["1874-12-07T18:40:00Z","1969-12-31T19:00:00-05:00",null]',
    ),
    "Arrow table without columns": (pa.table({}), "[]"),
    "labels of several levels": (pd.MultiIndex.from_tuples([("a", 1), ("b", None)]), '[["a",1.0],["b",null]]'),
    "structured array": (np.array([(1, ("é", 0.5))], dtype=FIELDS), '[{"id":1,"of":{"name":"é","p":0.5}}]'),
    "record of an array": (np.rec.array([(1, ("x", 2))], dtype=FIELDS)[0], '{"id":1,"of":{"name":"x","p":2.0}}'),
    "structured array of two dimensions": (np.zeros((1, 1), dtype=[("n", "i4")]), '[[{"n":0}]]'),
    "DataFrame without columns": (pd.DataFrame(), "[]"),
    "DataFrame with times": (pd.DataFrame({"t": [pd.Timestamp("2026-01-02"), pd.NaT]}), '[{"t":"2026-01-02T00:00:00"},{"t":null}]'),
    "Series": (pd.Series([1, 2]), "[1,2]"),
    "Series with an index": (pd.Series({"a": 1}, name="n"), '[{"index":"a","n":1}]'),
    "frame in a dict": ({"rows": pd.DataFrame({"a": [1]}), "n": np.int64(1)}, '{"rows":[{"a":1}],"n":1}'),
}  # fmt: skip


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
@pytest.mark.parametrize("name", SMALL)
def test_small_outputs_pass_in_their_defined_form(session: Session, name: str) -> None:
    output, expected = SMALL[name]
    result = session.process(output, tool="t", call_id="c")
    assert (result.route, result.content) == ("inline", expected)
    assert (result.reason, result.envelope) == ("below_floor", None)
    assert len(result.artifacts) == len(result.variables) == (result.tokens >= Policy().keep_tokens)
    assert session.process(output, tool="t", call_id="c").step == result.step
    assert session.history()[0].original == session.ledger()[0].content == expected


def test_an_iterator_is_read_out(session: Session) -> None:
    assert session.process((i * i for i in range(3)), tool="t").content == "[0,1,4]"


class Liar(str):
    def __str__(self) -> str:
        return "a lie"


class BadText(str):
    def __str__(self) -> str:
        raise RuntimeError

    def encode(self, *_: Any) -> bytes:
        raise RuntimeError

    __len__ = None  # type: ignore[assignment]


class BadBytes(bytes):
    def __bytes__(self) -> bytes:
        raise RuntimeError


class BadList(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


class BadDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError


class BadClass:
    @property
    def __class__(self) -> Any:
        raise RuntimeError

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class BadAttributes:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError


class BadMeta(type):
    @property
    def __name__(cls) -> str:
        raise RuntimeError


class Nameless(metaclass=BadMeta):
    pass


class BadModule:
    __module__ = 5  # type: ignore[assignment]


class BadIterator:
    def __iter__(self) -> Iterator[int]:
        yield 1
        raise RuntimeError("half way")


class Posing:
    __module__ = "pandas.core"


class SelfDumping:
    def model_dump(self) -> object:
        return self


class BadKey:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def released() -> memoryview:
    view = memoryview(b"abc")
    view.release()
    return view


def circular() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def deep(levels: int, *, objects: bool) -> Any:
    value: Any = None
    for _ in range(levels):
        value = {"a": value} if objects else [value]
    return value


HOSTILE: dict[str, tuple[Any, str]] = {
    "a str that lies": (lambda: Liar("the truth"), "the truth"),
    "a str that raises": (lambda: BadText("abc"), "abc"),
    "bytes that raise": (lambda: BadBytes(b"abc"), "abc"),
    "a list that raises": (lambda: BadList([1]), "[1]"),
    "a dict that raises": (lambda: BadDict(a=1), '{"a":1}'),
    "a released view": (released, "[output of type memoryview could not be read: ValueError]"),
    "__repr__ raises": (BadRepr, "[BadRepr is not JSON: <BadRepr>]"),
    "__class__ raises": (BadClass, "[BadClass could not be read: RuntimeError]"),
    "the type's name raises": (Nameless, "[Nameless could not be read: RuntimeError]"),
    "the module is a number": (BadModule, "[BadModule could not be read: AttributeError]"),
    "iterating raises": (BadIterator, "[BadIterator could not be read: RuntimeError]"),
    "in a list": (lambda: [1, BadIterator()], '[1,"[BadIterator could not be read: RuntimeError]"]'),
    "a key raises": (lambda: {"x": {BadKey(): 1}}, '{"x":{"[BadKey is not JSON: <BadKey>]":1}}'),
    "model_dump gives itself": (SelfDumping, None),
    "poses as pandas": (Posing, None),
    "every attribute raises": (BadAttributes, None),
    "circular": (circular, '[1,{"again":"[circular reference to list]"}]'),
    "100,000 lists deep": (lambda: deep(100_000, objects=False), "[" * 200 + '"[nested deeper than 200 levels]"' + "]" * 200),
    "100,000 dicts deep": (lambda: deep(100_000, objects=True), None),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_become_notes(session: Session, name: str) -> None:
    make, expected = HOSTILE[name]
    result = session.process(make(), tool="t", call_id="c")
    assert result.route == "inline"
    if expected is None:
        assert result.content
        assert len(result.content) < 2_000
    else:
        assert result.content == expected


def test_an_exact_str_is_kept_of_a_subclass() -> None:
    assert type(to_block(Liar("x")).text) is str


def whole(session: Session, output: object, tool: str = "t") -> Any:
    """The value that code and host reach after a big output."""
    result = session.process(output, tool=tool)
    assert result.route == "variables", (result.route, result.reason)
    assert result.tokens <= session._scope.policy.envelope_budget
    envelope = json.loads(result.content)
    assert envelope == result.envelope
    assert [name for name in envelope if name != "values"] == [
        "variables",
        "schema",
        "preview",
        "omitted",
        "instruction",
    ]
    assert len(result.content.encode()) < result.artifacts[0].size_bytes
    value: Any = session.variable(tool).value()
    for variable in result.variables[1:]:
        assert variable.value() == value[variable.path[0]]
    return value


many = 3_000

BIG: dict[str, tuple[Any, Any]] = {
    "records": (records(many), records(many)),
    "tuples": ([(i, str(i)) for i in range(many)], [[i, str(i)] for i in range(many)]),
    "dataclasses": ([Point(i, ["x"]) for i in range(many)], [{"x": i, "tags": ["x"]} for i in range(many)]),
    "one dataclass": (Point(1, ["tag"] * 20_000), {"x": 1, "tags": ["tag"] * 20_000}),
    "DataFrame": (pd.DataFrame(records(many)), records(many)),
    "Series": (pd.Series(range(30_000)), list(range(30_000))),
    "array": (np.arange(30_000), list(range(30_000))),
    "integer keys": ({i: {"n": i} for i in range(many)}, {str(i): {"n": i} for i in range(many)}),
    "keys that become the same": ({1: ["a"] * 9_000, "1": ["b"] * 9_000}, {"1": ["a"] * 9_000, "1_2": ["b"] * 9_000}),
    "dates": ([{"d": datetime.date(2026, 1, 1)}] * many, [{"d": "2026-01-01"}] * many),
    "Decimals": ([Decimal("1.5")] * 20_000, [1.5] * 20_000),
    "enums": ([Level.HIGH, Colour.RED] * 9_000, [3, "r"] * 9_000),
    "NaN": ([1.5, math.nan] * 9_000, [1.5, None] * 9_000),
    "NUL": ({"rows": ["a\0b" * 40] * 400}, {"rows": ["a\0b" * 40] * 400}),
    "lone surrogates": (["\ud800x" * 300] * 90, ["\ud800x" * 300] * 90),
    "lone surrogates in keys": ({"\udfff": ["x"] * 20_000}, {"\udfff": ["x"] * 20_000}),
    "huge integers": ([10**2_900] * 90, [10**2_900] * 90),
    "small scalars beside": (page(), page()),
    "deep but within bounds": ([deep(150, objects=True)] * 200, [deep(150, objects=True)] * 200),
    "circular": ((lambda v: [v, v.append(v)])(["x"] * 20_000)[0], ["x"] * 20_000 + ["[circular reference to list]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BIG)
def test_big_values_are_reached_whole(session: Session, name: str) -> None:
    output, expected = BIG[name]
    assert whole(session, output) == expected


def test_a_generator_inside_is_read_once_and_bounded(chat: Session) -> None:
    assert whole(chat, {"rows": (i for i in range(30_000))}) == {"rows": list(range(30_000))}
    endless = whole(chat, {"rows": itertools.count()}, tool="endless")["rows"]
    assert endless[:-1] == list(range(1_000_000))
    assert endless[-1] == "[1,000,000 items were taken of an iterable; what followed was not read.]"


TEXTS: dict[str, tuple[str | bytes, Any]] = {
    "records": (json.dumps(records(many)), records(many)),
    "bytes": (json.dumps(page()).encode(), page()),
    "odd spacing": (json.dumps(page(), indent=3), page()),
    "byte-order mark": ("\ufeff" + json.dumps(page()), page()),
    "utf-16": (json.dumps(page()).encode("utf-16"), page()),
    "leading blanks": (" \n\t" + json.dumps(page()), page()),
    "duplicate keys": ('{"a":' + json.dumps(records(many)) + ',"a":' + json.dumps([1] * 20_000) + "}", {"a": [1] * 20_000}),
    "1e999": ('{"rows":[' + ",".join(["1e999", "-1e999"] * 9_000) + "]}", {"rows": [math.inf, -math.inf] * 9_000}),
    "huge integers": ("[" + ",".join(["1" * 4_300] * 30) + "]", [int("1" * 4_300)] * 30),
    "integers too huge": ("[" + ",".join(["1" * 4_301] * 30) + "]", ["1" * 4_301] * 30),
    "escaped lone surrogates": (json.dumps(["\ud800" * 50] * 300), ["\ud800" * 50] * 300),
    "raw lone surrogates": (json.dumps(["\ud800" * 50] * 900, ensure_ascii=False), ["\ud800" * 50] * 900),
    "NUL": (json.dumps(["a\0b" * 50] * 300), ["a\0b" * 50] * 300),
    "JSON in a string": (json.dumps({"data": json.dumps(records(many))}), {"data": json.dumps(records(many))}),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_json_that_arrives_as_text_is_structured(session: Session, name: str) -> None:
    text, expected = TEXTS[name]
    assert whole(session, text) == expected
    artifact = session.artifacts()[0]
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if name != "utf-16":
        assert artifact.payload.read() == raw


def test_nan_in_text_is_a_number_and_reached(session: Session) -> None:
    value = whole(session, '{"rows":[' + ",".join(["NaN"] * 20_000) + "]}")
    assert len(value["rows"]) == 20_000
    assert all(math.isnan(number) for number in value["rows"])


PLAIN: dict[str, tuple[str | bytes, str]] = {
    "prose": (prose(2_000_000), "not a JSON object or array"),
    "a JSON string": ('"' + "x" * 2_000_000 + '"', "not a JSON object or array"),
    "trailing comma": ("[1,\n2,\n" + "3," * 700_000 + "]", "line 3, column"),
    "two documents": ("[1]\n" * 400_000, "Extra data at line 2, column 1"),
    "cut off": (json.dumps(records(30_000))[:-1], "line 1, column"),
    "too deep": ("[" * 1_000_000 + "]" * 1_000_000, "nested too deeply"),
    "too deep with objects": ('{"a":' * 200_000 + "1" + "}" * 200_000, "nested too deeply"),
    "not UTF-8": (b'["' + b"\xff" * 1_500_000 + b'"]', "not UTF-8"),
    "zero bytes": ("\0" * 1_500_000, "not a JSON object or array"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_no_json_is_text_and_why_is_said(session: Session, name: str) -> None:
    output, why = PLAIN[name]
    result = session.process(output, tool="t", call_id="c")
    assert (result.route, [variable.name for variable in result.variables]) == ("truncate", ["t"])
    assert result.tokens <= 2_500
    assert why in session.explain("c").numbers["plaintext"]
    [artifact] = result.artifacts
    assert artifact.payload.read() == (output if isinstance(output, bytes) else output.encode())
    assert artifact.kind == "text"
    assert artifact.id in result.content


def test_the_three_forms_of_one_payload_are_described_alike(counted: Opener) -> None:
    text = json.dumps(page(), separators=(",", ":"))
    forms = [counted().process(form, tool="t").envelope for form in (text, text.encode(), page())]
    for form in forms[1:]:
        assert form is not None
        assert forms[0] is not None
        assert (form["schema"], form["preview"]) == (forms[0]["schema"], forms[0]["preview"])


# Truncation


@pytest.mark.parametrize(
    "output", [page(30_000), json.dumps(page(30_000)), records(40_000)], ids=["value", "text", "list"]
)
def test_truncated_json_parses_and_keeps_both_ends_and_siblings(counted: Opener, output: Any) -> None:
    session = counted(tools=[])
    result = session.process(output, tool="t")
    assert (result.route, result.envelope) == ("truncate", None)
    assert result.tokens <= 2_500
    assert "art_" not in result.content
    shown = json.loads(result.content)
    rows = shown["users"] if isinstance(shown, dict) else shown
    last = 30_000 if isinstance(shown, dict) else 40_000
    assert (rows[0], rows[-1]) == (records(1)[0], records(last)[-1])
    assert [row for row in rows if isinstance(row, str)]
    if isinstance(shown, dict):
        assert (shown["total"], shown["next_cursor"]) == (15_000, "abc")


@given(st.integers(4_096, 12_000), st.sampled_from(["a", " ", "漢", "x\n", "0123456789", "é "]))
@settings(max_examples=settings.default.max_examples * 2 // 5)
def test_what_stands_for_an_output_is_smaller_than_it(local: Engine, size: int, piece: str) -> None:
    session = local.session(secrets.token_hex(8), tenant="smaller", context_window=1_000)
    text = (piece * size)[:size]
    result = session.process(text, tool="t")
    if result.route in ("inline", "wholesale"):
        assert result.content == text
    else:
        assert result.tokens < result.original_tokens
        assert len(result.content.encode()) < len(text.encode())


# Anything at all

KEYS = st.one_of(
    st.sampled_from(["id", "rows", "a", "", "$ref", "__class__", "var_step_1", "…"]),
    st.text(st.characters(codec=None), max_size=8),
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**40), 10**40), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec=None), max_size=60), st.sampled_from(["x" * 500, '"\\' * 60, "漢" * 200, "\0" * 50]),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(KEYS, inner, max_size=6),
        st.builds(lambda value, times: [value] * times, inner, st.integers(2, 200)),
        st.builds(lambda value, times: {f"key {i}": value for i in range(times)}, inner, st.integers(2, 60)),
    ),
    max_leaves=25,
)
POLICY = {"min_threshold_bytes": 0, "max_result_tokens": 60}


@given(VALUES, st.booleans(), st.sampled_from([None, 100, 300]))
@settings(max_examples=settings.default.max_examples * 3 // 5)
def test_any_json_is_small_parses_and_is_reached_whole(
    local: Engine, value: Any, as_text: bool, budget: int | None
) -> None:
    policy = Policy(**POLICY, envelope_tokens=budget)
    session = local.session(secrets.token_hex(8), tenant="any", policy=policy, context_window=1_000_000)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    output = text if as_text else value
    result = session.process(output, tool="any tool", call_id="c")
    assert session.process(output, tool="any tool", call_id="c").content == result.content
    if result.route == "inline":
        got = jsontext.decode(result.content.encode("utf-8", "surrogatepass")) if type(value) is not str else value
        assert got == value
        assert not as_text or result.content == text
        return
    assert result.tokens < result.original_tokens
    assert len(result.content.encode("utf-8", "surrogatepass")) < len(text.encode("utf-8", "surrogatepass"))
    if result.route == "variables":
        assert json.loads(result.content) == result.envelope
        assert result.tokens <= policy.envelope_budget
        assert session.variable("any_tool").value() == value
        assert session.variable(f"var_step_{result.step}").value() == value
        for variable in result.variables:
            assert variable.value() == at_path(value, variable.path)


@given(st.text(st.characters(codec=None)), st.integers(1, 400))
@settings(max_examples=settings.default.max_examples // 2)
def test_any_text_is_kept_to_the_byte(local: Engine, piece: str, times: int) -> None:
    policy = Policy(**POLICY, plaintext="truncate", truncate_tokens=50)
    session = local.session(secrets.token_hex(8), tenant="text", policy=policy, context_window=1_000_000)
    text = piece * times
    result = session.process(text, tool="t")
    if result.route == "inline":
        assert result.content == text
        return
    [artifact] = result.artifacts
    assert artifact.payload.read() == text.encode("utf-8", "surrogatepass")
    assert artifact.value == text or artifact.kind == "json"
    assert result.tokens < result.original_tokens


def test_an_iterator_survives_that_its_values_are_written_twice(chat: Session) -> None:
    rows = [*records(2_000), {"bad": "\ud800"}]
    assert whole(chat, {"rows": iter(rows)}) == {"rows": rows}
    assert whole(chat, (row | {"n": 10**20} for row in rows), tool="mapped")[-1] == {"bad": "\ud800", "n": 10**20}


def test_values_that_repeat_their_own_parts_without_end_become_a_note(session: Session) -> None:
    laughs: Any = ["lol"]
    for _ in range(60):
        laughs = [laughs, laughs]
    assert session.process({"a": laughs}, tool="yaml").content.startswith("[output of type dict repeats its own parts")
    same = {"id": 1}
    assert json.loads(to_block([same] * 20_000).text) == [same] * 20_000


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_null(session: Session, number: str) -> None:
    assert session.process({"a": Decimal(number), "b": "NaN"}, tool="sql").content == '{"a":null,"b":"NaN"}'


def test_an_iterator_that_exits_does_not_end_the_turn(session: Session) -> None:
    def rows() -> Iterator[int]:
        yield 1
        raise SystemExit(3)

    assert session.process({"rows": rows()}, tool="t").route == "inline"


class Wordy:
    """Counts three tokens a character, as no real counter does."""

    def count(self, text: str, kind: str = "text") -> int:
        return 3 * len(text)


def test_a_counter_for_which_nothing_fits_leaves_the_names(sandbox: Any) -> None:
    with Engine("sqlite://", interpreter=sandbox, counter=Wordy()) as engine:
        session = engine.session("s", context_window=10**6, policy=Policy(envelope_tokens=100))
        result = session.process(records(3_000), tool="rows")
        assert result.route == "variables"
        assert json.loads(result.content)["schema"] == ""
