"""Where the context offloader keeps bytes: the statements CO-18 to CO-24, with an engine on each kind of store."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from own_store import DictStore
from s3server import S3

from byref import CharCounter, Engine, Policy, Session
from byref.stores import BlobStore, FileStore, MemoryStore, ObjectStore, check_key
from statements.material import answer, document_block, image_block, lines, records

TOOL = "retrieve_offloaded_content"
READERS = [TOOL, "artifact_read", "artifact_grep"]
LOG = "".join(f"{i:05} {'admin' if i % 50 == 7 else 'user'} signed in\n" for i in range(1, 5_001))
BLOCKS = [{"text": LOG}, {"json": {"rows": records(500)}}, image_block(48_213), document_block(120_000)]
EVER = datetime.now(UTC) + timedelta(days=1)

Open = Callable[..., Session]


@pytest.fixture
def kept_in(sandbox: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a conversation of the preset whose bytes are in a store; always of the same database."""
    engines: list[Engine] = []

    def opened(store: BlobStore, name: str = "s", tools: Sequence[str] = READERS) -> Session:
        url = f"sqlite:///{tmp_path}/byref.db"
        engines.append(Engine(url, blobs=store, interpreter=sandbox, counter=CharCounter()))
        return engines[-1].session(name, policy=Policy.previews(), tools=tools, context_window=200_000)

    yield opened
    for engine in engines:
        engine.close()


@pytest.mark.statement("CO-18")
def test_memory_is_freed_and_the_turn_lives(kept_in: Open) -> None:
    store = MemoryStore()
    session = kept_in(store)
    [artifact] = session.process(LOG, tool="t").artifacts
    assert artifact.location is None
    assert "00100 user" in answer(session, TOOL, reference=artifact.id, line_range={"start": 100, "end": 100})
    assert store.size_bytes > 0
    store.clear()
    assert store.size_bytes == 0
    reply = session.call(TOOL, {"reference": artifact.id})
    assert reply.is_error and "gone" in reply.content
    assert session.process(lines(42_000), tool="t").route == "artifact"


@pytest.mark.statement("CO-18")
def test_without_a_reader_memory_is_no_use(kept_in: Open) -> None:
    result = kept_in(MemoryStore(), tools=[]).process(LOG, tool="t")
    assert result.route == "truncate" and "art_" not in result.content


@pytest.mark.statement("CO-19")
def test_files_survive_with_their_content_types(kept_in: Open, tmp_path: Path) -> None:
    kept = kept_in(FileStore(tmp_path / "blobs")).process(BLOCKS, tool="t").artifacts
    types = ["text/plain", "application/json", "image/png", "application/pdf"]
    again = kept_in(FileStore(tmp_path / "blobs")).artifacts()
    assert [artifact.content_type for artifact in again] == types
    assert [artifact.payload.read() for artifact in again] == [artifact.payload.read() for artifact in kept]
    for artifact, content_type in zip(again, types, strict=True):
        path = Path(artifact.location or "")
        sidecar = json.loads((path.parent / f".{path.name}.metadata.json").read_text())
        assert sidecar == {path.name: content_type}


@pytest.mark.statement("CO-20")
def test_the_path_is_in_what_the_model_reads(kept_in: Open, tmp_path: Path) -> None:
    result = kept_in(FileStore(tmp_path / "blobs")).process(BLOCKS, tool="t")
    assert len(result.artifacts) == 4
    for artifact in result.artifacts:
        assert artifact.location and Path(artifact.location).is_absolute() and Path(artifact.location).is_file()
        assert f"{artifact.id} (" in result.content and f" at {artifact.location}" in result.content


@pytest.mark.statement("CO-17", "CO-20")
@pytest.mark.parametrize("tools", [[], ["artifact_read"], ["list_artifacts"]], ids=str)
def test_an_agent_with_tools_of_its_own_is_told_the_paths(kept_in: Open, tmp_path: Path, tools: list[str]) -> None:
    result = kept_in(FileStore(tmp_path / "blobs", model_readable=True), tools=tools).process(BLOCKS, tool="t")
    assert result.route == "artifact" and TOOL not in result.content
    for artifact, whole in zip(result.artifacts, (LOG, {"rows": records(500)}), strict=False):
        assert artifact.value == whole
    for artifact in result.artifacts:
        assert artifact.location and f" at {artifact.location}" in result.content
        assert Path(artifact.location).read_bytes() == artifact.payload.read()


@pytest.mark.statement("CO-20")
def test_a_path_that_nothing_reads_is_not_told(kept_in: Open, tmp_path: Path) -> None:
    result = kept_in(FileStore(tmp_path / "blobs"), tools=[]).process(LOG, tool="t")
    assert result.route == "truncate" and str(tmp_path) not in result.content


@pytest.mark.statement("CO-21")
def test_grep_cat_and_sed_agree_with_the_tools(kept_in: Open, tmp_path: Path) -> None:
    session = kept_in(FileStore(tmp_path / "blobs"))
    [artifact] = session.process(LOG, tool="t").artifacts

    def shell(*command: str) -> str:
        return subprocess.run([*command, artifact.location or ""], capture_output=True, text=True, check=True).stdout

    assert shell("cat") == LOG
    found = answer(session, "artifact_grep", artifact_id=artifact.id, pattern="admin", context_lines=0, end_line=1_000)
    numbered = [line for line in shell("grep", "-n", "admin").splitlines() if int(line.split(":")[0]) <= 1_000]
    assert re.findall(r"^> +(\d+)\| (.*)$", found, re.MULTILINE) == [tuple(line.split(":", 1)) for line in numbered]
    read = answer(session, "artifact_read", artifact_id=artifact.id, start_line=45, end_line=55)
    assert [line.partition("| ")[2] for line in read.splitlines()] == shell("sed", "-n", "45,55p").splitlines()


@pytest.mark.statement("CO-16", "CO-22", "CO-23")
def test_objects_have_a_prefix_a_type_and_the_payload(kept_in: Open, s3: S3) -> None:
    bucket = s3.bucket()
    store = ObjectStore(f"s3://{bucket}", prefix="tool-results", **s3.settings)
    result = kept_in(store).process(BLOCKS, tool="t")
    for artifact in result.artifacts:
        assert artifact.location and artifact.location.startswith(f"s3://{bucket}/tool-results/")
        assert f" at {artifact.location}" in result.content
        status, headers, body = s3.request("GET", artifact.location.removeprefix("s3:/"))
        assert (status, headers["content-type"]) == (200, artifact.content_type)
        assert body == artifact.payload.read()
    assert len(result.artifacts) == len(set(store.keys(older_than=EVER))) == 4


class OwnStore(DictStore):
    """A host's own, whose objects other programs read."""

    name, compresses = "own", False

    def uri(self, key: str) -> str:
        return f"own://{check_key(key)}"


@pytest.mark.statement("CO-16", "CO-24")
@pytest.mark.parametrize("kind", ["memory", "files", "own"])
def test_every_store_keeps_the_protocol(kind: str, kept_in: Open, tmp_path: Path) -> None:
    makers: dict[str, Callable[[], BlobStore]] = {
        "memory": MemoryStore,
        "files": lambda: FileStore(tmp_path / "blobs"),
        "own": OwnStore,
    }
    store = makers[kind]()
    assert isinstance(store, BlobStore)
    session = kept_in(store)
    result = session.process(BLOCKS, tool="t")
    assert len(set(store.keys(older_than=EVER))) == 4
    assert [artifact.value for artifact in session.artifacts()][:2] == [LOG, {"rows": records(500)}]
    assert ("own://" in result.content) == (kind == "own")
    assert "00100 user" in answer(
        session, TOOL, reference=result.artifacts[0].id, line_range={"start": 100, "end": 100}
    )
    session.end()
    assert list(store.keys(older_than=EVER)) == []
