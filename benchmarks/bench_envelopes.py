"""The text that the model reads in place of a big output, and what it learns from it: ours, strands-agents', agno's.

The outputs are real tables of vega-datasets in the form in which tools return them, a page of JSON `{"rows": […], "total": n,
"next_cursor": …}`. They are given as text on one line to byref, to strands-agents' ContextOffloader and to agno's ResultStore
(`offload_tool_results=True`), each with its defaults; and to strands' once more as a JSON block, which it writes out indented,
so that its search by lines has lines. For each envelope the table says whether it shows: JSON that parses; all JSON types of
each column, by a schema or by values; the name of each column; the number of rows; the first and the last record whole; the
members beside the rows. Two questions follow: one value from the middle, found with each system's own search tool; and the mean
of a column, for which the model uses the interpreter here, and has to read the whole text again with the others.

Then twenty outputs, most of them files of published packages, with ten questions each that people ask (`benchmarks/envelopes`).
Each question names the fields that an answer needs. A field counts as shown if a reader of the envelope sees it at its place,
in a schema, in values or in the text as far as that goes, so that code can reach it; and as shown with an example if a value
stands there too. All that our envelopes state, types, counts, values, what is left out, is compared with the data. And programs
that were written from question and envelope alone, without sight of the data, are run; their answers are compared with those
of other code, written with the data open.
"""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import byref
from benchmarks import corpora
from benchmarks.envelopes import judging, oracle, outputs, truth
from benchmarks.results import Figure
from byref.accounting.tokens import EXACT_BYTES, SampledCounter

TABLES = {
    "cars.json": "Miles_per_Gallon",
    "airports.csv": "latitude",
    "seattle-weather.csv": "temp_max",
    "sf-temps.csv": "temp",
}
"""Each with a column of numbers."""
SHORT_TABLES = ("cars.json",)
JSON_TYPES = {
    **dict.fromkeys(("string", "str", "text"), "string"),
    **dict.fromkeys(("number", "integer", "int", "float"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("null", "NoneType"), "null"),
    **dict.fromkeys(("array", "list"), "array"),
    **dict.fromkeys(("object", "dict"), "object"),
}
"""What a type is called, there and in Python."""
OURS: dict[str, byref.Policy | None] = {
    "ours": None,
    "ours in the form `variables`": byref.Policy(envelope_form="variables"),
}
"""Our default, and the form that shows JSON Schema."""
CURSOR = "eyJwYWdlIjogMn0"

_counter = SampledCounter()


def main(short: bool = False) -> Iterator[Figure]:
    """Each table; peers that do not run here are told."""
    with tempfile.TemporaryDirectory() as name, byref.Engine(f"sqlite:///{name}/envelopes.db") as engine:
        peers, missing = _peers(Path(name))
        yield from missing
        files = dict(corpora.tables())
        session = engine.session("envelopes", model="claude-sonnet-5")
        for table, column in TABLES.items():
            if table in SHORT_TABLES or not short:
                yield from _table(session, peers, table, column, _rows(table, files[table]))
        yield from _outputs(engine, peers, short)
        for peer, _ in peers.values():
            getattr(peer, "close", lambda: None)()


Peers = dict[str, tuple[Any, Callable[[str], object]]]
"""By name, each with what it is given of an output's text."""


def _peers(folder: Path) -> tuple[Peers, list[Figure]]:
    from benchmarks.peers import Agno, Strands

    peers: Peers = {}
    missing: list[Figure] = []
    makers: dict[str, tuple[Callable[[], object], Callable[[str], object]]] = {
        "strands' text block": (Strands, str),
        "strands' JSON block": (Strands, json.loads),
        "agno's": (lambda: Agno(folder), str),
    }
    for name, (make, given) in makers.items():
        try:
            peers[name] = make(), given
        except Exception as error:  # noqa: BLE001  whatever keeps it from running here
            missing.append(Figure("envelopes", float("nan"), "tokens", name, note=f"did not run: {error!r}"))
    return peers, missing


def _table(
    session: byref.Session, peers: Peers, table: str, column: str, rows: list[dict[str, Any]]
) -> Iterator[Figure]:
    text = json.dumps({"rows": rows, "total": len(rows), "next_cursor": CURSOR}, ensure_ascii=False)
    key, value = _needle(rows)
    result = session.process(text, tool="list_rows")
    ours = str(result.content)
    found = session.call("artifact_grep", {"artifact_id": result.artifacts[0].id, "pattern": re.escape(key)})
    rows_name = next(variable.name for variable in result.variables if variable.path == ("rows",))
    code = f"round(df('{rows_name}')['{column}'].mean(), 4)"
    mean = session.call("code_interpreter", {"code": code})
    numbers = [row[column] for row in rows if row[column] is not None]
    if str(round(sum(numbers) / len(numbers), 4)) not in str(mean.content):
        raise AssertionError(f"the mean of {column!r} in {table!r} is answered {mean.content!r}")
    mine = tokens(ours)
    asked = tokens(str(found.content))
    computed = mine + tokens(code) + tokens(str(mean.content))
    for name, (peer, given) in peers.items():
        theirs = peer.offload(given(text))
        reply = peer.search(theirs, re.escape(key))
        about = f"of {tokens(text):,} tokens of {table}"
        yield Figure(
            f"envelope {about}",
            mine,
            "tokens",
            f"{name}, envelope",
            mine / tokens(theirs),
            note=f"ours shows {_shown(ours, rows)}; {name} envelope shows {_shown(theirs, rows)}",
        )
        yield Figure(
            f"envelope and one value of {table}",
            mine + asked,
            "tokens",
            f"{name}",
            (mine + asked) / (tokens(theirs) + tokens(reply)),
            note=f"{_answers(str(found.content), key, value)} by our artifact_grep, {_answers(reply, key, value)} by {name} search",
        )
        yield Figure(
            f"envelope and mean of {column}",
            computed,
            "tokens",
            f"{name}, reading it all",
            computed / (tokens(theirs) + tokens(text)),
        )


def _outputs(engine: byref.Engine, peers: Peers, short: bool) -> Iterator[Figure]:
    """The twenty outputs with their questions, of each system."""
    questions = oracle.questions()
    found: dict[str, list[judging.Judged]] = defaultdict(list)
    for output in outputs.each(fetch=not short, only=outputs.SHORT if short else outputs.NAMES):
        if isinstance(output, str):
            yield Figure("questions", float("nan"), "fields", note=f"left out: {output}")
            continue
        asked = questions[output.name]
        for system, policy in OURS.items():
            session = engine.session(f"{system}, {output.name}", model="claude-sonnet-5", policy=policy)
            envelope = str(session.process(output.text, tool=output.tool).content)
            ours = judging.judged(output, envelope, tokens(envelope), asked)
            ours.untruths = judging.untruths(output, envelope)
            if policy is None:
                truths = truth.answers(output.name, output.source)
                ours.answers = [*judging.answered(session, envelope, ours, truths)]
                yield Figure(
                    f"questions about {output.name}, of {tokens(output.text):,} tokens",
                    ours.tokens,
                    "tokens",
                    met=None,
                    note=_judgement(ours),
                )
            found[system].append(ours)
        for name, (peer, given) in peers.items():
            if output.text[0] in "[{" or given is str:
                theirs = peer.offload(given(output.text))
                found[name].append(judging.judged(output, theirs, tokens(theirs), asked))
    for system, judged in found.items():
        yield from _summary(system, judged)


def _judgement(judged: judging.Judged) -> str:
    """What one envelope shows, in words."""
    lacks = [path for one in judged.shown for path in one.missing]
    words = [f"{judged.placed} of {judged.needed} fields shown, {judged.exemplified} with an example"]
    words += [f"not shown: {', '.join(dict.fromkeys(lacks))}"] if lacks else []
    words += [f"untrue: {'; '.join(judged.untruths[:3])}"] if judged.untruths else []
    words += [f"{judged.answers.count('exact')} of {len(judged.shown)} answers exact"] if judged.answers else []
    return "; ".join(words)


def _summary(system: str, judged: list[judging.Judged]) -> Iterator[Figure]:
    """The shares of all fields and questions, and the tokens, of one system."""
    is_new = system == "ours"
    needed, asked = sum(one.needed for one in judged), sum(len(one.shown) for one in judged)
    of = f"{system}, {len(judged)} outputs"
    placed = 100 * sum(one.placed for one in judged) / needed
    exemplified = 100 * sum(one.exemplified for one in judged) / needed
    yield Figure(f"needed fields shown at their place: {of}", placed, "%", target=">= 98 %" if is_new else "")
    yield Figure(f"needed fields shown with an example: {of}", exemplified, "%", target=">= 90 %" if is_new else "")
    answerable = sum(one.answerable for one in judged)
    yield Figure(f"questions all of whose fields are shown: {of}", answerable, f"of {asked}")
    if is_new:
        exact = sum(one.answers.count("exact") for one in judged)
        yield Figure(f"questions answered exactly by code written blind: {of}", exact, f"of {asked}")
    sizes = [one.tokens for one in judged if one.is_json]
    of = f"{system}, {len(sizes)} outputs of JSON"
    if system in OURS:
        yield Figure(f"untrue statements: {of}", sum(len(one.untruths) for one in judged), "", target="<= 0 statements")
    median = statistics.median(sizes)
    yield Figure(f"tokens of an envelope, median: {of}", median, "tokens", target="<= 600 tokens" if is_new else "")
    yield Figure(
        f"tokens of an envelope, maximum: {of}", max(sizes), "tokens", target="<= 1000 tokens" if is_new else ""
    )


def _rows(table: str, text: str) -> list[dict[str, Any]]:
    if table.endswith(".json"):
        return json.loads(text)  # type: ignore[no-any-return]
    return [{name: _number(value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def _number(value: str) -> object:
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        return value


def _needle(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """A string that only one row of the middle has, and what is asked of that row: its longest other value, as in JSON."""
    for row in rows[len(rows) // 2 :]:
        for name, key in row.items():
            if isinstance(key, str) and len(key) > 3 and sum(key in map(str, other.values()) for other in rows) == 1:
                return key, max((json.dumps(value) for other, value in row.items() if other != name), key=len)
    raise AssertionError("no row can be told from the others by one value")


def _shown(envelope: str, rows: list[dict[str, Any]]) -> str:
    """What an envelope shows, in words."""
    shows = {
        "JSON that parses": _parses(envelope),
        "each column's types": all(_types(name, envelope) == _types_of(row[name] for row in rows) for name in rows[0]),
        "each column's name": all(f'"{name}"' in envelope for name in rows[0]),
        "the number of rows": re.search(rf"(?<![\d.]){len(rows)}(?![\d.])", envelope) is not None,
        "the first record": _holds(envelope, rows[0]),
        "the last record": _holds(envelope, rows[-1]),
        "the cursor beside the rows": CURSOR in envelope,
    }
    shown = [name for name, is_shown in shows.items() if is_shown]
    return f"{len(shown)} of {len(shows)} ({', '.join(shown) or 'nothing of it'})"


def _parses(envelope: str) -> bool:
    try:
        json.loads(envelope)
    except ValueError:
        return False
    return True


def _types(column: str, envelope: str) -> set[str]:
    """The JSON types that a reader sees of a column: those that a schema states, and those of values that stand there whole.

    A schema is one of JSON Schema, or the name of a type alone; either way, what counts is what it says.
    """
    found: set[str] = set()
    for text in (envelope, envelope.replace('\\"', '"')):
        for place in re.finditer(rf'"{re.escape(column)}"\s*:\s*', text):
            try:
                value, end = json.JSONDecoder().raw_decode(text, place.end())
            except ValueError:  # cut off
                continue
            if isinstance(value, int | float) and end == len(text):  # maybe cut off
                continue
            found |= _stated(value) or _types_of([value])
    return found


def _stated(schema: object) -> set[str]:
    """The types that a schema allows; none if it is no schema."""
    if isinstance(schema, str):
        return {JSON_TYPES[schema]} if schema in JSON_TYPES else set()
    if isinstance(schema, list):
        each = [_stated(one) for one in schema]
        return set().union(*each) if all(each) else set()
    if isinstance(schema, dict):
        return _stated(schema.get("type") or schema.get("anyOf") or schema.get("oneOf"))
    return set()


def _types_of(values: Iterable[object]) -> set[str]:
    return {JSON_TYPES[type(value).__name__] for value in values}


def _holds(envelope: str, row: dict[str, Any]) -> bool:
    """Whether a record stands there whole, its members one after the other."""
    return re.sub(r"\s", "", json.dumps(row, ensure_ascii=False))[1:-1] in re.sub(r"\s", "", envelope)


def _answers(reply: str, key: str, value: str) -> str:
    return "answered" if key in reply and value.strip('"') in reply else "not answered"


def tokens(text: str) -> int:
    """The tokens of a text, exactly, in parts of what is counted exactly."""
    step = EXACT_BYTES // 4
    return sum(_counter.count(text[at : at + step]) for at in range(0, len(text), step))
