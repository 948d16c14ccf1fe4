"""Text that is a table: described, bound and read as one, while the text itself stays what is stored."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter
from typing import Any

import pytest

from byref import Engine, Policy, Session
from byref.content import tables
from byref.ingest import ingested
from byref.ingest.streams import COLLECTED
from byref.interpreter import inputs
from byref_sandbox.tabletext import passing

NAMES = ["id", "name", "city", "price", "day", "paid", "note"]


def orders(count: int, seed: int = 1) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "id": n + seed,
            "name": f'customer "{n % 97}"' if n % 5 == 0 else f"customer {n % 97}",
            "city": chance.choice(["Oslo", "Rome", "Lima"]),
            "price": round(chance.random() * 1_000, 2),
            "day": f"2026-{1 + n % 12:02d}-{1 + n % 28:02d}",
            "paid": n % 3 == 0,
            "note": None if n % 4 == 0 else "left, at the\ndoor" if n % 4 == 1 else "said nothing",
        }
        for n in range(count)
    ]


def written(rows: list[dict[str, Any]], **dialect: Any) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0].keys(), **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


DIALECTS: dict[str, dict[str, Any]] = {
    "commas": {},
    "tabs": {"delimiter": "\t"},
    "semicolons": {"delimiter": ";", "lineterminator": "\n"},
    "bars": {"delimiter": "|", "quoting": csv.QUOTE_ALL},
}


@pytest.mark.parametrize("count", [600, pytest.param(6_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_code_jq_sql_and_references_read_records(session: Session, dialect: str, count: int) -> None:
    rows = orders(count)
    text = written(rows, **DIALECTS[dialect])
    result = session.process(text, tool="get_orders")
    assert result.route == "variables"
    [variable] = result.variables
    assert (variable.name, variable.shape) == ("get_orders", f"array({count}) of object(7 keys)")
    assert variable.value() == rows
    assert variable.artifact.value == text == variable.artifact.text
    run = session.run(
        "type(get_orders).__name__, len(get_orders), get_orders[1], round(sum(r['price'] for r in get_orders), 2)"
    )
    assert run.value == ["list", count, rows[1], round(sum(row["price"] for row in rows), 2)]
    assert session.run("get_orders[-1]['id'], [str(t) for t in df(get_orders).dtypes]").value == [
        rows[-1]["id"],
        ["int64", "str", "str", "float64", "datetime64[us]", "bool", "str"],
    ]
    jq = session.call("artifact_jq", {"artifact_id": "get_orders", "expression": "map(select(.paid)) | length"})
    assert jq.text == str(sum(row["paid"] for row in rows))
    assert session.resolve({"rows": "$get_orders"}) == {"rows": rows}
    assert session.resolve({"one": "$get_orders[3].city"}) == {"one": rows[3]["city"]}


def test_sql_reads_it_as_a_table(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=["artifact_sql", "artifact_grep", "artifact_read"])
    rows = orders(500)
    session.process(written(rows), tool="get_orders")
    reply = session.call("artifact_sql", {"query": "SELECT city, count(*) AS n FROM get_orders GROUP BY 1 ORDER BY 1"})
    for city in ("Lima", "Oslo", "Rome"):
        assert f"{city} | {sum(row['city'] == city for row in rows)}" in reply.text


def test_sql_says_of_what_is_too_large_how_it_can_be_read(
    local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = local.session("s", tenant=tenant, tools=["artifact_sql", "artifact_grep", "artifact_read"])
    result = session.process(written(orders(500)), tool="get_orders")
    size = result.artifacts[0].payload.size
    monkeypatch.setattr(inputs, "MAX_VALUE_BYTES", size - 1)
    for name in ("get_orders", result.artifacts[0].id):
        reply = session.call("artifact_sql", {"query": f'SELECT count(*) FROM "${name}"'})
        assert (
            f"{size:,} bytes of text with tables in it" in reply.text
            and "artifact_grep and artifact_read" in reply.text
        )


def test_lines_and_grep_read_what_the_tool_wrote(session: Session) -> None:
    text = written(orders(300))
    [variable] = session.process(text, tool="get_orders").variables
    assert (
        "1| id,name,city,price,day,paid,note"
        in session.call("artifact_read", {"artifact_id": "get_orders", "end_line": 1}).text
    )
    assert "[1 match" in session.call("artifact_grep", {"artifact_id": "get_orders", "pattern": "^7,"}).text
    assert session.run(f"{variable.artifact.id}[:20]").value == text[:20]


def test_a_tool_that_takes_text_gets_the_text(session: Session) -> None:
    text = written(orders(300))
    session.process(text, tool="get_orders")
    schema = {"type": "object", "properties": {"csv": {"type": "string"}, "rows": {"type": "array"}}}
    got = session.resolve({"csv": "$get_orders", "rows": "$get_orders"}, schema=schema)
    assert got["csv"] == text and got["rows"] == orders(300)


def test_the_content_type_says_what_the_text_is(session: Session) -> None:
    rows = [{"id": n, "name": f"n{n}"} for n in range(3_000)]
    texts = {
        "application/x-ndjson": "".join(f"{json.dumps(row)}\n" for row in rows),
        "text/markdown": "| id | name |\n|---|---|\n" + "".join(f"| {n} | n{n} |\n" for n in range(3_000)),
        "text/tab-separated-values": "id\tname\n" + "".join(f"{n}\tn{n}\n" for n in range(3_000)),
        "text/csv": "id;name\n" + "".join(f"{n};n{n}\n" for n in range(3_000)),
        "text/plain": "  id  | name\n------+-------\n" + "".join(f" {n:4} | n{n:<4}\n" for n in range(3_000)),
    }
    for content_type, text in texts.items():
        [artifact] = session.process(text, tool="get").artifacts
        assert (artifact.content_type, artifact.text, artifact.parsed) == (content_type, text, rows)


def test_the_envelope_says_what_it_says_of_records(session: Session) -> None:
    envelope = session.process(written(orders(300)), tool="get_orders").envelope
    assert envelope is not None
    assert envelope["schema"] == "[300 of {id:int,(name,city,day):str,price:num,paid:bool,note:str|null}]"
    assert envelope["read_as"] == "CSV"
    assert envelope["preview"][0] == orders(300)[0] or envelope["preview"][1] == orders(300)[1]


@pytest.mark.parametrize("rows", [3_000, pytest.param(700_000, marks=pytest.mark.slow)])
def test_the_envelope_says_where_no_header_was_found(session: Session, rows: int) -> None:
    text = "city,month,1\n" + "".join(f"c{n},m{n % 9},{n + 1}\n" for n in range(rows))
    result = session.process(text, tool="get_sums")
    assert result.envelope is not None
    assert result.envelope["read_as"] == "CSV; without a header"
    assert result.artifacts[0].content_type == "text/csv"
    assert session.variable("get_sums").shape == f"array({rows + 1}) of object(3 keys)"


def test_the_envelope_says_what_is_in_no_record(session: Session) -> None:
    lines = written(orders(900), delimiter=";", lineterminator="\n").splitlines()
    text = "\n".join(["Orders of the year", "", *lines, "1;x", "Total of 900 orders"])
    envelope = session.process(text, tool="get_orders").envelope
    assert envelope is not None
    assert envelope["read_as"].startswith('CSV with ";"; preamble "Orders of the year"')
    assert "Total of 900 orders" in envelope["read_as"] or "ragged" in envelope["read_as"]


def test_values_stay_text_where_anything_would_go(session: Session) -> None:
    lines = ["code,big,day,rate,mixed"]
    lines += [f"00{n},{10**17 + n},0{1 + n % 9}/0{1 + n % 9}/2026,NA,{n}" for n in range(1_500)] + [
        "007,1,01/02/2026,NA,x"
    ]
    session.process("\n".join(lines), tool="codes")
    value = session.variable("codes").value()
    assert isinstance(value, list)
    assert value[0] == {"code": "000", "big": "100000000000000000", "day": "01/01/2026", "rate": "NA", "mixed": "0"}
    assert value[-1]["mixed"] == "x"


@pytest.mark.parametrize("tables", ["auto", "off"])
def test_what_passes_whole_is_kept_as_a_table_too(local: Engine, tenant: str, tables: str) -> None:
    session = local.session("s", tenant=tenant, policy=Policy(tables=tables))
    text = written(orders(40))
    result = session.process(text, tool="get_orders")
    assert (result.route, result.content) == ("inline", text)
    assert session.variable("get_orders").value() == (orders(40) if tables == "auto" else text)


@pytest.mark.parametrize("preset", ["variables", "references", "pointers", "previews"])
def test_presets_leave_text_as_it_is(local: Engine, tenant: str, preset: str) -> None:
    session = local.session("s", tenant=tenant, policy=getattr(Policy, preset)())
    text = written(orders(3_000))
    result = session.process(text, tool="get_orders")
    assert all(artifact.value == artifact.parsed == text for artifact in result.artifacts)


def test_a_tool_may_say_what_its_text_is(local: Engine, tenant: str) -> None:
    codes, rows = "\n".join(f"{n} {n * 7}" for n in range(4_000)), written(orders(500))
    policy = Policy(per_tool={"get_codes": {"format": "csv", "tables": "off"}, "get_text": {"format": "text"}})
    session = local.session("s", tenant=tenant, policy=policy)
    session.process(codes, tool="get_codes")
    assert session.variable("get_codes").value() == [{"column_1": n, "column_2": n * 7} for n in range(4_000)]
    session.process(rows, tool="get_text")
    assert session.variable("get_text").value() == rows


def test_lines_of_json_are_records(session: Session) -> None:
    rows = orders(2_000)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    result = session.process(text, tool="get_orders")
    assert result.envelope is not None and result.envelope["read_as"] == "JSON lines"
    assert session.variable("get_orders").value() == rows and result.artifacts[0].value == text
    assert session.run("len(get_orders), df(get_orders).price.sum() > 0").value == [2_000, True]
    assert session.call("artifact_jq", {"artifact_id": "get_orders", "expression": "length"}).text == "2000"
    broken = session.process(text + "{'x'\n", tool="get_more")
    assert broken.route == "truncate" and "line 2001" in str(session.explain(broken.step))


TERMINALS = {
    "psql": (
        " id | city | total \n----+------+-------\n"
        + "".join(f" {n:>4} | Oslo | {n / 4} \n" for n in range(3_000))
        + "(3000 rows)\n\n",
        "a drawn table",
    ),
    "mysql": (
        "+------+------+-------+\n| id   | city | total |\n+------+------+-------+\n"
        + "".join(f"| {n:>4} | Oslo | {n / 4:>7} |\n" for n in range(3_000))
        + "+------+------+-------+\n",
        "a drawn table",
    ),
    "markdown": (
        "| id | city | total |\n|---|---|---|\n" + "".join(f"| {n} | Oslo | {n / 4} |\n" for n in range(3_000)),
        "a Markdown table",
    ),
    "aligned": ("ID     CITY   TOTAL\n" + "".join(f"{n:<6} Oslo   {n / 4}\n" for n in range(3_000)), "aligned columns"),
    "expanded": (
        "".join(f"-[ RECORD {n + 1} ]\nid    | {n}\ncity  | Oslo\ntotal | {n / 4}\n" for n in range(1_500)),
        "drawn records",
    ),
}


@pytest.mark.parametrize("kind", TERMINALS)
def test_what_terminals_draw_is_records(session: Session, kind: str) -> None:
    text, said = TERMINALS[kind]
    result = session.process(text, tool="get_rows")
    assert result.envelope is not None and result.envelope["read_as"].startswith(said)
    value = session.variable("get_rows").value()
    assert isinstance(value, list)
    names = list(value[0])
    assert [name.lower() for name in names] == ["id", "city", "total"]
    assert [list(row.values()) for row in value] == [[n, "Oslo", n / 4] for n in range(len(value))]
    assert session.run(f"round(df(get_rows)[{names[2]!r}].sum(), 2)").value == sum(n / 4 for n in range(len(value)))
    assert (
        session.resolve({"text": "$get_rows"}, {"type": "object", "properties": {"text": {"type": "string"}}})["text"]
        == text
    )


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_bytes_in_other_encodings_are_read(session: Session, encoding: str) -> None:
    rows = [row | {"city": "Århus", "note": f"né {row['id']}"} for row in orders(900)]
    data = written(rows, delimiter=";").encode(encoding)
    result = session.process(data, tool="get_orders")
    assert result.route == "variables" and session.variable("get_orders").value() == rows
    assert session.run("get_orders[3]['city'], df(get_orders).note[5]").value == ["Århus", rows[5]["note"]]
    noise = random.Random(1).randbytes(60_000)
    assert session.process(noise, tool="get_noise").route != "variables"


LOGS = {
    "Python's logging": "2026-11-01 12:{m:02d}:00,{n:03d} INFO [worker-{m}] request {n} took 7 ms",
    "an access log": '10.0.0.{m} - - [01/Nov/2026:12:{m:02d}:00 +0000] "GET /a/{n} HTTP/1.1" 200 {n}',
    "syslog": "Nov  3 12:{m:02d}:01 host sshd[{n}]: Failed password for root from 10.0.0.{m}",
}


@pytest.mark.parametrize("kind", LOGS)
def test_logs_stay_text(session: Session, kind: str) -> None:
    text = "\n".join(LOGS[kind].format(n=n, m=n % 60) for n in range(3_000))
    result = session.process(text, tool="read_log")
    assert result.route == "truncate" and result.variables[0].value() == text
    assert "Its lines: " in str(result.content) or "lines" in str(result.content)


def test_explain_says_why_a_text_is_no_table(session: Session) -> None:
    text = written(orders(1_500))
    cut = text + "".join(f"only {n}\r\n" for n in range(1_000))
    result = session.process(cut, tool="get_orders")
    assert result.route == "truncate"
    assert "no table: line " in str(session.explain(result.step))


def test_where_no_tool_reads_it_text_is_cut_as_text(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=[])
    text = written(orders(3_000))
    content = str(session.process(text, tool="get_orders").content)
    assert content.startswith("id,name,city,price,day,paid,note") and "[truncated " in content


def test_a_repeated_call_is_answered_as_before(session: Session) -> None:
    text = written(orders(300))
    first = session.process(text, tool="get_orders", call_id="c")
    again = session.process(text, tool="get_orders", call_id="c")
    assert (first.step, first.content) == (again.step, again.content)


@pytest.mark.parametrize("count", [900, 12_000])
def test_cells_of_nothing_are_null_wherever_they_are(session: Session, count: int) -> None:
    rows = [{"id": n, "code": f"code {n % 7}", "note": f"a longer note about {n}"} for n in range(count)]
    for at, note in ((count // 2, ""), (count // 3, "  ")):
        rows[at]["note"] = note
    rows[count // 4]["code"] = ""
    result = session.process(written(rows), tool="get_notes")
    assert result.envelope is not None
    assert result.envelope["schema"] == f"[{count:,} of {{id:int,(code,note):str|null}}]"
    expected = [row | {name: row[name] or None for name in ("code", "note")} for row in rows]
    assert session.variable("get_notes").value() == expected


def test_ragged_rows_of_a_long_table_are_counted_and_told(session: Session) -> None:
    rows = orders(9_000)
    lines = written([row | {"note": "x"} for row in rows], lineterminator="\n").splitlines()
    text = "\n".join(
        f"{line},more" if at % 300 == 150 else line[: line.rindex(",")] if at % 300 == 75 else line
        for at, line in enumerate(lines)
    )
    result = session.process(text, tool="get_orders")
    assert result.envelope is not None
    assert result.envelope["read_as"].startswith("CSV; 60 ragged rows, first in line 76: 6 cells for 7 columns")
    assert (
        result.envelope["schema"]
        == "[9,000 of {id:int,(name,city,day):str,price:num,paid:bool,note:str|null,extra?:[str]}]"
    )
    value = session.variable("get_orders").value()
    assert isinstance(value, list) and len(value) == 9_000
    assert [row["extra"] for row in value if "extra" in row] == [["more"]] * 30
    assert sum(row["note"] is None for row in value) == 30


@pytest.mark.parametrize(("dialect", "count"), [("commas", 9_000), ("bars", 9_000), ("commas", 1_600), ("bars", 3_600)])
def test_facts_of_a_long_table_are_of_all_its_cells(session: Session, dialect: str, count: int) -> None:
    rows = orders(count)
    rows[1_321]["price"], rows[1_322]["price"], rows[1_234]["city"], rows[1_178]["day"] = (
        -77.25,
        4e6,
        None,
        "2031-12-31",
    )
    text = written(rows, **DIALECTS[dialect])
    assert (len(text) > tables.WHOLE_BYTES) is (count == 9_000)
    cities = Counter(row["city"] for row in rows if row["city"]).most_common()
    envelope = session.process(text, tool="get_orders").envelope
    assert envelope is not None
    assert envelope["values"]["$[]"] == {
        "city": ", ".join(f"{city} {count:,}" for city, count in cities) + ", null 1",
        "note": f"said nothing {count // 2:,}, 'left, at the\\ndoor' {count // 4:,}, null {count // 4:,}",
        "day": "dates 2026-01-01 to 2031-12-31",
        "price": [-77.25, 4e6],
        "id": f"1 to {count}, unique",
        "paid": f"false {count - len(rows[::3]):,}, true {len(rows[::3]):,}",
    }


def test_facts_of_a_longer_table_say_of_how_many_records_they_are(session: Session) -> None:
    text = "\n".join(["id,city,note", *(f"{n},{('Oslo', 'Rome')[n % 2]},{'x' * 80}{n}" for n in range(50_000))])
    assert len(text) > tables.SUMMARISED_BYTES
    envelope = session.process(text, tool="get_orders").envelope
    assert envelope is not None
    [(path, facts)] = envelope["values"].items()
    assert re.fullmatch(r"\$\[\], of a sample of [\d,]+", path) and facts["city"].startswith(("Oslo", "Rome"))


LONG = 96 << 10
"""Bytes of a stream that is not collected in memory by `small`."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are too large for memory, and read in windows, from few bytes on."""
    monkeypatch.setattr(ingested, "COLLECTED", LONG // 2)
    monkeypatch.setattr(tables, "_BEGINNING", 4 << 10)
    monkeypatch.setattr(passing, "WINDOW", 16 << 10)


@pytest.mark.parametrize("size", [LONG, pytest.param(COLLECTED, marks=pytest.mark.slow)])
def test_a_stream_too_large_for_memory_is_the_table_that_its_text_is(
    session: Session, size: int, request: pytest.FixtureRequest
) -> None:
    if size == LONG:
        request.getfixturevalue("small")
    rows = orders(600)
    header, _, body = written(rows, lineterminator="\n").partition("\n")
    times = size // len(body) + 2
    text = f"Orders of the year\n{header}\n{body * times}"
    result = session.process(io.StringIO(text), tool="get_orders")
    assert result.route == "variables" and result.envelope is not None
    assert result.envelope["read_as"] == 'CSV; preamble "Orders of the year"'
    [variable] = result.variables
    assert variable.shape == f"array({600 * times}) of object(7 keys)"
    in_memory = session.process(text, tool="again").variables[0].artifact
    assert variable.artifact.reading == in_memory.reading and variable.artifact.schema == in_memory.schema
    code = "f = df(get_orders)\n[len(f), round(float(f.price.sum()), 1), str(f.day.dtype), get_orders[-1]]"
    total = round(times * sum(row["price"] for row in rows), 1)
    assert session.run(code).value == [600 * times, total, "datetime64[us]", rows[-1]]
    assert session.resolve({"one": "$get_orders[601].name"}) == {"one": rows[1]["name"]}


def test_a_stream_too_large_for_memory_of_json_lines_is_their_records(session: Session, small: None) -> None:
    rows = [{"id": n, "tags": ["a"] * (n % 3), "text": f"line {n}" * 20} for n in range(500)]
    body = "".join(json.dumps(row) + "\n" for row in rows)
    times = LONG // len(body) + 2
    result = session.process(io.BytesIO((body * times).encode()), tool="get_lines")
    [variable, *_] = result.variables
    assert result.envelope is not None and result.envelope["read_as"] == "JSON lines"
    assert variable.shape == f"array({500 * times}) of object(3 keys)"
    assert session.run("len(get_lines), get_lines[501]").value == [500 * times, rows[1]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,name\n" + "1,a\n" * 1_000 + "2,b,c\n" + "1,a\n" * (LONG // 4), "line 1002: the row is unlike the others"),
        ('{"id": 1}\n{"id": 2}\n{"id": }\n' + '{"id": 3}\n' * (LONG // 9), "its lines are no JSON objects"),
    ],
)
def test_explain_says_why_a_stream_is_no_table(session: Session, small: None, text: str, reason: str) -> None:
    result = session.process(io.StringIO(text), tool="get_text")
    assert result.route != "variables"
    assert reason in json.dumps(session.explain(result.step or 0), default=str)


@pytest.mark.parametrize(
    "data", [b"id,n\xe4me\n" + b"1,\xe9\n" * LONG, b"a,b\n" + b"1,2\n" * LONG + b"3,\xe4\n", b"\xff,\n" * LONG]
)
def test_a_stream_in_another_encoding_stays_text(session: Session, small: None, data: bytes) -> None:
    result = session.process(io.BytesIO(data), tool="get_text")
    assert (result.route, result.artifacts[0].payload.read()) == ("truncate", data)


def test_a_stream_stays_text_where_looking_at_it_fails(
    session: Session, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(passing.Passing, "feed", fails)
    text = "id,name\n" + "1,a\n" * LONG
    assert session.process(io.StringIO(text), tool="get_text").route != "variables"


def test_a_stream_may_have_a_long_first_record_and_characters_of_bytes(session: Session, small: None) -> None:
    text = f"id,name\n0,{'x' * (40 << 10)}\n1,\0\n" + "".join(f"{n},a\n" for n in range(LONG // 4))
    result = session.process(io.BytesIO(text.encode()), tool="get_rows")
    assert (result.route, result.variables[0].shape) == (
        "variables",
        f"array({2 + LONG // 4:,}) of object(2 keys)".replace(",", ""),
    )
    result = session.process(io.BytesIO(text.replace("name", "na\0me").encode()), tool="get_more")
    assert result.route == "variables"


def test_a_stream_is_not_looked_at_where_the_policy_says_so(local: Engine, tenant: str, small: None) -> None:
    session = local.session("s", tenant=tenant, policy=Policy(tables="off", per_tool={"codes": {"format": "csv"}}))
    text = "id,name\n" + "1,a\n" * (LONG // 3)
    assert session.process(io.StringIO(text), tool="get_text").route != "variables"
    assert session.process(io.StringIO(text), tool="codes").route == "variables"


def test_names_without_a_column_are_told() -> None:
    text = "id,name,value,extra,more\n" + "".join(f"{n},name {n},{n * 2}\n" for n in range(900))
    with Engine("sqlite:///:memory:", policy=Policy(max_result_tokens=300)) as engine:
        result = engine.session("s").process(text, tool="t")
    assert result.envelope is not None
    assert result.envelope["read_as"] == "CSV; 2 names without a column: extra, more"
