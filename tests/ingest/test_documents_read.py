"""Documents with tables: described and bound as their records, while the document itself is stored beside them."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import time
from typing import Any

import pandas as pd
import pytest

from byref import Engine, Policy, Session
from byref.ingest import documents
from byref_sandbox import Table

FRAME = pd.DataFrame(
    {
        "id": range(1_500),
        "code": [f"{n:05d}" for n in range(1_500)],
        "city": ["Oslo", "Rome", "Lima"] * 500,
        "amount": [n / 4 for n in range(1_500)],
        "day": [f"2026-{1 + n % 12:02d}-{1 + n % 28:02d}" for n in range(1_500)],
    }
)
RECORDS: list[dict[str, Any]] = FRAME.to_dict("records")


def parquet() -> bytes:
    file = io.BytesIO()
    FRAME.to_parquet(file)
    return file.getvalue()


def excel() -> bytes:
    file = io.BytesIO()
    with pd.ExcelWriter(file) as book:
        FRAME.to_excel(book, sheet_name="Sales", index=False)
    return file.getvalue()


def database() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        FRAME.to_sql("sales", connection, index=False)
        return connection.serialize()


def page() -> str:
    return f"<!doctype html><html><body>{FRAME.to_html(index=False)}</body></html>"


def elements() -> str:
    rows = "".join(
        "<sale>" + "".join(f"<{key}>{value}</{key}>" for key, value in row.items()) + "</sale>" for row in RECORDS
    )
    return f"<?xml version='1.0'?><sales>{rows}</sales>"


DOCUMENTS = {"Parquet": parquet, "Excel": excel, "SQLite": database, "HTML": page, "XML": elements}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_its_records_are_bound_and_the_document_is_kept(session: Session, kind: str) -> None:
    document = DOCUMENTS[kind]()
    result = session.process(document, tool="get_sales")
    assert (result.route, result.envelope and result.envelope["variables"]) == (
        "variables",
        {"get_sales": "array(1500) of object(5 keys)"},
    )
    records, whole = result.artifacts
    assert session.variable("get_sales").value() == records.value == RECORDS
    assert whole.value == document
    assert result.envelope is not None
    assert result.envelope["read_as"].startswith(kind) and whole.id in result.envelope["read_as"]
    run = session.run(f"df(get_sales).groupby('city').amount.sum().to_dict()['Oslo'], len({whole.id})")
    assert run.value == [FRAME[FRAME.city == "Oslo"].amount.sum(), len(document)]


def outline() -> str:
    return "".join(f"- id: {row['id']}\n  city: {row['city']}\n" for row in RECORDS)


TEXTS = {"HTML": (page, "text/html"), "XML": (elements, "application/xml"), "YAML": (outline, "application/yaml")}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_is_what_it_was_where_text_is_wanted(session: Session, kind: str) -> None:
    wanted = {"type": "object", "properties": {"content": {"type": "string"}}}
    make, content_type = TEXTS[kind]
    records, document = session.process(make(), tool="get").artifacts
    assert (records.content_type, document.content_type) == ("application/json", content_type)
    assert session.resolve({"content": "$get"}, wanted)["content"] == make()
    assert len(session.resolve({"content": "$get"})["content"]) == 1_500
    assert f" 1| {make()[:50].splitlines()[0]}" in session.call("artifact_read", {"artifact_id": "get"}).text
    assert "1499" in session.call("artifact_grep", {"artifact_id": "$get", "pattern": r"id(:|>)? ?1499|<td>1499"}).text
    assert " 1| [" in session.call("artifact_read", {"artifact_id": records.id}).text


def test_text_beside_records_is_not_theirs(session: Session) -> None:
    wanted = {"type": "object", "properties": {"content": {"type": "string"}}}
    blocks = [{"type": "text", "text": text} for text in (json.dumps(RECORDS), page(), outline())]
    result = session.process(blocks, tool="get")
    first = json.dumps(RECORDS)
    texts = [
        session.resolve({"content": f"${one.name}"}, wanted)["content"] for one in result.variables if not one.path
    ]
    assert first in texts and set(texts) <= {first, page(), outline()}


def test_several_sheets_are_tables_by_name(session: Session) -> None:
    file = io.BytesIO()
    with pd.ExcelWriter(file) as book:
        FRAME.to_excel(book, sheet_name="Sales of May", index=False)
        FRAME.head(20).to_excel(book, sheet_name="Costs", index=False)
    result = session.process(file.getvalue(), tool="get_book")
    assert {variable.name for variable in result.variables} == {"get_book", "Sales_of_May", "Costs"}
    assert session.run("len(Sales_of_May), len(Costs), list(get_book)").value == [1_500, 20, ["Sales_of_May", "Costs"]]


def test_many_tables_of_one_name_are_named_in_linear_time() -> None:
    tables = [Table(name, "", (), 1, b"[]") for name in ["a", "a_2", "a"] * 4_000]
    started = time.process_time()
    named = json.loads(documents._json(tables))
    assert time.process_time() - started < 3
    assert [*named][:6] == ["a", "a_2", "a_3", "a_4", "a_2_2", "a_5"] and len(named) == len(tables)


@pytest.mark.parametrize(
    "policy", [Policy(tables="off"), Policy.variables(), Policy(per_tool={"get_sales": {"format": "text"}})]
)
def test_a_host_may_leave_documents_as_they_are(local: Engine, tenant: str, policy: Policy) -> None:
    session = local.session("s", tenant=tenant, policy=policy)
    [artifact] = session.process(parquet(), tool="get_sales").artifacts
    assert artifact.value == parquet()


def test_a_small_document_is_its_tables_too(session: Session) -> None:
    file = io.BytesIO()
    FRAME.head(50).to_excel(file, index=False)
    result = session.process(file.getvalue(), tool="get_book", call_id="c")
    assert (result.route, result.reason) == ("variables", "tables")
    assert result.envelope is not None and result.tokens < result.original_tokens
    assert session.run("len(get_book), list(get_book[0])").value == [50, list(FRAME)]
    assert "but its tables were read" in str(session.explain("c"))
    assert session.process(file.getvalue(), tool="get_book", call_id="c").text == result.text
    nothing = session.process(b"PK\x03\x04" + b"\0" * 500, tool="get_zip")
    assert (nothing.route, nothing.reason) == ("inline", "below_floor")


@pytest.mark.parametrize(
    ("headroom", "route", "reason"), [(0.7, "inline", "fits"), (0.00001, "placeholder", "headroom")]
)
def test_a_small_document_passes_as_it_would_where_a_quota_leaves_no_room_for_its_tables(
    local: Engine, tenant: str, headroom: float, route: str, reason: str
) -> None:
    file = io.BytesIO()
    FRAME.head(50).to_excel(file, index=False)
    document = file.getvalue()
    policy = Policy(max_session_bytes=len(document) + 100, headroom_percentage=headroom)
    session = local.session("s", tenant=tenant, policy=policy, context_window=10**6)
    result = session.process(document, tool="get_book", call_id="c")
    assert (result.route, result.reason) == (route, reason)
    assert "with them a quota would be passed" in str(session.explain("c"))


def test_where_no_tool_reads_tables_it_is_a_document(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=[])
    result = session.process(parquet(), tool="get_sales")
    assert result.route == "placeholder" and [artifact.kind for artifact in result.artifacts] == ["document"]


HOSTILE = {
    "cut": lambda: parquet()[:-200],
    "a lying footer": lambda: parquet()[:-8] + b"\xff\xff\xff\x7fPAR1",
    "entities": lambda: (
        "<!DOCTYPE x ["
        + "".join(f"<!ENTITY e{n} '&e{n - 1};&e{n - 1};'>" for n in range(1, 40))
        + "]><x>&e39;</x>"
        + "x" * 60_000
    ),
    "no table": lambda: b"PK\x03\x04" + b"\0" * 60_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_read_stays_what_it_is_and_the_turn_goes_on(session: Session, name: str) -> None:
    document = HOSTILE[name]()
    result = session.process(document, tool="get_sales")
    assert result.route in ("placeholder", "truncate", "wholesale")
    assert [artifact.value for artifact in result.artifacts] == [document]
    assert session.process(parquet(), tool="get_more").route == "variables"


def test_a_repeated_call_is_answered_as_before(session: Session) -> None:
    document = excel()
    first, again = (session.process(document, tool="get_sales", call_id="c") for _ in range(2))
    assert (first.step, first.content) == (again.step, again.content)
