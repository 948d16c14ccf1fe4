"""What the model reads in place of a big output, and what it learns from that: ours, strands-agents', agno's.

Real tables of vega-datasets as tools return them, a page of JSON `{"rows": […], "total": n, "next_cursor": …}` on one line,
are given as text to byref, to strands-agents' ContextOffloader and to agno's ResultStore (`offload_tool_results=True`), each
with its defaults. Of each envelope is told whether it shows: JSON that parses; the type of each column; the name of each
column; the number of rows; the first and the last record whole; the members beside the rows. Then two questions: one
value out of the middle, by each system's own search tool; and the mean of a column, which takes the interpreter here, and
of the others all of the text, read in again.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import byref
from benchmarks import corpora
from benchmarks.results import Figure
from byref.tokens import EXACT_BYTES, SampledCounter

TABLES = {
    "cars.json": "Miles_per_Gallon",
    "airports.csv": "latitude",
    "seattle-weather.csv": "temp_max",
    "sf-temps.csv": "temp",
}
"""Each with a column of numbers."""
SHORT_TABLES = ("cars.json",)
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
        for peer in peers.values():
            getattr(peer, "close", lambda: None)()


def _peers(folder: Path) -> tuple[dict[str, Any], list[Figure]]:
    from benchmarks.peers import Agno, Strands

    peers: dict[str, Any] = {}
    missing: list[Figure] = []
    makers: dict[str, Callable[[], object]] = {"strands'": Strands, "agno's": lambda: Agno(folder)}
    for name, make in makers.items():
        try:
            peers[name] = make()
        except Exception as error:  # noqa: BLE001  whatever keeps it from running here
            missing.append(Figure("envelopes", float("nan"), "tokens", name, note=f"did not run: {error!r}"))
    return peers, missing


def _table(
    session: byref.Session, peers: dict[str, Any], table: str, column: str, rows: list[dict[str, Any]]
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
    mine = _tokens(ours)
    asked = _tokens(str(found.content))
    computed = mine + _tokens(code) + _tokens(str(mean.content))
    for name, peer in peers.items():
        theirs = peer.offload(text)
        reply = peer.search(theirs, re.escape(key))
        about = f"of {_tokens(text):,} tokens of {table}"
        yield Figure(
            f"envelope {about}",
            mine,
            "tokens",
            f"{name} envelope",
            mine / _tokens(theirs),
            note=f"ours shows {_shown(ours, rows)}; {name} shows {_shown(theirs, rows)}",
        )
        yield Figure(
            f"envelope and one value of {table}",
            mine + asked,
            "tokens",
            f"{name}",
            (mine + asked) / (_tokens(theirs) + _tokens(reply)),
            note=f"{_answers(str(found.content), key, value)} by our artifact_grep, {_answers(reply, key, value)} by {name} search",
        )
        yield Figure(
            f"envelope and mean of {column}",
            computed,
            "tokens",
            f"{name}, reading it all",
            computed / (_tokens(theirs) + _tokens(text)),
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
        "each column's type": all(re.search(rf'"{re.escape(name)}":\s*{{"(type|anyOf)"', envelope) for name in rows[0]),
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


def _holds(envelope: str, row: dict[str, Any]) -> bool:
    """Whether a record stands there whole, its members one after the other."""
    return re.sub(r"\s", "", json.dumps(row, ensure_ascii=False))[1:-1] in re.sub(r"\s", "", envelope)


def _answers(reply: str, key: str, value: str) -> str:
    return "answered" if key in reply and value.strip('"') in reply else "not answered"


def _tokens(text: str) -> int:
    """Exactly, in parts of what is counted exactly."""
    step = EXACT_BYTES // 4
    return sum(_counter.count(text[at : at + step]) for at in range(0, len(text), step))
