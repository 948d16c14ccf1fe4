"""The outputs that are measured: records made alike at each run, and real data of installed packages; `published` has more."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson


def record(random_: random.Random, number: int) -> dict[str, Any]:
    """A user, of six members."""
    return {
        "id": number,
        "name": f"user {number}",
        "score": random_.random() * 100,
        "tags": ["a", "b"],
        "active": number % 2 == 0,
        "email": f"u{number}@example.com",
    }


def records(size: int) -> bytes:
    """A list of users as JSON of about `size` bytes."""
    random_ = random.Random(1)
    block = [record(random_, number) for number in range(100)]
    count = max(1, size * len(block) // len(orjson.dumps(block)))
    return orjson.dumps([record(random_, number) for number in range(count)])


def fresh(raw: bytes) -> bytes:
    """The list with one record more, that no list had before: the same bytes are never given twice."""
    return raw[:-1] + b',{"id":"%s"}]' % uuid.uuid4().hex.encode()


def altered(size: int) -> Iterator[tuple[str, bytes]]:
    """The same users, of about `size` bytes, with what records as they come have and these have not, one thing at a time."""
    random_ = random.Random(2)
    users: list[dict[str, Any]] = orjson.loads(records(size))
    yield "as they are", orjson.dumps(users)
    yield (
        "a tenth of the values null",
        orjson.dumps(
            [{key: None if random_.random() < 0.1 else value for key, value in user.items()} for user in users]
        ),
    )
    yield (
        "a tenth of the members missing",
        orjson.dumps([{key: value for key, value in user.items() if random_.random() >= 0.1} for user in users]),
    )
    yield "indented", orjson.dumps(users, option=orjson.OPT_INDENT_2)
    yield "members in any order", orjson.dumps([dict(random_.sample([*user.items()], len(user))) for user in users])
    yield "an object by id", orjson.dumps({f"user_{user['id']}": user for user in users})


def tables() -> Iterator[tuple[str, str]]:
    """The JSON and CSV files that come with vega-datasets: real data, by the name of the file."""
    import vega_datasets

    folder = Path(vega_datasets.__file__).parent / "_data"
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".csv"):
            yield path.name, path.read_text(encoding="utf-8")


def texts() -> Iterator[tuple[str, str]]:
    """Of Python's own files and what they print: code, prose, a log, and text in Chinese, Japanese and Korean."""
    library = Path(os.__file__).parent
    yield "code", "".join(path.read_text(encoding="utf-8") for path in sorted(library.glob("[a-m]*.py")))
    topics: dict[str, str] = {}
    exec((library / "pydoc_data" / "topics.py").read_text(encoding="utf-8"), topics)
    yield "prose", "\n".join(map(str, topics["topics"].values()))  # type: ignore[attr-defined]
    modules = "asyncio, email, http.server, json.tool, sqlite3, unittest, xml.dom, multiprocessing.pool"
    done = subprocess.run([sys.executable, "-v", "-c", f"import {modules}"], capture_output=True, text=True, check=True)
    yield "log", done.stderr
    encodings = sorted((library / "test" / "cjkencodings").glob("*-utf8.txt"))
    if encodings:  # some builds of Python come without their tests
        yield "Chinese, Japanese, Korean", "".join(path.read_text(encoding="utf-8") for path in encodings)
