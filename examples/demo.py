"""An analyst's chat over real data, replayed: every answer is checked against direct computation.

The model's turns are written down here, as a model writes them; engine, database, sandbox and data are real. The data
are those that the `vega_datasets` package carries: airports of the USA, the weather of Seattle and San Francisco, the
losses of the British army in the Crimea. Exit code 1 if any answer is wrong.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from stage import Stage
from vega_datasets import local_data

import byref

MODEL = "claude-sonnet-5"


def rows_of(name: str) -> list[dict[str, str]]:
    """Read a CSV file with the standard library; the answers are checked against it."""
    with Path(getattr(local_data, name).filepath).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


AIRPORTS = [
    row | {"latitude": float(row["latitude"]), "longitude": float(row["longitude"])} for row in rows_of("airports")
]
WEATHER = rows_of("seattle_weather")
TEMPERATURES = Path(local_data.sf_temps.filepath).read_text(encoding="utf-8")


# The analyst's own tools: the engine processes their outputs before the model reads them.


def crimean_losses() -> str:
    """Return a small JSON file unchanged."""
    return Path(local_data.crimea.filepath).read_text(encoding="utf-8")


def list_airports(country: str) -> dict[str, Any]:
    """Return records, and beside them the scalars of a page."""
    found = [row for row in AIRPORTS if row["country"] == country]
    return {"total": len(found), "next_cursor": None, "airports": found}


def query_weather(sql: str) -> pd.DataFrame:
    """Return a DataFrame, as a warehouse's client does."""
    frame = pd.read_csv(local_data.seattle_weather.filepath)
    assert sql == "SELECT * FROM seattle_weather"
    return frame


def download_temperatures(city: str) -> str:
    """Return a year of hourly temperatures as CSV."""
    assert city == "San Francisco"
    return TEMPERATURES


def longest_leg(points: list[list[float]]) -> dict[str, float]:
    """Return the longest distance between neighbours; it needs the points themselves, not a description of them."""
    return {"kilometres": max(distance(a, b) for a, b in itertools.pairwise(points))}


def airports_of(state: str) -> list[dict[str, Any]]:
    """Airports of a state of the USA, by its two letters, from west to east."""
    return sorted((row for row in AIRPORTS if row["state"] == state), key=lambda row: float(row["longitude"]))


def small_model(prompt: str, max_tokens: int) -> str:
    """Answer as a small model does, which code asks about one name at a time. Like all turns of the demo, it is scripted."""
    name = prompt.partition(": ")[2]
    return "yes" if re.search(r"Memorial|[A-Z][a-z]+ [A-Z]\.? [A-Z][a-z]+", name) else "no"


def count_rows(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many rows arrived."""
    return {"rows": len(rows)}


def distance(a: list[float], b: list[float]) -> float:
    """Return the great-circle distance of two points in kilometres."""
    (lat1, lon1), (lat2, lon2) = (map(math.radians, point) for point in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(h))


TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (crimean_losses, list_airports, query_weather, download_temperatures, longest_leg, count_rows)
}


class Chat:
    """The host's side of the conversation: it passes each call of the model to one of its own tools or of the session's."""

    def __init__(self, session: byref.Session, stage: Stage) -> None:
        self.session = session
        self.stage = stage
        self._calls = 0
        self._counter = byref.SampledCounter()

    def output(self, question: str, tool: str, arguments: dict[str, Any]) -> byref.Result:
        """Let the model call one of the analyst's tools, with references in the arguments resolved."""
        call_id = self._begin(question, tool, json.dumps(arguments))
        output = TOOLS[tool](**self.session.resolve(arguments))
        result = self.session.process(output, tool=tool, call_id=call_id, arguments=arguments)
        self.stage.verdict(self.session.explain(call_id))
        self.stage.reads(result.content, of=result.route)
        return result

    def reply(self, question: str, tool: str, arguments: dict[str, Any]) -> str:
        """Let the model call one of the session's tools."""
        shown = arguments["code"] if tool == "code_interpreter" else json.dumps(arguments)
        call_id = self._begin(question, tool, shown)
        reply = self.session.call(tool, arguments, call_id=call_id)
        self.stage.reads(reply.content, of="error" if reply.is_error else "reply")
        return reply.content

    def code(self, question: str, code: str) -> Any:
        """Let the model run code and return the value: the reply's JSON, without the notes below it."""
        content = self.reply(question, "code_interpreter", {"code": code})
        try:
            return json.JSONDecoder().raw_decode(content)[0]
        except ValueError:
            return content

    def _begin(self, question: str, tool: str, written: str) -> str:
        """Show the turn and record the request that led to it, as a provider's usage would report it."""
        if question:
            self.stage.asks(question)
        self.stage.calls(tool, written, is_code=tool == "code_interpreter")
        self._calls += 1
        request = self.session.context_tokens() + self._counter.count(question, "text")
        usage = byref.Usage(input_tokens=request, output_tokens=self._counter.count(written, "text"), model=MODEL)
        self.session.record_usage(usage, request_id=f"request-{self._calls}")
        return f"call-{self._calls}"


def outputs(chat: Chat) -> None:
    """Let four tools return: small JSON, big JSON, a DataFrame, big plaintext."""
    stage = chat.stage
    stage.title("What tools return")
    small = chat.output("What did the army lose in the Crimea?", "crimean_losses", {})
    stage.check("small JSON passes unchanged", small.content == crimean_losses(), True)
    big = chat.output("List all airports.", "list_airports", {"country": "USA"})
    preview = (big.envelope or {}).get("preview", {})
    stage.check(
        "scalars beside the records stay in sight",
        {key: preview.get(key) for key in ("total", "next_cursor")},
        {"total": len([row for row in AIRPORTS if row["country"] == "USA"]), "next_cursor": None},
    )
    chat.output("And the weather of Seattle.", "query_weather", {"sql": "SELECT * FROM seattle_weather"})
    text = chat.output("And the hours of San Francisco.", "download_temperatures", {"city": "San Francisco"})
    stage.check("the text is kept to the byte", text.artifacts[0].value == TEMPERATURES, True)


def computed(chat: Chat) -> None:
    """Let the model compute over all of the data."""
    stage = chat.stage
    stage.title("What the model computes")
    answer = chat.code(
        "Which five states have the most airports?",
        'df(airports)["state"].value_counts().head(5).to_dict()',
    )
    us = [row for row in AIRPORTS if row["country"] == "USA"]
    stage.check("airports by state", answer, dict(Counter(row["state"] for row in us).most_common(5)))

    first_try = """north = max(airports, key=lambda a: a["lat"])
south = min(airports, key=lambda a: a["lat"])
[north["name"], south["name"]]"""
    chat.code("Which airports lie farthest north and south?", first_try)
    answer = chat.code("", first_try.replace('"lat"', '"latitude"'))
    ordered = pd.DataFrame(us).sort_values("latitude")["name"]
    stage.check("mended after the error, northernmost and southernmost", answer, [ordered.iloc[-1], ordered.iloc[0]])

    answer = chat.code(
        "How much did it rain in Seattle, year by year?",
        """w = df("query_weather")
w["date"] = pd.to_datetime(w["date"])
wet = w[w["precipitation"] >= 25]
w.groupby(w["date"].dt.year)["precipitation"].sum().round(1).to_dict()""",
    )
    rain: defaultdict[str, float] = defaultdict(float)
    for row in WEATHER:
        rain[row["date"][:4]] += float(row["precipitation"])
    stage.check("millimetres by year", answer, {year: round(total, 1) for year, total in rain.items()})

    answer = chat.code(
        "How many days had 25 mm or more, and in which months?",
        'months = pd.to_datetime(wet["date"]).dt.month\n{"days": len(wet), "months": sorted(set(months.tolist()))}',
    )
    wet = [row["date"] for row in WEATHER if float(row["precipitation"]) >= 25]
    direct = {"days": len(wet), "months": sorted({int(day[5:7]) for day in wet})}
    stage.check("a name that the last call left", answer, direct)


def searched(chat: Chat) -> None:
    """Let the model query, search and read stored data."""
    stage, session = chat.stage, chat.session
    stage.title("What the model looks up")
    answer = chat.reply(
        "How many airports has each of the Pacific states?",
        "artifact_jq",
        {
            "artifact_id": "airports",
            "expression": 'map(select(.state | IN("CA", "HI", "WA"))) | group_by(.state) | map({(.[0].state): length}) | add',
        },
    )
    states = Counter(row["state"] for row in AIRPORTS if row["state"] in ("CA", "HI", "WA"))
    stage.check("jq over all of it", json.loads(answer), dict(sorted(states.items())))

    text = session.variable("download_temperatures").artifact.id
    answer = chat.reply(
        "When was it 72 degrees or more in San Francisco?",
        "artifact_grep",
        {"artifact_id": text, "pattern": r"^7[2-9]\.\d,", "context_lines": 0},
    )
    hot = [line for line in TEMPERATURES.splitlines()[1:] if float(line.partition(",")[0]) >= 72]
    stage.check("grep finds every line", re.findall(r"\d\d\.\d,[\d/]+ [\d:]+", answer), hot)

    answer = chat.reply(
        "What are the last two hours of June?",
        "artifact_read",
        {"artifact_id": text, "start_line": 4343, "end_line": 4344},
    )
    lines = TEMPERATURES.splitlines()[4342:4344]
    stage.check("lines by number", re.findall(r"\d\d\.\d,.*", answer), lines)


def programmed(chat: Chat) -> None:
    """Let the model write one program that calls two tools and a small model many times: it reads what the program says, and no result."""
    stage = chat.stage
    stage.title("What the model has a program call")
    states = sorted({row["state"] for row in AIRPORTS if row["country"] == "USA"} - {""})
    answer = chat.code(
        "In which three states is the longest leg from one airport to the next, from west to east, the longest?",
        f"""import asyncio
states = {states}
found = await asyncio.gather(*[airports_of(state) for state in states])
points = [[[a["latitude"], a["longitude"]] for a in each] for each in found]
legs = await asyncio.gather(*[longest_leg(each) for each in points if len(each) > 1])
far = pd.Series([leg["kilometres"] for leg in legs], [s for s, each in zip(states, points) if len(each) > 1])
far.nlargest(3).round().astype(int).to_dict()""",
    )
    far = {}
    for state in states:
        points = [[row["latitude"], row["longitude"]] for row in airports_of(state)]
        if len(points) > 1:
            far[state] = round(longest_leg(points)["kilometres"])
    stage.check("two tools, a hundred calls", answer, dict(Counter(far).most_common(3)))

    answer = chat.code(
        "How many airports of Vermont are named after somebody?",
        """names = [airport["name"] for airport in airports_of("VT")]
answers = await asyncio.gather(*[ask(f"Is this airport named after a person? yes or no: {name}") for name in names])
answers.count("yes")""",
    )
    named = [row for row in airports_of("VT") if small_model(f"?: {row['name']}", 1) == "yes"]
    stage.check("a small model, asked about each name", answer, len(named))


def handed_over(chat: Chat) -> None:
    """Pass data of one tool to another by name: the model never retypes it."""
    stage = chat.stage
    stage.title("What the model hands from tool to tool")
    result = chat.output(
        "From one airport of Hawaii to the next by code: how long is the longest leg?",
        "longest_leg",
        {
            "points": {
                "$var": "airports",
                "jq": 'map(select(.state == "HI")) | sort_by(.iata) | map([.latitude, .longitude])',
            }
        },
    )
    hawaii = sorted((row for row in AIRPORTS if row["state"] == "HI"), key=lambda row: str(row["iata"]))
    direct = longest_leg([[row["latitude"], row["longitude"]] for row in hawaii])
    stage.check("selected by jq on the way", json.loads(result.content), direct)
    result = chat.output("Give the export all airports.", "count_rows", {"rows": "$airports"})
    stage.check(
        "all of them", json.loads(result.content), {"rows": len([row for row in AIRPORTS if row["country"] == "USA"])}
    )


def main() -> int:
    """Replay the chat on a temporary database."""
    began = time.perf_counter()
    stage = Stage()
    with (
        tempfile.TemporaryDirectory(prefix="byref-demo-") as folder,
        byref.Engine(f"sqlite:///{folder}/demo.db") as engine,
    ):
        ask = byref.model_function(small_model, name="ask", max_tokens=10, budget_tokens=100_000)
        functions = [airports_of, longest_leg, ask]
        session = engine.session("demo", model=MODEL, context_window=200_000, functions=functions)
        chat = Chat(session, stage)
        outputs(chat)
        computed(chat)
        searched(chat)
        programmed(chat)
        handed_over(chat)
        stage.title("The ledger")
        steps = [entry for entry in session.ledger() if entry.kind != "call"]  # the calls of a program are a hundred
        stage.ledger(steps, session.usage(), session.context_tokens(), session.context_window)
    stage.end(time.perf_counter() - began)
    return 1 if stage.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
