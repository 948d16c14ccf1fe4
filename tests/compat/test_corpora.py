"""The measurement itself: what it reads and counts, and that it reports what is missing."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import corpora
import page
import pytest

_spec = importlib.util.spec_from_file_location("compat_main", Path(__file__).with_name("__main__.py"))
assert _spec and _spec.loader
main = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(main)

HUMANEVAL = [
    {"task_id": "HumanEval/0", "prompt": "def f(a):\n", "canonical_solution": "    return a + 1\n", "entry_point": "f",
     "test": "def check(f):\n    assert f(1) == 2\n"},
    {"task_id": "HumanEval/1", "prompt": "def f(a):\n", "canonical_solution": "    import socket\n    return a + 1\n", "entry_point": "f",
     "test": "def check(f):\n    assert f(1) == 2\n"},
    {"task_id": "HumanEval/2", "prompt": "def f(a):\n", "canonical_solution": "    return a\n", "entry_point": "f",
     "test": "def check(f):\n    assert f(1) == 2\n"},
]  # fmt: skip
DS1000 = {
    "reference_code": "result = df['a'].sum()",
    "metadata": {"library": "Pandas", "problem_id": 7},
    "code_context": """
import pandas as pd
code = "import pandas as pd\\ndf = test_input\\n[insert]\\n"
def test_execution(solution):
    space = {"test_input": pd.DataFrame({"a": [1, 2]})}
    exec(code.replace("[insert]", solution), space)
    assert space["result"] == 3
def test_string(solution):
    assert "sum" in solution
""",
}
BIGCODEBENCH = {
    "task_id": "BigCodeBench/1",
    "libs": "['pandas', 'os']",
    "prompt_wo_doc": "import pandas as pd\ndef task_func(path):\n",
    "canonical_solution": "    table = pd.read_csv(path)\n    table.to_csv(path + '.out')\n    return len(table)\n",
    "test": """
import os, tempfile, unittest
class TestCases(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "a.csv")
            with open(path, "w") as file:
                file.write("a\\n1\\n2\\n")
            self.assertEqual(task_func(path), 2)
            self.assertTrue(os.path.exists(path + ".out"))
            self.assertIs(pd.isna(None), True)
""",
}
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["text"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "a = open('given.txt').read()"]},
        {"cell_type": "code", "source": "print(a)\nlen(a)"},
        {"cell_type": "code", "source": "import socket; 1"},
        {"cell_type": "code", "source": "import time; time.perf_counter()"},
    ]
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "HumanEval.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, HUMANEVAL)).encode()))
    (tmp_path / "ds1000.jsonl").write_text(json.dumps(DS1000))
    (tmp_path / "BigCodeBench.jsonl").write_text(json.dumps(BIGCODEBENCH))
    book = tmp_path / "notebooks" / "pydata-book"
    book.mkdir(parents=True)
    (book / "ch01.ipynb").write_text(json.dumps(NOTEBOOK))
    (book / "given.txt").write_text("four")
    return tmp_path


def test_corpora_are_read_packed_or_not_and_one_that_is_missing_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpora, "FETCHED", tmp_path / "none")
    found = {name: corpora.CORPORA[name].tasks(folder) for name in ("humaneval", "ds1000", "bigcodebench", "pydata")}
    assert {name: [task.name for task in tasks] for name, tasks in found.items()} == {
        "humaneval": ["HumanEval/0", "HumanEval/1", "HumanEval/2"],
        "ds1000": ["DS-1000/7"],
        "bigcodebench": ["BigCodeBench/1"],
        "pydata": ["pydata-book/ch01"],
    }
    assert found["bigcodebench"][0].group == "data"
    assert found["pydata"][0].given == ["given.txt"]
    nowhere = corpora.Corpus("gone", "gone.jsonl", "http://127.0.0.1:9/gone.jsonl", corpora.CORPORA["mbpp"].read)
    with pytest.raises(corpora.Missing, match=r"gone: not in CORPORA=.* as gone\.jsonl, and http://127"):
        nowhere.tasks(folder)


def test_a_reason_is_the_same_whatever_the_task_calls_its_things() -> None:
    first = main.reason("NotAllowed: line 3: attribute '_a' is not available (also line 9: x)")
    assert first == main.reason("NotAllowed: line 12: attribute '_a' is not available")
    assert main.reason("AssertionError: 3 != 4") == "another result"


@pytest.mark.slow
def test_what_passes_in_plain_python_is_counted_in_the_language_and_behind_both_walls(folder: Path) -> None:
    tasks = [
        t for name in ("humaneval", "ds1000", "bigcodebench", "pydata") for t in corpora.CORPORA[name].tasks(folder)
    ]
    natives = main.Natives(folder)
    found = main.measure(tasks, natives, main.Found(folder / "tasks.json"))
    natives.save()
    counts = {group: (count.native, count.passes["language"], count.passes["both"]) for group, count in found.items()}
    misses = found["pydata-book"].misses
    assert counts == {"functions": (2, 1, 1), "pandas": (1, 1, 1), "data": (1, 1, 1), "pydata-book": (3, 2, 2)}
    assert list(misses["both"]) == ["ModuleNotFoundError: No module named 'socket' in the sandbox"]


def test_the_page_has_counts_and_reasons_and_no_text_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = main.Count()
    count.native, count.passes["language"], count.passes["both"] = 10, 6, 5
    misses = count.misses["both"]
    misses["ModuleNotFoundError: No module named 'socket.x' in the sandbox"] = ["a", "b"]
    misses["KeyError: 'secret'"] = ["c", "d"]
    misses["NotAllowed: 'my secret.csv' is no name for a file here"] = ["e"]
    page.keep(tmp_path, "mbpp", {"functions": count})
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(tmp_path, ["ds1000: not in …"])
    written = page.PAGE.read_text()
    assert written.startswith("before\n") and written.endswith("after\n") and "old" not in written
    assert "| MBPP | 10 | 6 | 5 | 50.0% |" in written
    assert "| 2 | the module `socket` is not there | MBPP |" in written
    assert "| 2 | raises KeyError | MBPP |" in written
    assert "| 1 | a reason of its own each | |" in written
    assert "Not measured, because they were not to be had: ds1000." in written
    assert "secret" not in written
    page.PAGE.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the lines"):
        page.write(tmp_path, [])
