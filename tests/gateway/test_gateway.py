"""Everything that passes through the gateway between a real client and real servers, over real pipes, in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from gateway_kit import Heard, Held, Place, eventually, soon, text_of
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

import byref


class Two:
    """A client, and two servers that are the same but for their names."""

    def __init__(self, held: Held, heard: Heard, place: Place) -> None:
        self.held, self.heard, self.place = held, heard, place


@pytest.fixture(scope="module", params=["legacy", "auto"])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    place, heard = Place(tmp_path_factory.mktemp("two")), Heard()
    config = place.write({"north": place.shop("north"), "south": place.shop("south")})
    with Held(lambda: place.client("--config", config, mode=request.param, heard=heard)) as held:
        yield Two(held, heard, place)


def tools_of(two: Two) -> dict[str, types.Tool]:
    async def work(client: Client) -> Any:
        return (await client.list_tools()).tools

    return {tool.name: tool for tool in two.held.run(work)}


@pytest.mark.quick_cases(1)
def test_tools_that_two_servers_have_carry_their_servers_names(two: Two) -> None:
    assert text_of(two.held.call("north__whoami")) == "north"
    assert text_of(two.held.call("south__whoami")) == "south"
    assert "whoami" not in tools_of(two)


def test_our_own_tools_stand_beside_theirs(two: Two) -> None:
    assert {"code_interpreter", "artifact_jq", "artifact_grep", "artifact_read"} <= tools_of(two).keys()


def test_a_definition_keeps_what_its_server_said(two: Two) -> None:
    tool = tools_of(two)["north__list_users"]
    assert tool.title == "[server north] Users" and tool.annotations is not None and tool.annotations.read_only_hint
    assert tool.icons and tool.icons[0].src == "https://example.com/icon.png"
    assert tool.meta is not None and tool.meta["example.com/kept"] == {"deep": [1, None]}


def test_a_small_result_is_what_the_server_gave(two: Two) -> None:
    result = two.held.call("north__list_users", {"count": 2})
    expected = {"users": [{"id": 0, "name": "user 0", "score": 0}, {"id": 1, "name": "user 1", "score": 1}]}
    expected |= {"total": 20_000}
    assert result.structured_content == expected
    assert text_of(result) == json.dumps(expected)
    assert not result.is_error


def test_meta_passes_in_both_directions(two: Two) -> None:
    result = two.held.call("north__meta", meta={"example.com/asked": {"a": 1}})
    assert result.meta is not None and result.meta["example.com/result"]["example.com/asked"] == {"a": 1}
    assert result.content[0].meta == {"block": 1}


def test_a_tools_error_stays_an_error_and_is_text(two: Two) -> None:
    result = two.held.call("north__fail", {"characters": 90})
    assert result.is_error and text_of(result) == "it broke " * 10


def test_a_long_error_is_cut_and_not_put_behind_a_reference(two: Two) -> None:
    result = two.held.call("north__fail", {"characters": 200_000})
    assert result.is_error and text_of(result).startswith("it broke") and "truncated" in text_of(result)


def test_an_error_of_the_protocol_stays_one(two: Two) -> None:
    with pytest.raises(MCPError, match="not today") as caught:
        two.held.call("north__refuse")
    assert caught.value.error.code == -32050 and caught.value.error.data == {"why": "closed"}


def test_an_unknown_tool_is_an_error_that_names_it(two: Two) -> None:
    with pytest.raises(MCPError, match="nothing_like_it"):
        two.held.call("nothing_like_it")


def test_a_big_result_of_one_server_goes_by_name_into_a_tool_of_another(two: Two) -> None:
    result = two.held.call("north__list_users", {"count": 20_000})
    assert len(text_of(result)) < 10_000
    [link] = [block for block in result.content if isinstance(block, types.ResourceLink)]
    assert link.uri.startswith("byref://artifact/") and link.size and link.size > 500_000
    (name,) = [name for name in result.structured_content["byref"]["variables"] if name.startswith("users")]
    given = two.held.call("south__sum_ids", {"ids": {"$var": name, "jq": "map(.id)"}})
    assert text_of(given) == f"20000 ids, {sum(range(20_000))}"


def test_what_stands_for_a_result_fits_the_schema_that_is_shown(two: Two) -> None:
    schema = tools_of(two)["north__list_users"].output_schema
    small = two.held.call("north__list_users", {"count": 1}).structured_content
    big = two.held.call("north__list_users", {"count": 20_000}).structured_content
    for structured in (small, big):
        jsonschema.validate(structured, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"users": "none", "total": 1}, schema)


def test_the_schema_of_arguments_takes_references_and_still_refuses_others(two: Two) -> None:
    tool = tools_of(two)["south__sum_ids"]
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    for ids in ([1, 2], "$users", {"$var": "users", "jq": "map(.id)"}):
        jsonschema.validate({"ids": ids}, tool.input_schema)
    for ids in ("users", ["a"], {"var": "users"}, 3):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"ids": ids}, tool.input_schema)
    assert tool.input_schema["properties"]["ids"]["description"] == "whose"
    assert "$name" in (tool.description or "")


def test_a_reference_to_nothing_is_told_to_the_model(two: Two) -> None:
    result = two.held.call("south__sum_ids", {"ids": {"$var": "nobody"}})
    assert result.is_error and "nobody" in text_of(result)


def test_data_that_does_not_fit_is_told_to_the_model(two: Two) -> None:
    two.held.call("north__list_users", {"count": 20_000})
    result = two.held.call("south__sum_ids", {"ids": "$users"})
    assert result.is_error and "map(.id)" in text_of(result)


@pytest.mark.parametrize("two", ["legacy", pytest.param("auto", marks=pytest.mark.slow)], indirect=True)
def test_our_tools_work_on_all_of_the_data(two: Two) -> None:
    two.held.call("north__list_users", {"count": 20_000})
    counted = two.held.call("code_interpreter", {"code": "sum(user['score'] for user in users)"})
    assert not counted.is_error and str(sum(number % 7 for number in range(20_000))) in text_of(counted)


def test_stored_data_is_a_resource(two: Two) -> None:
    result = two.held.call("north__list_users", {"count": 20_000})
    [link] = [block for block in result.content if isinstance(block, types.ResourceLink)]

    async def work(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        return [one.uri for one in listed], await client.read_resource(f"{link.uri}/lines/1-3")

    uris, read = two.held.run(work)
    assert link.uri in uris
    assert read.contents[0].text


def test_progress_reaches_who_asked_for_it(two: Two) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    assert text_of(two.held.call("north__slow", {"seconds": 0.3}, progress_callback=progress)) == "slept"
    assert len(seen) > 2 and seen[-1][1] == 0.3 and str(seen[-1][2]).endswith(" s")


def test_a_call_that_is_cancelled_is_cancelled_at_the_server(two: Two) -> None:
    async def work(client: Client) -> None:
        import anyio

        with anyio.move_on_after(0.5):
            await client.call_tool("south__slow", {"seconds": 30})

    two.held.run(work)
    assert two.place.noted("south slow cancelled")


def test_calls_run_side_by_side(two: Two) -> None:
    async def work(client: Client) -> float:
        import time

        import anyio

        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                server = "north" if number % 2 else "south"
                tasks.start_soon(client.call_tool, f"{server}__slow", {"seconds": 0.5})
        return time.monotonic() - began

    assert two.held.run(work) < 3


def test_a_server_asks_the_clients_model(two: Two) -> None:
    two.heard.asked.clear()
    assert text_of(two.held.call("north__sample")) == "toy: two"
    assert two.heard.asked[0].messages[0].content.text == "What is 1 + 1?"


def test_a_server_asks_the_user(two: Two) -> None:
    two.heard.asked.clear()
    assert text_of(two.held.call("south__elicit")) == 'accept: {"size": "XL"}'
    assert two.heard.asked[0].message == "[server south] Which size?"


def test_a_server_asks_for_roots(two: Two) -> None:
    assert text_of(two.held.call("south__roots")) == "file:///tmp/root"


def test_log_messages_pass(two: Two) -> None:
    two.heard.logs.clear()
    two.held.call("north__log", {"level": "warning"})

    async def work(client: Client) -> bool:
        return await eventually(lambda: bool(two.heard.logs))

    assert two.held.run(work)
    assert two.heard.logs[0].level == "warning" and two.heard.logs[0].data == {"said": "hello"}


def test_resources_are_read_where_they_are(two: Two) -> None:
    async def work(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        read = [(await client.read_resource(f"shop://{name}/about")).contents[0] for name in ("north", "south")]
        by_template = (await client.read_resource("shop://south/user/7")).contents[0]
        templates = (await client.list_resource_templates()).resource_templates
        return listed, read, by_template, templates

    listed, read, by_template, templates = two.held.run(work)
    assert [one.text for one in read] == [f"shop://{name}/about of {name}" for name in ("north", "south")]
    assert by_template.text == "shop://south/user/7 of south"
    uris = [one.uri for one in listed]
    assert {"shop://north/about", "shop://south/about"} <= set(uris) and uris.count("shop://shared") == 1
    assert {one.uri_template for one in templates} >= {"shop://north/user/{id}", "shop://south/user/{id}"}


def test_a_resource_that_nobody_has_is_the_servers_error(two: Two) -> None:
    async def work(client: Client) -> Any:
        return await client.read_resource("shop://nowhere")

    with pytest.raises(MCPError, match="no resource shop://nowhere"):
        two.held.run(work)


def test_prompts_pass_under_their_servers_names(two: Two) -> None:
    async def work(client: Client) -> Any:
        listed = (await client.list_prompts()).prompts
        got = await client.get_prompt("south__greet", {"who": "Ann"})
        reference = types.PromptReference(name="north__greet")
        return listed, got, await client.complete(reference, {"name": "who", "value": "A"})

    listed, got, completed = two.held.run(work)
    assert [prompt.name for prompt in listed] == ["north__greet", "south__greet"]
    assert got.messages[0].content.text == "Greet Ann from south"
    assert completed.completion.values == ["A-north"]


def test_a_template_is_completed_by_its_server(two: Two) -> None:
    async def work(client: Client) -> Any:
        reference = types.ResourceTemplateReference(uri="shop://south/user/{id}")
        return await client.complete(reference, {"name": "id", "value": "7"})

    assert two.held.run(work).completion.values == ["7-south"]


def test_a_limit_that_a_tool_declares_is_its_gate(two: Two) -> None:
    for characters in (1_000, 60_000):
        assert len(text_of(two.held.call("north__text", {"characters": characters}))) == characters
    cut = two.held.call("north__text", {"characters": 60_001})
    assert len(text_of(cut)) < 20_000 and any(isinstance(block, types.ResourceLink) for block in cut.content)
    assert len(text_of(two.held.call("north__prose", {"characters": 60_001}))) == 60_001
    whole = text_of(two.held.call("north__rows", {"count": 5_000}))
    assert len(json.loads(whole)) == 5_000
    assert len(text_of(two.held.call("north__rows", {"count": 20_000}))) < 20_000
    assert tools_of(two)["north__rows"].meta == {"anthropic/maxResultSizeChars": 500_000}


def test_a_list_that_changes_is_told_and_used(two: Two) -> None:
    is_legacy = two.held.client is not None and two.held.client.protocol_version != "2026-07-28"

    async def work(client: Client) -> Any:
        if is_legacy:
            two.heard.told.clear()
            await client.call_tool("north__grow", {"name": "new_one"})
            assert await eventually(lambda: "notifications/tools/list_changed" in two.heard.told)
        else:
            async with client.listen(tools_list_changed=True) as told:
                await client.call_tool("north__grow", {"name": "new_one"})
                async for event in told:
                    assert isinstance(event, ToolsListChanged)
                    break
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, await client.call_tool("new_one", {"name": "x"})

    names, result = two.held.run(work)
    assert "new_one" in names and "north__whoami" in names
    assert text_of(result) == "grown new_one"


def test_a_resource_that_changes_is_told_to_who_asked(two: Two) -> None:
    is_legacy = two.held.client is not None and two.held.client.protocol_version != "2026-07-28"
    uri = "shop://south/about"

    async def work(client: Client) -> None:
        if is_legacy:
            two.heard.told.clear()
            await client.session.subscribe_resource(uri)
            await client.call_tool("south__touch", {"uri": uri})
            assert await eventually(lambda: "notifications/resources/updated" in two.heard.told)
            await client.session.unsubscribe_resource(uri)
        else:
            async with client.listen(resource_subscriptions=[uri]) as told:
                await client.call_tool("south__touch", {"uri": uri})
                async for event in told:
                    assert event == ResourceUpdated(uri)
                    break

    if is_legacy:
        with pytest.warns(Warning):
            two.held.run(work)
    else:
        two.held.run(work)
    assert two.place.noted(f"south subscribed {uri}")


def test_what_is_stored_is_told_as_a_change_of_the_resources(two: Two) -> None:
    if two.held.client is not None and two.held.client.protocol_version == "2026-07-28":
        return  # told to who listens, as above

    async def work(client: Client) -> bool:
        two.heard.told.clear()
        await client.call_tool("south__list_users", {"count": 20_000})
        return await eventually(lambda: "notifications/resources/list_changed" in two.heard.told)

    assert two.held.run(work)


def test_every_result_is_in_the_ledger(two: Two) -> None:
    """Small ones, too, which are answered before they are written down."""
    tool = "south__whoami"
    two.held.call(tool)

    def outputs() -> list[str]:
        with byref.Engine(f"sqlite:///{two.place.folder / 'gateway.db'}", create=False) as engine:
            (session,) = engine.sessions()
            return [entry.tool or "" for entry in engine.session(session.id).ledger() if entry.kind == "output"]

    assert soon(lambda: tool in outputs())


@pytest.mark.slow
def test_what_tools_have_returned_is_their_output_schema_in_later_conversations(place: Place) -> None:
    """Where their servers do not say it. It stays the same within a conversation, and the client's check refuses no result.

    Functions of code show it as well, though a name such as that of `my-shop` is no name in code.
    """
    rows = "my-shop__rows"
    config = place.write({name: place.shop(name) for name in ("my-shop", "south")}, functions=True)
    with Held(lambda: place.client("--config", config)) as held:
        first = Two(held, Heard(), place)
        for count in (3, 2_000):
            assert held.call(rows, {"count": count}).structured_content is None
        held.call("my-shop__whoami")
        assert tools_of(first)[rows].output_schema is None
    with Held(lambda: place.client("--config", config)) as held:
        tools = tools_of(Two(held, Heard(), place))
        known = {"id": {"type": "integer"}, "name": {"type": "string"}, "score": {"type": "integer"}}
        shown = tools[rows].output_schema
        assert shown["anyOf"][0]["properties"]["result"]["items"]["properties"] == known
        assert tools["my-shop__whoami"].output_schema is None
        assert "total" in json.dumps(tools["my-shop__list_users"].output_schema)
        small, big = (held.call(rows, {"count": count}) for count in (2, 20_000))
        assert small.structured_content["result"] == json.loads(text_of(small))
        assert "byref" in big.structured_content and len(text_of(big)) < 10_000
        assert tools_of(Two(held, Heard(), place)) == tools
        assert "-> list[{'id': int" in text_of(held.call("code_interpreter", {"code": "help(my_shop__rows)"}))
