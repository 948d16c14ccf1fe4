"""The demo's output: questions, verdicts, what the model reads, checks, the ledger."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import byref

INDENT = 9
SHOWN_CHARS = 230
"""Characters shown of each part of an envelope; the model reads all of it."""
SHOWN_LINES = 9
"""Lines shown of plaintext, at its head and at its tail."""


class Stage:
    """A console that counts right and wrong answers."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self.right = 0
        self.wrong = 0

    def title(self, text: str) -> None:
        """Print the title of a part."""
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left")

    def asks(self, question: str) -> None:
        """Print the analyst's question."""
        self._console.print()
        self._say("analyst", Text(question), "cyan")

    def calls(self, tool: str, arguments: str, *, is_code: bool) -> None:
        """Print a tool call of the model."""
        self._say(
            "model", Text(tool, style="bold") if is_code else Text.assemble((tool, "bold"), f"  {arguments}"), "magenta"
        )
        if is_code:
            self._console.print(Padding(Text(arguments, style="magenta"), (0, 0, 0, INDENT)))

    def says(self, answer: str) -> None:
        """Print the model's answer."""
        self._console.print()
        self._say("model", Text(answer), "magenta")

    def reads(self, content: str, *, of: str = "reply") -> None:
        """Print what goes back to the model, shortened if it is long."""
        self._console.print(
            Panel(
                Text(_excerpt(content)),
                title=Text(f"what the model reads: {of}, {len(content.encode()):,} bytes"),
                title_align="left",
                border_style="dim",
                box=box.ROUNDED,
            )
        )

    def verdict(self, explanation: byref.Explanation) -> None:
        """Print why an output took its route."""
        style = {"inline": "green", "variables": "yellow"}.get(explanation.route, "red")
        saved = f"{explanation.tokens_saved:,} tokens saved"
        self._say("gate", Text.assemble((explanation.route, f"bold {style}"), f"  {saved}"), "bold")
        self._console.print(Padding(Text(str(explanation), style="dim"), (0, 0, 0, INDENT)))

    def check(self, what: str, given: object, computed: object) -> None:
        """Compare an answer with the value that was computed directly."""
        if _equal(given, computed):
            self.right += 1
            self._console.print(Text("✓ ", style="bold green") + Text(f"{what}: {_short(given)}"))
        else:
            self.wrong += 1
            self._console.print(
                Text("✗ ", style="bold red") + Text(f"{what}: {_short(given)}, computed directly: {_short(computed)}")
            )

    def ledger(self, entries: Sequence[byref.Entry], totals: byref.Totals, context: int, window: int) -> None:
        """Print every step and the sums."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_footer=True)
        table.add_column("step", justify="right")
        table.add_column("what", footer="sum", no_wrap=True)
        table.add_column("route")
        sums = (totals.original_tokens, totals.tokens, totals.tokens_saved, totals.input_tokens, totals.output_tokens)
        for name, total in zip(("came", "read", "saved", "in", "out"), sums, strict=True):
            table.add_column(name, justify="right", footer=_number(total))
        table.add_column("USD", justify="right", footer="?" if totals.cost is None else f"{totals.cost:.4f}")
        for entry in entries:
            is_tool = entry.kind in ("output", "reply")
            what = "request" if entry.kind == "usage" else entry.kind
            table.add_row(
                str(entry.step),
                Text(entry.tool or "", style="red" if entry.is_error else "") if is_tool else Text(what, style="dim"),
                entry.route or "",
                _number(entry.original_tokens),
                _number(entry.tokens) if is_tool else "",
                _number(entry.tokens_saved or None),
                _number(entry.input_tokens),
                _number(entry.output_tokens),
                "" if entry.cost is None else f"{entry.cost:.4f}",
            )
        self._console.print(table)
        notes = (
            "came, read, saved: tokens of outputs and of replies; the sums are those of outputs alone.",
            "in, out: tokens of requests to the model, at the price that genai-prices knows.",
            f"The context holds {context:,} of {window:,} tokens; whole outputs alone would have been "
            f"{totals.original_tokens:,}.",
        )
        for note in notes:
            self._console.print(Text(note, style="dim"))

    def _say(self, who: str, what: Text, style: str) -> None:
        row = Table.grid()
        row.add_column(width=INDENT)
        row.add_column()
        row.add_row(Text(who, style=f"bold {style}"), what)
        self._console.print(row)

    def end(self, seconds: float) -> None:
        """Print the last line: how many answers are right."""
        total = self.right + self.wrong
        style = "bold red" if self.wrong else "bold green"
        self._console.print()
        self._console.print(Text(f"{self.right} of {total} answers right, in {seconds:.1f} s", style=style))


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _excerpt(content: str) -> str:
    """Shorten each part of an envelope, or plaintext to its first and last lines."""
    if content.startswith('{"variables"'):
        parts = json.loads(content)
        return "\n".join(
            f"{key}: {_short(value, SHOWN_CHARS, whole=key == 'instruction')}" for key, value in parts.items()
        )
    lines = content.splitlines()
    if len(lines) > SHOWN_LINES:
        half = SHOWN_LINES // 2
        left_out = f"        … {len(lines) - 2 * half:,} lines that the model reads and this panel leaves out …"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return "\n".join(_short(line, 2 * SHOWN_CHARS) for line in lines)


def _short(value: object, limit: int = 100, *, whole: bool = False) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if whole or len(text) <= limit else f"{text[:limit]} … ({len(text) - limit:,} more characters)"


def _equal(given: object, computed: object) -> bool:
    """Tell whether two values are equal; numbers may differ by the order in which floats were added."""
    if isinstance(given, dict) and isinstance(computed, dict):
        return given.keys() == computed.keys() and all(_equal(given[key], computed[key]) for key in computed)
    if isinstance(given, list) and isinstance(computed, list):
        return len(given) == len(computed) and all(map(_equal, given, computed))
    if isinstance(given, float) and isinstance(computed, int | float):
        return math.isclose(given, computed, rel_tol=1e-9)
    return type(given) is type(computed) and given == computed
