"""Twenty-one million tokens in, 790 in the context: a tool output is questioned, handed to a second tool, and answered.

The published case is a materials-science workflow of 20,822,181 tokens that memory pointers brought down to 1,234 ("Solving
Context Window Overflow in AI Agents", arXiv 2511.22729). Here a tool returns that much, about 53 MB of crystal structures.
The model's turns are written down, as a model writes them; the engine, the database, the sandbox and the data are real,
and each answer is checked against what plain Python computes from the data. Every text that the model reads or writes is
counted, exactly. Times are those of byref alone, in xoj: how often `orjson.loads` parses the same text meanwhile.

Exit code 1 if an answer is wrong or the context holds more than 1,234 tokens.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from materials import ground_states, structures
from rich import box
from rich.console import Console
from rich.table import Table
from stage import Stage

import byref

PUBLISHED_TOKENS, PUBLISHED_CONTEXT = 20_822_181, 1_234
STRUCTURES = 61_000
STRUCTURES_TOKENS = 21_022_358
"""Tokens (o200k_base) of so many structures as compact JSON; the long form of tests/journeys/test_headline.py counts them."""

COUNTER = byref.SampledCounter()
POLICY = byref.Policy(preview_tokens=200)
QUESTION = (
    "Run the screening campaign 2026-Q4. How many structures have a band gap of 1.1 to 1.6 eV and lie at most 0.025 eV above "
    "the hull, and which of these has the lowest energy per atom? Then: what are the ground states of the systems with the "
    "most entries?"
)
CODE = """hits = df("materials").query("1.1 <= band_gap_ev <= 1.6 and energy_above_hull_ev <= 0.025")
{"count": len(hits), "lowest": hits.loc[hits["energy_per_atom_ev"].idxmin(), "material_id"]}"""
ENTRIES = {"$var": "materials", "jq": "map({material_id, elements, energy_per_atom_ev})"}

T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """One text in the context: a call of the model as JSON, or something said."""

    what: str
    text: str
    seconds: float = 0.0
    """Time that byref took for it."""

    @property
    def tokens(self) -> int:
        """Tokens of the text (o200k_base); a text this short is counted exactly."""
        return COUNTER.count(self.text)


@dataclass
class Conversation:
    """Everything that a model reads and writes, except tool definitions, and the results."""

    session: byref.Session
    turns: list[Turn] = field(default_factory=list)
    found: Any = None
    """The answer of the code."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    """The entries that reached the second tool."""
    grounds: Any = None

    @property
    def tokens(self) -> int:
        """Tokens of the whole context."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def definition_tokens(self) -> int:
        """Tokens of the definitions of byref's tools, which each request carries."""
        return COUNTER.count(json.dumps(self.session.tools("anthropic"), separators=(",", ":")))

    @property
    def seconds(self) -> float:
        """Time that byref took for all texts."""
        return sum(turn.seconds for turn in self.turns)

    def hold(self, output: str | dict[str, Any]) -> None:
        """Run the conversation from the question to the answer; `output` is the first tool's output."""
        session = self.session
        self._say("question", QUESTION)
        arguments: dict[str, Any] = {"campaign": "2026-Q4"}
        self._call("screen_materials", arguments)
        result = self._reply(
            "envelope",
            lambda: session.process(output, tool="screen_materials", call_id="call_1", arguments=arguments),
        )
        assert result.route == "variables", result.reason

        arguments = {"code": CODE}
        self._call("code_interpreter", arguments)
        reply = self._reply("result", lambda: session.call("code_interpreter", arguments, call_id="call_2"))
        self.found = json.JSONDecoder().raw_decode(str(reply.content))[0]

        arguments = {"entries": ENTRIES}
        began = time.perf_counter()
        resolved = session.resolve(arguments, tool="ground_states", call_id="call_3")
        self._call("ground_states", arguments, time.perf_counter() - began)
        self.entries = resolved["entries"]
        states = ground_states(**resolved)
        answered = self._reply(
            "result",
            lambda: session.process(states, tool="ground_states", call_id="call_3", arguments=arguments),
        )
        self.grounds = json.loads(str(answered.content))
        self._say("answer", self._answer())

    def _answer(self) -> str:
        grounds = ", ".join(f"{state['material_id']} of {state['system']}" for state in self.grounds["ground_states"])
        return (
            f"{self.found['count']:,} structures fit; {self.found['lowest']} has the lowest energy. Among "
            f"{self.grounds['systems']:,} chemical systems the ground states of the largest are {grounds}."
        )

    def _say(self, what: str, text: str, seconds: float = 0.0) -> None:
        self.turns.append(Turn(what, text, seconds))

    def _call(self, name: str, arguments: dict[str, Any], seconds: float = 0.0) -> None:
        self._say(f"call of {name}", json.dumps({"name": name, "arguments": arguments}), seconds)

    def _reply(self, what: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        made = work()
        seconds = time.perf_counter() - began
        self._say(what, str(made.content), seconds)  # type: ignore[attr-defined]
        return made


def expected(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the right answers of the code and the second tool, computed directly from the data."""
    hits = [
        material
        for material in data["materials"]
        if 1.1 <= material["band_gap_ev"] <= 1.6 and material["energy_above_hull_ev"] <= 0.025
    ]
    lowest = min(hits, key=lambda material: material["energy_per_atom_ev"])
    return {"count": len(hits), "lowest": lowest["material_id"]}, ground_states(data["materials"])


def xoj(text: str, times: int = 3) -> float:
    """Return the median time in seconds of `orjson.loads` for a text, with the garbage collector off."""
    seconds = []
    for _ in range(times):
        gc.collect()
        gc.disable()
        began = time.perf_counter()
        value = orjson.loads(text)
        seconds.append(time.perf_counter() - began)
        del value
        gc.enable()
    return statistics.median(seconds)


def held(session: byref.Session, text: str, output: str | dict[str, Any]) -> tuple[Conversation, float]:
    """Run the conversation over an output whose JSON is `text`; return it, and the time of an xoj meanwhile, in seconds."""
    conversation = Conversation(session)
    before = xoj(text)
    conversation.hold(output)
    return conversation, (before + xoj(text)) / 2


def table(conversation: Conversation, unit: float) -> Table:
    """Return a table of the context's texts with their tokens and the time that byref took for each."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    shown.add_column("in the context", footer="sum")
    shown.add_column("tokens", justify="right", footer=f"{conversation.tokens:,}")
    shown.add_column("byref, ms", justify="right", footer=f"{conversation.seconds * 1e3:,.0f}")
    shown.add_column("xoj", justify="right", footer=f"{conversation.seconds / unit:.2f}")
    for turn in conversation.turns:
        timed = (f"{turn.seconds * 1e3:,.0f}", f"{turn.seconds / unit:.2f}") if turn.seconds else ("", "")
        shown.add_row(turn.what, f"{turn.tokens:,}", *timed)
    return shown


def shown(stage: Stage, conversation: Conversation) -> None:
    """Print the conversation turn by turn."""
    for turn in conversation.turns:
        match turn.what.split()[0]:
            case "question":
                stage.asks(turn.text)
            case "call":
                call = json.loads(turn.text)
                code = call["arguments"].get("code")
                stage.calls(call["name"], code or json.dumps(call["arguments"]), is_code=code is not None)
            case "answer":
                stage.says(turn.text)
            case _:
                stage.reads(turn.text, of=turn.what)


def main(arguments: list[str] | None = None) -> int:
    """Run the conversation on a temporary database, and print it with its figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--structures", type=int, default=STRUCTURES, help="how many the first tool returns")
    parser.add_argument("--objects", action="store_true", help="as Python objects, not as JSON text")
    parser.add_argument("--database", help="its URL; without it a SQLite file that is removed afterwards")
    given = parser.parse_args(arguments)
    console, stage = Console(highlight=False), Stage()
    data = structures(given.structures)
    text = orjson.dumps(data).decode()
    with tempfile.TemporaryDirectory(prefix="byref-headline-") as folder:
        url = given.database or f"sqlite:///{folder}/headline.db"
        with byref.Engine(url, create=True) as engine:
            warm_up(engine)
            session = engine.session(f"headline-{time.time_ns()}", model="gpt-5", policy=POLICY)
            conversation, unit = held(session, text, data if given.objects else text)
            estimated = session.usage().original_tokens
            if given.database:
                engine.delete_session(session.id)
    stage.title("A tool returns")
    exact = f", {STRUCTURES_TOKENS:,} tokens" if given.structures == STRUCTURES else ""
    console.print(f"{given.structures:,} crystal structures, {len(text) / 1e6:.1f} MB of JSON{exact}")
    console.print(
        f"byref's ledger estimates {estimated:,} tokens; orjson.loads takes {unit * 1e3:,.0f} ms", style="dim"
    )
    stage.title("What the model reads and writes")
    shown(stage, conversation)
    stage.title("Checked against plain Python over the data")
    found, grounds = expected(data)
    stage.check("what the code found", conversation.found, found)
    stage.check("entries that reached the second tool", len(conversation.entries), given.structures)
    stage.check("the second tool's answer", conversation.grounds, grounds)
    stage.check(f"at most {PUBLISHED_CONTEXT:,} tokens", conversation.tokens <= PUBLISHED_CONTEXT, True)
    stage.title("What it took")
    console.print(table(conversation, unit))
    console.print(
        f"not counted: the definitions of byref's tools, {conversation.definition_tokens:,} tokens in each request",
        style="dim",
    )
    return 1 if stage.wrong else 0


def warm_up(engine: byref.Engine) -> None:
    """Start what an engine starts only once: its sandbox, its counter, the connection."""
    with engine.session("warm-up", policy=POLICY) as session:
        session.process(structures(200), tool="screen_materials")
        session.call("code_interpreter", {"code": CODE})
        session.resolve({"entries": ENTRIES})
    engine.delete_session("warm-up")


if __name__ == "__main__":
    sys.exit(main())
