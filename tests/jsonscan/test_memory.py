"""JSON that is described by its ends has the same description as if all of it had been parsed; text that is not JSON is never
described."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byref.describe.columns import TooDeep
from byref.describe.rows import Entries, Rows
from byref.describe.schema import infer
from byref.describe.shape import shape
from byref.jsonscan import groups, memory, peek
from byref.jsonscan.matcher import Matcher
from byref.jsonscan.memory import Described, describe_text
from byref_sandbox import jsontext

SIZES: dict[str, Any] = {}
"""What they are but for these tests."""


@pytest.fixture(autouse=True, scope="module", params=["grouped", "matched"])
def small(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "grouped" and not groups.available:
        pytest.skip("byref was installed without a compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "available", request.param == "grouped")
        for name, size in {"_PIECE": 40, "_MANY": 40}.items():
            patch.setattr(groups, name, size)
        for name, size in {"LEAST": 200, "_WINDOW": 300, "_END": 250, "_FIRST": 4, "LOST": 1_000}.items():
            SIZES[name] = getattr(memory, name)
            patch.setattr(memory, name, size)
        yield


def written(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **{"ensure_ascii": False, **options}).encode(errors="surrogatepass")


def lines(records: list[Any]) -> bytes:
    return b"[%s]" % b",\n".join(map(written, records))


def assert_of(outline: Any, value: Any) -> None:
    """An outline has the value's parts, and those that it has are true."""
    if type(outline) is Rows:
        head, tail = len(outline.head), len(outline.tail)
        assert type(value) is list
        assert len(outline) == len(value)
        assert 0 < head <= len(value) - tail < len(value)
        assert repr(outline.head) == repr(value[:head])  # NaN and infinities are as they are
        assert repr(outline.tail) == repr(value[-tail:])
        between = map(repr, value[head : len(value) - tail])
        assert outline.samples and all(repr(sample) in between for sample in outline.samples), "some, in order"
    elif type(outline) is Entries:
        head, keys = len(outline.head), list(value)
        assert list(outline.keys()) == keys and len(outline) == len(value) > len(outline.some)
        assert repr(outline.head) == repr(dict(islice(value.items(), head)))
        assert list(outline) == [key for key in keys if key in outline.some], "in order"
        assert list(outline)[-1] == keys[-1] and outline.behind_head == list(outline.some.values())[head:]
        assert all(repr(outline[key]) == repr(value[key]) for key in outline)
        assert repr(outline.whole()) == repr(value)
    elif type(outline) is dict:
        assert list(outline) == list(value)
        for key, member in outline.items():
            assert_of(member, value[key])
    else:
        assert repr(outline) == repr(value)


def assert_shape_of(outline: Any, value: Any) -> None:
    shown, whole = shape(outline), shape(value)
    if type(outline) is Entries:  # of which fewer members may be in memory than there is room for
        assert isinstance(shown, dict) and isinstance(whole, dict)
        *said, more = shown
        assert [shown[key] for key in said] == list(whole.values())[: len(said)]
        assert (more, shown[more]) == ("…", f"{len(value) - len(said)} more keys")
    else:
        assert shown == whole


def checked(text: bytes) -> Described | None:
    """What is said of a text, once it was found to be exact."""
    found, described = describe_text(text), describe_text(text, text.count(b"\n"))
    if found is None or described is None:
        assert found is described
        return None
    value = jsontext.decode(text)
    schema = infer(value, plain=True)
    for one in (found, described):
        assert_of(one.outline, value)
        assert_shape_of(one.outline, value)
        assert json.dumps(one.schema.full()) == json.dumps(schema.full())
        assert one.schema.folded == schema.folded
        for budget in (60, 300, 2_000):
            assert one.schema.fitted(budget, len) == schema.fitted(budget, len)
    return found


def records(count: int = 60) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": f"User {i}, é", "score": i / 7, "tags": ["a", "b"][: i % 3], "at": {"x": i, "y": None}}
        for i in range(count)
    ]


def but(record: dict[str, Any], at: int = 37) -> list[dict[str, Any]]:
    """Records of which one has other members, or more."""
    found = records()
    found[at] = {**found[at], **record}
    return found


def some(*keys: str, every: int = 3) -> list[dict[str, Any]]:
    """Records that lack one of these keys by turns."""
    return [
        {key: value for key, value in record.items() if i % every or key != keys[i // every % len(keys)]}
        for i, record in enumerate(records())
    ]


def shuffled(record: dict[str, Any], seed: int) -> dict[str, Any]:
    items = list(record.items())
    random.Random(seed).shuffle(items)
    return dict(items)


DESCRIBED: dict[str, Any] = {
    "alike": records(),
    "optional": some("name", "at"),
    "two orders": [dict(reversed(one.items())) if i % 5 == 4 else one for i, one in enumerate(records())],
    "another order, late": [*records(40), dict(reversed(records()[0].items())), *records(20)],
    "two kinds": [{"type": "a", "id": i} if i % 2 else {"type": "b", "text": "x" * (i % 9)} for i in range(99)],
    "the first is different": [{"id": 0, "first": True}, *records()],
    "the last is different": [*records(), {"id": 0, "last": True}],
    "null, late": but({"name": None}),
    "an integer among floats": but({"score": 3}),
    "a float among integers": but({"id": 1.5}),
    "an item of another kind": but({"tags": [1]}),
    "an object instead": but({"name": {"first": "x"}}),
    "an object in it is different": but({"at": {"x": 1}}),
    "an empty one within": but({"at": {}, "tags": []}),
    "a new member": but({"more": [{"deep": 1}]}),
    "several are different": [*but({"name": None}), *but({"id": 0.5}), *but({"more": 1}), *but({"at": [1]})],
    "long integers": [{"id": i, "n": (-1) ** i * 10 ** (i + 1)} for i in range(60)],
    "marks in strings": [{**one, "name": '{"id": 1}, ["id": \\'} for one in records()],
    "the marker in a key": [{'x"id': 1, **one, '"id":': 2} for one in records()],
    "escaped keys": [{"id": i, '"\\\n\t/': 1, "\x7f\u2028": 2, "\U0001f600é": 3} for i in range(60)],
    "surrogates in strings": but({"name": "\ud800"}),
    "an odd marker": [{":": i, "k": [":x", ":", ",", ","], "l": ":"} for i in range(60)],
    "an odd marker of rows": [[i, "x", None, "]"] for i in range(99)],
    "rows": [[i, f"{i}, ", i / 7, None] for i in range(99)],
    "rows of many lengths": [[i] * (i % 5 + 1) for i in range(99)],
    "integers": list(range(300)),
    "numbers": [*range(100), 0.5, *range(100)],
    "page": {"total": 60, "rows": records(), "next": None},
    "page in a page": {"data": {"items": records(), "é": [1, {"a": []}]}, "errors": []},
    "two arrays": {"users": records(), "none": [], "few": [{"id": 1}], "others": some("id", "name"), "n": {}},
    "a map beside it": {"map": {f"key {i}": {"n": i} for i in range(40)}, "rows": records(200)},
}


LAYOUTS: dict[str, Callable[[Any], bytes]] = {
    "compact": lambda value: written(value, separators=(",", ":")),
    "spaced": written,
    "ASCII": lambda value: written(value, ensure_ascii=True),
    "indented": lambda value: written(value, indent=1),
    "colons apart": lambda value: written(value, separators=(" , ", " :\t")),
    "a mark before, blanks around": lambda value: b"\xef\xbb\xbf \r\n" + written(value) + b"\n\t ",
    "lines": lambda value: lines(value) if type(value) is list else written(value),
    "lines, the last ended": lambda value: lines(value)[:-1] + b"\n]" if type(value) is list else written(value),
}


def mapped(elements: list[Any], key: str = "key {}") -> dict[str, Any]:
    return {key.format(i): one for i, one in enumerate(elements)}


MAPS: dict[str, Any] = {
    "alike": mapped(records()),
    "optional": mapped(some("name", "at")),
    "in any order": mapped([shuffled(one, i) for i, one in enumerate(records())]),
    "rows": mapped([[i, f"{i}, ", i / 7, None] for i in range(99)]),
    "odd keys": mapped(records(), 'é\n"{}" \\ \U0001f600'),
    "in a page": {"n": 1, "data": {"by id": mapped(records())}, "next": None},
    "several": {"users": mapped(records()), "rows": records(200), "none": {}, "others": mapped(some("id"))},
    "lists in it": mapped([{"id": i, "of": [{"n": j, "x": "y"} for j in range(i % 4)]} for i in range(90)]),
    "maps in it": mapped([{"id": i, "of": {f"{i % 3} {j}": {"n": j} for j in range(40)}} for i in range(50)]),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
@pytest.mark.parametrize("value", MAPS.values(), ids=list(MAPS))
def test_maps_are_described_exactly(value: Any, layout: Callable[[Any], bytes]) -> None:
    found = checked(layout(value))
    if groups.available:
        assert found is not None
        assert "Entries" in repr(walked(found.outline))
        whole = infer(jsontext.decode(layout(value)), plain=True)
        assert found.schema.outline.fitted(2_000, len) == whole.outline.fitted(2_000, len)


def walked(value: Any) -> Any:
    return [walked(member) for member in value.values()] if type(value) is dict else type(value)


@pytest.mark.parametrize(
    "value",
    [
        mapped(records(39)),
        mapped([*records(), None]),
        mapped([[one] for one in records()]),
        mapped([{"of": [{"id": i, "in": [{"n": j} for j in range(3)]}]} for i in range(60)]),
        mapped([f"text {i}" for i in range(200)]),
        mapped([{f"name {i}": 1} for i in range(200)]),
        {"a": {"b": {"c": {"d": mapped(records())}}}},
    ],
    ids=["few", "null", "lists of records", "lists in lists", "texts", "of no form", "deep"],
)
def test_other_objects_are_described_exactly_if_at_all(value: Any) -> None:
    found = checked(written(value))
    assert found is None or "Entries" not in repr(walked(found.outline))


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (b'"key 30":', b'"key 3":'),
        (b'"key 30":', b'"key \\u0033":'),
        (b'"key 30":', b'"key 30"'),
        (b'"key 30":', b"key 30:"),
        (b'"key 30":', b'"key 30":,'),
        (b'"key 30":', b'"key 30",'),
        (b'"key 30":', b"30:"),
        (b'"key 30":', b'"key \xff":'),
        (b'"key 30":', b'"key \\ud800":'),
        (b'"key 30":', b'"key \\x":'),
        (b'"key 30":', b'"key \x01":'),
    ],
    ids=ascii,
)
def test_odd_keys_of_maps_are_left_to_the_parser(before: bytes, behind: bytes) -> None:
    text = written(mapped(records()))
    changed = text.replace(before, behind, 1)
    assert changed != text
    try:
        jsontext.decode(changed)
    except jsontext.NotJSON:
        assert describe_text(changed) is None
    else:
        checked(changed)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
@pytest.mark.parametrize("value", DESCRIBED.values(), ids=list(DESCRIBED))
def test_described_exactly(value: Any, layout: Callable[[Any], bytes]) -> None:
    found = checked(layout(value))
    assert found is not None
    members = found.outline.values() if type(found.outline) is dict else [found.outline]
    assert any(
        type(one) is Rows for member in members for one in (member.values() if type(member) is dict else [member])
    )


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


TEXT = written(records())
LINES = lines(records())
ID = b'"id": 37,'
LONG = b"[%s]" % b",".join(b'{"id": %d, "x": 1}' % i for i in range(200))


@pytest.mark.parametrize(
    "text",
    [
        written([shuffled(one, i) for i, one in enumerate(records())]),
        written(but({"name": "x" * 70_000})),
        written([*records(), [1]]),
        written([*records(), None]),
        written([{}, *records()]),
        written([{}] * 200),
        written([{f"key {i}": 1} for i in range(200)]),
        written([{"id": i, "\ud800": 1} for i in range(200)]),
        written([{"id": i, "\ud83d\ude00": 1} for i in range(100)] + [{"id": i, "\U0001f600": 1} for i in range(100)]),
        written({"a": {"b": {"c": {"d": records()}}}}),
        written([records(), records()]),
        written([[[i, i / 7]] * (i % 4) for i in range(120)]),
        written([[[i, [[None, "x"]] * (i % 2)]] * (i % 4) for i in range(120)]),
        written([[[i, {"x": i}]] * (i % 4) for i in range(120)]),
        written([[[i, i / 7]] * (i % 4) for i in range(120)] + [None]),
        written([{"id": i, "at": [[[i, 0.5]] * (i % 7)] * (i % 3)} for i in range(120)]),
        written([{"id": i, "at": [1, [nested(i % 3), [1, None]][i % 2 :]]} for i in range(120)]),
        written({"type": "x", "arcs": [[[i, i / 7]] * (i % 4 + 1) for i in range(120)], "rows": records()}),
        written({str(i): records(3) for i in range(20)}),
        TEXT.replace(ID, b'"id": %s,' % (b"9" * 24)),
        TEXT.replace(ID, b'"id": %s,' % (b"9" * 25)),
        TEXT.replace(ID, b'"id": %s,' % (b"9" * 4_300)),
        TEXT.replace(ID, b'"id": %s,' % (b"9" * 4_301)),
        TEXT.replace(ID, b'"id": -%s,' % (b"9" * 5_000)),
        LONG.replace(b"150,", b"9" * 4_301 + b","),
        TEXT.replace(ID, b'"id": 1e999,'),
        TEXT.replace(ID, b'"id": -0,'),
        TEXT.replace(ID, b'"id": NaN,'),
        TEXT.replace(ID, b'"id": Infinity,'),
        TEXT.replace(ID, b'"\\u0069d": 37,'),
        TEXT.replace(ID, b'"id": 36, "id": 37,'),
        TEXT.replace(ID, b'"id": 37,\n'),
        TEXT.replace(b"User 37", b"\xed\xa0\x80"),
        TEXT.replace(b"User 37", b"\\ud800"),
        LINES.replace(b"37,", b"37,\n", 1),
        LINES.replace(b"},\n", b"},\n\n"),
        LINES.replace(b"},\n", b"}, \n"),
        LINES.replace(b'},\n{"id": 37', b'},\n\n{"id": 37'),
        LINES.replace(b'},\n{"id": 37', b'},\n {"id": 37'),
        LINES.replace(b'},\n{"id": 37', b'},{"id": 37'),
        LINES.replace(b'},\n{"id": 37', b'}\n,{"id": 37'),
        LINES.replace(b'},\n{"id": 37', b'},\r\n{"id": 37'),
        LINES.replace(b"[", b"[\n", 1),
        LINES[:-1] + b"\n\n]",
    ],
    ids=lambda text: ascii(text)[:40] + f"{len(text)}",
)
def test_what_is_odd_is_described_exactly_if_at_all(text: bytes) -> None:
    jsontext.decode(text)
    checked(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" " * 1_000,
        b"\xef\xbb\xbf" * 2 + TEXT,
        b"\x00" + TEXT,
        TEXT + b"\x00",
        TEXT + b"x",
        TEXT + TEXT,
        TEXT + b",",
        TEXT + b"]",
        TEXT[:-1],
        TEXT[:-2],
        TEXT[:-1] + b"}",
        TEXT[:-1] + b",]",
        TEXT[:-1] + b",,]",
        b"[," + TEXT[1:],
        b"[" + TEXT,
        b'{"a": ' + TEXT,
        b'{"a": ' + TEXT + b",}",
        b'{"a" ' + TEXT + b"}",
        b"{1: " + TEXT + b"}",
        b"{" + TEXT + b"}",
        TEXT.replace(ID, ID + b","),
        TEXT.replace(ID, ID[:-1]),
        TEXT.replace(ID + b" ", ID + b" ]"),
        TEXT.replace(b'}, {"id": 37', b'} {"id": 37'),
        TEXT.replace(b'}, {"id": 37', b'},, {"id": 37'),
        TEXT.replace(b'}, {"id": 37', b'}, "id": 37'),
        TEXT.replace(ID, b'"id": 037,'),
        TEXT.replace(ID, b'"id": +37,'),
        TEXT.replace(ID, b'"id": 37.,'),
        TEXT.replace(ID, b'"id": nan,'),
        TEXT.replace(b"User 37", b"User\n37"),
        TEXT.replace(b"User 37", b"User\x0037"),
        TEXT.replace(b"User 37", b"User\\x37"),
        TEXT.replace(b"User 37", b"User\\u37"),
        TEXT.replace(b"User 37", b'User" 37'),
        TEXT.replace(b'"User 37', b"User 37"),
        LINES.replace(b"},\n", b"}\n"),
        LINES.replace(b"[", b"")[:-1],
        LINES[:-1] + b",\n]",
        b"\n".join(map(written, records())),
        b'{"a":' * 20_000,
        b"[" * 20_000,
        b'[{"a":' * 20_000,
        b'["' + b"x" * 20_000,
    ],
    ids=lambda text: ascii(text[-24:]) + f"{len(text)}",
)
def test_what_is_no_json_is_not_described(text: bytes) -> None:
    assert describe_text(text) is None
    with pytest.raises(jsontext.NotJSON):
        jsontext.decode(text)


def test_short_text_is_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LEAST", len(TEXT) + 1)
    assert describe_text(TEXT) is None
    monkeypatch.setattr(memory, "LEAST", len(TEXT))
    assert describe_text(TEXT) is not None


@pytest.mark.parametrize("value", [DESCRIBED["alike"], DESCRIBED["rows"], DESCRIBED["page"]])
def test_whatever_the_windows_are(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(value)
    for size in (1, 50, 99, 250, 1_000, 10_000):
        monkeypatch.setattr(memory, "_WINDOW", size)
        for end in (1, 100, 1_000):
            monkeypatch.setattr(memory, "_END", end)
            checked(text)


def test_maps_that_come_key_by_key_are_folded_as_ever() -> None:
    described = 0
    for keys in (10, 20, 40):
        found: list[dict[str, Any]] = [{"id": 0, "z": 1}] * 3 + [{"id": 0}] * 5
        for i in range(keys):
            found += [{"id": 1}] * (i // 2 + 1) + [{"id": 1, f"key {i}": [1]}] + [{"id": 1}] * 2
        described += checked(written(found + [{"id": 0}] * 300)) is not None
    assert described


def mutations(text: bytes) -> Iterator[bytes]:
    """The text with a byte missing, replaced, or with another before it."""
    for at in range(len(text)):
        yield text[:at] + text[at + 1 :]
        for mark in b'{}[],:"\\0123-+.eEuntrfalsi \t\n\r\x00\x1f\x7f':
            yield b"%s%c%s" % (text[:at], mark, text[at:])
            yield b"%s%c%s" % (text[:at], mark, text[at + 1 :])


SMALL = [
    {"id": 1, "f": 0.5, "a": [1]},
    {"id": 2, "f": 1.5, "a": []},
    *({"id": i, "f": i + 0.5, "a": ["x"] if i == 13 else [i]} for i in range(12, 22)),
]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    "text",
    [
        written(SMALL, separators=(",", ":")),
        lines(SMALL),
        written({"n": 1, "rows": SMALL}),
        written([[i, 0.5, "x"] for i in range(40)]),
        written({f"é{i}": {"n": i} for i in range(40)}),
    ],
    ids=["compact", "lines", "page", "rows", "map"],
)
@pytest.mark.parametrize("step", [pytest.param(151, id="some"), pytest.param(17, id="many", marks=pytest.mark.slow)])
def test_no_byte_can_be_changed_unnoticed(text: bytes, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_WINDOW", 60)
    monkeypatch.setattr(memory, "_END", 40)
    if text.startswith(b'{"\xc3') and not groups.available:
        pytest.skip("only groups describe maps")
    assert checked(text) is not None
    described = 0
    for changed in islice(mutations(text), 0, None, step):
        try:
            jsontext.decode(changed)
        except jsontext.NotJSON:
            assert describe_text(changed) is None, changed
            continue
        described += checked(changed) is not None
    assert described > 10


KEYS = st.sampled_from(["id", "a", "b", 'x"id', "id2", "é", ",", ":", "\\", "\ud800"])
TEXTS = st.sampled_from(["", "x", 'a"b', '"id":', "},{", "[", "\\", "é☃", "\U0001f600", "\x7f\u2028", "\ud800"])
NUMBERS = st.one_of(st.integers(-9, 99), st.sampled_from([10**25, -0.0, 0.5, 1e300, 1e-7]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
MEMBERS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=4,
)
OBJECTS = st.dictionaries(KEYS, MEMBERS, min_size=1, max_size=4)


@st.composite
def arrays(draw: st.DrawFn) -> list[Any]:
    """Elements of few kinds, of which some are unlike the others."""
    lists = st.lists(SCALARS, max_size=4)
    elements = draw(st.sampled_from([OBJECTS, OBJECTS, OBJECTS, lists, st.lists(lists, max_size=3), NUMBERS]))
    kinds = draw(st.lists(elements, min_size=1, max_size=3))
    found = (kinds * 400)[: draw(st.integers(20, 60))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(found) - 1))
        one = found[at]
        if type(one) is dict and draw(st.integers(0, 4)):
            found[at] = shuffled({**one, draw(KEYS): draw(MEMBERS)}, draw(st.integers(0, 1)))
        elif draw(st.booleans()):
            found[at] = draw(elements)
    return found


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    wrap = draw(st.sampled_from([None, "rows", "page", "two", "map", "in"]))
    rows = draw(arrays())
    value: Any = {
        None: rows,
        "map": mapped(rows),
        "in": {"n": {"x": mapped(rows)}},
        "rows": {"n": 1, "rows": rows},
        "page": {"data": {"items": rows}, "e": []},
        "two": {"a": rows, "b": draw(arrays())} if wrap == "two" else None,
    }[wrap]
    layout: Callable[[Any], bytes] = draw(st.sampled_from(list(LAYOUTS.values())))
    return layout(value)


def check_all(text: bytes, places: list[float]) -> None:
    checked(text)
    for place in places:
        at = int(place * len(text))
        for changed in (text[:at] + text[at + 1 :], text[:at] + text[at:][:1] + text[at:], text[:at]):
            try:
                jsontext.decode(changed)
            except jsontext.NotJSON as error:
                assert "UTF-8" in str(error) or describe_text(changed) is None, changed
            else:
                checked(changed)


PLACES = st.lists(st.floats(0, 1, exclude_max=True), max_size=3)


@given(texts(), PLACES)
def test_whatever_is_described_is_described_exactly(text: bytes, places: list[float]) -> None:
    check_all(text, places)


@pytest.mark.slow
@settings(deadline=None, max_examples=2_000)
@given(texts(), PLACES)
def test_whatever_is_described_is_described_exactly_at_length(text: bytes, places: list[float]) -> None:
    check_all(text, places)


@pytest.mark.parametrize("levels", [8, 60, 260, 900])
def test_depth_is_bounded(levels: int) -> None:
    text = written([{"id": 1}] * 100 + [{"id": 1, "deep": nested(levels)}] + [{"id": 1}] * 100)
    if levels < 200:
        assert checked(text) is not None
    else:
        whole = infer(jsontext.decode(text), plain=True)
        assert whole.cut_at is not None and whole.cut_at.startswith("[].deep")
        found = describe_text(text)
        assert found is None or found.schema.full() == whole.full()


def filled(one: Callable[[int], Any], size: int) -> bytes:
    """An array of about so many bytes."""
    text = written([one(0)])[:-1]
    parts, length, i = [text], len(text), 0
    while length < size:
        i += 1
        parts.append(b"," + written(one(i)))
        length += len(parts[-1])
    return b"".join(parts) + b"]"


def chosen(i: int, keys: int) -> dict[str, Any]:
    """About half of the members, with integers of many lengths."""
    chance = random.Random(i)
    return {f"key {j}": chance.randrange(10 ** chance.randint(1, 20)) for j in range(keys) if chance.random() < 0.5}


def shuffled_deep(i: int) -> dict[str, Any]:
    return {"id": i} | shuffled({f"key {j}": [[[[[[[[1]]]]]]]] for j in range(900)}, i % 7)


COSTLY: dict[str, Callable[[int], bytes]] = {
    "all members may be missing": lambda size: filled(lambda i: {"id": i} | chosen(i, 300), size),
    "very many members": lambda size: filled(lambda i: {f"key {j}": i * j for j in range(2_000)}, size),
    "many kinds of value": lambda size: filled(
        lambda i: {f"key {j}": [None, 1, 2.5, "x", True, []][(i * j + j) % 6] for j in range(400)}, size
    ),
    "a new member every now and then": lambda size: filled(
        lambda i: {f"key {j}": j for j in range(60)} | ({f"more {i}": 1} if i % 150 == 0 else {}), size
    ),
    "always a new member": lambda size: filled(lambda i: {"id": i, f"key {i}": 1}, size),
    "many short arrays": lambda size: written({f"key {i}": [{"a": 1}] * 50 + [{"b": 1}] for i in range(size // 400)}),
    "many arrays of unlike objects": lambda size: written(
        {f"key {i}": [{f"a{j}": 1} for j in range(60)] for i in range(size // 600)}
    ),
    "deep arrays": lambda size: filled(lambda i: {f"key {j}": [[[[[[[[i]]]]]]]] for j in range(900)}, size),
    "deep arrays in many orders": lambda size: filled(shuffled_deep, size),
    "far colons": lambda size: filled(lambda i: {"id": i} | {f"k{j}": 0 for j in range(1_500)}, size // 3).replace(
        b'"id":', b'"id":' + b" " * 30_000
    ),
    "long elements": lambda size: filled(
        lambda i: {"id": i, "x": [{"a": 1}] * 4_000} | ({f"key {i}": 1} if i % 5 == 0 else {}), size
    ),
    "long rows": lambda size: filled(lambda i: [i, None, "x", 2.5] * 1_000, size),
    "a bad end": lambda size: filled(lambda i: {"id": i, "x": "abc" * 5, "y": i / 3}, size) + b"x",
    "depth": lambda size: b'{"a":' * (size // 5),
    "depth within": lambda size: b'[{"a":' * (size // 6),
    "one string": lambda size: b'["%s"]' % (b"x" * size),
    "one string in an object": lambda size: b'[{"a":"%s"}]' % (b"x" * size),
    "blanks": lambda size: b"[%s]" % b",".join([b'{"a":1}' + b" " * 70_000] * (size // 70_000)),
}


@pytest.fixture
def unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in SIZES.items():
        monkeypatch.setattr(memory, name, size)


@pytest.mark.quick_cases(8)
@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("text", COSTLY.values(), ids=list(COSTLY))
def test_what_is_lost_is_bounded(text: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes: of expressions, which take so much longer, and of elements that are parsed by themselves."""
    lost = 0
    parsed = peek.value_at

    class Counted(Matcher):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            nonlocal lost
            super().__init__(*arguments, **options)
            lost += 30 * self.size + 10_000

    def value_at(source: bytes, at: int) -> tuple[Any, int]:
        nonlocal lost
        value, end = parsed(source, at)
        lost += end - at
        return value, end

    monkeypatch.setattr(memory, "LEAST", 1 << 17)
    monkeypatch.setattr(memory, "Matcher", Counted)
    monkeypatch.setattr(peek, "value_at", value_at)
    data = text(1 << 18)
    describe_text(data)
    assert lost < len(data)


@pytest.mark.slow
@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("text", COSTLY.values(), ids=list(COSTLY))
def test_the_time_lost_is_bounded(text: Callable[[int], bytes]) -> None:
    data = text(1 << 21)

    def parse() -> None:
        with suppress(jsontext.NotJSON, TooDeep):
            infer(jsontext.decode(data), plain=True)

    assert min(timed(lambda: describe_text(data)) for _ in range(3)) < 0.01 + min(timed(parse) for _ in range(3))


def timed(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began
