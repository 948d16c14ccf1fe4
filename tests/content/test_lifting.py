"""`display_instructions_for_model` is removed from streams of any length, as from outputs that come whole."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from material import records
from sqlalchemy import func, select

from byref import Engine, Policy, Session, StorageFailure
from byref.artifacts import staging
from byref.content import lifting as lifting_module
from byref.content.instructions import KEY
from byref.content.lifting import Lifting
from byref.db.tables import BlobRow
from byref.ingest import ingested

SAID = "Round amounts to whole dollars."
ROWS = records(4_000)
DATA: dict[str, Any] = {"total": len(ROWS), "rows": ROWS, "next": "{é\u2028\\"}
FIRST = json.dumps({KEY: SAID, **DATA})
LAST = json.dumps({**DATA, KEY: SAID}, indent=1, ensure_ascii=False)
ESCAPED = FIRST.replace("display_", "\\u0064isplay\\u005F")
EVERY = ["variables", "references", "pointers", "previews"]


@pytest.fixture
def collecting_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingested, "COLLECTED", 64 << 10)


def cut_anywhere(whole: Any, seed: int = 1) -> Iterator[Any]:
    chance, at = random.Random(seed), 0
    while at < len(whole):
        size = chance.choice([1, 7, 1_000, 60_000, 300_000])
        yield whole[at : at + size]
        at += size


def everything_of(session: Session, result: Any) -> str:
    """All that a model or its code can read of an output."""
    read = [result.content, result.envelope, [entry.processed for entry in session.history()]]
    read += [variable.value() for variable in session.variables()]
    for artifact in session.artifacts():
        read += [artifact.schema, artifact.shape, artifact.preview, artifact.payload.read().decode()]
    return json.dumps(read)


def staged_blobs(engine: Engine, tenant: str) -> int:
    query = select(func.count()).where(BlobRow.tenant == tenant, BlobRow.published_at.is_(None))
    return int(engine.database.read(lambda connection: connection.execute(query).scalar_one()))


SOURCES: dict[str, Callable[[str], Any]] = {
    "text": lambda text: cut_anywhere(text),
    "bytes": lambda text: cut_anywhere(text.encode()),
    "BytesIO": lambda text: io.BytesIO(text.encode()),
    "StringIO": lambda text: io.StringIO(text),
    "buffered": lambda text: io.BufferedReader(io.BytesIO(text.encode())),  # type: ignore[arg-type]
    "with a mark": lambda text: cut_anywhere(b"\xef\xbb\xbf  " + text.encode()),
    "UTF-16": lambda text: io.BytesIO(text.encode("utf-16")),
}


@pytest.mark.quick_cases(2)
@pytest.mark.usefixtures("collecting_little")
@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_stream(engine: Engine, tenant: str, source: str) -> None:
    for name, text in {"first": FIRST, "last": LAST, "escaped": ESCAPED}.items():
        session = engine.session(name, tenant=tenant, policy=Policy(trusted_instructions="all"))
        result = session.process(SOURCES[source](text), tool="web", call_id="c")
        read = everything_of(session, result)
        assert result.route == "variables" and SAID not in read and "for_model" not in read
        assert (session.variable("web").value(), result.instructions) == (DATA, SAID)
        again = session.process(SOURCES[source](text), tool="web", call_id="c")
        assert (again.step, again.content, again.instructions) == (result.step, result.content, SAID)
    assert staged_blobs(engine, tenant) == 0


@pytest.mark.usefixtures("collecting_little")
@pytest.mark.parametrize("form", EVERY)
def test_in_every_form(engine: Engine, tenant: str, form: Any) -> None:
    policy = Policy(envelope_form=form, mode="auto" if form == "variables" else "artifact")
    session = engine.session("s", tenant=tenant, policy=policy)
    result = session.process(cut_anywhere(FIRST), tool="web")
    assert result.instructions is None, "a tool is not trusted by default"
    assert result.artifacts and KEY not in everything_of(session, result)


def test_more_than_is_collected(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(trusted_instructions="all"))
    text = f'{{"{KEY}": "{SAID}", "blob": "{"x" * (ingested.COLLECTED + 1)}", "rows": {json.dumps(ROWS)}}}'
    result = session.process(io.BytesIO(text.encode()), tool="web")
    assert SAID not in everything_of(session, result) and result.instructions == SAID


@pytest.mark.usefixtures("collecting_little")
@pytest.mark.parametrize(
    "output",
    [{"a": {KEY: SAID}, **DATA}, {KEY: 5, **DATA}, {KEY: [SAID], **DATA}, [{KEY: SAID}, *ROWS], {"b": KEY, **DATA}],
    ids=["deeper", "number", "array", "in a list", "value"],
)
def test_deeper_ones_and_other_types_are_data(engine: Engine, tenant: str, output: Any) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(trusted_instructions="all"))
    result = session.process(cut_anywhere(json.dumps(output)), tool="web")
    assert (session.variable("web").value(), result.instructions) == (output, None)


@pytest.mark.usefixtures("collecting_little")
@pytest.mark.parametrize(
    "text",
    [
        FIRST + "\n" + FIRST,
        FIRST[:-1],
        FIRST.replace('"total"', "total"),
        LAST[:-1] + ",}",
        f'{{"{KEY}": "{SAID}"}}\n' * 5_000,
    ],
    ids=["two", "cut", "no quotes", "comma", "lines"],
)
@pytest.mark.parametrize("wide", [False, True], ids=["text", "bytes"])
def test_what_is_no_json_after_all_is_kept_as_it_came(engine: Engine, tenant: str, text: str, wide: bool) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(plaintext="artifact", trusted_instructions="all"))
    whole: Any = text.encode() if wide else text
    streamed = session.process(cut_anywhere(whole), tool="web")
    assert streamed.instructions is None
    [kept] = streamed.artifacts
    assert (kept.payload.read(), kept.size_bytes) == (text.encode(), len(text.encode()))
    in_memory = engine.session("other", tenant=tenant, policy=session.policy).process(whole, tool="web").artifacts[0]
    assert kept.kind == in_memory.kind == ("json" if kept.reading else "text"), "lines of JSON are records"
    assert staged_blobs(engine, tenant) == 0


@pytest.mark.usefixtures("collecting_little")
def test_keys_that_repeat_go_with_the_string(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(trusted_instructions="all"))
    text = f'{{"{KEY}": {{"a": [1, "}}"]}}, "{KEY}": "x", {json.dumps(DATA)[1:-1]}, "{KEY}": "{SAID}", "{KEY}": 5.5}}'
    result = session.process(cut_anywhere(text), tool="web")
    assert (session.variable("web").value(), result.instructions) == (DATA, SAID)
    assert KEY not in everything_of(session, result) and staged_blobs(engine, tenant) == 0


@pytest.mark.usefixtures("collecting_little")
def test_json_too_large_to_be_described(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byref.jsonscan.sizes.MOST", 1 << 19)
    session = engine.session("s", tenant=tenant, policy=Policy(plaintext="artifact", trusted_instructions="all"))
    text = json.dumps({KEY: SAID, "blob": "x" * 2_000_000, "rows": ROWS})
    result = session.process(cut_anywhere(text), tool="web")
    [kept] = result.artifacts
    assert kept.kind == "text" and KEY.encode() not in kept.payload.read() and result.instructions == SAID


@pytest.mark.usefixtures("collecting_little")
def test_where_nothing_can_be_stored(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise StorageFailure("the disk is full")

    session = engine.session("s", tenant=tenant, policy=Policy(trusted_instructions="all"))
    monkeypatch.setattr(staging.blobs, "stage", failing)
    for text in (FIRST, LAST):
        result = session.process(cut_anywhere(text), tool="web")
        assert result.reason == "storage_failure" and result.instructions == SAID
        assert KEY not in str(result.content) and SAID not in str(result.content)


def test_a_block_that_cannot_be_stored(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(trusted_instructions="all"))
    unknown = {"type": "hologram", KEY: SAID}
    result = session.process([{"type": "text", "text": "seen"}, unknown], tool="web")
    assert (result.content, result.instructions) == ([{"type": "text", "text": "seen"}, {"type": "hologram"}], SAID)


# The reader by itself

_names = st.sampled_from(["a", 'b{"', "\\", KEY, KEY[:-1], ""])
_values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["x", f'{{"{KEY}":"', '\\"', ",{", "é", KEY]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_names, inner), max_size=3).map(tuple),
    max_leaves=12,
)


def written(value: Any, spell: random.Random) -> str:
    """JSON with blanks, escapes and repeated keys; a tuple is an object's members."""
    blank = spell.choice(["", "", " ", "\n\t "])
    if type(value) is list:
        return f"[{blank}{f'{blank},'.join(written(one, spell) for one in value)}{blank}]"
    if type(value) is not tuple:
        return json.dumps(value, ensure_ascii=spell.random() < 0.5)
    members = []
    for key, member in value:
        name = json.dumps(key)
        if key == KEY and spell.random() < 0.3:
            name = '"' + "".join(f"\\u{ord(c):04x}" if spell.random() < 0.2 else c for c in key) + '"'
        members.append(f"{blank}{name}{blank}:{blank}{written(member, spell)}{blank}")
    return "{" + ",".join(members) + "}"


def pairs_at_top(text: str) -> list[tuple[str, Any]]:
    top: list[Any] = []

    def keep(pairs: list[tuple[str, Any]]) -> Any:
        top[:] = pairs
        return dict(pairs)

    json.loads(text, object_pairs_hook=keep)
    return top


@given(st.lists(st.tuples(_names, _values), max_size=6).map(tuple), st.randoms(use_true_random=False))
def test_exactly_the_strings_of_the_name_are_taken_out(value: Any, chance: random.Random) -> None:
    text = written(value, chance)

    def cut(data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            size = chance.choice([1, 2, 9, 100])
            yield data[at : at + size]
            at += size

    lifting = Lifting()
    rest = b"".join(lifting.passing(cut(text.encode())))
    before = pairs_at_top(text)
    said = [member for key, member in before if key == KEY and isinstance(member, str)]
    left = [(key, member) for key, member in before if key != KEY or not isinstance(member, str)]
    assert pairs_at_top(rest.decode()) == left
    assert lifting.instructions == (said[-1] if said else None) and lifting.has_removed == bool(said)
    assert b"".join(lifting.restored(cut(rest))) == text.encode()
    other = b"".join(Lifting(every=True).passing(cut(rest)))
    assert pairs_at_top(other.decode()) == [(key, member) for key, member in left if key != KEY]


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks without end, a string without end, a name a million times: some are left in, nothing is lost."""
    monkeypatch.setattr(lifting_module, "MAX_MEMBER_BYTES", 1 << 16)
    key = KEY.encode()
    endless = [b'{"%s":"' % key, *[b"x" * (1 << 12)] * 17, b'","a":1}']
    blanks = [b'{"a":1,', *[b" " * (1 << 12)] * 17, b'"%s":"x"}' % key]
    for pieces in (endless, blanks):
        lifting = Lifting()
        assert b"".join(lifting.restored(lifting.passing(pieces))) == b"".join(pieces)
    monkeypatch.undo()
    many = b"{" + b",".join([b'"%s":"x"' % key] * 100_000) + b',"a":1}'
    lifting = Lifting()
    assert b"".join(lifting.passing([many])) == b'{"a":1}' and lifting.instructions == "x"
