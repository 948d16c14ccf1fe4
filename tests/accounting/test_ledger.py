"""The ledger adds up: what the next request carries, what was used, what was saved, and why."""

from __future__ import annotations

import base64
import copy
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from blake3 import blake3
from material import Opener, page, prose, records
from sqlalchemy import Connection

from byref import ConfigurationError, Engine, Session, Usage
from byref.accounting import ledger
from byref.content import to_block


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_context_is_the_last_usage_and_what_came_since(session: Session) -> None:
    assert session.context_tokens() == 0
    first = session.process(prose(6_000), tool="t")
    assert session.context_tokens() == first.tokens
    for given in (10_000, 20_000, 30_000):
        session.record_usage(Usage(input_tokens=given, output_tokens=5))
    assert session.context_tokens() == 30_005
    second = session.process(page(), tool="t")
    reply = session.call("artifact_read", {"artifact_id": "users", "end_line": 5})
    assert session.context_tokens() == 30_005 + second.tokens + reply.tokens
    session.record_usage(Usage(input_tokens=99_999), context=False)
    assert session.context_tokens() == 30_005 + second.tokens + reply.tokens
    session.record_usage(Usage(input_tokens=40_000), through=second.step)
    assert session.context_tokens() == 40_000 + reply.tokens
    session.on_compaction(5_000)
    assert session.context_tokens() == 5_000


def test_usage_without_input_sets_no_context(session: Session) -> None:
    session.record_usage(Usage(input_tokens=100, output_tokens=1))
    result = session.process("x" * 400, tool="t")
    session.record_usage(Usage(output_tokens=50))
    assert session.context_tokens() == 101 + result.tokens


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_a_request_is_recorded_once(session: Session) -> None:
    for _ in range(3):
        session.record_usage(Usage(input_tokens=100, output_tokens=10), request_id="r" * 2_000)
    assert (session.usage().requests, session.context_tokens()) == (1, 110)
    session.record_usage(Usage(input_tokens=200), request_id="")
    session.record_usage(Usage(input_tokens=200), request_id="")
    assert session.usage().requests == 3
    assert [entry.step for entry in session.ledger()] == [1, 2, 3]


@pytest.mark.postgresql("a unique index with a condition finds the same request again")
def test_other_counts_under_a_known_request_id_are_another_request(session: Session) -> None:
    times = []
    for count in (1_000, 3_000, 9_000):
        for _ in range(2):
            session.record_usage(Usage(count, 10, cache_read_tokens=5), request_id="chatcmpl-7")
        times.append(
            session.call("code_interpreter", {"code": "import time\ntime.time_ns()"}, call_id="call_0").content
        )
    session.record_usage(Usage(1_000, 10, cache_read_tokens=5), request_id="chatcmpl-7")
    total = session.usage()
    assert (total.requests, total.input_tokens, total.output_tokens) == (3, 13_000, 30)
    assert 9_010 < session.context_tokens() < 9_100
    assert len(set(times)) == 3  # each has ended the turn
    assert [entry.call_id for entry in session.ledger() if entry.kind == "usage"] == ["chatcmpl-7"] * 3


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_totals(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    empty = session.usage()
    assert (empty.requests, empty.input_tokens, empty.cost, empty.outputs, empty.tokens_saved) == (0, None, None, 0, 0)
    session.record_usage(Usage(input_tokens=100, output_tokens=10, cache_read_tokens=40))
    session.record_usage(Usage(output_tokens=5, cache_write_tokens=7), context=False)
    results = [session.process(output, tool="t") for output in (page(), "x", records(3_000))]
    session.call("artifact_read", {"artifact_id": "users"})
    total = session.usage()
    assert (total.requests, total.input_tokens, total.output_tokens) == (2, 100, 15)
    assert (total.cache_read_tokens, total.cache_write_tokens) == (40, 7)
    assert (total.outputs, total.tokens) == (3, sum(result.tokens for result in results))
    assert total.original_tokens == sum(result.original_tokens for result in results)
    assert total.tokens_saved == total.original_tokens - total.tokens


def test_cost_is_the_price_of_what_is_known(tenant: str, local: Engine) -> None:
    session = local.session("s", tenant=tenant, model="gpt-4o")
    session.record_usage({"prompt_tokens": 1_000_000, "completion_tokens": 0})
    assert session.ledger()[0].cost == Decimal("2.5")
    session.record_usage({"prompt_tokens": 1_000, "completion_tokens": 1_000, "model": "x"} | {})
    side = local.session("t", tenant=tenant, model="nobody-knows-this-model")
    side.record_usage({"prompt_tokens": 10, "completion_tokens": 1})
    assert side.ledger()[0].cost is None
    assert side.usage().cost is None
    assert session.usage().cost == sum(entry.cost or 0 for entry in session.ledger())


@pytest.mark.parametrize("through", ["1", -1, 1.5, True, 10**30])
def test_a_step_is_a_step(session: Session, through: Any) -> None:
    with pytest.raises(ConfigurationError, match="through="):
        session.record_usage(Usage(input_tokens=1), through=through)
    assert session.ledger() == []


@pytest.mark.parametrize("tokens", ["1", -1, 1.5, True, None, 10**30])
def test_a_compaction_has_a_size(session: Session, tokens: Any) -> None:
    with pytest.raises(ConfigurationError, match="tokens="):
        session.on_compaction(tokens)
    assert session.ledger() == []


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_a_step_to_come_is_the_last_there_is(session: Session) -> None:
    session.record_usage(Usage(input_tokens=10), through=1_000)
    result = session.process("x" * 400, tool="t")
    assert session.context_tokens() == 10 + result.tokens
    session.record_usage(Usage(input_tokens=10), through=0)
    assert session.context_tokens() == 10 + result.tokens


def test_every_output_has_its_numbers(session: Session) -> None:
    result = session.process(page(3_000), tool="list", call_id="c", arguments={"page": 1})
    [entry] = session.ledger()
    assert (entry.kind, entry.tool, entry.call_id, entry.arguments) == ("output", "list", "c", '{"page":1}')
    assert (entry.route, entry.reason, entry.content) == (result.route, result.reason, result.content)
    assert (entry.tokens, entry.original_tokens) == (result.tokens, result.original_tokens)
    assert entry.tokens_saved == result.tokens_saved
    assert entry.detail["value"] == result.original_tokens
    assert (entry.detail["limit"], entry.detail["unit"]) == (7_000, "tokens")
    assert (entry.detail["headroom_limit"], entry.detail["byte_threshold"], entry.detail["window"]) == (
        140_000,
        200_000,
        200_000,
    )
    assert entry.at.utcoffset() is not None


SENTENCES: list[tuple[dict[str, Any], int, Any, str]] = [
    ({"enabled": False}, 0, prose(50_000), r"t (step 2): inline, because the policy is switched off. 12,500 tokens came, 12,500 went to the model."),
    ({}, 0, prose(4_000), "t (step 2): inline, because its 4,000 bytes are below min_threshold_bytes=4,096. 1,000 tokens came, 1,000 went"),
    ({}, 0, prose(8_000), "t (step 2): inline, because its 2,000 tokens are within the per-output threshold of 7,000."),
    ({}, 0, prose(40_000), "t (step 2): wholesale: its 10,000 tokens are more than max_result_tokens=7,000, but the policy lets plaintext through whole. 10,000 tokens came,"),
    ({"plaintext": "truncate"}, 0, prose(40_000), "t (step 2): truncate, because its 10,000 tokens are more than max_result_tokens=7,000. 10,000 tokens came,"),
    ({"max_output_bytes": 5_000, "plaintext": "truncate"}, 0, prose(5_000), "t (step 2): truncate, because its 5,000 bytes reach max_output_bytes=5,000."),
    ({"plaintext": "truncate", "max_result_tokens": None}, 0, prose(1_100_000), "t (step 2): truncate, because its 1,100,000 bytes are above max_threshold_bytes=1,048,576."),
    ({"plaintext": "truncate", "max_result_tokens": None}, 0, prose(250_000), "t (step 2): truncate, because its 250,000 bytes are above the per-output threshold of 200,000."),
    ({"plaintext": "truncate"}, 139_000, prose(8_000), "t (step 2): truncate, because the context would have grown to 141,000 tokens, past the headroom limit of 140,000."),
    ({}, 139_000, prose(8_000), "t (step 2): truncate, because the context would have grown to 141,000 tokens, past the headroom limit of 140,000."),
    ({"max_artifact_bytes": 1_000}, 0, records(2_000), "t (step 2): truncate, because it is larger than max_artifact_bytes allows to be stored."),
    ({"max_result_tokens": 10}, 0, [1] * 30, "t (step 2): inline, because what would have stood for it was no smaller."),
    ({}, 139_999, prose(4_000), "The context held 139,999 of 200,000 tokens."),
]  # fmt: skip


@pytest.mark.parametrize(("knobs", "context", "output", "sentence"), SENTENCES)
def test_the_reason_is_said_in_a_true_sentence(
    counted: Opener, knobs: dict[str, Any], context: int, output: Any, sentence: str
) -> None:
    session = counted(**knobs)
    session.record_usage(Usage(input_tokens=context))
    result = session.process(output, tool="t", call_id="c")
    explained = session.explain("c")
    assert sentence in str(explained)
    assert (explained.route, explained.reason, explained.tokens_saved) == (
        result.route,
        result.reason,
        result.tokens_saved,
    )
    assert str(session.explain(2)) == str(explained)


def test_why_text_is_text_is_said_where_it_looks_like_json(counted: Opener) -> None:
    session = counted()
    for call_id, text in {"prose": prose(40_000), "broken": '{"a": 1, ' * 8_000}.items():
        session.process(text, tool="t", call_id=call_id)
    png = {"type": "image", "data": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "mimeType": "image/png"}
    session.process([{"type": "text", "text": "a caption"}, png], tool="t", call_id="caption")
    assert "plaintext: invalid JSON: " in str(session.explain("broken"))
    assert session.explain("prose").numbers["plaintext"] == "not a JSON object or array"
    assert not any("taken as plaintext" in str(session.explain(call_id)) for call_id in ("prose", "caption"))


def test_the_numbers_of_an_explanation_are_those_that_are_told(counted: Opener) -> None:
    session = counted(envelope_form="references", plaintext="artifact")
    blocks = [{"type": "text", "text": prose(40_000)}, {"type": "text", "text": prose(50_000)}]
    session.process(blocks, tool="t", call_id="c", arguments={"a": 1})
    kept = {"value", "limit", "unit", "context", "calibration", "headroom_limit", "byte_threshold", "window", "blocks"}
    assert set(session.explain("c").numbers) <= {
        *kept,
        "per_output",
        "plaintext",
        "omitted_bytes",
        "mapper",
        "variables",
    }
    assert {"artifacts", "stands", "variables"} & set(session.ledger()[-1].detail)


def test_errors_and_replies_are_explained_too(counted: Opener) -> None:
    session = counted()
    session.process(prose(20_000), tool="t", is_error=True)
    assert "it is an error, which is never put behind a reference; 5,000 tokens, at most 2,500 pass whole" in str(
        session.explain(1)
    )
    session.call("artifact_read", {}, call_id="r")
    assert str(session.explain("r")).startswith(
        "artifact_read (step 2): inline, because replies of the session's own tools are"
    )


@pytest.mark.postgresql("text as identifiers: NUL, lone surrogates, case, length")
@pytest.mark.parametrize("key", ["nope", "", 99, 0, -1, 10**30, -(10**30), "\0", "\ud800"])
def test_what_is_not_there_cannot_be_explained(session: Session, key: Any) -> None:
    session.record_usage(Usage(input_tokens=1), request_id="r")
    with pytest.raises(ConfigurationError, match="no output or reply"):
        session.explain(key)


@pytest.mark.postgresql("order and prefixes are those of the database's collation")
def test_the_newest_of_a_call_id_is_explained(session: Session) -> None:
    session.process("a", tool="t", call_id="call_0")
    session.process("b", tool="t", call_id="call_0")
    assert session.explain("call_0").step == 2


def test_a_long_call_id_is_none_that_begins_like_it(session: Session) -> None:
    one, other = "x" * 512 + "1", "x" * 512 + "2"
    rows = [{"id": n, "name": f"user {n}"} for n in range(4_000)]
    session.process(rows, tool="t", call_id=one)
    gone = session.process(rows[1:], tool="u", call_id=other)
    session.delete_artifact(gone.artifacts[0])
    assert session.explain(one).tool == "t"
    for key in (other, "x" * 512 + "3"):
        with pytest.raises(ConfigurationError, match="no output or reply"):
            session.explain(key)


@pytest.mark.postgresql("order and prefixes are those of the database's collation")
def test_the_first_step_with_a_content_is_found(session: Session, engine: Engine, tenant: str) -> None:
    def first(content: str, of: Session = session) -> int | None:
        digest = bytes(blake3(content.encode()).digest())
        return of._scope.read(lambda connection: ledger.given(connection, of._scope.row, digest).first)

    assert first("rows") is None
    session.record_usage(Usage(input_tokens=1))
    for tool, call_id in (("t", "a"), ("t", "b"), ("u", "c"), ("u", None)):
        session.process("rows", tool=tool, call_id=call_id)
    session.process("other", tool="t")
    session.process(prose(60_000), tool="t")
    assert (first("rows"), first("other"), first(prose(60_000)), first("")) == (2, 6, 7, None)
    assert first("rows", engine.session("another", tenant=tenant)) is None


@pytest.mark.parametrize("key", [None, True, 1.0, b"c", ["c"]])
def test_only_call_ids_and_steps_are_explained(session: Session, key: Any) -> None:
    session.process("x", tool="t", call_id="c")
    assert session.explain("c") == session.explain(1)
    with pytest.raises(ConfigurationError, match="expected a call id or the number of a step"):
        session.explain(key)


def test_a_cost_that_nobody_pays_is_not_added_up(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, model="claude-opus-4-1")
    session.record_usage(Usage(input_tokens=1_000, output_tokens=100))
    paid = session.usage().cost
    assert paid is not None and paid > 0
    for _ in range(3):
        session.record_usage(Usage(input_tokens=10**15, output_tokens=10**15))
    assert [entry.cost for entry in session.ledger()] == [paid, None, None, None]
    assert (session.usage().cost, session.usage().input_tokens) == (paid, 3 * 10**15 + 1_000)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True], "b": {"c": "é\n\u2028"}, "nan": float("nan"), "big": 10**30},
        [],
        [[]],
        {1: "an integer's key", None: 1, False: 2},
        {"decimal": Decimal("1.50"), "no number": Decimal("NaN"), "named": "NaN"},
        {"a generator": iter([1, 2])},
        ["\ud800"],
        {"object": object},
        {"wide": ["x" * 1_000] * 3_000},
        "text stays text",
        b"bytes too",
    ],
)
def test_what_is_kept_of_a_detail_is_the_text_that_its_block_has(value: Any) -> None:
    expected = to_block(copy.deepcopy(value)).text
    assert ledger.dump(value) == expected


def test_a_step_that_waited_for_the_lock_sees_what_its_holder_recorded(postgres_url: str) -> None:
    """The statement that takes the step began before the holder's commit, so that by itself it sees nothing of it."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
        "AND query LIKE 'UPDATE byref_sessions%%'"
    )
    call, content = b"c" * 32, b"o" * 32
    with Engine(postgres_url, create=True) as engine, ThreadPoolExecutor(1) as threads:
        row, database = engine.session("chat")._scope.row, engine.database

        def look(connection: Connection) -> ledger.Turn:
            return ledger.take_step(connection, row, output=(call, content))

        def hold(connection: Connection) -> Any:
            turn = look(connection)
            about: Any = {
                "tool": "t",
                "content": "x",
                "route": "inline",
                "reason": "fits",
                "original_tokens": 1,
                "tokens": 1,
            }
            digests: Any = {"call_digest": call, "content_digest": content}
            ledger.append(
                connection, tenant="default", session_row=row, step=turn.step, kind="output", **about, **digests
            )
            waits = threads.submit(database.write, look)
            with database.engine.connect() as other:
                while not other.exec_driver_sql(waiting).scalar_one():
                    other.rollback()
                    time.sleep(0.01)
            return turn, waits

        turn, waits = database.write(hold)
        assert (turn.step, turn.same) == (1, None)
        assert (waits.result(60).step, waits.result().same) == (2, 1)
        assert database.write(look).same == 1
