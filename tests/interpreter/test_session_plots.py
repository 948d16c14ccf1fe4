"""Figures that code makes: artifacts of the session, and images that the model sees."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from byref import Artifact, Engine, Session
from byref.conversation.result import ToolReply

CODE = "plt.plot([1, 2, 3])\nplt.savefig('out/sales by region.png')\nplt.figure()\nplt.bar(['a'], [1])\nplt.show()"
PLOT = "plt.plot([1])\nplt.show()"
TOOLS = ("code_interpreter", "list_artifacts", "get_artifact")


@pytest.fixture
def session(engine: Engine, tenant: str) -> Session:
    """On each database."""
    return engine.session("plots", tenant=tenant, tools=TOOLS)


@pytest.fixture
def plain(local: Engine, tenant: str) -> Session:
    """In memory."""
    return local.session("plots", tenant=tenant, tools=TOOLS)


def ask(session: Session, code: str, call_id: str | None = None) -> ToolReply:
    return session.call("code_interpreter", {"code": code}, call_id=call_id)


def named(session: Session, name: str) -> Artifact:
    found = session.get_artifact(name)
    assert found is not None
    return found


def images(reply: ToolReply) -> list[bytes]:
    blocks = reply.content if isinstance(reply.content, list) else []
    return [
        base64.b64decode(block["source"]["data"] if "source" in block else block["data"])
        for block in blocks
        if block["type"] == "image"
    ]


def test_the_model_sees_the_figures_and_reads_what_they_are(session: Session) -> None:
    reply = ask(session, CODE)
    assert isinstance(reply.content, list) and not reply.is_error
    first, second = named(session, "sales_by_region"), named(session, "plot_1")
    assert reply.content[0] == {
        "type": "text",
        "text": f"[sales_by_region: image png 640x480, {first.size_bytes:,} bytes]\n[plot_1: image png 640x480, {second.size_bytes:,} bytes]",
    }
    assert images(reply) == [first.value, second.value]
    assert [block["type"] for block in reply.content] == ["text", "image", "image"]


def test_each_provider_gets_its_own_blocks(plain: Session) -> None:
    reply = ask(plain, PLOT)
    [anthropic] = reply.message("anthropic", "c")["content"]
    assert [block["type"] for block in anthropic["content"]] == ["text", "image"]
    assert [block["type"] for block in reply.message("openai-responses", "c")["output"]] == [
        "input_text",
        "input_image",
    ]
    [gemini] = reply.message("gemini", "c")["parts"]
    assert gemini["function_response"]["parts"][0]["inline_data"]["mime_type"] == "image/png"
    assert [block["type"] for block in reply.message("mcp", "c")["content"]] == ["text", "image"]
    assert [block["type"] for block in reply.message("openai", "c")["content"]] == ["text", "text"]


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_a_figure_is_an_artifact_like_others(session: Session) -> None:
    reply = ask(session, PLOT)
    [artifact] = session.artifacts()
    assert (artifact.name, artifact.kind, artifact.content_type, artifact.step) == (
        "plot_1",
        "image",
        "image/png",
        reply.step,
    )
    assert artifact.shape == "image(png, 640x480)" and artifact.is_binary
    assert "plot_1" in session.call("list_artifacts", {}).text
    assert images(session.call("get_artifact", {"name": "plot_1"})) == [artifact.value]


def test_numbers_go_on_and_saved_names_are_the_newest(plain: Session) -> None:
    texts = [ask(plain, PLOT).text.partition(":")[0] for _ in range(3)]
    assert texts == ["[plot_1", "[plot_2", "[plot_3"]
    ask(plain, "plt.plot([1])\nplt.savefig('chart')")
    newer = ask(plain, "plt.plot([2])\nplt.savefig('chart')")
    assert named(plain, "chart").value == images(newer)[0]


def test_the_same_call_is_answered_as_before(session: Session) -> None:
    before = ask(session, CODE, "call_1")
    assert ask(session, CODE, "call_1") == before
    assert len(session.artifacts()) == 2


def test_images_count_as_they_cost(plain: Session, local: Engine, tenant: str) -> None:
    assert 1_600 < ask(plain, PLOT).tokens < 1_650
    cheap = local.session("cheap", tenant=tenant, policy=replace(local.policy, image_tokens=100))
    assert 100 < ask(cheap, PLOT).tokens < 150


@pytest.mark.slow
def test_figures_without_room_are_named_and_can_be_seen_later(local: Engine, tenant: str) -> None:
    session = local.session("full", tenant=tenant, tools=TOOLS, context_window=20_000)
    session.record_usage({"input_tokens": 19_000, "output_tokens": 10})
    reply = ask(session, "for i in range(10):\n    plt.figure()\n    plt.plot([i])")
    shown = len(images(reply))
    assert shown < 10 and [artifact.kind for artifact in session.artifacts()].count("image") == 10
    assert reply.text.count("; not shown: see it with get_artifact") == 10 - shown
    assert "plot_10: image png 640x480" in reply.text


def test_text_and_figures_come_together(plain: Session) -> None:
    reply = ask(plain, "print('drawn')\nplt.plot([1])\n6 * 7")
    lines = reply.text.splitlines()
    assert lines[0].startswith("[plot_1: image png") and lines[1:3] == ["drawn", "42"]


@pytest.mark.slow
def test_too_many_figures_are_told(plain: Session) -> None:
    reply = ask(plain, "for i in range(12):\n    plt.figure()\n    plt.plot([i])")
    assert "[2 more figures were not drawn: put them into one with plt.subplots()]" in reply.text


def test_an_error_keeps_what_was_shown_before(plain: Session) -> None:
    reply = ask(plain, "plt.plot([1])\nplt.show()\n1 / 0")
    assert reply.is_error and len(images(reply)) == 1
    assert "ZeroDivisionError at line 3" in reply.text


@pytest.mark.parametrize("knob", ["max_artifact_bytes", "max_session_bytes", "max_tenant_bytes"])
def test_a_figure_beyond_a_quota_is_not_stored(local: Engine, tenant: str, knob: str) -> None:
    session = local.session("small", tenant=tenant, policy=replace(local.policy, **{knob: 1_000}))
    reply = ask(session, PLOT)
    assert "[plot_1 is not stored: " in reply.text and f"{knob}=1,000" in reply.text
    assert images(reply) == [] and session.artifacts() == []


def test_the_host_runs_code_that_plots(plain: Session) -> None:
    outcome = plain.run(PLOT)
    assert [(figure.name, figure.width, figure.height) for figure in outcome.figures] == [("plot_1", 640, 480)]
    assert named(plain, "plot_1").value == outcome.figures[0].png


def test_sessions_see_their_own_figures_alone(local: Engine, plain: Session, tenant: str) -> None:
    ask(plain, PLOT)
    other = local.session("other", tenant=tenant, tools=TOOLS)
    assert other.artifacts() == []
    assert ask(other, PLOT).text.startswith("[plot_1:")


def test_a_variable_is_plotted(session: Session) -> None:
    rows = [{"month": f"2024-{month:02}-01", "sum": month} for month in range(1, 13)] * 200
    session.process({"sales": rows}, tool="list_sales")
    reply = ask(session, "df('sales').groupby('month')['sum'].sum().plot(kind='bar', title='Sales')")
    assert len(images(reply)) == 1 and not reply.is_error
