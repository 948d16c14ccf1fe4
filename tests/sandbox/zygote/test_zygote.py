"""The processes: they start once, share what is loaded, come back after a crash, and go when the host goes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from process_table import alive, descendants, everyone, root_pid, until

from byref_sandbox import Data, Limits, Sandbox
from byref_sandbox.testing import run_in_jail
from byref_sandbox.values.loaded import Store

Script = Callable[..., subprocess.CompletedProcess[str]]


def in_background(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return thread, results


RECORDS = b'[{"a":1},{"a":2}]'


def test_the_zygote_has_one_thread_and_no_environment(sandbox: Sandbox) -> None:
    root = sandbox.start()._root
    assert root.ready.threads == 1


@pytest.fixture(scope="module")
def host(script: Script) -> list[str]:
    """What a host of its own prints that leaves a descriptor open and forks, and what its copy prints.

    The copy drops its last reference to the sandbox, the host itself ends without a word to it: neither calls `close`.
    """
    source = """
import gc, os, sys, warnings
from pathlib import Path
from byref_sandbox import Sandbox
from byref_sandbox.testing import run_in_jail
inherited = os.open("/etc/passwd", os.O_RDONLY)
os.set_inheritable(inherited, True)
os.environ["SECRET"] = "x"
children = lambda: Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
sandbox = Sandbox()
before = children()
value = sandbox.run("1 + 1", session="s").value
print(before, value, len(children()))
outcome = run_in_jail('''
import os
result = [dict(os.environ)]
for fd in range(4096):
    try: result.append(os.read(fd, 10).decode())
    except OSError: pass
''', sandbox=sandbox)
print(outcome.value, flush=True)
parent = sandbox._root.pid
child = os.fork()
if child == 0:
    value = sandbox.run("2", session="s").value
    print("child", value, sandbox._root.pid != parent, len(children()))
    warnings.simplefilter("ignore", ResourceWarning)  # Python says so of a socket that nobody closed
    del sandbox
    gc.collect()
    print(children(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", sandbox.run("3", session="s").value, sandbox._root.pid == parent)
print(parent)
"""
    done = script(source)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.slow
def test_it_starts_when_it_is_first_used(host: list[str]) -> None:
    assert host[0] == "[] 2 1"


@pytest.mark.slow
def test_a_sandbox_nobody_holds_is_ended(host: list[str]) -> None:
    assert host[3] == "[]"


def test_a_descriptor_the_host_left_open_does_not_reach_a_run(host: list[str]) -> None:
    assert host[1] == "[{}]"


@pytest.mark.slow
def test_more_data_than_there_are_descriptors_is_refused_and_the_root_lives(breakable: Sandbox) -> None:
    many = {f"v{number}": Data(f"many {number}", lambda: b"1") for number in range(4_200)}
    code = f"sum([{','.join(many)}])"
    breakable.run("1", session="bystander")
    root, bystander = root_pid(breakable), breakable._warm["bystander"]
    error = breakable.run(code, many).error
    assert (error.kind, error.message[:31]) == ("ValueError", "4,200 stored values for one run")
    assert breakable.run(code, many, session="many").value == 4_200
    some = dict(list(many.items())[:3_000])
    assert breakable.run(f"sum([{','.join(some)}])", some).value == 3_000
    assert breakable.run("1 + 1", session="bystander").value == 2
    assert root_pid(breakable) == root
    assert breakable._warm["bystander"] is bystander


def test_a_session_loads_its_data_once(sandbox: Sandbox) -> None:
    loads: list[int] = []

    def load() -> bytes:
        loads.append(1)
        return RECORDS

    rows = Data("k", load)
    assert [sandbox.run("sum(r['a'] for r in rows)", {"rows": rows}, session="once").value for _ in range(3)] == [
        3,
        3,
        3,
    ]
    assert len(loads) == 1
    assert sandbox.run("rows", {"rows": rows}, session="other").value == [{"a": 1}, {"a": 2}]
    assert sandbox.run("rows[0]", {"rows": rows}).value == {"a": 1}
    assert len(loads) == 3


def test_what_one_run_does_to_the_data_no_other_sees(sandbox: Sandbox) -> None:
    rows = Data("k", lambda: RECORDS)
    assert sandbox.run("rows.append(1)\nrows[0]['a'] = 99\nlen(rows)", {"rows": rows}, session="unseen").value == 3
    assert sandbox.run("rows", {"rows": rows}, session="unseen").value == [{"a": 1}, {"a": 2}]
    sandbox.run("df('rows')['b'] = 1", {"rows": rows}, session="unseen")
    assert sandbox.run("list(df('rows').columns)", {"rows": rows}, session="unseen").value == ["a"]


def test_one_session_sees_nothing_of_another(own: Sandbox) -> None:
    """Not in variables, and not in memory either: with the language fallen, a run may read all that its process maps."""
    secret = b"top-" + b"secret" * 20
    own.run("x", {"x": Data("secret", lambda: secret, "text/plain")}, session="a")
    hunt = """
import gc
result = [str(o)[:20] for o in gc.get_objects() if isinstance(o, (str, bytes)) and 'top-secret' in str(o)]
gc.unfreeze()
for container in gc.get_objects():
    if isinstance(container, dict):
        result += [k for k, v in list(container.items()) if type(v) is str and v.startswith('top-' + 'secret')]
"""
    assert run_in_jail(hunt, sandbox=own).value == []


@pytest.mark.slow
def test_one_throwaway_run_sees_nothing_of_another(own: Sandbox) -> None:
    """Not even in memory the allocator has got back: the root looks into no request and no payload."""
    needle = "needle-" + "in-the-haystack" * 40
    for _ in range(20):
        assert own.run(f"len(v) # {needle}", {"v": needle}).value == len(needle)
        assert own.run("len(w)", {"w": Data(needle, lambda: needle.encode(), "text/plain")}).value == len(needle)
    # All of its writable memory, which it can only list with its jail taken away.
    hunt = """
import ctypes, re
result = [0, 0]
for line in open('/proc/self/maps').read().splitlines():
    span, rights, *_, = line.split()
    start, end = (int(address, 16) for address in span.split('-'))
    if rights.startswith('rw') and end - start < 1 << 28 and '[v' not in line:
        memory = ctypes.string_at(start, end - start)
        result[0] += len(memory)
        result[1] += len(re.findall(b'needle-(?:in-the-haystack){2}', memory))
"""
    without = ("landlock", "limits", "descriptors", "seccomp", "undumpable")
    looked, found = run_in_jail(hunt, sandbox=own, without=without).value
    assert looked > 30_000_000
    assert found == 0
    _, found = run_in_jail(hunt + "v", sandbox=own, without=without, variables={"v": needle}).value
    assert found > 0


def test_a_session_lets_data_go_that_does_not_fit(own: Sandbox) -> None:
    loads: list[str] = []

    def data(key: str) -> Data:
        def load() -> bytes:
            loads.append(key)
            return RECORDS

        return Data(key, load)

    own._memory_bytes = 100_000_000
    assert own.run("1", session="s").value == 1
    for key in ("a", "a", "b", "a", "b"):
        assert own.run("len(v)", {"v": data(key)}, session="s").value == 2
    assert loads == ["a", "b"]


def test_the_store_lets_the_least_recently_used_go() -> None:
    store = Store(100)

    def held(keys: str) -> list[str]:
        return [key for key in keys if key in store._entries]

    for key in "abc":
        store.entry(key).size = 40
        store.trim({key})
    assert held("abc") == ["b", "c"]
    store.entry("b")
    store.entry("d").size = 40
    store.trim({"d"})
    assert held("abcd") == ["b", "d"]
    store.entry("e").size = 500
    store.trim({"b", "e"})
    assert held("abcde") == ["b", "e"]
    assert store.held_bytes == 540
    store.trim(())
    assert store.held_bytes == 0


def test_the_oldest_session_goes_first(own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "_max_sessions", 2)
    rows = Data("k", lambda: RECORDS)
    for name in ("a", "b", "a", "c"):
        assert own.run("len(rows)", {"rows": rows}, session=name).value == 2
    assert list(own._warm) == ["a", "c"]
    assert until(lambda: len(descendants(root_pid(own))) == 2)


def test_a_killed_session_comes_back(own: Sandbox) -> None:
    rows = Data("k", lambda: RECORDS)
    assert own.run("len(rows)", {"rows": rows}, session="s").value == 2
    root = root_pid(own)
    assert until(lambda: len(descendants(root)) == 1)
    (session,) = descendants(root)
    os.kill(session, signal.SIGKILL)
    assert until(lambda: not alive({session}))
    assert own.run("len(rows)", {"rows": rows}, session="s").value == 2
    assert root_pid(own) == root


@pytest.mark.parametrize("session", [pytest.param(None, marks=pytest.mark.slow), "s"])
def test_a_zygote_killed_during_a_run_is_a_clear_error_and_the_next_run_works(
    own: Sandbox, session: str | None
) -> None:
    root = root_pid(own)
    thread, results = in_background(
        lambda: own.run("import time\ntime.sleep(30)", session=session, limits=Limits(wall_seconds=40))
    )
    assert until(lambda: len(descendants(root)) == (1 if session is None else 2))
    # The session zygote is the root's child; a run without a session is killed with the root itself.
    victim = root if session is None else min(descendants(root))
    below = everyone(victim)
    os.kill(victim, signal.SIGKILL)
    thread.join(10)
    (outcome,) = results
    assert outcome.error.kind == "Crash"
    assert "died" in outcome.error.message
    assert outcome.error.hint == "run it again"
    assert until(lambda: not alive(below | {victim}))
    assert own.run("1 + 1", session=session).value == 2


def test_a_run_is_over_when_nobody_waits_for_it(own: Sandbox) -> None:
    """What a load raises is the host's own error, and leaves no process behind."""

    def broken() -> bytes:
        raise LookupError("the database is down")

    with pytest.raises(LookupError, match="the database is down"):
        own.run("x", {"x": Data("k", broken)}, session="s")
    assert own.run("1 + 1", session="s").value == 2
    assert until(lambda: len(descendants(root_pid(own))) == 1)


@pytest.mark.slow
def test_threads_run_at_once(sandbox: Sandbox) -> None:
    rows = Data("k", lambda: RECORDS)
    results: dict[int, object] = {}

    def work(number: int) -> None:
        session = f"threads {number % 3}" if number % 2 else None
        results[number] = sandbox.run(f"len(rows) + {number}", {"rows": rows}, session=session).value

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {number: number + 2 for number in range(24)}


def test_runs_of_one_session_do_not_wait_for_each_other(sandbox: Sandbox) -> None:
    sleeper = "import time\ntime.sleep(1)"
    began = time.monotonic()
    threads = [in_background(lambda: sandbox.run(sleeper, session="together"))[0] for _ in range(4)]
    for thread in threads:
        thread.join(10)
    assert time.monotonic() - began < 2.5


@pytest.mark.slow
def test_three_hundred_runs_leave_nothing_behind(own: Sandbox) -> None:
    rows = Data("k", lambda: RECORDS)
    root = root_pid(own)

    def held() -> tuple[int, int, int]:
        own.run("1", session="s")
        while True:  # a run answers before it is reaped: it may go while it is looked at
            processes = sorted(descendants(root) | {root})
            try:
                descriptors = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in processes)
                resident = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes)
            except (FileNotFoundError, ProcessLookupError):
                continue
            return len(list(Path("/proc/self/fd").iterdir())), descriptors, resident

    for _ in range(20):
        own.run("len(rows)", {"rows": rows}, session="s")
    time.sleep(0.2)
    before = held()
    for number in range(300):
        assert own.run("len(rows)", {"rows": rows}, session="s" if number % 2 else None).value == 2
    assert until(lambda: held()[:2] == before[:2]), (before, held())
    assert until(lambda: held()[2] - before[2] < 512), (before, held())  # pages: two megabytes


def test_a_forked_host_makes_its_own(host: list[str]) -> None:
    assert [host[2], host[4]] == ["child 2 True 1", "parent 3 True"]


@pytest.mark.slow
def test_a_host_may_fork_in_the_middle_of_runs(script: Script) -> None:
    """Its copy has no part in them: it starts its own, and its end ends nothing."""
    done = script("""
import os, threading, time
from byref_sandbox import Sandbox
sandbox = Sandbox()
values = []
def work(session):
    values.append(sandbox.run("import time\\ntime.sleep(1)\\n7", session=session).value)
threads = [threading.Thread(target=work, args=(session,)) for session in (None, "a", "b")]
for session in (None, "a", "b"):
    sandbox.run("1", session=session)
for thread in threads:
    thread.start()
time.sleep(0.3)
child = os.fork()
if child == 0:
    print("child", sandbox.run("2", session="a").value, flush=True)
    sandbox.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for thread in threads:
    thread.join()
print("parent", values, sandbox.run("3", session="a").value)
sandbox.close()
""")
    assert done.stdout.splitlines() == ["child 2", "parent [7, 7, 7] 3"], done.stderr
    assert done.stderr == ""


def test_a_host_that_ends_ends_them(host: list[str]) -> None:
    assert until(lambda: not alive({int(host[5])}))


@pytest.mark.slow
def test_a_closed_sandbox_says_so() -> None:
    sandbox = Sandbox().start()
    root = root_pid(sandbox)
    sandbox.close()
    sandbox.close()
    assert not alive({root})
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.run("1")


@pytest.mark.parametrize("arguments", [{"jail": "none"}, {"sessions": 0}, {"memory_bytes": 0}, {"runs": 0}])
def test_settings_must_make_sense(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Sandbox(**arguments)
