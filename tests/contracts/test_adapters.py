"""The contract of adapters: what agents read and do with byref, the same in every framework."""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from adapter_shop import BIG, PNG, list_orders, refund
from away import Away
from crowd import Chat, crowd
from drivers.base import MADE, MODEL, Driver, Talk

from byref import ConfigurationError, Engine, Policy, SessionGone, StorageFailure
from byref.aio import AsyncEngine

DRIVERS = {
    "strands": "Strands",
    "agno": "Agno",
    "langchain": "LangChain",
    "pydantic_ai": "PydanticAI",
    "openai_agents": "OpenAIAgents",
    "adk": "ADK",
    "mcp": "MCP",
}
"""The class of each module of `drivers`; each is imported when its first test runs."""
AGENTS = [name for name in DRIVERS if name != "mcp"]
"""Those in which the host's tools are called by an agent; of MCP clients byref sees no more than outputs."""
MODES = [
    *(f"{name}-{mode}" for name in AGENTS for mode in ("sync", "async", "stream") if (name, mode) != ("adk", "sync")),
    "agno-sync stream",
    "mcp-async",
]
"""Every way in which a driver holds a talk."""
TWICE = {f"{name}-async" for name in AGENTS if f"{name}-sync" in MODES}
"""Those in which a quick run calls tools from code, as it does in the others, but does not hold a talk of a big output."""
CROWDED = {"strands", "langchain", "openai_agents"}
"""Those whose conversations a quick run has at once; of the others it has many, one after another."""

IDS = {"$var": "orders", "jq": "map(.id)"}


async def alist_orders() -> dict[str, Any]:
    """List the orders."""
    return BIG


alist_orders.__name__ = "list_orders"


def of(name: str) -> type[Driver]:
    """The driver of a framework."""
    kind: type[Driver] = getattr(importlib.import_module(f"drivers.{name}"), DRIVERS[name])
    return kind


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:") as made:
        yield made


@pytest.fixture
def make(engine: Engine, request: pytest.FixtureRequest) -> Callable[..., Driver]:
    """Make a driver whose tenants are this test's own."""

    def made(name: str, policy: Policy | None = None, *, on: Engine = engine, code: Sequence[str] = ()) -> Driver:
        return of(name)(on, policy, prefix=f"{request.node.name} ", code_functions=code)

    return made


# What a model reads


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize(
    "name_mode", [pytest.param(mode, marks=pytest.mark.slow if mode in TWICE else []) for mode in MODES]
)
def test_a_big_output_is_a_reference_that_byrefs_tools_and_the_hosts_follow(
    make: Callable[..., Driver], engine: Engine, name_mode: str
) -> None:
    name, _, mode = name_mode.partition("-")
    by = make(name)
    assert mode in by.modes
    code = {"code": "sum(o['total'] for o in orders)"}
    arguments = {"ids": IDS, "reason": "$HOME"}
    refunds = [("refund", arguments)] if name in AGENTS else []
    tools = [list_orders if "sync" in mode.split() else alist_orders, refund]
    talk = Talk(tools, [[("list_orders", {})], [("code_interpreter", code), *refunds]])
    heard = by.ran(talk, mode)
    envelope = heard["call_0_0"]
    assert "orders" in json.loads(envelope.text)["variables"] and len(envelope.text) < 8_000
    assert heard["call_1_0"].text == "73500" and heard.answer == "Done."
    assert heard.offered[0] == {"list_orders", "refund", *(tool["name"] for tool in engine.tools("mcp"))}
    session = by.session(talk)
    assert session.history()[0].original.value == BIG
    kinds = sorted(entry.kind for entry in session.ledger())
    if name not in AGENTS:
        assert kinds == ["output", "reply"]
        return
    assert heard["call_1_1"].text == "3000 refunded: $HOME"
    assert heard.written["call_1_1"] == arguments, "the transcript has what the model wrote"
    assert kinds == ["output", "output", "reply", "resolution", "usage", "usage", "usage"]
    assert session.usage().requests == 3
    if (name, mode) != ("pydantic_ai", "stream"):  # whose scripted model counts for itself
        assert session.context_tokens() == talk.tokens + MADE
    assert {entry.model for entry in session.ledger() if entry.kind == "usage"} == {MODEL}
    if by.knows_calls:
        assert session.explain("call_0_0").route == "variables"
        entry = next(one for one in session.ledger() if one.call_id == "call_1_1" and one.kind == "output")
        assert json.loads(entry.arguments or "") == arguments


CODE = """
import asyncio
found = await asyncio.gather(*[search_orders(r, limit=2_000) for r in ("EU", "US")])
print(sum(o["total"] for orders in found for o in orders))
for work in (lambda: search_orders("nowhere"), lambda: search_orders(5), lambda: refund([1])):
    try:
        print("said", work())
    except Exception as error:
        print(type(error).__name__, " ".join(str(error).split()))
"""


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name_mode", [mode for mode in MODES if not mode.endswith("stream") and mode != "mcp-async"])
def test_code_calls_the_hosts_tools_that_a_pattern_names(make: Callable[..., Driver], name_mode: str) -> None:
    def search_orders(region: str, limit: int = 3) -> list[dict[str, Any]]:
        """Find orders of a region."""
        if region == "nowhere":
            raise ValueError("no such region")
        return [{"region": region, "total": n} for n in range(limit)]

    async def asearch_orders(region: str, limit: int = 3) -> list[dict[str, Any]]:
        """Find orders of a region."""
        return search_orders(region, limit)

    asearch_orders.__name__ = "search_orders"
    name, _, mode = name_mode.partition("-")
    by = make(name, code=["search_*"])
    talk = Talk([search_orders if mode == "sync" else asearch_orders, refund], [[("code_interpreter", {"code": CODE})]])

    async def with_one_thread() -> Any:  # which the program must not hold while it waits for functions
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        return await asyncio.wait_for(by.talk(talk, mode), 20)

    heard = by.ran(talk, mode) if mode == "sync" else asyncio.run(with_one_thread())
    total, own, misfit, unnamed, *_ = heard["call_0_0"].text.splitlines()
    assert total == "3998000"
    assert "no such region" in own if by.tells_in_code else "FunctionError search_orders(): An error occurred" in own
    assert misfit.startswith("ValueError search_orders()") and unnamed.startswith("NameError")
    assert heard.answer == "Done." and set(heard.reads) == {"call_0_0"}
    kinds = [
        (entry.kind, entry.tool) for entry in by.session(talk).ledger() if entry.kind in ("call", "output", "reply")
    ]
    assert kinds == [*[("call", "search_orders")] * 3, ("reply", "code_interpreter")]


@pytest.mark.parametrize("name", AGENTS)
def test_variables_of_outputs_have_no_name_that_is_a_function_in_code(make: Callable[..., Driver], name: str) -> None:
    def orders() -> list[int]:
        """List the numbers of orders."""
        return [1, 2]

    code = "[len(list_orders_result['orders']), len(orders_result), len(list_orders()['orders']), orders()]"
    talk = Talk([list_orders, orders], [[("list_orders", {})], [("code_interpreter", {"code": code})]])
    heard = make(name, code=["*"]).ran(talk)
    assert {"list_orders_result", "orders_result"} <= json.loads(heard["call_0_0"].text)["variables"].keys()
    assert heard["call_1_0"].text.startswith("[3000,3000,3000,[1,2]]")


def list_late() -> list[dict[str, Any]]:
    """List the orders that are late."""
    return BIG["orders"][:120]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", AGENTS)
def test_an_output_that_was_read_whole_goes_by_name_into_another_tool(make: Callable[..., Driver], name: str) -> None:
    taken: list[Any] = []

    def close(orders: list[dict[str, Any]]) -> str:
        """Close orders."""
        taken.append(orders)
        return f"{len(orders)} closed"

    talk = Talk([list_late, close], [[("list_late", {})], [("close", {"orders": "$list_late"})]])
    heard = make(name).ran(talk)
    assert said(heard["call_0_0"].text) == taken[0] == list_late()
    assert heard["call_1_0"].text == "120 closed"
    assert heard.written["call_1_0"] == {"orders": "$list_late"}


SMALL: dict[str, Any] = {
    "numbers": [1, 2],
    "text": '{"not": "parsed"}',
    "record": {"id": 7, "output": {"a": 1.5}},
    "nothing": None,
    "empty": "",
    "dollars": "$HOME costs $5",
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", AGENTS)
def test_what_is_small_is_read_as_the_framework_gives_it(make: Callable[..., Driver], name: str) -> None:
    def giving(name: str) -> Callable[[], Any]:
        def give() -> Any:
            """Give."""
            return SMALL[name]

        give.__name__ = name
        return give

    talk = Talk([giving(one) for one in SMALL], [[(one, {}) for one in SMALL]])
    by = make(name)
    read = [one.raw for one in by.ran(talk).reads.values()]
    talk.bare = True
    assert list(map(said, read)) == [said(one.raw) for one in by.ran(talk).reads.values()]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", AGENTS)
def test_what_is_kept_reads_as_without_byref_and_each_call_has_a_name(make: Callable[..., Driver], name: str) -> None:
    """Small enough to pass, large enough to be stored: the message is the framework's own, to the byte."""

    def read_page(page: int) -> str:
        """Read a page."""
        return f"Page {page}.\t “{'Ünïcödé text, and $names; ' * 100}”\n"

    def pages() -> Talk:
        reads: Any = [[("read_page", {"page": page})] for page in (1, 2)]
        return Talk([read_page], [*reads, [("code_interpreter", {"code": "read_page[:7], read_page_2[:7]"})]])

    by, talk = make(name), pages()
    heard = by.ran(talk)
    bare = pages()
    bare.bare, bare.turns = True, bare.turns[:2]
    plain = by.ran(bare).reads
    assert [heard[call].text for call in plain] == [one.text for one in plain.values()] == [read_page(1), read_page(2)]
    assert [heard[call].raw for call in plain] == [one.raw for one in plain.values()]
    assert json.loads(heard["call_2_0"].text.partition("\n")[0]) == ["Page 1.", "Page 2."]
    session = by.session(talk)
    assert [(one.name, one.value()) for one in session.variables()] == [
        ("read_page", read_page(1)),
        ("read_page_2", read_page(2)),
    ]


def said(raw: Any) -> Any:
    """The value that a text says: some frameworks write Python's words where byref writes JSON."""
    for reading in (json.loads, ast.literal_eval):
        with contextlib.suppress(TypeError, ValueError, SyntaxError):
            return reading(raw)
    return raw


@pytest.mark.parametrize("name", DRIVERS)
def test_an_image_that_a_tool_returns_stays_one_and_what_is_beside_it_is_gated(
    make: Callable[..., Driver], name: str
) -> None:
    by = make(name)

    def look() -> Any:
        return by.picture(PNG, json.dumps(BIG))

    heard = by.ran(Talk([look], [[("look", {})]]))
    assert heard.images == [PNG]
    assert "variables" in json.loads(heard["call_0_0"].text) and len(heard["call_0_0"].text) < 8_000


@pytest.mark.parametrize("name", DRIVERS)
def test_an_image_that_the_model_asks_for_is_shown_and_only_the_policys_tools_are_offered(
    make: Callable[..., Driver], name: str
) -> None:
    by = make(name, Policy(tools=("get_artifact",)))
    talk = Talk([list_orders], [])
    by.session(talk).store_artifact(PNG, name="dot.png", content_type="image/png")
    talk.turns = [[("get_artifact", {"pointer_or_name": "dot.png"})]]
    heard = by.ran(talk)
    assert heard.images == [PNG] and heard.offered[0] == {"list_orders", "get_artifact"}


@pytest.mark.parametrize("name", AGENTS)
def test_half_of_a_surrogate_pair_reaches_no_model(make: Callable[..., Driver], name: str) -> None:
    def odd() -> dict[str, str]:
        return {"text": "a\ud800b", "\udfff": "c"}

    def text() -> str:
        return "a\ud800b"

    code = {"code": "print(chr(0xD800))"}
    heard = make(name).ran(Talk([odd, text], [[("odd", {}), ("text", {})], [("code_interpreter", code)]]))
    for read in heard.reads.values():
        json.dumps([read.raw, read.text], default=str, ensure_ascii=False).encode()


# What goes wrong


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", AGENTS)
def test_a_mistake_of_the_models_answers_its_call_and_the_tool_is_not_run(
    make: Callable[..., Driver], name: str
) -> None:
    ran: list[int] = []

    def count(ids: list[int]) -> str:
        ran.append(len(ids))
        return f"{len(ids)} counted"

    by = make(name)
    mistakes = [("count", {"ids": {"$var": "order"}}), ("count", {"ids": "$orders"})]
    lost = ("artifact_read", {"reference": "art_nothere"})
    misspelt = [("count", {"ids": given}) for given in ("$ordrs", '{"$var": "ordrs", "jq": "map(.id)"}')]
    calls = [*mistakes, lost, ("count", {"ids": [1, 2]}), *misspelt]
    talk = Talk([list_orders, count], [[("list_orders", {})], calls])
    heard = by.ran(talk)
    unknown, misfit, read, plain, *typos = (heard[f"call_1_{n}"] for n in range(len(calls)))
    assert "no artifact or variable 'order'" in unknown.text and "Did you mean 'orders'?" in unknown.text
    assert "ids" in misfit.text and len(misfit.text) < (1_000 if by.knows_schemas else 20_000)
    assert "art_nothere" in read.text
    assert all(one.is_error is not False for one in (unknown, misfit, read, *typos)), (
        "an error, where the framework says so"
    )
    assert not by.knows_schemas or all("Did you mean 'orders'?" in one.text for one in typos)
    assert plain.text == "2 counted" and ran == [2]
    if by.knows_calls:
        wrong = {entry.call_id for entry in by.session(talk).ledger() if entry.is_error}
        assert wrong == {"call_1_0", "call_1_1", "call_1_2", "call_1_4", "call_1_5"}


@pytest.mark.parametrize("name", AGENTS)
def test_a_tools_own_error_is_as_the_framework_has_it_and_is_cut_where_it_is_long(
    make: Callable[..., Driver], name: str
) -> None:
    def fail(times: int) -> str:
        raise ValueError("no such table " * times)

    by = make(name)

    def came(times: int, **options: Any) -> Any:
        try:
            return by.ran(Talk([fail], [[("fail", {"times": times})]], **options))["call_0_0"]
        except ValueError as error:
            return str(error)

    gated, bare = came(1), came(1, bare=True)
    if by.answers_errors:
        assert (bare.strip(), gated.text.strip(), gated.is_error) == (
            "no such table",
            "ValueError: no such table",
            True,
        )
    else:
        assert gated == bare
    long = came(20_000)
    assert isinstance(long, str) or len(long.text) < 20_000


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("is_known", [True, False])
def test_while_the_database_is_away_the_run_goes_on(
    make: Callable[..., Driver], engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, is_known: bool
) -> None:
    away, by = Away(engine, monkeypatch), make(name)
    if is_known:
        by.ran(Talk([list_orders], []))
    away.is_on = True
    calls = [
        ("list_orders", {}),
        ("refund", {"ids": [1], "reason": "r"}),
        ("refund", {"ids": IDS, "reason": "r"}),
        ("code_interpreter", {"code": "1"}),
    ]
    heard = by.ran(Talk([list_orders, refund], [calls]))
    big, plain, referring, own = heard.reads.values()
    assert heard.answer == "Done."
    assert "INCOMPLETE" in big.text and 1_000 < len(big.text) < 20_000
    assert plain.text == "1 refunded: r"
    assert "try again later" in referring.text and referring.is_error is not False
    assert own.is_error is not False and "Traceback" not in own.text


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("is_mid_tool", [True, False])
def test_where_the_policy_says_so_a_database_that_is_away_ends_the_run(
    make: Callable[..., Driver], engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, is_mid_tool: bool
) -> None:
    away, by = Away(engine, monkeypatch), make(name, Policy(on_storage_failure="raise"))

    def leave() -> str:
        away.is_on = True
        return "left"

    away.is_on = not is_mid_tool
    talk = Talk([leave], [[("leave", {})]])
    if not by.ends_runs:
        assert "away" in by.ran(talk)["call_0_0"].text
        return
    with pytest.raises(Exception, match="away") as raised:
        by.ran(talk)
    assert any(isinstance(one, StorageFailure) for one in (raised.value, raised.value.__cause__))


@pytest.mark.parametrize("name", AGENTS)
def test_a_conversation_that_a_tool_ends_is_answered_to_the_end(make: Callable[..., Driver], name: str) -> None:
    by = make(name)

    def leave() -> dict[str, Any]:
        by.session(talk).end()
        return BIG

    talk = Talk([leave, refund], [[("leave", {})], [("refund", {"ids": [1]})]])
    if not by.goes_on_ended:
        with pytest.raises(SessionGone):
            by.ran(talk)
        return
    heard = by.ran(talk)
    assert "INCOMPLETE" in heard["call_0_0"].text and len(heard["call_0_0"].text) < 20_000
    assert heard["call_1_0"].text == "1 refunded" and heard.answer == "Done."


# Whose it is


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in CROWDED else pytest.mark.slow) for name in AGENTS]
)
@pytest.mark.parametrize("many", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_crowd_of_conversations_keeps_apart(make: Callable[..., Driver], name: str, many: int) -> None:
    by = make(name)

    def said(chat: Chat, is_async: bool) -> Talk:
        async def amine() -> dict[str, Any]:
            return await chat.amine()

        def mine() -> dict[str, Any]:
            return chat.mine()

        def echo(data: dict[str, Any]) -> str:
            return chat.echo(data)

        amine.__name__ = "mine"
        return Talk([amine if is_async else mine, echo], chat.calls, chat.user, chat.name, chat.tokens)

    async def talk(chat: Chat) -> None:
        await by.talk(said(chat, is_async=True), "stream" if many > 1 and chat.name[0] == "a" else "async")

    crowd(
        talk, lambda chat: by.talk_here(said(chat, is_async=False)), by.session, many=many, counts=name != "pydantic_ai"
    )


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in CROWDED else []) for name in DRIVERS]
)
def test_names_that_look_alike_are_conversations_of_their_own(
    make: Callable[..., Driver], engine: Engine, name: str
) -> None:
    by = make(name)
    whose = [
        ("ann", "chat"),
        ("ann", "chat."),
        ("ann", "CHAT"),
        ("ann ", "chat"),
        ("ann", "cha\u0301t"),
        ("a", "nn/chat"),
    ]
    whose += [("ann", "a/b"), ("ann", "a%2Fb"), ("ann", "a%"), ("../ann", "chat"), ("ann", "\u200bchat")]

    def talk(user: str, chat: str) -> Talk:
        return Talk([list_orders], [[("artifact_read", {"reference": "orders"})]], user=user, name=chat)

    (first, *others) = whose
    by.ran(Talk([list_orders], [[("list_orders", {})]], *first))
    for user, chat in others:
        assert "no artifact" in by.ran(talk(user, chat))["call_0_0"].text, (user, chat)
    assert '"total"' in by.ran(talk(*first))["call_0_0"].text
    for user, chat in (("ann", "c\0"), ("ann", "c" * 600)):  # such as no session can have
        try:
            text = by.ran(talk(user, chat))["call_0_0"].text
        except Exception as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            text = str(error)
        assert "1 to 512 bytes of UTF-8" in text
    sessions = {(info.tenant, info.id) for info in engine.sessions(None) if info.tenant.startswith(by.prefix)}
    assert len(sessions) == len(whose)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", DRIVERS)
def test_a_conversation_goes_on_in_a_new_process(make: Callable[..., Driver], sqlite_url: str, name: str) -> None:
    with Engine(sqlite_url) as engine:
        make(name, on=engine).ran(Talk([list_orders], [[("list_orders", {})]]))
    refer = ("refund", {"ids": IDS}) if name in AGENTS else ("code_interpreter", {"code": "f'{len(orders)} refunded'"})
    with Engine(sqlite_url) as engine:
        assert "3000 refunded" in make(name, on=engine).ran(Talk([refund], [[refer]]))["call_0_0"].text


@pytest.mark.parametrize("name", AGENTS)
def test_the_same_call_of_the_same_data_is_one_output(make: Callable[..., Driver], name: str) -> None:
    by, talk = make(name), Talk([list_orders], [[("list_orders", {})]])
    first, again = by.ran(talk)["call_0_0"], by.ran(talk)["call_0_0"]
    outputs = [entry for entry in by.session(talk).ledger() if entry.kind == "output"]
    if by.knows_calls:
        assert first.raw == again.raw and len(outputs) == 1
    assert len(by.session(talk).artifacts()) == len(outputs)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", DRIVERS)
def test_nothing_of_byrefs_runs_on_the_event_loop(
    make: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    threads: set[int] = set()
    for method in ("read", "write", "ask"):
        real = getattr(type(make(name).engine.database), method)

        def noting(*args: Any, real: Any = real, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return real(*args, **options)

        monkeypatch.setattr(type(make(name).engine.database), method, noting)
    refers = [[("refund", {"ids": IDS})]] if name in AGENTS else []
    make(name).ran(Talk([list_orders, refund], [[("list_orders", {})], *refers, [("code_interpreter", {"code": "1"})]]))
    assert threads and threading.get_ident() not in threads


# What is not there


MADE_OF_ENGINES: dict[str, Callable[[Any, Any], Any]] = {
    "strands:ByrefPlugin": lambda kind, engine: kind(engine),
    "agno:ByrefTools": lambda kind, engine: kind(engine),
    "langchain:ByrefMiddleware": lambda kind, engine: kind(engine),
    "langchain:ByrefStore": lambda kind, engine: kind(engine),
    "pydantic_ai:Byref": lambda kind, engine: kind(engine),
    "openai_agents:Byref": lambda kind, engine: kind(engine, session="c"),
    "openai_agents:ByrefSession": lambda kind, engine: kind("c", engine),
    "adk:ByrefPlugin": lambda kind, engine: kind(engine),
    "adk:ByrefArtifactService": lambda kind, engine: kind(engine),
    "mcp:server": lambda kind, engine: kind(engine),
}


@pytest.mark.parametrize("which", MADE_OF_ENGINES)
def test_what_is_no_engine_is_refused(which: str) -> None:
    name, _, kind = which.partition(":")
    made = getattr(importlib.import_module(f"byref.adapters.{name}"), kind)
    for wrong in ("sqlite:///secret", Engine, None, AsyncEngine("sqlite:///:memory:")):
        with pytest.raises(ConfigurationError, match=r"must be a byref\.Engine") as refused:
            MADE_OF_ENGINES[which](made, wrong)
        assert "secret" not in str(refused.value)


PACKAGES = {
    "strands": "strands",
    "agno": "agno",
    "langchain": "langchain",
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "adk": "google.adk",
    "mcp": "mcp",
}


@pytest.mark.parametrize("name", DRIVERS)
def test_without_the_framework_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in [one for one in sys.modules if f"{one}.".startswith(f"byref.adapters.{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    real = builtins.__import__

    def without(module: str, *rest: Any) -> Any:
        if f"{module}.".startswith(f"{PACKAGES[name]}."):
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=rf"pip install 'byref\[{name.replace('_', '-')}\]'"):
        importlib.import_module(f"byref.adapters.{name}")


def test_every_driver_says_which_modes_it_has() -> None:
    assert {name: set(of(name).modes) for name in DRIVERS} == {
        name: {mode.partition("-")[2] for mode in MODES if mode.startswith(f"{name}-")} for name in DRIVERS
    }
    assert asyncio.iscoroutinefunction(alist_orders)
