"""Code calls tools of several servers; what is not read-only asks the user; a short list of tools is searched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from gateway_kit import Held, Place, text_of
from mcp.client import Client

from byref.adapters.common.functions import FunctionError
from byref.gateway import search
from byref.gateway.code import _data
from byref.gateway.conversation import OTHERS_SECONDS

JOIN = (
    "import asyncio\n"
    "north, south = await asyncio.gather(north__list_users(count=20_000), south__list_users(count=3))\n"
    "scores = {user['id']: user['score'] for user in north['users']}\n"
    "[len(scores), sum(scores[user['id']] for user in south['users'])]"
)


class Asked:
    """A client that answers what it is asked in turn."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.messages = [*answers], list[str]()

    async def elicitation(self, context: Any, params: Any) -> types.ElicitResult:
        self.messages.append(params.message)
        return types.ElicitResult(action=self.answers.pop(0), content={})


class Shops:
    def __init__(self, held: Held, asked: Asked) -> None:
        self.held, self.asked = held, asked

    def code(self, text: str) -> str:
        return text_of(self.held.call("code_interpreter", {"code": text}))

    def tools(self) -> list[types.Tool]:
        async def work(client: Client) -> Any:
            return (await client.list_tools()).tools

        found: list[types.Tool] = self.held.run(work)
        return found


@pytest.fixture(scope="module", params=["legacy", pytest.param("auto", marks=pytest.mark.slow)])
def shops(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    place, asked = Place(tmp_path_factory.mktemp("shops")), Asked()
    config = place.write({name: place.shop(name) for name in ("north", "south")}, tools_tokens=900)
    more = {"elicitation_callback": asked.elicitation}
    with Held(lambda: place.client("--config", config, mode=request.param, **more)) as held:
        yield Shops(held, asked)


def test_one_program_joins_tools_of_several_servers(shops: Shops) -> None:
    assert shops.code(JOIN).startswith("[20000,3]")
    assert shops.code("len(north__list_users(5)['users'])").startswith("5")


def test_what_is_not_read_only_asks_the_user_with_its_arguments(shops: Shops) -> None:
    shops.asked.answers = ["accept", "decline", "cancel"]
    code = "for ids in ([1, 2], [3], [4]):\n    try:\n        print(south__sum_ids(ids))\n    except PermissionError as error:\n        print(error)"
    printed = shops.code(code).splitlines()[:3]
    assert printed == ["2 ids, 3", *["south__sum_ids(): the user did not agree"] * 2]
    assert len(shops.asked.messages) == 3
    first = shops.asked.messages[0]
    assert first.startswith("May code that the model wrote call south__sum_ids of [server south] with this?\n> {")
    assert json.loads(first.partition("\n")[2].replace("> ", "")) == {"ids": [1, 2]}


def test_a_servers_error_and_its_text_are_those_of_a_function(shops: Shops) -> None:
    shops.asked.answers = ["accept"] * 3
    code = (
        "for work in (lambda: north__refuse(), lambda: north__fail(18), lambda: print(north__whoami())):\n"
        "    try:\n        work()\n    except Exception as error:\n        print(type(error).__name__, error)"
    )
    printed = [line.rstrip() for line in shops.code(code).splitlines()[:3]]
    assert printed == [
        "FunctionError north__refuse(): not today",
        "FunctionError north__fail(): it broke it broke",
        "north",
    ]


def said(text: str, structured: Any, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured, **more}


@pytest.mark.parametrize(
    ("raw", "is_declared", "expected"),
    [
        (said("It is mild.", {"degrees": 21.5}), True, {"degrees": 21.5}),
        (said("It is mild.", {"degrees": 21.5}), False, {"degrees": 21.5}),
        (said("5", {"result": 5}, isError=False), True, 5),
        (said("[1]", {"result": "[1]"}), True, "[1]"),
        (said("5", {"result": 5}, isError="false"), True, 5),
        (said("[1]", None), True, [1]),
        ({"content": "a string"}, False, "a string"),
        ({"content": "[1, 2]"}, False, [1, 2]),
        ({"content": [None, 5], "isError": None}, False, ["null", "5"]),
        ({"content": [], "structuredContent": [1, 2]}, False, [1, 2]),
    ],
)
def test_code_gets_the_structured_content_of_a_result_or_the_content_as_clients_do(
    raw: Any, is_declared: bool, expected: object
) -> None:
    assert _data(raw, is_declared=is_declared, is_wrapped=is_declared) == expected


@pytest.mark.parametrize("flag", [True, "true", 1])
def test_an_error_with_structured_content_is_an_exception_in_code(flag: object) -> None:
    with pytest.raises(FunctionError, match="no such order"):
        _data(said("no such order", {"code": 404}, isError=flag), is_declared=True, is_wrapped=False)


def test_the_short_list_stays_and_a_search_finds_the_others_as_functions_of_code(shops: Shops) -> None:
    before = shops.tools()
    names = [tool.name for tool in before]
    assert "search_tools" in names and "code_interpreter" in names and "north__list_users" not in names
    assert 3 < len(names) < 30
    text = text_of(shops.held.call("search_tools", {"query": "listing of users by count"}))
    assert "north__list_users(count: int) -> {'users': list" in text and "[server north] list_users of north" in text
    assert "No tool has any" in text_of(shops.held.call("search_tools", {"query": "zebra"}))
    shops.asked.answers = ["accept"]
    assert "added" in shops.code("print('added', north__grow('grown_tool'))")
    assert shops.tools() == before
    assert "grown_tool(" in text_of(shops.held.call("search_tools", {"query": "grown"}))
    assert "grown_tool(" in shops.code("print(functions('grown'))")


def test_variables_of_outputs_have_no_name_that_is_a_function_in_code(place: Place) -> None:
    config = place.write({"north": place.shop("north")}, functions=True)
    with Held(lambda: place.client("--config", config)) as held:
        shown = json.loads(text_of(held.call("list_users", {"count": 20_000})))
        assert "list_users_result" in shown["variables"]
        code = "[len(list_users_result['users']), len(list_users(3)['users'])]"
        assert Shops(held, Asked()).code(code).startswith("[20000,3]")


@pytest.mark.slow
def test_a_client_that_cannot_ask_gets_a_refusal_in_words(place: Place) -> None:
    allow = {"tools": ["north__*", "list_users"], "allow": ["north__who*"]}
    config = place.write({"north": place.shop("north")}, functions=allow)
    with Held(lambda: place.client("--config", config)) as held:
        shops = Shops(held, Asked())
        [ours] = [tool for tool in shops.tools() if tool.name == "code_interpreter"]
        assert "whoami()  # [server north] whoami of north" in (ours.description or "")
        assert "sum_ids(ids: list[int])  # [server north] Asks the user first." in (ours.description or "")
        assert ours.annotations is not None and ours.annotations.read_only_hint is False
        assert shops.code("whoami()").startswith("north")
        assert "this client cannot ask: call the tool itself" in shops.code("list_users(1)")


@pytest.mark.slow
def test_a_list_that_stays_waits_for_a_server_that_starts_slowly(place: Place) -> None:
    south = place.shop("south")
    south["args"] = ["-c", f'sleep {OTHERS_SECONDS + 2}; exec "$0" "$@"', south["command"], *south["args"]]
    servers = {"north": place.shop("north"), "south": {**south, "command": "sh"}}
    with Held(lambda: place.client("--config", place.write(servers, tools_tokens=100_000))) as held:
        tools = {tool.name: tool for tool in Shops(held, Asked()).tools()}
        assert "south__list_users" in tools and "south__list_users(" in (tools["code_interpreter"].description or "")


def tool(name: str, description: str = "", **properties: str) -> dict[str, Any]:
    schema = {"properties": {key: {"description": text} for key, text in properties.items()}}
    return {"name": name, "description": description, "inputSchema": schema}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("list orders", ["listOrders", "get_order", "list_users"]),
        ("LIST_USERS", ["list_users", "listOrders"]),
        ("e-mail address of a customer", ["send_mail"]),
        ("companies", ["find_company"]),
        ("zebra", []),
        ("", []),
    ],
)
def test_tools_are_found_by_their_words(query: str, expected: list[str]) -> None:
    tools = [
        tool("list_users", "All users."),
        tool("listOrders", "Orders, the newest first.", region="of the customer"),
        tool("get_order", "One order by its id."),
        tool("send_mail", "Write to somebody.", to="the address of a customer", text="what the e-mail says"),
        tool("find_company", "A firm."),
        {"name": "odd", "inputSchema": {"properties": 5}, "description": None},
    ]
    found = [tools[at]["name"] for at in search.found(query, tools, 3)]
    assert found[: len(expected)] == expected


@pytest.mark.slow
def test_code_waits_for_a_server_that_starts_slowly(tmp_path: Path) -> None:
    place = Place(tmp_path)
    south = place.shop("south")
    south["args"] = ["-c", f'sleep {OTHERS_SECONDS + 2}; exec "$0" "$@"', south["command"], *south["args"]]
    config = place.write({"north": place.shop("north"), "south": {**south, "command": "sh"}}, functions=True)
    with Held(lambda: place.client("--config", config)) as held:
        shops = Shops(held, Asked())
        assert not any(tool.name.startswith("south") for tool in shops.tools())
        assert shops.code(JOIN).startswith("[20000,3]")
        assert any(tool.name.startswith("south") for tool in shops.tools())
