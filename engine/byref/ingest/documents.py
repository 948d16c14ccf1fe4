"""Documents: the tables of a workbook, a page, a database file and the like, as JSON beside the document.

Parsers of such bytes may be attacked by them, so the sandbox reads them behind its walls, and what comes back is JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Final

from byref.artifacts.variables import identifier
from byref.content import Block, Large, Media, to_block
from byref.conversation.scope import Scope
from byref.errors import one_line
from byref_sandbox import Limits, Tables, looks_like
from byref_sandbox.documents.kinds import of_archive
from byref_sandbox.outcome import Table

logger = logging.getLogger("byref")

_SAID: Final = 60
"""Characters of a title, a note or a reason that are said."""
_MOST_SAID: Final = 4
_NAMES: Final = {
    "excel": "Excel",
    "zip": "a zip archive",
    "gzip": "gzip",
    "parquet": "Parquet",
    "arrow": "Arrow",
    "sqlite": "SQLite",
    "html": "HTML",
    "xml": "XML",
    "yaml": "YAML",
}
MARKUP: Final = {"HTML": "text/html", "XML": "application/xml", "YAML": "application/yaml"}
"""The content types of documents that are text, by what `read_as` begins with."""


def read(scope: Scope, block: Block | Media) -> tuple[Block | None, str | None]:
    """Return the tables of a document as a block of JSON, or why there are none; neither if it is no such document.

    One table is an array of records; several are an object of arrays by the tables' names.
    """
    if isinstance(block, Large) or block.stored_size > scope.policy.max_artifact_bytes:
        return None, None
    content_type, name = (block.content_type, block.name) if isinstance(block, Media) else (None, None)
    kind = looks_like(block.data, content_type=content_type, name=name)
    sandbox = scope.sandbox
    if kind is None or sandbox is None or not hasattr(sandbox, "tables"):
        return None, None
    policy = scope.policy
    limits = Limits(
        wall_seconds=policy.run_seconds, cpu_seconds=policy.run_cpu_seconds, memory_bytes=policy.run_memory_bytes
    )
    try:
        found: Tables = sandbox.tables(block.data, content_type=content_type, name=name, limits=limits)
    except Exception as error:  # noqa: BLE001  of whatever kind: a host's own interpreter may run it
        logger.warning("the tables of a document could not be read: %s", one_line(error))
        return None, None
    if found.error is not None:
        return None, f"{_NAMES[kind]}: {one_line(found.error.message)}"
    tables = [table for table in found.tables if table.rows]
    if not tables:
        reasons = [one_line(one.reason) for one in found.left_out]
        return None, f"{_NAMES[kind]}: {reasons[0]}" if reasons else None
    made = to_block(_json(tables))
    kind = of_archive(block.data) if kind == "zip" else kind
    made.read_as = "; ".join(filter(None, [_NAMES[kind], *_said(found, tables)][: 1 + _MOST_SAID]))
    return made, None


def _json(tables: list[Table]) -> bytes:
    if len(tables) == 1:
        return tables[0].records
    members, taken, counts = [], set[str](), dict[str, int]()
    for number, table in enumerate(tables, 1):
        name = stem = identifier(table.name) if table.name else f"table_{number}"
        while name in taken:
            counts[stem] = counts.get(stem, 1) + 1
            name = f"{stem}_{counts[stem]}"
        taken.add(name)
        members.append(json.dumps(name).encode() + b":" + table.records)
    return b"{" + b",\n".join(members) + b"}"


def _said(found: Tables, tables: list[Table]) -> Iterator[str]:
    """Yield in words where the tables are, and what is in none of their records."""
    if len(tables) == 1:
        yield _cut(tables[0].place)
    for table in tables:
        where = f"{_cut(table.place)} " if len(tables) > 1 else ""
        for kind, asides in (("before", table.before), ("after", table.after)):
            if texts := [cell for aside in asides for cell in aside.cells if cell.strip()]:
                yield f'{where}{kind} "{_cut(" ".join(texts))}"'
        for note in table.notes:
            yield f"{where}{_cut(note)}"
    for left in found.left_out:
        yield f"left out {_cut(f'{left.place} {left.reason}'.strip())}"


def _cut(text: str) -> str:
    text = " ".join(text[: 2 * _SAID].split())
    return f"{text[:_SAID]}…" if len(text) > _SAID else text
