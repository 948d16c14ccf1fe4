"""Elements of an array are of one group if and only if reading them teaches the same; text that is not JSON has no groups."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from random import Random
from typing import Any

import c_modules
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_values import EVERYDAY

from byref.jsonscan import groups, peek
from byref_sandbox import jsontext

MOST = 1 << 30


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    module = c_modules.compiled("byref/jsonscan/_marks", tmp_path_factory.mktemp("compiled"))
    installed, groups.compiled = groups.compiled, module  # type: ignore[attr-defined]
    yield module
    groups.compiled = installed  # type: ignore[attr-defined]


def taught(value: Any, *, is_element: bool = True) -> Any:
    """What reading a value teaches, whatever the order of its keys."""
    if type(value) is dict:
        return frozenset((key, taught(member, is_element=False)) for key, member in value.items())
    if type(value) is not list:
        return type(value).__name__
    items = [taught(item, is_element=False) for item in value]
    flat = [item for item in items if type(item) is str or (type(item) is Kinds and len(item) < LEVELS)]
    if len(flat) == len(items) and not is_element:
        return Kinds([frozenset(map(kind_of, flat)), *below(flat)])
    others = Counter(item for item in items if not (type(item) is str or (type(item) is Kinds and len(item) < LEVELS)))
    return (
        frozenset(map(kind_of, flat)),
        tuple(below(flat)),
        frozenset(others.items()),
        len(value) if is_element else None,
    )


LEVELS = 9


class Kinds(tuple[frozenset[str], ...]):
    """The kinds of the items of an array without objects, level by level: how many there are teaches nothing."""

    __slots__ = ()


def kind_of(item: Any) -> str:
    return item if type(item) is str else "array"


def below(items: list[Any]) -> list[frozenset[str]]:
    """What is known of the items of these arrays, of all together."""
    arrays = [item for item in items if type(item) is Kinds]
    return [frozenset().union(*level) for level in zip_longest(*arrays, fillvalue=frozenset())]


def check(elements: list[Any], text: bytes, at: int = 1) -> None:
    found = groups.read(text, at, MOST)
    first: dict[Any, Any] = {}
    for one in elements:
        first.setdefault(taught(one), one)
    assert found.examples == list(first.values())
    assert (found.count, text[found.end : found.end + 1]) == (len(elements), b"]")
    begin, end = found.places[0]
    assert json.loads(text[begin:end]) == elements[0]


PLAIN = st.recursive(
    st.sampled_from([None, True, 1, -2.5e-7, "", 'a"\\é\u2028']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(["a", "b", "c", "é\\", ""]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.lists(PLAIN, min_size=1, max_size=6), st.randoms(use_true_random=False), st.booleans(), st.integers(1, 90))
def test_groups_are_of_what_teaches_the_same(kinds: list[Any], random: Random, is_indented: bool, piece: int) -> None:
    elements = [shuffled(random.choice(kinds), random) for _ in range(30)]
    text = json.dumps(elements, indent=1 if is_indented else None, ensure_ascii=is_indented).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_PIECE", piece)
        check(elements, b" " + text, peek.after_blanks(b" " + text, 2))


def test_arrays_without_objects_are_of_one_group_however_long_they_are() -> None:
    elements = [{"at": [[[i, i / 7]] * (i % 5), [], [[None]] * (i % 3)]} for i in range(300)]
    found = groups.read(json.dumps(elements).encode(), 1, MOST)
    assert len(found.examples) <= 8, "what is empty or null teaches something"
    assert groups.read(json.dumps([{"at": [[[1.5, 2.5]] * i]} for i in range(1, 99)]).encode(), 1, MOST).count == 98
    [rows, longer] = groups.read(json.dumps([[[1], [2]], [[3], [4]], [[5]] * 3]).encode(), 1, MOST).examples
    assert (len(rows), len(longer)) == (2, 3), "of elements themselves, the length is told"


def shuffled(value: Any, random: Random) -> Any:
    if type(value) is list:
        return random.sample(value, len(value)) if all(type(one) is not dict for one in value) else value
    if type(value) is dict:
        return {key: value[key] for key in random.sample(list(value), len(value))}
    return value


@pytest.mark.parametrize("what", EVERYDAY)
def test_everyday_values_are_grouped(what: str) -> None:
    elements = [EVERYDAY[what]] * 3
    if what == "deep":  # than Python's stack leaves room for those who read its schema
        with pytest.raises(peek.Unreadable):
            groups.read(json.dumps(elements).encode(), 1, MOST)
    else:
        check(elements, json.dumps(elements).encode())


@pytest.mark.parametrize(
    "text",
    [
        b"[]", b"[", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"[1}", b'[{"a":1]', b'[{"a"}]', b'[{"a":}]', b'[{"a":1,}]', b"[{a:1}]",
        b"[{1:1}]", b"[[1,]]", b"[[}]", b"[{]]", b"[01]", b"[-]", b"[1.]", b"[.5]", b"[1e]", b"[1e+]", b"[+1]", b"[0x1]", b"[tru]", b"[nul",
        b"[True]", b"[NaN]", b'["a]', b'["\\x"]', b'["\\u12g4"]', b'["\\u123', b'["a\n"]', b'["\\', b'["\x00"]', b"[\x001]", b"[1\x00]",
        b"[" + b"9" * 400 + b"]", b"[" + b"[" * 150 + b"]" * 150 + b"]",
    ],
)  # fmt: skip
def test_what_is_no_json_has_no_groups(text: bytes) -> None:
    with pytest.raises(peek.Unreadable):
        groups.read(text, 1, MOST)


@pytest.mark.parametrize(
    "one",
    [b'{"a":1,"a":"x"}', b'{"b":[{"a":1,"\\u0061":1}]}', b'{"a":{"b":1},"a":null}'],
    ids=["twice", "spelt", "deep"],
)
def test_a_key_twice_has_no_groups(one: bytes) -> None:
    for text in (b"[%s]" % one, b'[{"a":1},%s]' % one, b"[%s,{}]" % b",".join([one] * 9)):
        with pytest.raises(peek.Unreadable, match="repeated"):
            groups.read(text, 1, MOST)


@pytest.mark.parametrize(
    "text",
    [b"{", b"{}", b"{1}", b'{"a"}', b'{"a":', b'{"a":1', b'{"a":1]', b'{"a":1,}', b'{"a":1 "b":2}', b'{"a" 1}', b'{"a"::1}', b"{a:1}",
     b'{"a":1,2}', b'{"a\\x":1}', b'{"a\n":1}', b'{"a', b'{"a\\', b"[1]"],
)  # fmt: skip
def test_what_is_no_object_has_no_groups(text: bytes) -> None:
    with pytest.raises(peek.Unreadable):
        groups.read(text, 1, MOST, [])


def test_an_object_is_given_up_early_if_it_is_no_map() -> None:
    def read(members: dict[str, Any]) -> groups.Groups:
        text = json.dumps(members).encode()
        return groups.read(text, 1, MOST, [])

    keys: list[bytes] = []
    members = {f"k{i}\n": {"n": i} for i in range(groups._MANY)}
    assert groups.read(json.dumps(members).encode(), 1, MOST, keys).count == groups._MANY
    assert [json.loads(key) for key in keys] == list(members)
    members.popitem()
    with pytest.raises(peek.Unreadable, match="no map"):
        read(members)
    for few in ({f"k{i}": ["x" * 1_000] for i in range(1_000)}, {f"k{i}": {f"n{i}": 1} for i in range(90_000)}):
        keys = []
        with pytest.raises(peek.Unreadable, match="no map"):
            groups.read(json.dumps(few).encode(), 1, MOST, keys)
        assert len(keys) < len(few) / 2


def test_what_may_be_learnt_is_bounded() -> None:
    text = json.dumps([{f"key {n}": n} for n in range(2_000)]).encode()
    with pytest.raises(peek.Unreadable, match="alike"):
        groups.read(text, 1, len(text))
    assert groups.read(text, 1, MOST).cost > len(text)


def test_a_long_element_is_left_to_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_LONGEST", 100)
    assert groups.read(b'["%s"]' % (b"x" * 90), 1, MOST).count == 1
    with pytest.raises(peek.Unreadable):
        groups.read(b'["%s"]' % (b"x" * 99), 1, MOST)


@pytest.mark.parametrize("seed", range(3))
def test_any_bytes_are_read(compiled: Any, seed: int) -> None:
    """Whatever they are, wherever they are cut; and what has groups is JSON."""
    random = Random(seed)
    text = json.dumps([{"a": [1, -2.5e3, "x\\u00e9", None, True, {}], "b": {"c": [[]]}}] * 3).encode()
    for _ in range(1_000):
        changed = bytearray(text[: random.randrange(len(text) + 1)] if random.random() < 0.3 else text)
        for _ in range(random.randrange(4)):
            at = random.randrange(len(changed) + 1)
            changed[at : at + random.randrange(3)] = random.choice(
                [b"", b'"', b"\\", b"]", b"}", b",", b"1", b"\x00", b"\xff", b"e", b"-", b"t", random.randbytes(2)]
            )
        data = bytes(changed)
        at, most = random.randrange(len(data) + 1), random.randrange(1, 200)
        counts: dict[int, int] = {}
        examples: list[tuple[int, int, int]] = []
        keys: list[bytes] | None = random.choice([None, []])
        found = compiled.forms(data, at, at + random.randrange(60), most, secrets.randbits(64), counts, examples, keys)
        assert all(at <= start < end <= len(data) for start, end, _ in examples)
        for start, end, _ in examples:
            if jsontext.is_utf8(data[start:end]):
                jsontext.decode(b"[%s]" % data[start:end])
        if found is not None:
            assert at <= found[0] <= len(data) and sum(counts.values()) >= len(examples)
            assert keys is None or len(keys) == sum(counts.values())
