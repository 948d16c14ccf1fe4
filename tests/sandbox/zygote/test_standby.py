"""A fork stands by for each zygote's next run: it finds what a fork made for that run would find, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import stat
import statistics
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from process_table import alive, children, descendants, everyone, root_pid, settled, standbys, until

from byref_sandbox import Data, Limits, Sandbox, wire
from byref_sandbox.host import launch
from byref_sandbox.testing import run_in_jail
from byref_sandbox.zygote import standby

LIMITS = Limits(wall_seconds=5, cpu_seconds=5)
ROWS = Data("rows", lambda: b'[{"a":1},{"a":2}]')


def zygote_of(sandbox: Sandbox, session: str | None) -> int:
    """The process that the session's next run is forked from."""
    if session is None:
        return root_pid(sandbox)
    before = children(root_pid(sandbox))
    assert sandbox.run("1", session=session).value == 1
    assert until(lambda: len(children(root_pid(sandbox)) - before) == 1)  # others may end meanwhile
    (made,) = children(root_pid(sandbox)) - before
    return made


def standby_of(zygote: int) -> int:
    assert until(lambda: len(standbys(zygote)) == 1)
    time.sleep(0.05)  # it may be about to be replaced
    assert until(lambda: len(standbys(zygote)) == 1)
    (found,) = standbys(zygote)
    return found


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("session", [None, "next"])
def test_the_next_run_is_the_one_that_stands_by(breakable: Sandbox, session: str | None) -> None:
    zygote = zygote_of(breakable, session)
    for _ in range(3):
        waiting = standby_of(zygote)
        ran = run_in_jail("import os\nresult = os.getpid()", sandbox=breakable, session=session)
        assert ran.value == waiting
        assert until(lambda waiting=waiting: not alive({waiting}))  # type: ignore[misc]


@pytest.mark.slow
def test_it_has_what_was_bound_last(breakable: Sandbox) -> None:
    zygote = zygote_of(breakable, "bound")
    standby_of(zygote)
    for number in range(3):
        data = {"x": Data(f"bound {number}", lambda number=number: b"[%d]" % number)}  # type: ignore[misc]
        assert breakable.run("x", data, session="bound").value == [number]
        standby_of(zygote)
        assert breakable.run("x", data, session="bound").value == [number]
        standby_of(zygote)
        assert breakable.run("df('x').shape", data, session="bound").value == [1, 1]


@pytest.mark.slow
def test_an_idle_session_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is another one made, until the next run: that finds all as it was."""
    setting = "from {package}.zygote import standby\nstandby.IDLE_SECONDS = 0.5\n{entry}("
    monkeypatch.setattr(launch, "_START", launch._START.replace("{entry}(", setting))
    with Sandbox(LIMITS) as sandbox:
        zygote = zygote_of(sandbox, "idle")
        for _ in range(2):
            standby_of(zygote)
            assert until(lambda: not standbys(zygote))
            time.sleep(0.3)
            assert not standbys(zygote)
            assert sandbox.run("df('x').shape", {"x": ROWS}, session="idle").value == [2, 1]
        standby_of(zygote)
        assert sandbox.run("import time\ntime.sleep(0.7)\n1", session="idle").value == 1
        standby_of(zygote)  # for it has just heard of a run


def test_it_is_under_the_same_jail(breakable: Sandbox) -> None:
    """Descriptors, limits and rights of a run that stood by, beside those of one forked while none did."""
    look = """
import fcntl, os, resource
def is_open(number):
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        return False
    return True
limits = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_AS"]
result = {
    "open": sum(map(is_open, range(256))),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    "user": [os.getuid(), os.getgid(), os.getppid()],
    "bounded": resource.getrlimit(resource.RLIMIT_AS)[0] < 4 << 30,
}
"""
    zygote = zygote_of(breakable, "jailed")
    standby_of(zygote)
    ahead = run_in_jail(look, sandbox=breakable, session="jailed")
    forked = run_in_jail(look, sandbox=breakable, session="forked")
    assert ahead.error is None
    assert ahead.value["open"] == forked.value["open"] == 1
    assert ahead.value["limits"] == forked.value["limits"]
    assert ahead.value["user"][2] == zygote
    assert ahead.value["user"][:2] == forked.value["user"][:2]
    assert ahead.value["bounded"]
    assert forked.value["bounded"]


@pytest.mark.parametrize("session", [None, "bare"])
def test_it_holds_nothing_of_its_zygote(breakable: Sandbox, session: str | None) -> None:
    """Before the jail closes descriptors: no pipe, socket or channel of the zygote is among them."""
    look = """
import os, stat
def kind(number):
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return None
    return [number, stat.S_IFMT(mode), stat.S_ISSOCK(mode)]
result = [found for found in map(kind, range(256)) if found]
"""
    zygote = zygote_of(breakable, session)
    standby_of(zygote)
    seen = []
    for waits in (True, False):
        if waits:
            standby_of(zygote)
        elif session is not None:
            session = "bare, forked"  # a new zygote has no standby yet
        else:
            victim = standby_of(zygote)
            os.kill(victim, signal.SIGKILL)
            assert until(lambda victim=victim: not alive({victim}))  # type: ignore[misc]
        ran = run_in_jail(look, sandbox=breakable, session=session, without=("descriptors", "seccomp"))
        assert ran.error is None
        seen.append(ran.value)
        assert all(number > 2 for number, _, _ in ran.value), ran.value
        assert not any(is_socket for _, _, is_socket in ran.value), ran.value
        assert sum(kind == stat.S_IFIFO for _, kind, _ in ran.value) == 1, ran.value  # the reply's
    ahead, forked = ([kind for _, kind, _ in each] for each in seen)
    assert sorted(ahead) == sorted(forked)


@pytest.mark.slow
def test_the_clock_starts_with_the_run(breakable: Sandbox) -> None:
    """Neither its waiting nor its rehearsal is the run's."""
    limits = Limits(wall_seconds=1.5, cpu_seconds=0.3)
    zygote = zygote_of(breakable, "clock")
    standby_of(zygote)
    time.sleep(2)
    began = time.monotonic()
    outcome = breakable.run("1 + 1", session="clock", limits=limits)
    assert outcome.value == 2
    assert 0 < outcome.usage.cpu_ms < 250
    assert outcome.usage.wall_ms <= (time.monotonic() - began) * 1000
    used = []
    for _ in range(3):  # a busy machine's ticks count as more than the run had
        standby_of(zygote)
        outcome = breakable.run("while True: pass", session="clock", limits=limits)
        assert outcome.error.kind == "CpuLimit"
        used.append(outcome.usage.cpu_ms)
    assert max(used) >= 200  # timers count in ticks


@pytest.mark.parametrize("session", [None, "lull"])
def test_a_run_has_the_processor_for_itself_at_first(breakable: Sandbox, session: str | None) -> None:
    """The next standby is forked once a run has gone on for 0.1 s."""
    zygote = zygote_of(breakable, session)
    before = standby_of(zygote)
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        run = pool.submit(breakable.run, "import time\ntime.sleep(0.3)\n'done'", session=session)
        assert until(lambda: bool(standbys(zygote) - {before}))
        assert time.monotonic() - began >= 0.1
        assert run.result(20).value == "done"


@pytest.mark.parametrize("session", [None, "practised"])
def test_the_functions_of_a_run_were_adapted_in_the_root(breakable: Sandbox, session: str | None) -> None:
    look = """
from byref_sandbox.run import bodies
from byref_sandbox.zygote.runs import Runs
result = [f.__code__._co_code_adaptive != f.__code__.co_code for f in (Runs._prepare, bodies.language_body)]
"""
    assert run_in_jail(look, sandbox=breakable, session=session).value == [True, True]


def test_what_was_rehearsed_is_not_there(breakable: Sandbox) -> None:
    zygote = zygote_of(breakable, "rehearsed")
    standby_of(zygote)
    assert breakable.run("rehearsed", session="rehearsed").error.kind == "NameError"  # type: ignore[union-attr]
    standby_of(zygote)
    assert breakable.run("table", session="rehearsed").error.kind == "NameError"  # type: ignore[union-attr]


@pytest.mark.slow
def test_no_two_runs_draw_the_same(breakable: Sandbox) -> None:
    """Of the root or a session, forked for the run or ahead of it; and a seed of the code's own holds."""
    for source in ("np.random.rand()", "random.random()", "np.random.default_rng().random()"):
        code = f"import random\nimport numpy as np\nfloat({source})"
        drawn = []
        for session in (None, "draws", "draws", "draws too", None):
            drawn.append(breakable.run(code, session=session).value)
            if session == "draws":
                time.sleep(0.1)  # the next one stands by
        assert len({value for value in drawn if isinstance(value, float)}) == 5, (source, drawn)
    seeded = "import numpy as np\nnp.random.seed(7)\nfloat(np.random.rand())"
    assert len({breakable.run(seeded, session=session).value for session in (None, "draws")}) == 1


@pytest.mark.slow
def test_one_that_was_killed_is_not_missed(breakable: Sandbox) -> None:
    zygote = zygote_of(breakable, "killed")
    for _ in range(3):
        victim = standby_of(zygote)
        os.kill(victim, signal.SIGKILL)
        assert until(lambda victim=victim: not alive({victim}))  # type: ignore[misc]
        assert breakable.run("1 + 1", session="killed").value == 2
    assert standby_of(zygote) != victim


def test_many_at_once_are_forked_beside_it(breakable: Sandbox) -> None:
    zygote = zygote_of(breakable, "many")
    standby_of(zygote)
    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(breakable.run, f"len(rows) * {number}", {"rows": ROWS}, session="many") for number in range(12)
        ]
        assert [run.result(30).value for run in runs] == [2 * number for number in range(12)]
    assert until(lambda: not children(zygote))
    assert len(standbys(zygote)) <= 1


def test_it_goes_with_its_session(breakable: Sandbox) -> None:
    zygote = zygote_of(breakable, "gone")
    waiting = standby_of(zygote)
    with breakable._lock:
        breakable._forget_sessions()
    assert until(lambda: not alive({zygote, waiting}))


def order(orders: object, body: bytes, given: list[int]) -> wire.News | None:
    """What a zygote says of a request of these bytes; the last word."""
    ours, theirs = wire.packet_sockets()
    reading, writing = os.pipe()
    descriptor = wire.memory_file([body])
    last = None
    with ours:
        ours.settimeout(5)
        wire.send(orders, wire.Run(1.0, given), (theirs.fileno(), writing, descriptor))  # type: ignore[arg-type]
        theirs.close()
        for each in (reading, writing, descriptor):
            os.close(each)
        while data := ours.recv(4096):
            last = msgspec.msgpack.decode(data, type=wire.News)
    return last


GARBLED = {
    "no MessagePack": (b"\xc1" * 10, []),
    "nothing": (b"", []),
    "of another type": (msgspec.msgpack.encode({"mode": "code", "source": 7}), []),
    "of no such mode": (msgspec.msgpack.encode({"mode": "shell", "source": "", "terms": None}), []),
    "text that is none": (b"\x82\xa4mode\xa4code\xa6source\xa2\xff\xff", []),
    "nested": (b"\x91" * 100_000, []),
}


@pytest.mark.parametrize("name", GARBLED)
def test_a_request_that_is_none_is_refused_and_its_zygote_lives(breakable: Sandbox, name: str) -> None:
    body, given = GARBLED[name]
    session = breakable._warm.get("garbled") or (breakable.run("1", session="garbled") and breakable._warm["garbled"])
    before = settled(lambda: children(root_pid(breakable)))
    answer = order(session.orders, body, given)
    assert isinstance(answer, wire.Refused), answer
    assert "could not be read" in answer.message
    root = breakable._root
    assert isinstance(order(root.orders, body, given), wire.Ended)
    assert breakable.run("1 + 1", session="garbled").value == 2
    assert breakable.run("1 + 1").value == 2
    assert until(lambda: children(root_pid(breakable)) == before)


def test_a_request_for_more_than_it_names_is_refused(breakable: Sandbox) -> None:
    breakable.run("1", session="garbled")
    terms = wire.Terms(1.0, 1.0, 1 << 20, 100, 100, 100)
    body = msgspec.msgpack.encode(wire.Request("code", "1", terms))
    assert isinstance(order(breakable._warm["garbled"].orders, body, [3]), wire.Refused)
    assert breakable.run("1 + 1", session="garbled").value == 2


def wide(size: int) -> bytes:
    return json.dumps([{f"key{number}": number} for number in range(size)]).encode()


@pytest.mark.parametrize("code", ["len(wide)", "df('wide').shape[0]"])
def test_a_table_of_absurd_width_keeps_no_zygote_busy(breakable: Sandbox, code: str) -> None:
    """66 kB of JSON, 25 million cells: whoever wants them spends its own time on them, others' runs go on."""
    data = {"wide": Data("wide", lambda: wide(5_000))}
    breakable.run("1", session="wide")
    limits = Limits(wall_seconds=0.5, cpu_seconds=10)
    outcome = breakable.run(f"{code}, df(wide)" if "len" in code else code, data, session="wide", limits=limits)
    assert outcome.error.kind == "TimeLimit"
    began = time.monotonic()
    assert breakable.run("1 + 1", session="wide").value == 2
    assert time.monotonic() - began < 1
    assert breakable.run("len(wide)", data, session="wide").value == 5_000


@pytest.mark.slow
def test_many_tables_of_one_call_keep_no_zygote_busy(breakable: Sandbox) -> None:
    """Little JSON, each table slow to make: what is beyond the call's budget is made under its limits."""
    row = json.dumps([{f"c{number}": number for number in range(900)}]).encode()
    many = {f"w{number}": Data(f"wide {number}", lambda: row) for number in range(150)}
    breakable.run("1", session="slow tables")
    limits = Limits(wall_seconds=0.5, cpu_seconds=0.5)
    code = f"len([{','.join(f'df({name!r})' for name in many)}])"
    began = time.monotonic()
    outcome = breakable.run(code, many, session="slow tables", limits=limits)
    assert outcome.error.kind in ("TimeLimit", "CpuLimit")
    assert time.monotonic() - began < 5
    # The next call finds what was made, and goes on with the rest.
    assert breakable.run("df('w0').shape", many, session="slow tables").value == [1, 900]


def test_sparse_records_are_no_table_before_they_are_read(breakable: Sandbox) -> None:
    """A first record of many keys, and then very many of none."""
    first = json.dumps({f"key{number}": number for number in range(900)})
    text = f"[{first}{',{}' * 300_000}]".encode()
    began = time.monotonic()
    outcome = breakable.run("len(sparse)", {"sparse": Data("sparse", lambda: text)}, session="sparse")
    assert outcome.value == 300_001
    limits = Limits(wall_seconds=0.5, cpu_seconds=10)
    breakable.run("df('sparse').shape", {"sparse": Data("sparse", lambda: text)}, session="sparse", limits=limits)
    assert time.monotonic() - began < 5
    assert breakable.run("1 + 1", session="sparse").value == 2


def test_a_session_is_replaced_after_so_many_runs(breakable: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    data = {"x": Data("k", lambda: loads.append(1) or b"[1]")}  # type: ignore[func-returns-value]
    root = breakable.start()._root
    root.vitals.runs = 0
    monkeypatch.setattr(breakable, "_recycle_runs", 3)
    before = len(children(root.pid))
    assert [breakable.run("x", data, session="worn").value for _ in range(7)] == [[1]] * 7
    assert len(loads) == 3
    assert until(lambda: len(children(root.pid)) == before + 1)


def test_a_session_is_replaced_when_it_is_old_but_not_while_it_runs(breakable: Sandbox) -> None:
    with ThreadPoolExecutor() as pool:
        breakable.run("1", session="old")
        first = breakable._warm["old"]
        slow = pool.submit(breakable.run, "import time\ntime.sleep(0.5)\n'done'", session="old")
        assert until(lambda: first.vitals.running == 1)
        first.vitals.since -= breakable._recycle_seconds
        assert breakable.run("2", session="old").value == 2
        assert breakable._warm["old"] is first
        assert slow.result(20).value == "done"
        assert breakable.run("3", session="old").value == 3
        assert breakable._warm["old"] is not first


@pytest.mark.slow
def test_a_root_is_replaced_and_nobody_waits_for_that() -> None:
    with Sandbox(LIMITS, recycle_runs=5) as sandbox, ThreadPoolExecutor() as pool:
        first = root_pid(sandbox)
        sandbox.run("1", session="s")
        slow = pool.submit(sandbox.run, "import time\ntime.sleep(4)\n'done'", session="s")
        slowest, beginning = 0.0, time.monotonic()
        while root_pid(sandbox) == first and time.monotonic() < beginning + 60:
            began = time.monotonic()
            assert sandbox.run("1 + 1").value == 2
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.3)  # for the one that starts
        assert root_pid(sandbox) != first
        assert slowest < (time.monotonic() - beginning) / 2  # one that waited would have taken nearly all of it
        assert slow.result(20).value == "done"  # it kept its root
        assert until(lambda: not alive({first}))
        assert sandbox.run("2", session="s").value == 2
        successor = sandbox._successor
        left = {root_pid(sandbox)} | ({successor.pid} if successor else set())
        assert until(lambda: children(os.getpid()) & everyone(os.getpid()) >= left)
    assert until(lambda: not alive(left))


def chaos(sandbox: Sandbox, kills: int, seed: int) -> None:
    """Kills any of the sandbox's processes at any moment: each run ends in its value or says that it was lost."""
    draw = random.Random(seed)
    ended = threading.Event()
    answers: list[object] = []

    def client(number: int) -> None:
        session = [None, "a", "b"][number]
        while not ended.is_set():
            outcome = sandbox.run("len(rows)", {"rows": ROWS}, session=session)
            answers.append(outcome.value if outcome.error is None else outcome.error.kind)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(kills):
        answered = len(answers)
        until(lambda answered=answered: len(answers) > answered, 5)  # type: ignore[misc]
        time.sleep(draw.random() * 0.02)
        root = sandbox._root
        if root is None:  # it is being started
            continue
        if number % 40 == 5:  # it takes everything with it, and two seconds to come back
            below = everyone(root.pid)
            root._process.kill()
            assert until(lambda below=below: not alive(below))  # type: ignore[misc]
        elif victims := sorted(everyone(root.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(victims), signal.SIGKILL)
    ended.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert set(answers) <= {2, "Crash"}, set(answers)
    assert answers.count(2) > kills / 4
    for session in (None, "a", "b"):
        assert sandbox.run("len(rows)", {"rows": ROWS}, session=session).value == 2
    assert until(lambda: len(descendants(root_pid(sandbox))) == 2)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_whatever_is_killed_the_next_run_works(breakable: Sandbox) -> None:
    with breakable._lock:
        breakable._forget_sessions()
    for session in (None, "a", "b"):
        breakable.run("1", session=session)
    before = descriptors()
    chaos(breakable, 8, 1)
    assert descriptors() == before


@pytest.mark.slow
def test_whatever_is_killed_however_often_the_next_run_works() -> None:
    with Sandbox(LIMITS) as sandbox:
        for session in (None, "a", "b"):
            sandbox.run("1", session=session)
        before = descriptors()
        chaos(sandbox, 200, 2)
        assert descriptors() == before


@pytest.mark.slow
def test_a_run_that_stood_by_is_sooner_there(breakable: Sandbox) -> None:
    """Seconds to an answer with a standby and without, in turns."""
    zygote = zygote_of(breakable, "sooner")
    ahead: list[float] = []
    forked: list[float] = []
    for _ in range(15):
        standby_of(zygote)
        for times in (ahead, forked):
            began = time.perf_counter()
            assert breakable.run("1 + 1", session="sooner").value == 2
            times.append(time.perf_counter() - began)
    assert statistics.median(ahead) < statistics.median(forked)


def test_a_run_does_not_wait_for_the_rest_of_a_rehearsal() -> None:
    steps, told = os.pipe()
    reply, theirs = os.pipe()

    def rehearse() -> Iterator[None]:
        os.write(told, b"1")
        yield
        os.write(told, b"2")
        time.sleep(0.3)
        yield
        os.write(told, b"3")
        time.sleep(60)

    def work(descriptor: int, body: int, files: dict[int, int]) -> NoReturn:
        os.write(descriptor, b"done")
        os._exit(0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = standby.fork((told,), rehearse, work)
    while os.read(steps, 1) != b"2":
        pass
    body = wire.memory_file([b""])
    assert made.take(theirs, body, {})
    for descriptor in (theirs, told, body):
        os.close(descriptor)
    assert os.read(reply, 10) == b"done"
    os.waitpid(made.pid, 0)
    assert os.read(steps, 1) == b""
    os.close(steps), os.close(reply)
