"""Whatever bytes come, a host's call ends soon, in a value or a clear failure, and so does a zygote's."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import tracemalloc

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from byref_sandbox import Data, JqOutcome, Limits, Outcome, Sandbox, jsontext, wire
from byref_sandbox.contents import NO_VERSIONS, Contents, encode_contents
from byref_sandbox.host import exchange, reading
from byref_sandbox.host.exchange import Answer
from byref_sandbox.host.reading import jq_outcome_of, outcome_of
from byref_sandbox.host.request import code_request
from byref_sandbox.values import values

LIMITS = Limits(wall_seconds=1, cpu_seconds=1, stdout_bytes=100, result_bytes=100_000)
MOST_BYTES = 24 << 20
MOST_SECONDS = 2.0
QUICK = settings(
    max_examples=settings.default.max_examples,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LONG = settings(QUICK, max_examples=5000)

KINDS = {"NameError", "OutputLimit", "Crash"}
text = st.text(max_size=20) | st.sampled_from(["users", "a" * 600, "\0", "../x", "x\n"])
small = st.binary(max_size=40)
integers = st.integers(-(2**63), 2**64 - 1)
anything = st.recursive(
    st.none() | st.booleans() | integers | st.floats() | text | small,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(text | integers, inner, max_size=4),
    max_leaves=20,
)
json_like = st.one_of(
    small,
    anything.map(lambda value: _json(value)),
    st.integers(1, 3000).map(lambda depth: b"[" * depth + b"]" * depth),
    st.integers(1, 3000).map(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth),
    st.integers(1, 6000).map(lambda digits: b"1" * digits),
    st.sampled_from(
        [b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b'"\xed\xa0\x80"', b"\xff", b"", b" ", b"{}{}", b'{"":{"":1}}']
    ),
)


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return b"null"


frames = st.one_of(
    st.builds(
        wire.Error,
        kind=text,
        message=text,
        line=st.none() | integers.filter(lambda n: n < 2**63),
        hint=st.none() | text,
    ),
    st.builds(wire.Kept, name=text, kind=st.sampled_from(["json", "dataframe"]), data=json_like, was=text),
    st.builds(wire.Lost, name=text, reason=text),
    st.builds(wire.Named, name=text, what=text),
    st.builds(wire.Missed, name=text, reason=text),
    st.builds(wire.Blob, data=st.binary(max_size=50)),
    st.builds(wire.Written, contents=st.binary(max_size=50) | st.just(encode_contents(Contents(NO_VERSIONS, [], {})))),
    st.builds(wire.Output, data=json_like),
    st.builds(
        wire.Done,
        kind=st.sampled_from(["none", "json", "dataframe", "series", "repr"]),
        value=json_like,
        text=st.none() | text,
        stdout=st.text(max_size=300),
        stdout_dropped=integers.filter(lambda n: n < 2**63),
        cpu_ms=st.floats(),
        peak_bytes=integers.filter(lambda n: n < 2**63),
    ),
)
packed = frames.map(wire.pack)
forged = st.lists(
    st.sampled_from(["error", "kept", "named", "written", "blob", "missed", "lost", "output", "done"]) | anything,
    max_size=10,
).map(lambda fields: _framed(msgspec.msgpack.encode(fields)))
garbage = st.binary(max_size=200) | st.binary(max_size=100).map(lambda body: _framed(body))


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """Mostly right, which gets furthest: a frame is forged, a byte is flipped, a part is missing or twice there."""
    data = b"".join(draw(st.lists(packed | forged | garbage, max_size=6)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["flip", "cut", "insert", "repeat", "length"])):
            case "flip":
                data = data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]
            case "cut":
                data = data[:at]
            case "insert":
                data = data[:at] + draw(st.binary(max_size=8)) + data[at:]
            case "repeat":
                data = data[:at] + data[at : at + 50] * draw(st.integers(0, 50)) + data[at + 50 :]
            case "length":
                data = data[:at] + draw(st.integers(0, 2**32 - 1)).to_bytes(4, "big") + data[at + 4 :]
    return data


def told(reply: bytes, news: list[bytes]) -> exchange.Answer:
    """What the host makes of a zygote and a run that answer so."""
    ours, theirs = wire.packet_sockets()
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(writing, True)
    given = {"x": Data("k", lambda: GIVEN.append(1) or b"[1]")}
    request, loads = code_request("code", "x", given, LIMITS)

    def answer() -> None:
        try:
            for datagram in news:
                theirs.send(datagram)
            wire.write_all(writing, reply)
        except OSError:
            pass  # the host has heard enough
        finally:
            os.close(writing)
            theirs.close()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with ours:
            return exchange._Exchange(ours, reading, request, loads, exchange.Vitals()).follow()
    finally:
        os.close(reading)
        thread.join()


GIVEN: list[int] = []
"""Each time that a zygote was given its payload."""
STARTED = msgspec.msgpack.encode(wire.Started(0))
ENDED = msgspec.msgpack.encode(wire.Ended(0, 0, False, 0.1))


def check(reply: bytes, news: list[bytes]) -> None:
    tracemalloc.start()
    began = time.monotonic()
    try:
        answer = told(reply, news)
        outcome, jq = outcome_of(answer, LIMITS), jq_outcome_of(answer, LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < MOST_SECONDS
    assert peak < MOST_BYTES
    assert isinstance(outcome, Outcome)
    assert isinstance(jq, JqOutcome)
    if outcome.error is not None:
        assert outcome.value is None
        assert outcome.kind == "none"
        assert len(outcome.error.kind) <= 200
        assert len(outcome.error.message) <= 4_000
        assert outcome.error.line is None or outcome.error.line > 0
    assert len(outcome.stdout) <= LIMITS.stdout_bytes
    assert 0 <= outcome.stdout_dropped <= reading._MAX_NUMBER + len(reply)  # the run may say any number
    assert all(name.isidentifier() and len(name) <= 512 for name in (*outcome.bound, *outcome.unkept, *outcome.named))
    for data in (*(bound.data for bound in outcome.bound.values()), *jq.outputs):
        jsontext.decode(data)


@pytest.mark.slow
@QUICK
@given(replies())
def test_any_reply_ends_in_a_value_or_a_failure(reply: bytes) -> None:
    check(reply, [STARTED, ENDED])


@pytest.mark.slow
@LONG
@given(replies())
def test_many_more_replies_do(reply: bytes) -> None:
    check(reply, [STARTED, ENDED])


@QUICK
@given(
    replies(), st.lists(small | anything.map(msgspec.msgpack.encode) | st.sampled_from([STARTED, ENDED]), max_size=5)
)
def test_any_news_of_a_zygote_end_too(reply: bytes, news: list[bytes]) -> None:
    check(reply, news)


@pytest.mark.parametrize("wanted", [[1], [-1], [99], [0, 2**64 - 1], [0] * 60_000, [0, 1]])
def test_a_zygote_is_given_what_it_lacks_once(wanted: list[int]) -> None:
    GIVEN.clear()
    news = [msgspec.msgpack.encode(wire.Missing(wanted)), msgspec.msgpack.encode(wire.Missing([0]))]
    assert told(b"", news).fault in ("broken", "gone")
    assert len(GIVEN) == (1 if {*wanted} == {0} else 0)


@QUICK
@given(st.binary(max_size=400), st.integers(1, 7))
def test_any_bytes_are_frames_or_none_however_they_are_cut(data: bytes, size: int) -> None:
    """The same frames, the same refusal."""

    def read(pieces: list[bytes]) -> tuple[list[wire.Frame], str]:
        reader = wire.FrameReader(1000)
        found: list[wire.Frame] = []
        for piece in pieces:
            try:
                found += reader.feed(piece)
            except (wire.Broken, OverflowError) as error:
                return found, type(error).__name__
        return found, ""

    whole = read([data])
    pieces = read([data[start : start + size] for start in range(0, len(data), size)])
    assert pieces[1] == whole[1]
    if not whole[1]:
        assert pieces[0] == whole[0]


@given(frames)
@QUICK
def test_every_frame_comes_back_as_it_was(frame: wire.Frame) -> None:
    (back,) = wire.FrameReader(1 << 20).feed(wire.pack(frame))
    assert msgspec.msgpack.encode(back) == msgspec.msgpack.encode(frame)


def order(sandbox: Sandbox, session: str | None, body: bytes, given: list[int]) -> str:
    """Gives a zygote an order with this for a request, and says how it ends."""
    with sandbox._zygote(session) as (root, warm):
        orders = root.orders if warm is None else warm.orders
        ours, theirs = wire.packet_sockets()
        reading, writing = os.pipe()
        descriptor = wire.memory_file([body])
        with ours:
            ours.settimeout(5)
            wire.send(orders, wire.Run(1.0, given), (theirs.fileno(), writing, descriptor))
            theirs.close()
            os.close(writing)
            os.close(descriptor)
            os.close(reading)
            try:
                while data := ours.recv(4096):
                    news = msgspec.msgpack.decode(data, type=wire.News)
                    if isinstance(news, wire.Refused | wire.Ended):
                        return type(news).__name__
                    if isinstance(news, wire.Missing):
                        return "Missing"
            except ConnectionResetError:
                return "gone"
            return "gone"


@pytest.mark.parametrize("session", [pytest.param(None, marks=pytest.mark.slow), "s"])
def test_any_request_ends_and_the_next_is_served(breakable: Sandbox, session: str | None) -> None:
    """The host is no enemy of its zygote; its mistakes still end soon, and harm nobody else."""
    honest = msgspec.to_builtins(code_request("code", "1 + 1", {"x": 1}, LIMITS)[0])
    assert breakable.run("1 + 1", session=session, limits=LIMITS).value == 2
    root = breakable._root.pid

    @settings(QUICK, max_examples=settings.default.max_examples * 4 // 5)
    @given(
        st.binary(max_size=100)
        | anything.map(msgspec.msgpack.encode)
        | st.tuples(st.sampled_from(sorted(honest)), anything).map(
            lambda change: msgspec.msgpack.encode(honest | dict([change]))
        ),
        st.lists(st.integers(0, 3), max_size=2),
    )
    def garbled(body: bytes, given: list[int]) -> None:
        assert order(breakable, session, body, given) in {"Refused", "Ended", "Missing", "gone"}
        if session is not None:  # the zygote of one session may be gone: it is forgotten as after a crash
            breakable.run("1", session=session, limits=LIMITS)
        assert breakable.run("1 + 1", session=session, limits=LIMITS).value == 2

    garbled()
    assert breakable._root.pid == root


@pytest.mark.slow
@pytest.mark.parametrize(
    "datagram", [b"x" * 1000, pytest.param(msgspec.msgpack.encode({"type": "run"}), marks=pytest.mark.slow)]
)
def test_an_order_that_is_none_ends_a_zygote_and_not_the_sandbox(breakable: Sandbox, datagram: bytes) -> None:
    root = breakable.start()._root
    root.orders.send(datagram)
    deadline = time.monotonic() + 30
    while root.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not root.alive
    assert breakable.run("1 + 1").value == 2


@pytest.mark.parametrize(("told", "ended", "charged"), [(-5.0, None, 0.0), (7.0, None, 7.0), (-5.0, 1.5, 1500.0)])
def test_a_run_is_charged_what_its_zygote_says(told: float, ended: float | None, charged: float) -> None:
    answer = Answer(
        done=wire.Done(cpu_ms=told), ended=None if ended is None else wire.Ended(0, 0, False, ended), started=True
    )
    assert outcome_of(answer, Limits()).usage.cpu_ms == charged
    assert jq_outcome_of(answer, Limits()).usage.cpu_ms == charged


def test_an_object_that_lies_about_its_length_is_no_data() -> None:
    forged = bytearray(b"abc")
    size = ctypes.c_ssize_t.from_address(id(forged) + 2 * ctypes.sizeof(ctypes.c_ssize_t))
    size.value = 5 << 30
    try:
        for value in (forged, [forged]):
            with pytest.raises(values.NotData):
                values.keep(value)
    finally:
        size.value = 3
