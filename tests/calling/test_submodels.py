"""Code asks a model of the host's: what it gets, what is remembered, and what its calls may spend."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, select, update

from byref import ConfigurationError, Engine, Function, Session, ToolReply, model_function
from byref.calling.submodels import ModelFunction
from byref.db.tables import AnswerRow, CallRow, ProgramRow
from byref_sandbox import Sandbox

reserved = pytest.mark.postgresql("what parallel runs reserve of one budget")


class Model:
    """A model that answers each prompt with its length, and uses 20 tokens more than the prompt has bytes."""

    def __init__(self, added: int = 20) -> None:
        self.asked: list[str] = []
        self.spent = 0
        self.most = 0
        self._added = added
        self._lock = threading.Lock()

    def __call__(self, prompt: str, max_tokens: int) -> tuple[str, dict[str, Any]]:
        with self._lock:
            self.asked.append(prompt)
            used = len(prompt) + self._added
            self.spent += used + max_tokens
        time.sleep(0.001)
        return str(len(prompt)), {"input_tokens": used, "output_tokens": max_tokens, "model": "m-1"}


GATHER = (
    "import asyncio\n"
    "found = await asyncio.gather(*[ask(f'Sentiment? {i}') for i in range(%s)], return_exceptions=True)\n"
    "[sum(f == '12' or f == '13' for f in found), len({str(f) for f in found if isinstance(f, Exception)})]"
)


def run(session: Session, code: str, call_id: str | None = None) -> ToolReply:
    return session.call("code_interpreter", {"code": code}, call_id=call_id)


@pytest.mark.quick_cases(1)
@reserved
def test_answers_are_remembered_within_the_tenant_and_cost_nothing(engine: Engine, tenant: str) -> None:
    model = Model()
    ask = model_function(model, max_tokens=5)
    first = engine.session("one", tenant=tenant, functions=[ask])
    code = "import asyncio\nawait asyncio.gather(ask('good'), ask('bad'), ask('good'))"
    assert run(first, code, "c1").text.startswith('["4","3","4"]')
    assert sorted(model.asked) == ["bad", "good"]
    used = [one for one in first.ledger() if one.kind == "usage"]
    assert [(one.model, one.output_tokens) for one in used] == [("m-1", 5)] * 2
    assert first.usage().requests == 2 and first.usage().input_tokens == 47
    assert first.context_tokens() < 200  # nothing of it is in the conversation's own context
    assert len([one for one in first.ledger() if one.kind == "call"]) == 3
    second = engine.session("two", tenant=tenant, functions=[ask])
    assert run(second, code).text.startswith('["4","3","4"]')
    assert second.usage().requests == 0 and len(model.asked) == 2
    other = engine.session("one", tenant=f"{tenant}-", functions=[ask])
    assert run(other, "ask('bad')").text.startswith("3") and len(model.asked) == 3
    assert engine.delete_session("one", tenant=tenant)
    assert run(second, "ask('bad') + '!'").text.startswith("3!") and len(model.asked) == 4


def test_an_answer_is_known_by_function_prompt_and_schema(engine: Engine, tenant: str) -> None:
    asked: list[tuple[str, Any]] = []

    def call(prompt: str, schema: dict[str, Any] | None = None) -> str:
        asked.append((prompt, schema))
        return "7"

    session = engine.session(
        "chat",
        tenant=tenant,
        functions=[
            model_function(call),
            model_function(call, name="judge"),
            model_function(call, name="new", ttl=None),
        ],
    )
    code = (
        "number, whole = {'type': 'number'}, {'type': 'integer'}\n"
        "[ask('a'), ask('a'), judge('a'), ask('a', schema=number), ask('a', whole), ask(prompt='a', schema=number), new('a'), new('a')]"
    )
    assert run(session, code).text.startswith('["7","7","7",7,7,7,"7","7"]')
    number, whole = {"type": "number"}, {"type": "integer"}
    assert asked == [("a", None), ("a", None), ("a", number), ("a", whole), ("a", None), ("a", None)]


def test_a_remembered_answer_expires_and_is_swept(engine: Engine, tenant: str) -> None:
    model = Model()
    session = engine.session("chat", tenant=tenant, functions=[model_function(model, ttl=timedelta(hours=1))])
    run(session, "ask('a')")
    mine = AnswerRow.tenant == tenant
    past = select(func.min(ProgramRow.began_at)).scalar_subquery()
    engine.database.write(lambda c: c.execute(update(AnswerRow).where(mine).values(expires_at=past)))
    run(session, "ask('a') * 2")
    assert model.asked == ["a", "a"]
    engine.database.write(lambda c: c.execute(update(AnswerRow).where(mine).values(expires_at=past)))
    engine.sweep()
    assert engine.database.read(lambda c: c.execute(select(func.count()).where(mine)).scalar()) == 0


def test_a_damaged_answer_is_asked_for_again(local: Engine, tenant: str) -> None:
    model = Model()
    session = local.session("chat", tenant=tenant, functions=[model_function(model)])
    run(session, "ask('a')")
    mine = AnswerRow.tenant == tenant
    forged = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"  # a tebibyte, it says
    local.database.write(lambda c: c.execute(update(AnswerRow).where(mine).values(data=forged)))
    assert [run(session, f"ask('a') * {times}").is_error for times in (2, 3)] == [False, False]
    assert model.asked == ["a", "a"]


@pytest.mark.quick_cases(1)
@reserved
@pytest.mark.parametrize("added", [pytest.param(0, marks=pytest.mark.slow), 300])
def test_a_budget_is_never_exceeded_by_parallel_calls_of_two_engines(
    engine: Engine, sandbox: Sandbox, tenant: str, added: int
) -> None:
    model = Model(added)
    budget = 30 * (18 + added)

    def opened(one: Engine) -> Session:
        ask = model_function(model, max_tokens=5, budget_tokens=budget)
        return one.session("chat", tenant=tenant, functions=[ask])

    url = engine.database.engine.url.render_as_string(hide_password=False)
    with Engine(url, interpreter=sandbox) as other, ThreadPoolExecutor(4) as threads:
        sessions = [opened(engine), opened(other), opened(engine), opened(other)]
        codes = [GATHER.replace("Sentiment?", f"Sentim{each}nt?") % 25 for each in range(4)]
        replies = list(threads.map(run, sessions, codes))
        assert not any(reply.is_error for reply in replies), replies
        assert model.spent <= budget
        assert model.spent > budget * 0.7  # what is reserved and not used is given back
        mine = (CallRow.tenant == tenant,)
        kept = engine.database.read(lambda c: c.execute(select(func.sum(CallRow.spent_tokens)).where(*mine)).scalar())
        assert kept == model.spent
        used = sessions[0].usage()
        assert (used.input_tokens or 0) + (used.output_tokens or 0) == model.spent
        refused = run(sessions[0], "try:\n    ask('x' * 5_000)\nexcept RuntimeError as e:\n    print(e)")
        assert f"may use {budget:,} tokens in this conversation" in refused.text


def test_an_answer_is_checked_against_its_schema(local: Engine, tenant: str) -> None:
    answers: list[str] = []
    asked: list[str] = []

    async def call(prompt: str) -> tuple[str, dict[str, int]]:
        asked.append(prompt)
        await asyncio.sleep(0)
        return answers.pop(0), {"input_tokens": 3, "output_tokens": 4}

    session = local.session("chat", tenant=tenant, functions=[model_function(call, ttl=None)])
    code = "try:\n    r = ask('Mood?', schema=%s)\nexcept Exception as e:\n    r = f'{type(e).__name__}: {e}'\nr"
    mood = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]}
    for given, schema, words, requests in (
        (['{"mood": "good"}'], mood, '{"mood":"good"}', 1),
        (['```json\n{"mood": "bad"}\n```'], mood, '{"mood":"bad"}', 1),
        (["It is good.", '{"mood": "good"}'], mood, '{"mood":"good"}', 2),
        (['{"mood": "so-so"}', '{"mood": "bad"}'], mood, '{"mood":"bad"}', 2),
        (['{"mood": "so-so"}', "{}"], mood, "ValueError: ask(): the model's answer does not fit the schema", 2),
        ([], {"type": "strange"}, "ValueError: ask(): schema: ", 0),
        ([], {"$ref": "http://elsewhere/x.json"}, "ValueError: ask(): ", 0),
        ([], {"pattern": "(a+)+$" * 4000}, "ValueError: ask(): schema: more than 20,000 characters", 0),
        (["1"], {"type": "integer"}, "1", 1),
        (
            ["[1, 2"] * 2,
            {},
            "ValueError: ask(): the model's answer does not fit the schema, nor did its first: it is no JSON",
            2,
        ),
    ):
        answers[:], asked[:] = given, []
        before = session.usage().requests
        reply = run(session, code % schema)
        assert reply.text.startswith(words), reply.text
        assert len(asked) == requests == session.usage().requests - before
    assert "An earlier answer to this did not fit" in asked[1]
    assert asked[0].startswith("Mood?\n\nAnswer with JSON alone")


@pytest.mark.parametrize(
    "response",
    [
        "yes",
        ("yes", None),
        ("yes", {"prompt_tokens": 9, "completion_tokens": 1}),
        SimpleNamespace(output_text="yes", usage=SimpleNamespace(input_tokens=9, output_tokens=1)),
        {
            "output": [
                {"type": "reasoning", "summary": ["hm"]},
                {"type": "message", "content": [{"type": "output_text", "text": "yes"}]},
            ]
        },
        {
            "choices": [{"message": {"role": "assistant", "content": "yes"}}, {"message": {"content": "no"}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1},
        },
        {
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}],
            "usage": {"input_tokens": 9, "output_tokens": 1},
        },
        {
            "candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": "yes"}]}}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
        },
        {"output": {"message": {"content": [{"text": "yes"}]}}, "usage": {"inputTokens": 9, "outputTokens": 1}},
        {"message": {"role": "assistant", "content": "yes"}, "prompt_eval_count": 9, "eval_count": 1},
    ],
)
def test_a_providers_response_is_read(response: object) -> None:
    function = model_function(lambda prompt: response)
    answered = function.call("really?")
    assert (answered.error, answered.value) == (None, "yes")
    usage = answered.requests[0].usage
    assert usage is None or (usage.input_tokens, usage.output_tokens) == (9, 1)


def test_a_model_that_fails_is_an_exception_in_code_and_spends_nothing(local: Engine, tenant: str) -> None:
    async def late(prompt: str) -> str:
        raise ConnectionError("no model there")

    faults: dict[str, Callable[..., Any]] = {
        "ConnectionError: ask(): no model there": late,
        "TypeError: ask(): the model's function is async": lambda prompt: late(prompt),
        "TypeError: ask(): the model's function returned a int without": lambda prompt: 7,
    }
    for words, call in faults.items():
        session = local.session(words, tenant=tenant, functions=[model_function(call, budget_tokens=2_000)])
        reply = run(session, "try:\n    ask('a')\nexcept Exception as e:\n    print(f'{type(e).__name__}: {e}')")
        assert words in reply.text
    assert session.usage().cost is None


def test_what_a_model_uses_does_not_end_the_turn(local: Engine, tenant: str) -> None:
    model = Model()
    session = local.session("chat", tenant=tenant, functions=[model_function(model)])
    first = run(session, "ask('a')", "c1")
    run(session, "ask('b')", "c2")
    assert run(session, "ask('a')", "c1").step == first.step  # the same reply again
    session.record_usage({"input_tokens": 100, "output_tokens": 5})
    assert run(session, "ask('a')", "c1").step != first.step
    assert model.asked == ["a", "b"]


def test_what_makes_no_sense_is_refused() -> None:
    def call(prompt: str) -> str:
        return prompt

    made = model_function(call, name="judge", max_tokens=7, timeout=5)
    assert isinstance(made, Function) and isinstance(made, ModelFunction) and made.repeatable and made.timeout == 5
    assert made.signature == "judge(prompt: str, schema: dict | None = None) -> Any"
    for options, words in (
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"budget_tokens": True}, "budget_tokens=True"),
        ({"ttl": 5}, "ttl=5"),
        ({"model": ""}, "model=''"),
        ({"added_tokens": -1}, "added_tokens=-1"),
        ({"name": "print"}, "another meaning"),
        ({"returns": {}}, "returns"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            model_function(call, **options)
    with pytest.raises(ConfigurationError, match="something to call"):
        model_function("gpt")  # type: ignore[arg-type]
