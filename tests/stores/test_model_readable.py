"""A store whose paths the model can read with the host's tools: an output that it can read in a file is not cut."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_store import DictStore

from byref import AsyncEngine, CharCounter, ConfigurationError, Engine, Policy
from byref.stores import FileStore, MemoryStore, ObjectStore

LOG = "".join(f"{number:05} {'admin' if number % 50 == 7 else 'user'} signed in\n" for number in range(20_000))
ROWS = [{"id": number, "name": f"user {number}"} for number in range(20_000)]
PRESETS = {
    "variables": Policy.variables(),
    "references": Policy.references(),
    "pointers": Policy.pointers(),
    "previews": Policy.previews(),
}


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "blobs", model_readable=True)


def engine_on(store: Any, tmp_path: Path) -> Engine:
    return Engine(f"sqlite:///{tmp_path}/byref.db", blobs=store, counter=CharCounter())


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("output", [LOG, ROWS], ids=["text", "json"])
@pytest.mark.parametrize("preset", ["references", "pointers", "previews"])
def test_the_path_is_named_and_the_data_is_in_it(preset: str, output: Any, store: FileStore, tmp_path: Path) -> None:
    with engine_on(store, tmp_path) as engine:
        session = engine.session("s", policy=PRESETS[preset], tools=[], context_window=100_000)
        result = session.process(output, tool="t")
        assert result.route == "artifact" and session.tools("anthropic") == []
        [artifact] = result.artifacts
        assert artifact.location is not None and artifact.location in str(result.content)
        assert "tools of your own" in str(result.content) and "artifact_" not in str(result.content).replace(
            "artifact_id", ""
        )
        kept = Path(artifact.location).read_text()
        assert kept == output if isinstance(output, str) else json.loads(kept) == output


def test_structured_data_of_the_default_is_an_artifact(store: FileStore, tmp_path: Path) -> None:
    with engine_on(store, tmp_path) as engine:
        result = engine.session("s", tools=[]).process(ROWS, tool="t")
        envelope = json.loads(str(result.content))
        assert result.route == "artifact"
        assert envelope["how_to_access"] == {"location": "Read and search it at its location, with tools of your own"}
        assert json.loads(Path(envelope["location"]).read_text()) == ROWS


def test_a_shell_finds_what_the_preview_leaves_out(store: FileStore, tmp_path: Path) -> None:
    """The set-up of the context offloader without its retrieval tool: the agent has a shell."""
    with engine_on(store, tmp_path) as engine:
        session = engine.session("s", policy=Policy.previews(), tools=[])
        result = session.process([{"type": "text", "text": LOG}, {"type": "text", "text": "short"}], tool="t")
        [block] = result.content if isinstance(result.content, list) else [{"text": result.content}]
        paths = [line.rpartition(" at ")[2] for line in block["text"].splitlines() if line.startswith("art_")]
        found = subprocess.run(["grep", "-c", "admin", paths[0]], capture_output=True, text=True, check=True).stdout
        assert (int(found), Path(paths[1]).read_text()) == (LOG.count("admin"), "short")


def test_a_tool_of_the_session_is_named_before_the_path(store: FileStore, tmp_path: Path) -> None:
    with engine_on(store, tmp_path) as engine:
        result = engine.session("s", policy=Policy.previews()).process(LOG, tool="t")
        assert "retrieve_offloaded_content" in result.content and "tools of your own" not in result.content
        assert str(result.artifacts[0].location) in result.content


def test_unless_the_host_says_so_output_is_cut(tmp_path: Path) -> None:
    """A path is nothing to a model that has no tool for files."""
    with engine_on(FileStore(tmp_path / "blobs"), tmp_path) as engine:
        result = engine.session("s", policy=Policy.previews(), tools=[]).process(LOG, tool="t")
        assert result.route == "truncate" and str(tmp_path) not in result.content


def test_streams_and_asynchronous_sessions(store: FileStore, tmp_path: Path) -> None:
    async def run() -> tuple[str, str]:
        async with AsyncEngine(f"sqlite:///{tmp_path}/byref.db", blobs=store, counter=CharCounter()) as engine:
            session = await engine.session("s", policy=Policy.previews(), tools=[])
            result = await session.process((LOG for _ in range(20)), tool="t")
            return result.route, str(result.artifacts[0].location) if str(result.artifacts[0].location) in str(
                result.content
            ) else ""

    route, path = asyncio.run(run())
    assert route == "artifact" and Path(path).read_text() == LOG * 20


def test_what_is_in_sql_moves_to_where_the_model_reads(store: FileStore, tmp_path: Path) -> None:
    """Equal bytes are stored once, and those that were there first have no path."""
    with Engine(f"sqlite:///{tmp_path}/byref.db", counter=CharCounter()) as before:
        session = before.session("s", policy=Policy.previews())
        [first] = session.process(LOG, tool="t").artifacts
        assert first.location is None
    with engine_on(store, tmp_path) as engine:
        for source in (LOG, (LOG[at : at + 5_000] for at in range(0, len(LOG), 5_000))):
            result = engine.session("s", tools=[], policy=Policy.previews()).process(source, tool="t")
            [artifact] = result.artifacts
            assert artifact.location and artifact.location in result.content
            assert Path(artifact.location).read_text() == LOG
        again = engine.session("s").get_artifact(first.id)
        assert again is not None and again.value == LOG


@pytest.mark.parametrize(
    "made",
    [
        lambda _: MemoryStore(model_readable=True),
        lambda folder: FileStore(folder / "two\nlines", model_readable=True),
        lambda _: ObjectStore("s3://bucket", compresses=True, model_readable=True, region="r"),
    ],
    ids=["memory", "no line of text", "compressed"],
)
def test_where_there_is_no_path_nothing_can_be_read(made: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"model_readable=True: the store '\w+' has no paths.*FileStore\("):
        made(tmp_path)


def test_a_bucket_whose_objects_are_plain_can_be_read(tmp_path: Path) -> None:
    store = ObjectStore("s3://bucket", model_readable=True, region="r")
    assert store.model_readable and not ObjectStore("s3://bucket", region="r").model_readable


def test_a_store_of_the_hosts_is_asked_for_a_path(tmp_path: Path) -> None:
    class Pathless(DictStore):
        model_readable = True

    with pytest.raises(ConfigurationError, match="the store 'dict' has no paths"):
        engine_on(Pathless(), tmp_path)
    with pytest.raises(ConfigurationError, match="model_readable='yes': expected True or False"):
        FileStore(tmp_path, model_readable="yes")  # type: ignore[arg-type]
