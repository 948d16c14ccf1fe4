"""The texts that a model reads: docs/texts.md shows each with its tokens, and none names anything that does not exist."""

from __future__ import annotations

import base64
import itertools
import json
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import external_file
from material import prose, records

from byref import Engine, Policy, SampledCounter, Session, ToolError
from byref.policy import TOOL_NAMES
from byref_sandbox import Sandbox

COUNT = SampledCounter().count
READERS = ["artifact_read", "artifact_grep", "artifact_jq"]
ID, POINTER = "art_k7m2p9x4q8wz", "art:5434b963-d8f7-40b3-9c94-cd5943f035c2"
SMALL: dict[str, Any] = {"max_result_tokens": 1_000, "preview_tokens": 60, "envelope_tokens": 500}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(48_205)


def said(content: str | list[Any]) -> str:
    """Content that is one text."""
    assert isinstance(content, str)
    return content


def customers(count: int = 500) -> dict[str, Any]:
    """A page of 500 rows of 6 keys, then two scalars: 49 KB."""
    countries = ["DE", "FR", "US", "JP"]
    rows = [
        {
            "id": i,
            "name": f"customer {i}",
            "mail": f"c{i}@a.com",
            "land": countries[i % 4],
            "n": i % 53,
            "eur": i * 1.25,
        }
        for i in range(1, count + 1)
    ]
    return {"rows": rows, "next_cursor": "eyJwYWdlIjoyfQ==", "total": 12_345}


@dataclass(frozen=True, slots=True)
class Told:
    """A text, and when a model reads it."""

    when: str
    text: str

    @property
    def fixed(self) -> str:
        """With ids and pointers that are the same at each run."""
        text = re.sub(r"art_[0-9a-z]{12}\b", ID, self.text)
        text = re.sub(r"art:[0-9a-f]{8}-[0-9a-f-]{27}", POINTER, text)
        text = re.sub(r"art:[0-9a-z]{12}\b", ID.replace("_", ":"), text)
        return re.sub(r'"storedAt":\d{13}', '"storedAt":1790000000000', text)


class Desk:
    """Opens conversations of one tenant."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self.engine, self.tenant = engine, tenant

    def open(self, policy: Policy, tools: list[str] | None = None, window: int = 200_000) -> Session:
        return self.engine.session(
            secrets.token_hex(6), tenant=self.tenant, context_window=window, policy=policy, tools=tools
        )

    def read_of(self, output: Any, policy: Policy, tools: list[str] | None = None, *, again: bool = False) -> str:
        """What the model reads of an output, or of the same output a second time."""
        session = self.open(policy, tools)
        return [said(session.process(output, tool="list_customers").content) for _ in range(1 + again)][-1]


def blocks() -> list[dict[str, Any]]:
    """JSON, text and an image."""
    image = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    texts = [{"type": "text", "text": text} for text in (json.dumps(customers()), prose(20_000))]
    return [*texts, {"type": "image", "source": image}]


def envelopes(desk: Desk) -> Iterator[Told]:
    """What stands in the place of an output."""
    page, log = json.dumps(customers()), prose(20_000)
    large = SMALL | {"envelope_tokens": None, "preview_tokens": 1_000}
    yield Told("`outline`, structured", desk.read_of(page, Policy(**large)))
    yield Told("the same, run again", desk.read_of(page, Policy(**large), again=True))
    yield Told("the same, `envelope_tokens=220`", desk.read_of(page, Policy(**SMALL | {"envelope_tokens": 220})))
    yield Told("the same, `envelope_tokens=100`", desk.read_of(page, Policy(**SMALL | {"envelope_tokens": 100})))
    yield Told('`schema_form="json-schema"`', desk.read_of(page, Policy(schema_form="json-schema", **large)))
    yield Told("`outline` without the interpreter", desk.read_of(page, Policy(**large), READERS))
    old, airy = Policy.variables(**SMALL), json.dumps([[[[[i]]]] for i in range(100)], indent=1)
    yield Told("`variables`, structured", desk.read_of(page, old))
    yield Told("the same, run again", desk.read_of(page, old, again=True))
    yield Told("the same, `envelope_tokens=220`", desk.read_of(page, old.override(envelope_tokens=220)))
    yield Told("the same, `envelope_tokens=100`", desk.read_of(page, old.override(envelope_tokens=100)))
    all_of_it = Policy.variables(max_result_tokens=200, min_threshold_bytes=0)
    yield Told("a preview that shows all", desk.read_of(airy, all_of_it))
    yield Told("`variables` without the interpreter", desk.read_of(page, old, READERS))
    yield Told("with `get_artifact` alone", desk.read_of(page, old, ["get_artifact"]))
    small = {"max_result_tokens": 1_000}
    yield Told("`references`, structured", desk.read_of(page, Policy.references(**small)))
    yield Told("`references`, text", desk.read_of(log, Policy.references(**small)))
    yield Told("`references`, run again", desk.read_of(log, Policy.references(**small), again=True))
    yield Told("`pointers`", desk.read_of(prose(200_000), Policy.pointers()))
    brief = Policy.pointers(envelope_tokens=140, preview_chars=20)
    yield Told("`pointers`, `envelope_tokens=140`", desk.read_of(prose(200_000), brief))
    yield Told("`previews`, structured", desk.read_of(page, Policy.previews(preview_tokens=80)))
    yield Told("`previews`, three blocks", desk.read_of(blocks(), Policy.previews(preview_tokens=160)))
    yield Told("`previews`, read by other tools", desk.read_of(page, Policy.previews(preview_tokens=80), READERS))
    short = Policy.previews(envelope_tokens=120, preview_tokens=20)
    yield Told("`previews`, `envelope_tokens=120`", desk.read_of(page, short))
    yield Told("`variables`, three blocks in one", desk.read_of(blocks(), Policy(**SMALL | {"image_tokens": None})))
    yield Told("`previews`, an image", desk.read_of(blocks()[2:], Policy.previews()))


def in_place(desk: Desk) -> Iterator[Told]:
    """What is shortened where it stands."""
    log, page = prose(20_000), json.dumps(customers())
    cut: dict[str, Any] = {"max_threshold_bytes": 10_000, "truncate_tokens": 120, "max_result_tokens": 100}
    yield Told("text, for code", desk.read_of(log, Policy(**cut | {"truncate_tokens": 250})))
    yield Told("text, kept", desk.read_of(log, Policy(**cut), READERS))
    yield Told("text, run again", desk.read_of(log, Policy(**cut), READERS, again=True))
    yield Told("text that no tool reads", desk.read_of(log, Policy(**cut), []))
    yield Told("JSON that no tool reads", desk.read_of(page, Policy(**cut), []))
    image = Policy(max_result_tokens=1_000, min_threshold_bytes=0)
    yield Told("an image", desk.read_of(blocks()[2:], image))
    session = desk.open(Policy(**cut))
    failed = session.process("Traceback\n" + log, tool="t", is_error=True)
    yield Told("a tool's error", said(failed.content))
    yield Told("a tool's error without text", said(session.process("", tool="t", is_error=True).content))


def replies(desk: Desk) -> Iterator[Told]:
    """What the session's own tools answer."""
    session = desk.open(Policy(reply_tokens=150), list(TOOL_NAMES))
    session.process(customers(), tool="list_customers")
    session.store_artifact(prose(20_000), name="log")
    session.store_artifact("x" * 20_000, name="line")

    def call(when: str, tool: str, **arguments: Any) -> Told:
        return Told(f"`{tool}`: {when}", said(session.call(tool, arguments).content))

    yield call("lines", "artifact_read", artifact_id="log", start_line=1, end_line=2)
    yield call("a page is full", "artifact_read", artifact_id="log")
    yield call("a page ends inside a line", "artifact_read", artifact_id="line")
    yield call("a line that is not there", "artifact_read", artifact_id="log", start_line=9_999)
    yield call("data that is not there", "artifact_read", artifact_id="logs")
    yield call("matches", "artifact_grep", artifact_id="log", pattern="^00024", context_lines=1)
    yield call("more matches than fit", "artifact_grep", artifact_id="log", pattern="fox", context_lines=0)
    yield call("no match", "artifact_grep", artifact_id="log", pattern="wolf")
    yield call("no regular expression", "artifact_grep", artifact_id="log", pattern="fox(")
    yield call("output", "artifact_jq", artifact_id="rows", expression="map(.eur) | add")
    yield call("more outputs than fit", "artifact_jq", artifact_id="rows", expression=".[]")
    yield call("an output that does not fit", "artifact_jq", artifact_id="list_customers", expression=".")
    yield call("no output", "artifact_jq", artifact_id="rows", expression="empty")
    yield call("a fault in the filter", "artifact_jq", artifact_id="rows", expression=".[] | .name.first")
    yield call("no JSON", "artifact_jq", artifact_id="log", expression=".")
    yield call("a value", "code_interpreter", code="sum(row['eur'] for row in rows)")
    yield call("a value that does not fit", "code_interpreter", code="[row['mail'] for row in rows]")
    yield call("names", "code_interpreter", code="best = max(rows, key=lambda row: row['eur'])")
    yield call("a name of stored data", "code_interpreter", code="rows = rows[:1]\nlen(rows)")
    yield call("stored data changed in place", "code_interpreter", code="rows[0]['eur'] = 0")
    yield call("an unknown name", "code_interpreter", code="len(row)")
    yield call("nothing", "code_interpreter", code="for row in rows: pass")
    yield call("an unknown key", "code_interpreter", code="rows[0]['mial']")
    yield call("what is not allowed", "code_interpreter", code="import socket")
    yield call("a value is kept", "store_artifact", name="report", value={"rows": 500})
    yield call("under a variable's name", "store_artifact", name="rows", value="…")
    yield call("a value", "get_artifact", pointer_or_name="report")
    yield call("more than fits", "get_artifact", pointer_or_name="log")
    yield call("what is not there", "get_artifact", pointer_or_name="reports")
    yield call("entries", "list_artifacts", prefix="rep")
    yield call("more than fit", "list_artifacts", prefix="", limit=1)
    yield call("a search", "retrieve_offloaded_content", reference="log", pattern="^00024", context_lines=0)
    yield call("lines", "retrieve_offloaded_content", reference="log", line_range={"start": 9, "end": 99})
    yield call("everything", "retrieve_offloaded_content", reference="log")
    yield call("a missing argument", "artifact_grep", artifact_id="log")
    yield call("a wrong argument", "artifact_read", artifact_id="log", start_line="three")
    yield call("an unknown tool", "artifact_write", name="log")
    yield Told("arguments that are no JSON", said(session.call("artifact_read", '{"artifact_id": "log"').content))


def references(desk: Desk) -> Iterator[Told]:
    """What a model is told of a reference that leads nowhere."""
    session = desk.open(Policy())
    session.process(customers(), tool="list_customers")
    ids = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}}
    for when, arguments, schema in (
        ("an unknown name", {"ids": {"$var": "row"}}, None),
        ("a path that ends", {"ids": {"$var": "rows", "path": "0.mial"}}, None),
        ("other members", {"ids": {"$var": "rows", "limit": 5}}, None),
        ("a fault in jq", {"ids": {"$var": "rows", "jq": "map(.id"}}, None),
        ("data that does not fit", {"ids": "$rows"}, ids),
        ("an argument that does not fit", {"ids": "all"}, ids),
    ):
        with pytest.raises(ToolError) as raised:
            session.resolve(arguments, schema)
        yield Told(when, str(raised.value))


def reminders(desk: Desk) -> Iterator[Told]:
    """What a host may put behind a compaction."""
    session = desk.open(Policy())
    yield Told("nothing is stored", session.reminder())
    session.process(customers(), tool="list_customers")
    session.store_artifact(prose(20_000), name="log")
    yield Told("data is stored", session.reminder())
    yield Told("more than `max_tokens`", session.reminder(max_tokens=50))


def without_storage(desk: Desk) -> Iterator[Told]:
    """What is told while the database does not take anything in."""
    for when, output in (("structured", customers()), ("text", prose(20_000)), ("an image", blocks()[2:])):
        policy = Policy(truncate_tokens=120, max_result_tokens=100, max_threshold_bytes=10_000)
        yield Told(when, desk.read_of(output, policy))
    reply = desk.open(Policy()).call("artifact_read", {"artifact_id": "log"})
    yield Told("a call", said(reply.content))


PARTS = {
    "In place of an output": envelopes,
    "Outputs cut short": in_place,
    "Replies of the session's tools": replies,
    "Errors of references": references,
    "Reminders": reminders,
}


class BrokenDesk(Desk):
    """A desk whose database loses a table once a conversation is open."""

    def open(self, policy: Policy, tools: list[str] | None = None, window: int = 200_000) -> Session:
        session = super().open(policy, tools, window)
        with sqlite3.connect(self.tenant) as connection:
            connection.execute("DROP TABLE IF EXISTS byref_ledger")
        return session


@pytest.fixture(scope="module")
def texts(sandbox: Sandbox, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Told]]:
    """Every text, by part."""
    with Engine("sqlite:///:memory:", interpreter=sandbox) as engine:
        made = {part: list(make(Desk(engine, "texts"))) for part, make in PARTS.items()}
    broken = Path(shutil.copy(migrated_sqlite, tmp_path_factory.mktemp("texts") / "broken.db"))
    with Engine(f"sqlite:///{broken}", interpreter=sandbox) as engine:
        made["While the database is away"] = list(without_storage(BrokenDesk(engine, str(broken))))
    return made


HEAD = """\
# What a model reads

The texts that byref writes for a model: when the model reads each, the text, and its tokens (o200k_base). Of errors and notes about
code the common ones are shown. The outputs are a page of 500 customers, a log in lines of 80 characters, and a screenshot; the
budgets are small, so that the words show. The definitions of the tools, and what they cost in every request, are in
[tools](tools.md).

One word stands for one thing: a *variable* has a name, an *artifact* an id (`art_…`) or, as a *pointer*, `art:…`. What is not
whole says INCOMPLETE, or *truncated* in the very place of what is missing, with exact counts; what can be continued says "Go
on with" and the arguments to give. A number that is to be given back, a line or an offset, is written as digits; a count has
thousands separators, except where a reference system's own form has none (`more chars`, `bytes]`). No text names a tool that
the session does not have.

## The outline

`Policy()` shows an outline of structured data. Its `schema` is the shape of all of the data, in a notation that explains itself:

- `str int num bool null` are types, and `a|b` is either; `[type]` is an array, `[160 of type]` one of that length;
- `{key:type,…}` is an object; `key?` is not in every one of the objects, `key?(4)` is in four of them;
  `(a,b):type` are two keys of one type;
- `{*:type}` is a map, an object whose keys are data, and `{*(554):type}` one of 554 keys; beside other keys, `*` is every further
  key;
- `[id:int,name:str]` is a row without keys: an array whose first item is an integer, in a column that a header calls `id`. `[int,str]`
  is one whose columns have no names; `[header,500 of [id:int,name:str]]` has the names in its first row;
- `User={…}` names the shape of an object at its first place; `User` is then an object of this shape. It says what holds of all
  objects of the shape: `key?` may be in each of those at one place;
- `; unmarked: str` at the end gives the type of all keys that stand without one;
- `{12 keys}`, `12 more keys` and `…` stand for what did not fit, or nests too deeply.

The same places are written in paths: `data.*.stats`, `$[].user.login`; keys that are no identifiers are JSON strings.

`values` says what code has to know of values, exactly or of a sample that it names. `preview` shows of every array and map one
complete element, of rows without keys each cell: the one that shows most (the first of several, unless another one is shorter by a
fifth), and of up to two more what those before them lack; the last one is shown where a time orders them. `... 498 more ...` stands for elements,
`"...": "3 more keys"` for members, `… +70 chars` for the end of a string, all of them exact; of links that begin alike, and of
members that hold the same, the first two are shown. `omitted` has the tokens that are not shown.

An envelope takes at most `preview_tokens`, and half of what it stands for; it aims at 55 % of that. Names of variables have 10 %
of the whole, values 18 % of what is left, at most 120 tokens, the schema 60 % of the rest, the example what remains; what one of
them does not need, the others get. Where that is too little, they give way in this order:

1. shape: equal and nearly equal objects are written once, however small the data is, and a shape that holds itself stands in
   itself by its name;
2. beyond the aim: values keep 36 tokens, the most telling ones; strings are cut to 48, 32, then 20 characters, links to 30, and at
   last ids to 10; then one link of those that begin alike is shown, one of the members that hold the same, only one more element
   for what the first lacks, and none of a map;
3. example: links after the first, ids and null come behind what is one level below; objects of a shape that was shown before have
   two members; then whole objects are left out, those furthest from the top and of which there are fewest first;
4. shape: how many objects have a key; then objects are written as `{12 keys}` in the same order, those that are met at many places
   last, then members that not all objects have, then the last members;
5. values: the least telling ones; names: the last ones, which are counted;
6. words: below 300 tokens the instruction has no example, below 150 it does not say how to hand data on.

Nothing that is written is untrue at any step.

Of text from 1,000 tokens up, an envelope's `lines` or the last words of a notice of 400 tokens say what a glance tells: the first
and the last time that its lines have, and, in a sample of them, how many have which level of a log, the kinds of errors in stack
traces, a message that many of them have (`#` stands for what differs), headings.
"""


def page_of(texts: dict[str, list[Told]]) -> str:
    """The documentation's page."""
    lines = [HEAD]
    for part, told in texts.items():
        lines.append(f"\n## {part}\n")
        for one in told:
            lines += [
                f"{one.when[0].upper()}{one.when[1:]}: {COUNT(one.fixed)} tokens\n",
                "```text",
                one.fixed,
                "```\n",
            ]
    return "\n".join(lines)


@pytest.mark.slow
def test_the_page_shows_every_text_with_its_tokens(texts: dict[str, list[Told]]) -> None:
    assert page_of(texts) == external_file("../docs/texts.md", format=".txt")


def test_the_words_are_the_models(texts: dict[str, list[Told]]) -> None:
    ours = r"\b(blobs?|frames?|gated?|routes?|envelopes?|ledger|tenant|sessions?|host|byref|zygote|payload|policy)\b"
    for told in itertools.chain.from_iterable(texts.values()):
        assert re.findall(ours, told.text) == [], told.when


def test_what_is_not_whole_says_so(texts: dict[str, list[Told]]) -> None:
    for part in ("In place of an output", "Outputs cut short", "While the database is away"):
        for told in texts[part]:
            shape_alone = any(part in told.when for part in ("`references`", "image", "a call", "without text"))
            whole = "preview shows all of the data" in told.text
            incomplete = "INCOMPLETE" in told.text or "[truncated " in told.text
            assert shape_alone or whole or incomplete or "That is above, unless" in told.text, told.when
    for told in texts["Replies of the session's tools"]:
        fits = "fit" not in told.when and "full" not in told.when and "ends inside" not in told.when
        assert fits or "INCOMPLETE: " in told.text, told.when


TOOL_SETS = [list(names) for n in range(9) for names in itertools.combinations(TOOL_NAMES, n)]
FORMS = ["outline", "variables", "references", "pointers", "previews"]
MODES = ["auto", "variables", "artifact", "truncate"]


def missing(text: str, tools: list[str]) -> list[str]:
    return [name for name in TOOL_NAMES if name in text and name not in tools]


@pytest.mark.parametrize("step", [128, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_no_text_names_a_tool_that_is_not_there(local: Engine, tenant: str, form: str, mode: str, step: int) -> None:
    gate = {"max_output_bytes": 300} if form == "pointers" else {"max_result_tokens": 60, "min_threshold_bytes": 0}
    policy = getattr(Policy, form, Policy)(mode=mode, preview_tokens=20, image_tokens=None, truncate_tokens=60, **gate)
    structured, text = records(40), prose(2_000)
    image = blocks()[2]
    routes = set()
    first = FORMS.index(form) + 5 * MODES.index(mode)  # each form and mode begins at sets of its own
    for number, tools in enumerate(TOOL_SETS[first % step :: step]):
        session = Desk(local, tenant).open(policy, tools)
        mixed = [{"type": "text", "text": json.dumps(structured)}, {"type": "text", "text": text}, image]
        for output in (structured, text, *([[image], mixed, structured] if number % 4 == 0 or len(tools) < 3 else [])):
            result = session.process(output, tool="t")
            routes.add(result.route)
            assert missing(str(result.content), tools) == []
        assert missing(session.reminder(), tools) == []
    assert {"truncate": "truncate", "artifact": "artifact", "auto": "artifact", "variables": "variables"}[
        mode
    ] in routes


@pytest.mark.parametrize("tool", TOOL_NAMES)
def test_no_reply_names_a_tool_that_is_not_there(local: Engine, tenant: str, tool: str) -> None:
    session = Desk(local, tenant).open(Policy(reply_tokens=120), [tool])
    session.store_artifact(prose(20_000), name="log")
    session.store_artifact(records(500), name="rows")
    session.process(blocks()[2:], tool="t")
    assert missing(json.dumps(session.tools("anthropic")), [tool]) == []
    written: list[dict[str, Any]] = [
        {},
        {"name": "rows", "value": [1], "prefix": "r"},
        *({"artifact_id": name, "pattern": "fox", "expression": ".", "code": f"len({name})"} for name in ("log", "rows", "lag", session.artifacts()[-1].id)),
    ]  # fmt: skip
    names = next(t for t in session.tools("anthropic"))["input_schema"]["properties"]
    for arguments in written:
        fitting = {name: value for name, value in arguments.items() if name in names}
        first = next(iter(names))
        if "artifact_id" in arguments and tool != "code_interpreter":
            fitting[first] = arguments["artifact_id"]
        assert missing(str(session.call(tool, fitting).content), [tool]) == []


@pytest.mark.parametrize(
    ("policy", "most", "rows"),
    [
        (Policy.references(context_percentage=0.05), 500, False),
        (Policy.pointers(max_output_bytes=40_000), 600, False),
        (Policy.variables(preview_tokens=100), 1_200, True),
        (Policy.variables(preview_tokens=100, tools=tuple(READERS)), 1_200, True),
        (Policy.variables(), 4_500, True),
        (Policy(), 1_400, False),
    ],
    ids=["references", "pointers", "variables", "artifact", "whole variables", "default"],
)
def test_a_page_of_49_kilobytes(local: Engine, tenant: str, policy: Policy, most: int, rows: bool) -> None:
    page = customers()
    content = Desk(local, tenant).read_of(json.dumps(page), policy)
    assert len(json.dumps(page)) >= 47_000 and len(content) <= most
    envelope = json.loads(content)
    if rows:
        assert envelope["preview"]["rows"][0] == page["rows"][0]
        assert envelope["preview"]["rows"][-1] == page["rows"][-1]
        assert (envelope["preview"]["next_cursor"], envelope["preview"]["total"]) == ("eyJwYWdlIjoyfQ==", 12_345)
    elif "schema" in envelope:
        assert envelope["preview"]["rows"] == [page["rows"][0], "... 499 more ..."]
    elif "shape" in envelope:
        assert envelope["shape"].keys() == page.keys()


def test_a_log_of_200_kilobytes_under_pointers(local: Engine, tenant: str) -> None:
    lines = [f"2026-11-22T01:{i // 60 % 60:02}:{i % 60:02}Z worker-{i % 7} took {i * 7919} ms" for i in range(5_000)]
    log = "\n".join(lines)[:200_000]
    assert len(log) == 200_000 and COUNT(Desk(local, tenant).read_of(log, Policy.pointers())) <= 250


@pytest.mark.parametrize("budget", [100, 150, 199, 200])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow
def test_the_words_leave_room_in_the_smallest_budget(local: Engine, tenant: str, form: str, budget: int) -> None:
    gate = {"max_output_bytes": 300} if form == "pointers" else {"max_result_tokens": 60}
    policy = getattr(Policy, form, Policy)(envelope_tokens=budget, **gate)
    page = customers(100)
    for tools in (None, READERS, ["get_artifact", "list_artifacts"], list(TOOL_NAMES)):
        session = Desk(local, tenant).open(policy, tools)
        for output in (page, prose(9_000), blocks(), blocks()[:1] * 20, page):
            result = session.process(output, tool="t")
            assert result.tokens <= (budget if result.route in ("variables", "artifact") else 2_500), result.content
