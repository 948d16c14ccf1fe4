"""The forms that a reference may have, as properties, and the bounds of one call."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from byref import Engine, Policy, Session, ToolError
from byref.artifacts import store
from byref.db.tables import ArtifactRow
from byref.references import substitution
from byref.references.targets import NotThere, readings, walk

KEYS = st.text(max_size=8) | st.sampled_from(
    ["$var", "jq", "path", "$held", "art_", "a.b", "a[0]", "0", "\0", "\ud800"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
DATA = st.recursive(
    SCALARS | st.sampled_from(["$HOME", "$amount", "$$held", "$held ", "$1", "$", "art:x", "art_\0", "$held.nope", "$held[0"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


def typed(value: Any) -> Any:
    """A value with its types, as True == 1 == 1.0."""
    if isinstance(value, dict):
        return {key: typed(member) for key, member in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value), value)


def has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return ("$var" in value and value.keys() <= {"$var", "jq", "path"}) or any(map(has_reference, value.values()))
    return any(map(has_reference, value)) if isinstance(value, list) else False


@pytest.fixture
def held(chat: Session) -> Session:
    """A conversation in which `$held` is bound, to numbers."""
    chat.store_artifact([1, 2, 3], name="held")
    return chat


@given(arguments=st.dictionaries(KEYS, DATA, max_size=4).filter(lambda value: not has_reference(value)))
def test_what_names_nothing_passes_unchanged(local: Engine, arguments: dict[str, Any]) -> None:
    session = local.session("properties", tenant="forms")
    assert typed(session.resolve(arguments)) == typed(arguments)
    assert session.ledger() == []


def test_a_text_that_looks_like_an_id_is_one_only_where_it_is(local: Engine) -> None:
    """Tools and artifacts may be called as ids are."""
    session = local.session("art", tenant="forms")
    rows = [{"id": number} for number in range(3_000)]
    artifact = session.process(rows, tool="art_search").artifacts[0]
    named = session.store_artifact("named", name="art_director")
    texts = ["art_search", "art_director", "art_search.0.id", "art_director[0]", "art:search", "art_", named.id + "x"]
    assert session.resolve({"a": texts}) == {"a": texts}
    pointed = [artifact.id, artifact.pointer, "$art_search", "$" + artifact.id, {"$var": "art_search"}]
    assert session.resolve({"a": pointed}) == {"a": [rows] * 5}
    assert session.resolve({"a": [f"{artifact.id}.7.id", f"{artifact.pointer}[7].id", "$art_director"]}) == {
        "a": [7, 7, "named"]
    }


def test_a_text_that_looks_like_the_id_of_what_is_gone_is_one_only_where_it_is(local: Engine) -> None:
    session = local.session("gone art", tenant="forms", policy=Policy(ttl=timedelta(days=1)))
    artifact = session.process([{"id": number} for number in range(3_000)], tool="art_search").artifacts[0]
    past = (
        update(ArtifactRow)
        .where(ArtifactRow.public_id == artifact.id)
        .values(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    )
    local.database.write(lambda connection: connection.execute(past))
    assert session.resolve({"a": "art_search"}) == {"a": "art_search"}
    for gone in (artifact.id, artifact.pointer, "$art_search", f"{artifact.id}.0"):
        with pytest.raises(ToolError, match="expired"):
            session.resolve({"a": gone})


@given(data=st.data(), value=DATA)
def test_a_walk_is_plain_indexing(data: st.DataObject, value: Any) -> None:
    path: list[str | int] = []
    inner = value
    while isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else list(range(len(inner)))))
        path.append(key)
        inner = inner[key]
    assert walk(value, path, "x") is inner
    assert walk(value, [str(key) for key in path], "x") is inner
    spelled = "".join(f"[{json.dumps(key)}]" for key in path)
    if path:
        assert any(found is inner for found in walked(value, spelled))
    if path and all(isinstance(key, int) or key.isalpha() for key in path):
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
        for text in (dotted, dotted.removeprefix("."), f"${dotted}", ".".join(map(str, path))):
            assert any(found is inner for found in walked(value, text)), text


def walked(value: Any, path: str) -> list[Any]:
    found = []
    for steps in readings(path):
        try:
            found.append(walk(value, steps, "x"))
        except NotThere:
            continue
    return found


@given(text=st.text(alphabet="$.[]'\"\\0a ", max_size=30))
def test_any_text_for_a_path_is_read_or_not_there(text: str) -> None:
    assert all(isinstance(step, str) for steps in readings(text) for step in steps)
    walked({"a": [{"0": 1}]}, text)


def test_what_is_split_at_dots_comes_before_what_brackets_mean(chat: Session) -> None:
    chat.store_artifact({"rows[0]": "the key", "rows": ["the item"], "a b": {"c.d": 5}}, name="odd")
    assert chat.resolve({"x": "$odd.rows[0]"}) == {"x": "the key"}
    assert chat.resolve({"x": '$odd["rows"][0]', "y": "$odd['a b']['c.d']"}) == {"x": "the item", "y": 5}
    chat.store_artifact("by name", name="odd[0]")
    assert chat.resolve({"x": "$odd[0]"}) == {"x": "by name"}


def test_an_object_with_further_keys_is_data_unless_it_names_what_is_bound(held: Session) -> None:
    data = {"$var": "nobody", "let": {"x": 1}}
    assert held.resolve({"x": data}) == {"x": data}
    assert held.resolve({"x": {**data, "in": "$held"}}) == {"x": {**data, "in": [1, 2, 3]}}
    with pytest.raises(ToolError, match=r'a reference is \{"\$var": "name"\}, with "path" or "jq" beside it'):
        held.resolve({"x": {"$var": "held", "let": 1}})


@pytest.mark.parametrize("name", ["\0", "\ud800", "x" * 100_000, "held\0", "'; DROP TABLE byref_artifacts; --", "%", "art_", "art_%", "[", "]", ".", "held.", "{}"])  # fmt: skip
def test_hostile_names_are_unknown_and_cut(held: Session, name: str) -> None:
    with pytest.raises(ToolError) as caught:
        held.resolve({"x": {"$var": name}})
    assert len(str(caught.value)) < 500
    assert held.resolve({"x": "$" + name, "y": name}) == {"x": "$" + name, "y": name}


def test_a_tool_may_take_no_references(local: Engine, held: Session) -> None:
    policy = Policy(per_tool={"aggregate": {"references": False}})
    session = local.session(held.id, tenant=held.tenant, policy=policy)
    given = {"pipeline": [{"$var": "held"}, "$held", {"$var": "nope", "jq": 5}], "limit": "5"}
    schema = {"properties": {"limit": {"type": "integer"}}}
    assert session.resolve(given, tool="aggregate") == given
    assert session.resolve(json.dumps(given), schema, tool="aggregate") == {**given, "limit": 5}
    assert [entry.kind for entry in session.ledger()] == []
    with pytest.raises(ToolError, match="no artifact or variable 'nope'"):
        session.resolve({"x": {"$var": "nope"}}, tool="other")
    assert session.resolve({"x": "$held"}, tool="other") == {"x": [1, 2, 3]}


def test_a_plain_pick_does_not_multiply_data(chat: Session) -> None:
    chat.store_artifact(["x" * 1_000] * 4_000, name="big")
    start = time.monotonic()
    with pytest.raises(ToolError, match="a jq program gives more than 256 MB; select less"):
        chat.resolve({"x": {"$var": "big", "jq": ",".join(["."] * 99)}})
    assert time.monotonic() - start < 10


@pytest.mark.slow
def test_the_jq_programs_of_a_call_share_their_time(local: Engine, held: Session) -> None:
    session = local.session(held.id, tenant=held.tenant, policy=Policy(run_seconds=0.5))
    quick = [{"$var": "held", "jq": f"[range(100000)] | length + {i}"} for i in range(substitution.MAX_JQ_RUNS)]
    took: list[float] = []
    # whatever else the machine does only adds: the best one counts
    while not took or (took[-1] >= 5 and len(took) < 4):
        start = time.monotonic()
        with pytest.raises(ToolError, match=r"stopped after 0\.5 s"):
            session.resolve({"x": {"$var": "held", "jq": "[range(1e9)] | length"}})
        with pytest.raises(ToolError, match=r"stopped after 0\.\d+ s|took more than 0\.5 s together"):
            session.resolve({"x": [*quick[:-1], {"$var": "held", "jq": "[range(1e9)] | length"}]})
        took.append(time.monotonic() - start)
    assert min(took) < 5, took


def test_what_one_call_reads_is_bounded(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(substitution, "MAX_BYTES", 1 << 20)
    for name in ("one", "two"):
        chat.store_artifact([name * 200_000], name=name)
    assert chat.resolve({"x": "$one"})["x"] == ["one" * 200_000]
    with pytest.raises(ToolError, match="the references of one call are to more than 1 MB of data; name less"):
        chat.resolve({"x": "$one[0]", "y": ["$two[0]"]})


@pytest.mark.slow
def test_any_number_of_rows_is_looked_up(chat: Session) -> None:
    artifact = chat.store_artifact([1], name="one")
    scope = chat._scope
    ids = [artifact.row_id, *range(10**6, 10**6 + 40_000)]  # a statement takes 32,766 parameters
    found = scope.read(lambda connection: store.by_row_ids(connection, scope.source, scope.row, ids))
    assert [one.id for one in found.values()] == [artifact.id]
    names = [f"$name_{i}" for i in range(33_000)]
    assert chat.resolve({"x": names, "y": "$one"}) == {"x": names, "y": [1]}
