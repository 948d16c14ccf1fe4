"""A part of JSON text that is decoded alone is equal to that part of the whole, or it is not decoded alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from byref import Session
from byref.references.projection import MAX_STEPS, Unfit, cut_out, projected
from byref_sandbox import jsontext
from byref_sandbox.code import plainjq
from byref_sandbox.code.picks import NotPlain, Pick

KEYS = ("a", "b", "0", "é", "x y")
PICKS = (".", ".\"é\"", ".a.\"é\"", ".a", ".a.b", ".[]", ".[].a", "map(.a)", ".a | map(.b)", ".a[0].b", ".a[1:]", ".a[1:] | map(.b)", "map({a, z: .b})",
         "[.[] | .b | .a]", "{a: .a.b}", "{a, b}.a.b", ".a, .b", ".a.b, .a.a", "length", "keys", ".a | length",
         "map(length)", '.["0"]', '.["x y"][]', "map(.a)[0].b", "[.a][0].b", "map(map(.a))")  # fmt: skip
PATHS = ((), ("a",), ("0",), ("b", "0"), ("0", "a"), ("a", "b", "0"), ("é", "x y"))


def value(random_: random.Random, depth: int = 0) -> Any:
    """A small value in which the picks find something."""
    kind = random_.randrange(6 if depth < 4 else 3)
    if kind < 2:
        return random_.choice([None, True, 2**63 + 1, -1, 1.5, "x", "é\ud83d", ""])
    if kind == 2:
        return []
    if kind == 3:
        return [value(random_, depth + 1) for _ in range(random_.randrange(4))]
    return {key: value(random_, depth + 1) for key in random_.sample(KEYS, random_.randrange(1, 5))}


def outcome(pick: Pick, found: Any) -> Any:
    try:
        return list(pick.run(found))
    except NotPlain:
        return NotPlain


def test_a_pick_finds_in_a_projection_what_it_finds_in_all() -> None:
    random_, fitting = random.Random(5), 0
    picks = [plainjq.parsed(program) for program in PICKS]
    for _ in range(3_000):
        whole, pick = value(random_), random_.choice(picks)
        text = json.dumps(whole, ensure_ascii=False, indent=random_.choice([None, 1])).encode("utf-8", "surrogatepass")
        try:
            part = projected(text, pick.needs(None))
        except Unfit:
            continue
        expected = outcome(pick, whole)
        assert outcome(pick, part) == expected
        fitting += expected is not NotPlain
    assert fitting > 500


def test_what_is_cut_out_is_what_is_there() -> None:
    random_, fitting = random.Random(6), 0
    for _ in range(3_000):
        whole, path = value(random_), random_.choice(PATHS)
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        try:
            part, size = cut_out(text, path)
        except Unfit:
            continue
        there = whole
        for key in path:
            there = there[key] if isinstance(there, dict) else there[int(key)]
        assert part == there
        assert size == len(json.dumps(there, ensure_ascii=False, separators=(",", ":")).encode())
        fitting += 1
    assert fitting > 300


@pytest.mark.parametrize(
    "text",
    [b'{"a":[1,2],"b":NaN}', b'\xef\xbb\xbf{"a":1}', b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":1e999}', b"7", b"[1]",
     b'{"b":1}', b'{"a":' * 20_000 + b"1" + b"}" * 20_000],
)  # fmt: skip
def test_what_wants_a_closer_look_is_unfit(text: bytes) -> None:
    with pytest.raises(Unfit):
        cut_out(text, ("a",))


def test_of_duplicate_keys_the_last_holds() -> None:
    text = b'{"a":[{"b":1,"b":{"c":2}}],"a":[{"b":3,"\\u0062":{"c":4,"c":5}}]}'
    assert projected(text, {"a": [{"b": None}]}) == jsontext.decode(text) == {"a": [{"b": {"c": 5}}]}
    assert cut_out(text, ("a", "0", "b"))[0] == {"c": 5}


def test_long_paths_are_not_followed_alone() -> None:
    text = b"[" * (MAX_STEPS + 1) + b"1" + b"]" * (MAX_STEPS + 1)
    assert cut_out(text, ("0",) * MAX_STEPS)[0] == [1]
    with pytest.raises(Unfit):
        cut_out(text, ("0",) * (MAX_STEPS + 1))


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_a_reference_decodes_no_more_than_it_needs(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": 2**60 + i, "deep": {"x": [i] * 20}} for i in range(2_000)]
    session.process({"rows": rows, "other": [{"y": i} for i in range(2_000)]}, tool="rows")

    def whole(data: bytes) -> object:
        raise AssertionError("all of it is decoded")

    with monkeypatch.context() as patched:
        patched.setattr(jsontext, "decode", whole)
        assert session.resolve({"x": "$rows.rows.7"}) == {"x": rows[7]}
        assert session.resolve({"x": {"$var": "rows", "path": "rows", "jq": "map(.id)"}}) == {
            "x": [row["id"] for row in rows]
        }
        picked = session.resolve({"x": {"$var": "rows", "jq": ".rows | map({id, first: .deep.x[0]})"}})
    assert picked == {"x": [{"id": row["id"], "first": i} for i, row in enumerate(rows)]}


COLLECTIONS = """
import gc
from byref_sandbox import jsontext

text, seen = b"[" + b",".join(b"[[%d]]" % i for i in range(100_000)) + b"]", []
gc.callbacks.append(lambda phase, info: seen.append(len(gc.get_objects(generation=0))) if phase == "start" else None)
values = jsontext.decode(text)
more = [[i] for i in range(2_000)]
print(len(values), len(more), bool(seen), max(seen) < 50_000, gc.get_freeze_count(), gc.isenabled())
"""


def test_many_new_objects_count_as_old_at_once() -> None:
    run = subprocess.run([sys.executable, "-c", COLLECTIONS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["100000", "2000", "True", "True", "0", "True"]
