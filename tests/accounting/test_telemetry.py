"""What byref sends to OpenTelemetry: spans, metrics, and no content unless it is asked for."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from byref import AsyncEngine, Engine, Policy, StorageFailure, Telemetry, Usage
from byref_sandbox import Sandbox

SECRET = "sesame-7431"
ROWS = [{"id": n, "word": SECRET, "amount": n % 7} for n in range(3000)]


@dataclass
class Collected:
    """What the exporters of one test got."""

    tracers: TracerProvider
    meters: MeterProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def telemetry(self, **options: bool) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans() if span.name == name]
        return found

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        found = [
            (dict(point.attributes or {}), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]
        assert found, metric
        return found

    def everything(self) -> str:
        data = self.reader.get_metrics_data()
        return "".join(span.to_json() for span in self.spans()) + (data.to_json() if data else "")


@pytest.fixture
def collected() -> Iterator[Collected]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    yield Collected(tracers, meters, exporter, reader)
    tracers.shutdown()
    meters.shutdown()


def test_an_output_is_a_span_with_its_route_and_its_numbers(collected: Collected) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry()) as engine:
        session = engine.session("chat-1", tenant="acme")
        result = session.process({"rows": ROWS}, tool="fetch_rows", call_id="call_9")
    span = collected.span("byref.process")
    attributes = dict(span.attributes or {})
    assert attributes == {
        "gen_ai.conversation.id": "chat-1",
        "byref.tenant": "acme",
        "gen_ai.tool.name": "fetch_rows",
        "gen_ai.tool.call.id": "call_9",
        "byref.route": result.route,
        "byref.reason": result.reason,
        "byref.step": result.step,
        "byref.tokens": result.tokens,
        "byref.original_tokens": result.original_tokens,
        "byref.artifacts": tuple(artifact.id for artifact in result.artifacts),
    }
    assert span.status.status_code is StatusCode.UNSET
    kind = {"gen_ai.tool.name": "fetch_rows", "byref.route": "variables"}
    for metric, number in (
        ("byref.output.tokens", result.tokens),
        ("byref.output.original_tokens", result.original_tokens),
    ):
        ((found, point),) = collected.points(metric)
        assert (found, point.value) == (kind, number)
    ((found, point),) = collected.points("byref.process.duration")
    assert found == kind and point.count == 1 and 0 < point.sum < 60


def test_an_output_given_again_is_counted_once(collected: Collected) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry()) as engine:
        session = engine.session("chat-1")
        for output in ({"rows": ROWS}, "short"):
            results = [session.process(output, tool="t", call_id="c") for _ in range(3)]
            assert [result.replayed for result in results] == [False, True, True]
        total = session.usage()
    for metric, number in (
        ("byref.output.tokens", total.tokens),
        ("byref.output.original_tokens", total.original_tokens),
    ):
        assert sum(point.value for _, point in collected.points(metric)) == number
    assert sum(point.count for _, point in collected.points("byref.process.duration")) == 6


def test_names_of_exceptions_that_code_makes_up_are_not_told(collected: Collected, sandbox: Sandbox) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry(), interpreter=sandbox) as engine:
        session = engine.session("chat-1")
        for code in (f"class {SECRET[:6]}(Exception): pass\nraise sesame", "1 / 0", "__import__('os').fork()"):
            session.run(code)
    assert SECRET[:6] not in collected.everything()
    errors = [(span.attributes or {})["error.type"] for span in collected.spans()]
    assert errors == ["_OTHER", "ZeroDivisionError", "NotAllowed"]


def test_a_run_is_a_span_within_its_call(collected: Collected, sandbox: Sandbox) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry(), interpreter=sandbox) as engine:
        session = engine.session("chat-1")
        session.process({"rows": ROWS}, tool="fetch_rows")
        reply = session.call("code_interpreter", {"code": "len(fetch_rows['rows'])"}, call_id="c2")
        assert "3000" in reply.text
        session.run("1 +")
    call, (good, bad) = (
        collected.span("execute_tool code_interpreter"),
        [span for span in collected.spans() if span.name == "byref.run"],
    )
    assert good.parent is not None and good.parent.span_id == call.context.span_id
    told = dict(good.attributes or {})
    assert told["byref.run.language"] == "python"
    assert told["byref.run.wall_ms"] > 0 and told["byref.run.peak_bytes"] > 0
    assert bad.parent is None and bad.status.status_code is StatusCode.ERROR
    assert (bad.attributes or {})["error.type"] == "SyntaxError"
    assert (call.attributes or {})["gen_ai.operation.name"] == "execute_tool"
    ((kind, point),) = collected.points("gen_ai.execute_tool.duration")
    assert kind == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "code_interpreter",
        "gen_ai.tool.type": "function",
    }
    assert point.count == 1


def test_tokens_of_requests_are_counted_by_provider_and_model(collected: Collected) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry()) as engine:
        session = engine.session("chat-1", model="claude-sonnet-5")
        used = Usage(input_tokens=1200, output_tokens=80, cache_read_tokens=1000)
        session.record_usage(used, request_id="r1")
        session.record_usage(used, request_id="r1")
        session.record_usage(Usage(input_tokens=5, model="nobody-knows"))
    numbers = {
        (attributes["gen_ai.provider.name"], metric): point.value
        for metric in ("input_tokens", "output_tokens", "cache_read.input_tokens")
        for attributes, point in collected.points(f"gen_ai.client.inference.usage.{metric}")
    }
    assert numbers == {
        ("anthropic", "input_tokens"): 1200,
        ("anthropic", "output_tokens"): 80,
        ("anthropic", "cache_read.input_tokens"): 1000,
        ("unknown", "input_tokens"): 5,
    }


def test_token_metrics_can_be_left_to_others(collected: Collected) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry(token_metrics=False)) as engine:
        engine.session("chat-1").record_usage(Usage(input_tokens=1200))
    assert "gen_ai.client" not in collected.everything()


def broken() -> Iterator[str]:
    yield "some text"
    raise OSError(f"the link with {SECRET} broke")


@pytest.mark.parametrize("captures", [False, True])
def test_content_is_told_only_where_it_is_asked_for(collected: Collected, sandbox: Sandbox, captures: bool) -> None:
    telemetry = collected.telemetry(capture_content=captures)
    with Engine("sqlite:///:memory:", telemetry=telemetry, interpreter=sandbox) as engine:
        session = engine.session("chat-1")
        session.process(f"the word is {SECRET}", tool="ask", arguments={"question": SECRET})
        session.process({"rows": ROWS}, tool="fetch_rows")
        session.process(f"it failed: {SECRET}", tool="ask", is_error=True)
        session.call("code_interpreter", {"code": f"raise ValueError('{SECRET}')"})
        session.call("artifact_grep", {"artifact_id": "fetch_rows", "pattern": SECRET})
        session.call(SECRET, {"a": SECRET})
        with pytest.raises(OSError, match=SECRET):
            session.process(broken(), tool="stream")
    assert (SECRET in collected.everything()) is captures
    if captures:
        assert collected.spans()[-1].attributes["error.type"] == "OSError"
        first = collected.spans()[0].attributes or {}
        assert json.loads(str(first["gen_ai.tool.call.arguments"])) == {"question": SECRET}
        assert first["gen_ai.tool.call.result"] == f"the word is {SECRET}"
        assert (
            max(len(str(value)) for span in collected.spans() for value in (span.attributes or {}).values()) <= 16_384
        )


def test_an_unknown_tool_is_no_new_series(collected: Collected) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry()) as engine:
        session = engine.session("chat-1")
        for n in range(5):
            assert session.call(f"made_up_{n}", {}).is_error
    assert {span.name for span in collected.spans()} == {"execute_tool _OTHER"}
    ((kind, point),) = collected.points("gen_ai.execute_tool.duration")
    assert point.count == 5 and kind["error.type"] == "tool_error"


def test_hostile_names_are_exported(collected: Collected) -> None:
    with Engine("sqlite:///:memory:", telemetry=collected.telemetry(capture_content=True)) as engine:
        session = engine.session("c\udc80hat".replace("\udc80", "é"))
        session.process("x\ud800", tool="t\ud800" * 5000, call_id="i\udfff" * 3000, arguments={"k": "\ud800"})
    collected.everything().encode()


def test_a_failure_is_told_by_its_type(collected: Collected, tmp_path: Path) -> None:
    policy = Policy(on_storage_failure="raise")
    with Engine(f"sqlite:///{tmp_path}/b.db", telemetry=collected.telemetry(), policy=policy) as engine:
        session = engine.session("chat-1")
        engine.delete_session("chat-1")
        with engine.database.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE byref_ledger")
        with pytest.raises(StorageFailure):
            engine.session("chat-2").process("x", tool="t")
    span = collected.span("byref.process")
    assert (span.attributes or {})["error.type"] == "StorageFailure"
    assert span.status.status_code is StatusCode.ERROR and not span.events
    assert session.id == "chat-1"


def test_spans_have_their_parents_across_threads(collected: Collected) -> None:
    async def main() -> None:
        tracer = trace.get_tracer("host", tracer_provider=collected.tracers)
        async with AsyncEngine("sqlite:///:memory:", telemetry=collected.telemetry()) as engine:
            session = await engine.session("chat-1")
            with tracer.start_as_current_span("turn"):
                await session.process("x", tool="t")

    asyncio.run(main())
    span, turn = collected.span("byref.process"), collected.span("turn")
    assert span.parent is not None and span.parent.span_id == turn.context.span_id


@pytest.mark.slow
def test_without_opentelemetry_everything_works() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
import byref
with byref.Engine("sqlite:///:memory:", jail="language-only") as engine:
    session = engine.session("chat-1")
    print(session.process("x", tool="t").content)
    session.record_usage(byref.Usage(input_tokens=3))
try:
    byref.Telemetry(tracer_provider=object())
except byref.ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["x", "byref.Telemetry needs opentelemetry-api: pip install 'byref[otel]'"], done
