"""Further modules that a host allows: named to the model, loaded when code needs them, the same in every process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import byref
from byref import Engine
from byref_sandbox import Sandbox

MODULES = ["humanize", "toolz"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(modules=MODULES) as made:
        yield made


def ask(session: byref.Session, code: str) -> str:
    reply = session.call("code_interpreter", {"code": code})
    assert not reply.is_error, reply.content
    return reply.content.partition("\n")[0]


@pytest.mark.slow
def test_a_session_has_them_and_keeps_their_names(tmp_path: Path, sandbox: Sandbox) -> None:
    url = f"sqlite:///{tmp_path}/b.db"
    with Engine(url, interpreter=sandbox) as engine:
        for definitions in (engine.tools("anthropic"), engine.session("s").tools("anthropic")):
            assert "There are also: humanize, toolz." in next(
                tool["description"] for tool in definitions if tool["name"] == "code_interpreter"
            )
        session = engine.session("s")
        code = "import humanize\nfrom toolz import curry\nadd = curry(lambda a, b: a + b)\n[humanize.naturalsize(n) for n in (1e3, 1e9)]"
        assert "1.0 GB" in ask(session, code)
        # Names of earlier code need the modules again, in this process or in the next.
        assert ask(session, "from humanize import intword\nshort = lambda n: intword(n)\nshort(1e6)") == "1.0 million"
        assert ask(session, "short(2e6)") == "2.0 million"
        told = session.call("code_interpreter", {"code": "import humanise"})
        assert "the nearest modules there are: humanize" in told.content
    sandbox._forget_sessions()
    with Engine(url, interpreter=sandbox) as engine:
        assert ask(engine.session("s"), "short(3e6)") == "3.0 million"


@pytest.mark.slow
def test_they_are_loaded_beside_the_root(sandbox: Sandbox) -> None:
    assert sandbox.run("1", session="idle").value == 1
    assert sandbox.run("import toolz\ntoolz.first([3])", session="a").value == 3
    assert sandbox.run("import humanize.number as n\nn.ordinal(2)").value == "2nd"
    assert sandbox._warm["a"].libraries == {"toolz"} and not sandbox._warm["idle"].libraries
    error = sandbox.run("import humanize\nhumanize.activate('x', '/etc')").error
    assert error is not None and error.kind == "NotAllowed"


def test_an_engine_allows_them_for_itself_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/b.db"
    with Engine(url, modules=MODULES) as engine, Engine(url) as other:
        assert ask(engine.session("s"), "from humanize import intword\nintword(1e6)") == "1.0 million"
        assert "There are also" not in json.dumps(other.tools())
        told = other.session("s").call("code_interpreter", {"code": "import humanize"})
        assert told.is_error and "No module named 'humanize'" in told.content
        told = other.session("s").call("code_interpreter", {"code": "intword(2)"})
        assert told.is_error
        assert ask(engine.session("s"), "intword(3e6)") == "3.0 million"


@pytest.mark.slow
def test_the_language_alone_has_them() -> None:
    with Sandbox(modules=MODULES, jail="language-only") as sandbox:
        code = "import humanize, scipy.stats as s\nhumanize.fractional(0.5), s.norm.cdf(0)"
        assert sandbox.run(code, session="a").value == ["1/2", 0.5]


@pytest.mark.slow
def test_a_forked_copy_of_the_host_has_them() -> None:
    with Sandbox(modules=MODULES) as sandbox:
        sandbox.run("1")
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            try:
                os.write(writer, str(sandbox.run("import humanize\nhumanize.apnumber(5)").value).encode())
                sandbox.close()
            finally:
                os._exit(0)
        os.close(writer)
        assert os.read(reader, 100) == b"five"
        os.waitpid(child, 0)
