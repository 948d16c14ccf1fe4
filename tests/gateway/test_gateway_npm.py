"""The reference servers from npm behind the gateway, both at once, with a server of our own beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from gateway_kit import Heard, Held, Place, eventually, text_of
from mcp.client import Client

pytestmark = pytest.mark.slow  # servers of our own are quick ones
ROWS = [{"id": number, "name": f"user {number}"} for number in range(3000)]


class Three:
    def __init__(self, held: Held, heard: Heard, folder: Path) -> None:
        self.held, self.heard, self.folder = held, heard, folder


@pytest.fixture(scope="module")
def three(npm: Path, module_place: Place) -> Iterator[Three]:
    folder = module_place.folder / "files"
    folder.mkdir()
    (folder / "rows.json").write_text(json.dumps(ROWS))
    (folder / "small.txt").write_text("small")
    servers = {
        "everything": {"command": str(npm / "mcp-server-everything"), "args": ["stdio"]},
        "files": {"command": str(npm / "mcp-server-filesystem"), "args": [str(folder)]},
        "shop": module_place.shop("shop"),
    }
    config, heard = module_place.write(servers), Heard()
    callbacks_without_roots = heard.callbacks() | {"list_roots_callback": None}
    with Held(lambda: module_place.client("--config", config, **callbacks_without_roots)) as held:
        yield Three(held, heard, folder)


def test_the_tools_of_all_are_there(three: Three) -> None:
    async def work(client: Client) -> Any:
        return {tool.name for tool in (await client.list_tools()).tools}

    names = three.held.run(work)
    assert {"echo", "get-sum", "get-tiny-image", "read_text_file", "list_directory", "whoami", "artifact_jq"} <= names


def test_a_file_is_read_by_reference_and_its_data_goes_on(three: Three) -> None:
    path = str(three.folder / "rows.json")
    read = three.held.call("read_text_file", {"path": path})
    assert len(text_of(read)) < len(json.dumps(ROWS)) / 4
    assert read.structured_content is not None
    (name,) = [name for name in read.structured_content["byref"]["variables"] if name.startswith("read_text_file")][:1]
    summed = three.held.call("sum_ids", {"ids": {"$var": name, "jq": "map(.id)"}})
    assert text_of(summed) == f"3000 ids, {sum(range(3000))}"


def test_text_of_stored_data_is_written_to_a_file(three: Three) -> None:
    three.held.call("list_users", {"count": 3000})
    path = str(three.folder / "name.txt")
    written = three.held.call("write_file", {"path": path, "content": {"$var": "users", "jq": ".[7].name"}})
    assert not written.is_error
    assert Path(path).read_text() == "user 7"


def test_small_results_are_as_their_servers_gave_them(three: Three) -> None:
    assert text_of(three.held.call("echo", {"message": "hi"})) == "Echo: hi"
    small = three.held.call("read_text_file", {"path": str(three.folder / "small.txt")})
    assert text_of(small) == "small" and small.structured_content == {"content": "small"}
    structured = three.held.call("get-structured-content", {"location": "New York"})
    assert structured.structured_content is not None and "temperature" in structured.structured_content


def test_images_and_links_pass(three: Three) -> None:
    image = three.held.call("get-tiny-image")
    assert any(isinstance(block, types.ImageContent) for block in image.content)
    links = three.held.call("get-resource-links", {"count": 3})
    assert sum(isinstance(block, types.ResourceLink) for block in links.content) == 3
    reference = three.held.call("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
    assert any(isinstance(block, types.EmbeddedResource) for block in reference.content)


def test_an_error_names_what_is_wrong(three: Three) -> None:
    missing = three.held.call("read_text_file", {"path": str(three.folder / "missing")})
    assert missing.is_error and "missing" in text_of(missing)
    outside = three.held.call("read_text_file", {"path": "/etc/hostname"})
    assert outside.is_error and "denied" in text_of(outside).lower()


def test_progress_of_a_long_operation(three: Three) -> None:
    seen: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    arguments = {"duration": 1, "steps": 4}
    result = three.held.call("trigger-long-running-operation", arguments, progress_callback=progress)
    assert not result.is_error and seen == [1, 2, 3, 4]


def test_the_server_asks_the_clients_model_and_its_user(three: Three) -> None:
    async def work(client: Client) -> Any:
        return {tool.name for tool in (await client.list_tools()).tools}

    names = three.held.run(work)
    sampled = three.held.call("trigger-sampling-request", {"prompt": "1 + 1", "maxTokens": 10})
    assert "two" in text_of(sampled)
    assert "trigger-elicitation-request" in names
    three.heard.asked.clear()
    assert text_of(three.held.call("trigger-elicitation-request"))
    assert three.heard.asked


def test_resources_templates_prompts_and_completion(three: Three) -> None:
    async def work(client: Client) -> Any:
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        read = await client.read_resource("demo://resource/dynamic/text/3")
        prompt = await client.get_prompt("args-prompt", {"city": "Oslo"})
        reference = types.PromptReference(name="completable-prompt")
        completed = await client.complete(reference, {"name": "department", "value": "E"})
        return resources, templates, read, prompt, completed

    resources, templates, read, prompt, completed = three.held.run(work)
    assert any(one.uri.startswith("demo://") for one in resources)
    assert any("dynamic" in one.uri_template for one in templates)
    assert "esource 3" in read.contents[0].text
    assert "Oslo" in prompt.messages[0].content.text
    assert completed.completion.values == ["Engineering"]


def test_log_messages_and_subscriptions(three: Three) -> None:
    async def work(client: Client) -> bool:
        await client.session.set_logging_level("debug")
        await client.session.subscribe_resource("demo://resource/dynamic/text/1")
        await client.call_tool("toggle-simulated-logging", {})
        await client.call_tool("toggle-subscriber-updates", {})
        heard = await eventually(lambda: bool(three.heard.logs), 15)
        updated = await eventually(lambda: "notifications/resources/updated" in three.heard.told, 15)
        await client.call_tool("toggle-simulated-logging", {})
        await client.call_tool("toggle-subscriber-updates", {})
        await client.session.unsubscribe_resource("demo://resource/dynamic/text/1")
        return heard and updated

    with pytest.warns(Warning):
        assert three.held.run(work)
