"""Write docs/statements.md out of the table and the marked tests: `make statements`."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from statements.table import SYSTEMS, TABLE

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "statements.md"


def shown_by() -> dict[str, list[str]]:
    """The tests that are marked with each statement's ID, as file and function."""
    tests: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.statement":
                    for argument in mark.args:
                        tests.setdefault(ast.literal_eval(argument), []).append(f"{path.name}::{node.name}")
    return tests


def render() -> str:
    """The page, as Markdown."""
    tests = shown_by()
    counts = Counter(statement.status for statement in TABLE.values())
    out = [
        "# byref beside four published systems, statement by statement",
        "",
        "Four published systems keep big tool outputs out of a model's context; each preset reproduces one. Their documents come",
        f"to {len(TABLE)} testable statements, here in our words. {counts['shown']} are *shown* by tests, {counts['exception']} are"
        " *exceptions*, where byref does otherwise on purpose",
        "and tests show that"
        + (f", and {left} are *not yet* there, or in part." if (left := counts["not yet"]) else "."),
        "",
        "The tests are in `tests/statements/`, marked with the ID: `pytest tests/statements -k test_bytes_not_tokens`. `make",
        "statements` writes this page.",
    ]
    for system, title in SYSTEMS.items():
        out += ["", f"## {title}", "", "| ID | statement | | tests |", "|---|---|---|---|"]
        for key, statement in TABLE.items():
            if statement.system != system:
                continue
            names = [name.partition("::")[2] for name in tests.get(key, [])]
            status = "in part" if statement.status == "not yet" and names else statement.status
            standing = f"{status}: {statement.reason}" if statement.reason else status
            out.append(f"| {key} | {statement.sentence} | {standing} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
