"""JSON that came as text is read as text or as JSON, as the reader or the parameter expects; neither is an error."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from material import records
from sampled import sampled

from byref import Engine, Policy, Session, ToolError
from byref.ingest import ingested
from byref.policy import TOOL_NAMES

ROWS = records(900)
TEXT = json.dumps({"rows": ROWS, "note": "é\u2028"}, ensure_ascii=False, indent=1)
SAYS = json.loads(TEXT)
ALL = list(TOOL_NAMES)
PRESETS = ["variables", "references", "pointers", "previews"]


def of(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": kind if isinstance(kind, dict) else {"type": kind}}}


def pieces(whole: Any) -> Iterator[Any]:
    yield from (whole[at : at + 30_000] for at in range(0, len(whole), 30_000))


SOURCES: dict[str, Any] = {
    "text": lambda: TEXT,
    "bytes": TEXT.encode,
    "block": lambda: [{"type": "text", "text": TEXT}],
    "MCP": lambda: {"content": [{"type": "text", "text": TEXT}], "isError": False},
    "text stream": lambda: pieces(TEXT),
    "bytes stream": lambda: io.BytesIO(TEXT.encode()),
}


def opened(engine: Engine, tenant: str, preset: str, name: str = "s") -> Session:
    policy = getattr(Policy, preset)()
    return engine.session(name, tenant=tenant, policy=policy, context_window=40_000, tools=ALL)


@pytest.mark.parametrize("collected", [ingested.COLLECTED, 1 << 16], ids=["whole", "as it passes"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_pointer_stands_for_the_text(
    engine: Engine, tenant: str, source: str, collected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingested, "COLLECTED", collected)
    session = opened(engine, tenant, "pointers")
    [artifact] = session.process(SOURCES[source](), tool="t").artifacts
    assert (artifact.kind, artifact.content_type, artifact.value) == ("json", "application/json", TEXT)
    assert artifact.schema is not None and "rows" in artifact.shape  # type: ignore[operator]
    assert session.resolve({"x": artifact.pointer, "y": {"$var": artifact.id}}) == {"x": TEXT, "y": TEXT}
    assert session.resolve({"x": artifact.pointer}, of("string")) == {"x": TEXT}
    assert session.resolve({"x": artifact.pointer}, of({"anyOf": [{"type": "null"}, {"type": "object"}]})) == {
        "x": SAYS
    }
    assert session.resolve({"x": artifact.pointer}, of({})) == {"x": TEXT}
    with pytest.raises(ToolError, match="x expects integer"):
        session.resolve({"x": artifact.pointer}, of("integer"))


@pytest.mark.parametrize("preset", PRESETS)
def test_paths_and_jq_read_what_it_says(engine: Engine, tenant: str, preset: str) -> None:
    session = opened(engine, tenant, preset)
    [artifact] = session.process(TEXT, tool="t").artifacts
    for key in (artifact.id, artifact.pointer):
        given = {
            "path": {"$var": key, "path": "rows.3.id"},
            "steps": f"{key}.rows[3].id",
            "pick": {"$var": key, "jq": ".rows[3].id"},
            "jq": {"$var": key, "jq": "[.rows[] | .id] | length"},
        }
        assert session.resolve(given) == {"path": 4, "steps": 4, "pick": 4, "jq": 900}
        assert session.call("artifact_jq", {"artifact_id": key, "expression": ".rows | length"}).content == "900"
        assert session.call("artifact_jq", {"artifact_id": key, "expression": "[.rows[].id] | add"}).content == "405450"


@pytest.mark.parametrize("preset", ["variables", "references", "previews"])
def test_elsewhere_it_is_structured_and_still_a_text_for_who_wants_one(
    engine: Engine, tenant: str, preset: str
) -> None:
    session = opened(engine, tenant, preset)
    result = session.process(TEXT, tool="t")
    [artifact] = result.artifacts
    names = [artifact.pointer, *(f"${variable.name}" for variable in result.variables if not variable.path)]
    for name in names:
        assert session.resolve({"x": name}) == {"x": SAYS}
        assert session.resolve({"x": name}, of("object")) == {"x": SAYS}
        assert session.resolve({"x": name}, of("string")) == {"x": TEXT}
    assert artifact.value == SAYS
    for variable in result.variables:
        assert variable.value() == (SAYS["rows"] if variable.path else SAYS)


def test_what_was_no_text_is_none(engine: Engine, tenant: str) -> None:
    """A value is not written out for a parameter of type string, nor are the elements of one that came as text."""
    for preset in PRESETS:
        session = opened(engine, tenant, preset, preset)
        for source in ({"rows": ROWS}, (record for record in ROWS)):
            [artifact] = session.process(source, tool="t").artifacts
            with pytest.raises(ToolError, match="x expects string and is"):
                session.resolve({"x": artifact.pointer}, of("string"))
        [artifact] = session.process(TEXT, tool="t").artifacts
        with pytest.raises(ToolError, match="x expects string and is array"):
            session.resolve({"x": f"{artifact.pointer}.rows"}, of("string"))


@pytest.mark.parametrize(
    "content_type", sampled([None, "text/plain", "application/json", "text/markdown; charset=utf-8"], 2)
)
@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", ' {"a": {"b": null}}\n', "[]", '\ufeff{"a": 1}', "[1,", "null"])
def test_what_a_host_stores_as_a_string_is_that_string(session: Session, text: str, content_type: str | None) -> None:
    kept = session.store_artifact(text, name="kept", content_type=content_type)
    again = session.get_artifact(kept.pointer)
    assert again == kept and (kept.value, kept.payload.read().decode()) == (text, text)
    assert content_type in (None, kept.content_type)
    assert session.resolve({"x": kept.pointer, "y": "$kept"}) == {"x": text, "y": text}
    assert session.run("kept").value == text.removeprefix("\ufeff")  # as all text in code
    if kept.kind == "json":
        query = {"artifact_id": "kept", "expression": "."}
        assert json.loads(session.call("artifact_jq", query).content) == json.loads(text.strip("\ufeff"))


def test_what_a_model_stores_as_a_string_is_that_string(engine: Engine, tenant: str) -> None:
    session = opened(engine, tenant, "pointers")
    reply = session.call("store_artifact", {"name": "plan", "value": '{"steps": [1, 2]}'})
    pointer = json.loads(reply.content)["pointer"]
    assert session.resolve({"x": pointer}) == {"x": '{"steps": [1, 2]}'}
    assert session.resolve({"x": pointer}, of("object")) == {"x": {"steps": [1, 2]}}
    assert session.resolve({"x": {"$var": "plan", "path": "steps"}}) == {"x": [1, 2]}
    assert session.call("get_artifact", {"pointer_or_name": "plan"}).content == '{"steps": [1, 2]}'
    assert session.call("list_artifacts", {}).content.count('"contentType":"application/json"') == 1


def test_what_is_no_string_is_what_it_says(session: Session) -> None:
    for given in (b'{"a": 1}', io.BytesIO(b'{"a": 1}'), {"a": 1}):
        assert session.store_artifact(given).value == {"a": 1}
    assert session.store_artifact(io.StringIO('{"a": 1}')).value == '{"a": 1}'


def test_it_stays_a_string_in_another_session_and_handle(engine: Engine, tenant: str) -> None:
    session, other = engine.session("one", tenant=tenant), engine.session("two", tenant=tenant)
    shared = session.share(session.store_artifact('{"a": 1}', name="kept"), with_="two")
    assert shared.value == '{"a": 1}'
    found = other.get_artifact("kept")
    assert found is not None and (found.kind, found.value) == ("json", '{"a": 1}')


@pytest.mark.parametrize("preset", ["pointers", "variables"])
def test_a_big_text_is_read_from_variables_as_what_it_says(engine: Engine, tenant: str, preset: str) -> None:
    """Where a pointer's data is bound to a name as well, the name means the data."""
    session = opened(engine, tenant, preset)
    for variable in session.process(TEXT, tool="t").variables:
        assert not isinstance(variable.value(), str)
        assert session.run(f"type({variable.name}).__name__").value in ("dict", "list")
