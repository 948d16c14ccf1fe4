"""The examples of README.md and docs/ are tests: Python is run, commands are run and their output is compared.

The examples of one document share names and a folder of their own, in which commands are run too: with pytest-xdist they
need `--dist loadfile`. A sandbox takes a second to start: the engines of all documents and all tests share one, unless
they are given another.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
from forking import FORKS
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

import byref.cli
import byref.cli.parser
import byref.engine
import byref_sandbox
import byref_sandbox.testing
from byref_sandbox import Limits, Sandbox

EXAMPLES = Path(__file__).parent / "examples"
COMMAND = re.compile(r"^\$ ", re.MULTILINE)
EXIT_CODE = '; echo "exit code $?"'
HEAD = r"""((?:'[^']*'|"[^"$]*"|[^'"|&;<>$])*)(\|?)(.*)"""
"""What stands before the first pipe that is not quoted, if there is nothing special in it; the pipe; the rest."""


LIMITS = Limits(wall_seconds=10, cpu_seconds=5, memory_bytes=512 << 20)
"""What holds for runs that say nothing; engines pass those of their policy."""


class Lasting(Sandbox):
    """A sandbox that engines leave running when they are closed."""

    def close(self) -> None:
        """Leave it to whoever made it to call `end`."""

    def end(self) -> None:
        """End its processes."""
        super().close()


LASTING: list[Lasting] = []
"""The one that is shared, where one was started."""


def lasting(*arguments: Any, **options: Any) -> Sandbox:
    """Give whoever asks for one as it comes the shared sandbox, and one of its own to whoever asks for a special one."""
    if arguments or {name: value for name, value in options.items() if value} not in ({}, {"jail": "full"}):
        return Sandbox(*arguments, **options)
    if not LASTING:
        LASTING.append(Lasting(LIMITS))
    return LASTING[0]


PARSERS: dict[tuple[str | None, ...], argparse.ArgumentParser] = {}
"""Of the command line, by what of the environment is in them: to make one takes longer than most verbs do."""


def parser() -> argparse.ArgumentParser:
    """The command's parser, made once."""
    key = tuple(map(os.environ.get, ("BYREF_DB", "BYREF_BLOBS", "BYREF_DURABILITY")))
    if key not in PARSERS:
        PARSERS[key] = byref.cli.parser.make_parser()
    return PARSERS[key]


def pytest_configure(config: pytest.Config) -> None:
    """Leave nothing running, however this run ends; pytest-xdist's workers are a part of it."""
    if not hasattr(config, "workerinput"):
        leftovers.watch()


def pytest_unconfigure() -> None:
    """End the shared sandbox, and what programs are forked from."""
    for sandbox in LASTING:
        sandbox.end()
    FORKS.close()


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """The sandbox of all tests of a worker; what one must survive is tested on sandboxes of their own."""
    return lasting()


@pytest.fixture(scope="session", autouse=True)
def shared_sandbox() -> Iterator[None]:
    """Let every engine that would start a sandbox share one with all others, and every command the parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byref.engine, "Sandbox", lasting)
        patch.setattr(byref_sandbox.testing, "_sandboxes", [lasting()])
        patch.setattr(sys.modules["byref.cli.main"], "make_parser", parser)
        yield


def begin(names: dict[str, Any]) -> None:
    """Give a document a folder, real data in it, and the names its examples take for granted."""
    from vega_datasets import local_data

    names["_back"], names["_folder"] = Path.cwd(), Path(tempfile.mkdtemp(prefix="byref-docs-"))
    names["_environment"] = dict(os.environ)
    names["_patch"] = patch = pytest.MonkeyPatch()
    patch.setattr(byref.engine, "Sandbox", lasting)  # examples have no fixtures
    patch.setattr(byref_sandbox, "Sandbox", lasting)
    patch.setattr(sys.modules["byref.cli.main"], "make_parser", parser)
    os.chdir(names["_folder"])
    for name in ("BYREF_DB", "BYREF_DEBUG"):
        os.environ.pop(name, None)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name in ("cars", "crimea"):
        shutil.copy(getattr(local_data, name).filepath, f"{name}.json")
    for program in (*EXAMPLES.glob("*_loop.py"), *EXAMPLES.glob("shop.py")):
        shutil.copy(program, program.name)


def end(names: dict[str, Any]) -> None:
    """Take the folder away again, and close what the examples opened."""
    import byref

    for value in names.values():
        if isinstance(value, byref.Engine):
            value.close()
    names["_patch"].undo()
    os.chdir(names["_back"])
    os.environ.clear()
    os.environ.update(names["_environment"])
    shutil.rmtree(names["_folder"])


def run_commands(example: Example) -> None:
    """Run each `$ command` of a console block; the output below it has to match, `...` standing for anything."""
    for part in COMMAND.split(str(example.parsed))[1:]:
        command, _, wanted = part.partition("\n")
        given = run_command(command)
        if not doctest.OutputChecker().check_output(f"{wanted.strip()}\n", f"{given.strip()}\n", doctest.ELLIPSIS):
            raise AssertionError(f"$ {command}\nexpected:\n{wanted}\ngiven:\n{given}")


def run_command(command: str) -> str:
    """Return what a command prints, errors and output together; `byref`, alone or at an end of a pipe, runs in this process."""
    before, fed, last = command.rpartition(" | byref ")
    command, asked, _ = (f"byref {last}" if fed else command).partition(EXIT_CODE)
    head, pipe, rest = re.fullmatch(HEAD, command, re.DOTALL).groups()  # type: ignore[union-attr]  the first part may be empty
    if not head.startswith("byref ") or not (pipe or not rest) or (pipe and asked):
        return run_in_shell(f"{before}{fed and ' | '}{command}{asked}")
    code: object = 0
    given = io.TextIOWrapper(io.BytesIO((run_in_shell(before) if fed else "").encode()), encoding="utf-8")
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    complaints = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) if pipe else printed
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complaints),
    ):
        patch.setattr(sys, "stdin", given)
        try:
            code = byref.cli.main(shlex.split(head)[1:])
        except SystemExit as ended:
            code = ended.code or 0
    printed.seek(0)
    if not pipe:
        return printed.read() + (f"exit code {code}\n" if asked else "")
    complaints.seek(0)
    return complaints.read() + run_in_shell(rest, printed.read())


def run_in_shell(command: str, given: str | None = None) -> str:
    """The same of any command; `given` is what it reads."""
    return subprocess.run(
        ["bash", "-c", command], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    ).stdout


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to a whole run the examples that take seconds and whose contract quick tests show too."""
    for item in items:
        example = getattr(item, "example", None)
        if isinstance(example, Example) and any(part in str(example.parsed) for part in SLOW_EXAMPLES):
            item.add_marker(pytest.mark.slow)


SLOW_EXAMPLES = ("with Sandbox(modules=[",)
"""Parts of such examples: modules of others have their tests in tests/sandbox/language/test_further.py."""


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE),
        CodeBlockParser("console", run_commands),
    ],
    patterns=["README.md", "docs/*.md"],
    setup=begin,
    teardown=end,
).pytest()
