"""Text that matches a place's expression is JSON, teaches the place nothing new, and is counted by its marker."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_values import HOSTILE_TEXT

from byref.describe.columns import Inference
from byref.describe.nodes import Node
from byref.jsonscan.matcher import Irregular, Matcher
from byref_sandbox import jsontext

BYTES = [bytes([byte]) for byte in b'{}[],:"\\/0123-+.eEuntrfalsi \t\n\r\x00\x1f\x7f']
KEYS = st.sampled_from(["id", "a", "b", 'x"id', "id2", "i", "", ",", ":", "]", "é", "\U0001f600", "\\", "\t", "\ud800"])
TEXTS = st.one_of(
    st.sampled_from(['"id":', ',"id":1', "[", "]", "},{", "\\", '\\"', ":", ",", "é☃", "\x7f\u2028"]), HOSTILE_TEXT
)
NUMBERS = st.one_of(st.integers(), st.sampled_from([0, 2**64, 10**23, -(10**24), 10**60]), st.floats(allow_nan=False))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
MEMBERS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=5,
)
ELEMENTS = st.one_of(
    st.dictionaries(KEYS, MEMBERS, min_size=1, max_size=5),
    st.dictionaries(KEYS, MEMBERS, min_size=1, max_size=5),
    st.lists(SCALARS, max_size=4),
    st.one_of(st.none(), NUMBERS),
)


def learnt(values: Iterable[Any]) -> Node:
    node = Node()
    Inference(fold=True, plain=True).add(node, list(values), 1)
    return node


def said(node: Node | None) -> object:
    """All that a node says, but for how many objects there were beyond two."""
    return node and (
        node.kinds,
        node.arrays_first,
        min(node.objects, 2),
        node.required,
        said(node.items),
        [(key, said(member)) for key, member in node.members.items()],
        said(node.rest),
    )


def regular(values: Sequence[Any], colon: bytes = b": ", *, lines: bool = False) -> Matcher:
    return Matcher(learnt(values), values, colon, lines=lines)


def accepts(expression: Matcher, text: bytes) -> bool:
    data = text + b","
    return expression.run(data, 0, len(data)) == len(data)


def assert_teaches_nothing(seen: Sequence[Any], expression: Matcher, text: bytes) -> None:
    """What is accepted is one element."""
    value = jsontext.decode(text)
    assert said(learnt([*seen, value])) == said(learnt(seen)), text
    assert text.count(expression.marker) + (expression.marker == b",") == 1, text


@st.composite
def mutated(draw: st.DrawFn, one: Any) -> Any:
    """One like it but for something, here or further down."""
    if not one or not isinstance(one, dict | list) or draw(st.integers(0, 4)) == 0:
        return draw(MEMBERS)
    one = copy.copy(one)
    at = draw(st.sampled_from(range(len(one)) if isinstance(one, list) else list(one)))
    match draw(st.sampled_from(["drop", "add", "change", "change", "reorder"])):
        case "drop":
            del one[at]
        case "add" if isinstance(one, dict):
            one[draw(KEYS)] = draw(MEMBERS)
        case "reorder" if isinstance(one, dict):
            one = dict(reversed(one.items()))
        case _:
            one[at] = draw(mutated(one[at]))
    return one


@given(st.data(), st.booleans())
def test_what_is_accepted_teaches_nothing(data: st.DataObject, in_ascii: bool) -> None:
    seen = data.draw(st.lists(ELEMENTS, min_size=1, max_size=3)) * 2
    seen += [data.draw(mutated(seen[0])) for _ in range(data.draw(st.integers(0, 3)))]
    try:
        expression = regular(seen)
    except Irregular:
        return
    others = [data.draw(mutated(data.draw(st.sampled_from(seen)))) for _ in range(6)]
    for value in [*seen, *others]:
        text = json.dumps(value, ensure_ascii=in_ascii).encode(errors="surrogatepass")
        if accepts(expression, text):
            assert_teaches_nothing(seen, expression, text)


def neighbours(text: bytes, among: Sequence[bytes]) -> Iterable[bytes]:
    """The text with each of its bytes missing, replaced, and with another before it, as far as that is UTF-8."""
    for at in range(len(text) + 1):
        for changed in (b"", *among, *(byte + text[at : at + 1] for byte in among)):
            data = text[:at] + changed + text[at + 1 :]
            if data.decode(errors="ignore").encode() == data:
                yield data


RECORD: dict[str, Any] = {"id": 7, "f": -1.5e-7, 'x"id': 'a"b\\', "é": None, "o": {"p": [2, []], "q": {}}, "b": True}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "seen",
    [
        [RECORD, RECORD],
        [RECORD, {**RECORD, "id": None, "f": 2, "é": "☃"}, {key: RECORD[key] for key in list(RECORD)[:3]}],
        [RECORD, dict(reversed(RECORD.items()))],
        [[1, "x", None], [2, "y,z", 2.5]],
        [[1, 2], [], [3.5]],
        [1, 2.5, None],
    ],
    ids=["alike", "optional", "two orders", "rows", "ragged rows", "numbers"],
)
def test_no_byte_can_be_changed_unnoticed(seen: list[Any]) -> None:
    expression = regular(seen)
    accepted = 0
    for value in seen:
        text = json.dumps(value, ensure_ascii=False).encode()
        assert accepts(expression, text)
        for changed in neighbours(text, BYTES):
            if accepts(expression, changed) and changed.count(b",") == text.count(b","):
                accepted += 1
                assert_teaches_nothing(seen, expression, changed)
    assert accepted > 10


LIKE: dict[str, Any] = {"i": 1, "f": 1.5, "s": "x", "n": None, "o": {"p": [2.5], "q": {}}, "e": [], "b": True}


@pytest.mark.parametrize(
    "text",
    [
        {**LIKE, "i": -(10**23) + 1},
        {**LIKE, "i": 0},
        {**LIKE, "f": 1e300},
        {**LIKE, "f": -0.0},
        {**LIKE, "s": '{"i": 1}, \\ " \n é ☃ \U0001f600 \ud800 "i": 1'},
        {**LIKE, "s": "x" * 10_000},
        {**LIKE, "o": {"p": [0.5] * 100, "q": {}}},
        {**LIKE, "o": {"p": [], "q": {}}},
        {**LIKE, "b": False},
        json.dumps(LIKE).replace("1.5", "1e999"),
        json.dumps(LIKE).replace(", ", " ,\n\t").replace("{", "{\r\n "),
    ],
    ids=lambda value: ascii(value)[-60:],
)
def test_one_that_is_alike_is_accepted(text: Any) -> None:
    seen = [LIKE] * 3
    expression = regular(seen)
    text = text.encode() if isinstance(text, str) else json.dumps(text).encode()
    assert accepts(expression, text)
    assert_teaches_nothing(seen, expression, text)


REFUSED = [
    {**LIKE, "f": 1},
    {**LIKE, "i": 1.0},
    {**LIKE, "i": True},
    {**LIKE, "i": None},
    {**LIKE, "n": 1},
    {**LIKE, "e": [1]},
    {**LIKE, "o": None},
    {**LIKE, "o": {"p": [2.5, 1], "q": {}}},
    {**LIKE, "o": {"p": [2.5], "q": {"r": 1}}},
    {**LIKE, "more": 1},
    {key: value for key, value in LIKE.items() if key != "f"},
    dict(reversed(LIKE.items())),
    [LIKE],
    {},
    None,
]
BROKEN: list[Callable[[str], str]] = [
    lambda text: text.replace(", ", ",, ", 1),
    lambda text: text.replace(", ", " ", 1),
    lambda text: text.replace("}", ",}"),
    lambda text: text.replace("[]", "[,]"),
    lambda text: text.replace("2.5", "2.5,"),
    lambda text: text.replace('"x"', '"\x01"'),
    lambda text: text.replace('"x"', '"\\x"'),
    lambda text: text.replace('"x"', '"\\u12"'),
    lambda text: text.replace('"x"', '"x'),
    lambda text: text.replace('"x"', "'x'"),
    lambda text: text.replace("1.5", "1."),
    lambda text: text.replace("1.5", ".5"),
    lambda text: text.replace("1.5", "01.5"),
    lambda text: text.replace("1.5", "+1.5"),
    lambda text: text.replace("1.5", "1.5e"),
    lambda text: text.replace("1.5", "NaN"),
    lambda text: text.replace("1.5", "-Infinity"),
    lambda text: text.replace("1.5", "9" * 5_000),
    lambda text: text.replace("1,", "9" * 5_000 + ",", 1),
    lambda text: text.replace("true", "True"),
    lambda text: text.replace(" ", "\x0c"),
    lambda text: text.replace(" ", "\u00a0"),
    lambda text: text.replace('"i"', '"\\u0069"'),
    lambda text: text.replace('"i": 1', '"i": 1, "i": 1'),
    lambda text: "\ufeff" + text,
    lambda text: text[:-1],
    lambda text: text + "}",
]


@pytest.mark.parametrize(
    "text",
    [*map(json.dumps, REFUSED), *(broken(json.dumps(LIKE)) for broken in BROKEN)],
    ids=lambda text: ascii(text)[:60],
)
def test_one_that_is_not_alike_is_refused(text: str) -> None:
    assert not accepts(regular([LIKE] * 3), text.encode())


@pytest.mark.parametrize("key", [",", ":", "]", "}", " ", ":1,", "], [", 'x"', "\\", "id"], ids=ascii)
def test_a_marker_is_in_no_string_and_behind_none(key: str) -> None:
    seen = [{key: 1, "text": 1, "list": [key, f'{key}": ', ": 1", f": {key}"], ": ": key, "s": f'"{key}": 1'}] * 2
    seen += [{**seen[0], "text": None}]
    for used in (seen, [{name: value for name, value in one.items() if name != "text"} for one in seen]):
        expression = regular(used)
        text = json.dumps(used[0]).encode()
        assert accepts(expression, text)
        assert_teaches_nothing(used, expression, text)


def test_lines_have_one_line_feed() -> None:
    expression = regular([LIKE] * 2, lines=True)
    line = json.dumps(LIKE).encode() + b",\n"
    assert expression.marker == b"\n"
    for text, end in [
        (line * 3, 3),
        (line + b"\n" + line, 1),
        (line + b" " + line, 1),
        (line + line.replace(b", ", b",\n ", 1), 1),
        (line + line.replace(b",\n", b" ,\n"), 1),
        (line + line.replace(b",\n", b", \n"), 1),
        (line[:-1], 0),
        (b"\n" + line, 0),
    ]:
        assert expression.run(text, 0, len(text)) == end * len(line), text


def test_a_run_ends_where_it_has_to() -> None:
    one = json.dumps(LIKE).encode()
    text = one + b", " + one + b" ,\n" + one
    expression = regular([LIKE] * 2)
    assert expression.run(text, 0, len(text)) == len(text) - len(one) - 1
    assert expression.run(text, 0, len(one)) == 0
    assert expression.run(text, len(one) + 1, len(text)) == len(text) - len(one) - 1
    assert expression.run(b"", 0, 0) == 0


def test_what_only_some_have_may_be_missing() -> None:
    seen = [{"id": 1, "a": 1, "b": 1}, {"id": 1, "a": 1}, {"id": 1}, {"z": 1, "id": 1, "b": 1}]
    expression = regular(seen)
    for keys, accepted in {"id": 1, "z id": 1, "z id a b": 1, "id b": 1, "a id": 0, "id z": 0, "a": 0, "": 0}.items():
        text = json.dumps(dict.fromkeys(keys.split(), 1)).encode()
        assert accepts(expression, text) == accepted, keys


def test_of_one_object_more_is_to_be_seen() -> None:
    seen = [{"id": 1, "o": None}, {"id": 2, "o": {"p": 1}}]
    assert not accepts(regular(seen), b'{"id": 3, "o": {"p": 1}}')
    assert accepts(regular([*seen, seen[1]]), b'{"id": 3, "o": {"p": 1}}')


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "seen",
    [
        [{"a": 1}, 2],
        [{"a": 1}, [2]],
        ["a", "b"],
        [[[1]], [[2]]],
        [{}, {}],
        [{"é": 1}] * 2,
        [{"a": 1, "\ud800": 1}] * 2,
        [{"a": {"a": 1}}] * 2,
        [{"a": 1, "b": [{"x": {"a": 1, "b": 2}}] * 2}] * 2,
        [{f"key {(i * j) % 19}": 1 for j in range(4)} for i in range(40)],
        [{"id": 1, f"key {i}": [i]} for i in range(40)],
        [{"id": 1, **{f"key {i}": {"n": 1} for i in range(j, 33)}} for j in range(34)],
        [{"id": 1, "deep": deep(30)}] * 2,
        [{"id": 1, **{f"key {i}": deep(8) for i in range(1_000)}}] * 2,
        [{f"key {i}": i for i in range(5_000)}] * 2,
        [{"id": 1, "x" * 100_000: 1}] * 2,
        [[1] * 5_000] * 2,
    ],
    ids=lambda seen: ascii(seen)[:60],
)
def test_what_cannot_be_told_or_takes_too_much_is_irregular(seen: list[Any]) -> None:
    with pytest.raises(Irregular):
        regular(seen)


def test_colons_have_the_blanks_that_they_have() -> None:
    seen = [{"a": 1, "b": 2}] * 2
    expression = regular(seen, b" :\t")
    assert accepts(expression, b'{"a" :\t1,"b" :\t2}')
    assert not accepts(expression, b'{"a" :\t1,"b": 2}')
