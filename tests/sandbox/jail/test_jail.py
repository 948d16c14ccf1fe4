"""The second wall alone: raw CPython attacks it as if the language had fallen, and nothing gets out."""

from __future__ import annotations

import errno
import itertools
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from jail_attacks import ATTACKS, GROUPS, PORT, PRELUDE
from jail_prelude import number
from sampled import sampled
from seccompy import Action, Filter, audit_arch, bpf, syscall_nr

from byref_sandbox import Layer, Limits, Outcome, Sandbox, SandboxUnavailable, probe
from byref_sandbox.jail import seccomp
from byref_sandbox.jail.jail import require
from byref_sandbox.testing import run_in_jail

Script = Callable[..., CompletedProcess[str]]
Attack = Callable[..., Outcome]
LIMITS = Limits(wall_seconds=5, cpu_seconds=5, memory_bytes=256 << 20)


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A folder that anyone may write to, with a file in it that attacks try to reach."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    (folder / "byref-folder").mkdir(mode=0o777)
    target = folder / "byref-sentinel"
    target.write_text("untouched")
    target.chmod(0o666)
    before = target.stat()
    yield folder
    assert target.read_text() == "untouched"
    assert (target.stat().st_mode, target.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert sorted(path.name for path in folder.iterdir()) == ["byref-folder", "byref-sentinel"]
    assert not Path("/dev/shm/byref").exists()
    assert not Path("/byref-breach").exists()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server that nobody reaches."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server.getsockname()[1]
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.fixture
def attack(sandbox: Sandbox, ground: Path, port: int) -> Attack:
    """Runs an attack over that ground."""

    def run(source: str, *without: str) -> Outcome:
        source = source.replace("/tmp/", f"{ground}/").replace("'/tmp'", f"'{ground}'").replace(str(PORT), str(port))
        return run_in_jail(source, LIMITS, sandbox=sandbox, without=without)

    return run


@pytest.mark.every_case("each asks the kernel for something else")
@pytest.mark.parametrize("name", sampled(list(ATTACKS), 3))
def test_an_attack_has_no_effect(sandbox: Sandbox, attack: Attack, name: str) -> None:
    root = sandbox.start()._root
    outcome = attack(ATTACKS[name])
    assert outcome.value is None
    if outcome.error is not None:
        # An attack that fails by its own mistake would prove nothing.
        assert outcome.error.kind not in {"NameError", "TypeError", "SyntaxError", "AttributeError", "Crash"}, outcome
    assert sandbox._root is root
    assert root.alive


ABSENT = {
    "network: socket(29, 3, 1)",
    "network: socket(31, 3, 1)",
    "network: socket(38, 5, 0)",
    "network: socket(40, 1, 0)",
    "network: socket(40, 2, 0)",
    "network: socket(2, 1, 262)",
    "network: socket(44, 3, 0)",
    "processes: prctl(35, 1, 0, 0, 0)",
    "processes: prctl(53, 0, 4, 0, 0)",
    "kernel: pkey_alloc(0, 0)",
    "processes: prctl(57, 1, 0, 0, 0)",
    "processes: prctl(62, 0, 0, 0, 0)",
    "memory: huge pages of the machine",
    *(f"kernel: x32 {name}" for name in ("getpid", "openat", "socket", "fork", "mmap", "stat")),
}
"""What many kernels, and containers for their root, do not have: these attacks may fail without a jail too."""
SINCE = (
    "files: fchmodat2",
    "files: memfd_secret",
    "kernel: mseal",
    "kernel: cachestat",
    "kernel: listmount",
    "kernel: lsm_list_modules",
    "kernel: futex_",
)
"""Attacks by calls that only newer kernels have."""


@pytest.mark.slow
def test_the_same_attacks_succeed_without_a_jail() -> None:
    """Each is real, and its loot would be seen."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "open_ground.py"), str(PORT)],
        input=json.dumps(ATTACKS),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told) == set(ATTACKS)
    failed = {name: answer["error"] for name, answer in told.items() if "loot" not in answer}
    missing = {name for name in failed if "Errno 38" in failed[name] and name.startswith(SINCE)}
    assert set(failed) - missing <= ABSENT, failed


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(set(GROUPS) - {"surroundings"}))
def test_system_calls_alone_stop_the_same_attacks(attack: Attack, group: str) -> None:
    """Without Landlock, limits and closed descriptors."""
    loot = {}
    for name in GROUPS[group]:
        # Without a limit of their number, descriptors can be read of, but not used.
        outcome = attack(ATTACKS[f"{group}: {name}"], "landlock", "limits", "descriptors")
        if outcome.value is not None:
            loot[name] = outcome.value
    assert loot == {}


def test_landlock_alone_stops_files(attack: Attack) -> None:
    """Not all of them: stat and O_PATH still tell what exists, which is why it is not mandatory."""
    for name in ("open /etc/passwd", "list /", "create in /tmp", "import of what is not loaded", "openat2"):
        assert attack(ATTACKS[f"files: {name}"], "seccomp", "limits").value is None, name
    assert attack(ATTACKS["files: stat"], "seccomp", "limits").value is not None


@pytest.mark.slow
def test_unprivileged_it_holds_as_well(script: Script) -> None:
    """The whole list, from a host that is not root."""
    done = script(_AS_NOBODY, str(Path(__file__).parent))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["uid"] != 0
    assert told["loot"] == {}
    assert told["tried"] == len(ATTACKS)
    assert told["eaten"][0] in {"CpuLimit", "TimeLimit"}
    assert told["eaten"][1:] == ["TimeLimit", "MemoryLimit", "Crash"]
    assert [layer for layer in told["layers"] if layer["mandatory"] and not layer["in_force"]] == []


# Where this is root's own Python, only root may read it: of all of root's rights that one is passed on, and user namespaces, in which
# it would be lost, are refused as container runtimes refuse them.
_AS_NOBODY = """
import ctypes, errno, json, os, struct, sys
sys.path.insert(0, sys.argv[1])
from jail_attacks import ATTACKS
import msgspec
from seccompy import Filter
from byref_sandbox import Limits, Sandbox
from byref_sandbox.jail.libc import libc, prctl
from byref_sandbox.testing import run_in_jail
if os.geteuid() == 0:
    read_all = 2  # CAP_DAC_READ_SEARCH
    prctl(8, 1)  # keep capabilities
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    sets = struct.pack("6I", 1 << read_all, 1 << read_all, 1 << read_all, 0, 0, 0)
    assert libc.capset(struct.pack("Ii", 0x20080522, 0), sets) == 0
    prctl(47, 2, read_all, 0, 0)  # ambient
    handicap = Filter()
    handicap.errno("unshare", errno.EPERM)
    handicap.load()
limits = Limits(wall_seconds=5, cpu_seconds=5, memory_bytes=256 << 20)
with Sandbox() as sandbox:
    outcomes = {name: run_in_jail(source, limits, sandbox=sandbox) for name, source in ATTACKS.items()}
    short = Limits(wall_seconds=1, cpu_seconds=0.2, memory_bytes=64 << 20)
    eaten = [
        run_in_jail(source, short, sandbox=sandbox).error.kind
        for source in ("sum(range(10 ** 12))", "import time; time.sleep(60)", "bytearray(1 << 40)", "import os; os.abort()")
    ]
    layers = msgspec.to_builtins(sandbox.report())
loot = {name: outcome.value for name, outcome in outcomes.items() if outcome.value is not None}
print(json.dumps({"uid": os.getuid(), "tried": len(outcomes), "loot": loot, "layers": layers, "eaten": eaten}))
"""


def test_every_other_system_call_is_refused(attack: Attack) -> None:
    """All numbers a kernel may know, not only those with a name here: none but the allowed list is let through."""
    numbered = {}
    for name in (*seccomp._ALLOWED, *seccomp._KILLED, *(name for name, _ in seccomp._conditions())):
        try:
            numbered[syscall_nr(name)] = name
        except ValueError:
            continue
    # Since Linux 6.14 uretprobe and uprobe pass every filter; all they do is end the caller with SIGILL.
    rest = [number for number in range(600) if number not in numbered and number not in (335, 336)]
    source = (
        PRELUDE
        + f"""
result = []
for number in {rest}:
    try:
        result.append([number, call(number, -1, 0, 0, 0, 0, 0)])
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTTY):
            result.append([number, error.errno])
"""
    )
    outcome = attack(source)
    assert outcome.error is None
    assert outcome.value == []
    assert len(rest) > 400


def _decided(program: bytes, number: int, arguments: Sequence[int] = (), architecture: int | None = None) -> int:
    """What the kernel would do with a call: the result of a BPF program."""
    told = (number, audit_arch() if architecture is None else architecture, 0)
    data = struct.pack("=IIQ6Q", *told, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = [*struct.iter_unpack("=HBBI", program)]
    at = held = 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code == bpf.BPF_RET_K:
            return operand
        if code == bpf.BPF_LD_ABS_W:
            (held,) = struct.unpack_from("=I", data, operand)
        elif code == bpf.BPF_ALU_AND_K:
            held &= operand
        elif code == bpf.BPF_JA:
            at += operand
        else:
            at += yes if {bpf.BPF_JEQ: held == operand, bpf.BPF_JGEQ: held >= operand}[code] else no


def test_the_search_finds_what_one_rule_after_the_other_would() -> None:
    plain = Filter(default=Action.ERRNO | errno.EPERM)
    for name in filter(lambda name: number(name) >= 0, (*seccomp._ALLOWED, *seccomp._NO_ACCESS, *seccomp._KILLED)):
        if name in seccomp._ALLOWED:
            plain.allow(name)
        elif name in seccomp._NO_ACCESS:
            plain.errno(name, errno.EACCES)
        else:
            plain.kill(name)
    plain.errno("clone3", errno.ENOSYS)
    plain.errno("ioctl", errno.ENOTTY)
    for name, conditions in seccomp._conditions():
        plain.allow(name, args=conditions)
    searched, linear = seccomp.build(), plain.program
    values = (0, 1, 2, 3, 4, 8, 9, 15, 16, 0x22, 0x2000, 0x40000, 1 << 31, 1 << 32, (1 << 64) - 1)
    numbers = [*range(700), *(0x40000000 + each for each in range(600)), (1 << 31) - 1, (1 << 32) - 1]
    for each in numbers:
        assert _decided(searched, each) == _decided(linear, each), each
    for name, conditions in seccomp._conditions():
        for condition, value in itertools.product(conditions, values):
            arguments = [0] * 6
            arguments[condition.index] = value
            assert _decided(searched, number(name), arguments) == _decided(linear, number(name), arguments), (
                name,
                value,
            )
    foreign = _decided(
        searched, number("read"), architecture=0x40000003
    )  # a 32-bit program, whose numbers mean other calls
    assert foreign == Action.KILL_PROCESS
    assert len(searched) < len(linear)


@pytest.mark.slow
def test_what_no_honest_program_calls_kills(attack: Attack) -> None:
    kinds = {}
    for name in seccomp._KILLED:
        if number(name) >= 0:
            error = attack(f"{PRELUDE}call({number(name)}, -1, 0, 0, 0, 0, 0)", "landlock", "limits").error
            kinds[name] = error and error.kind
    assert set(kinds.values()) == {"NotAllowed"}, kinds
    assert len(kinds) > 80


def test_the_report_tells_every_layer(sandbox: Sandbox) -> None:
    layers = {layer.name: layer for layer in sandbox.start().report()}
    assert {name for name, layer in layers.items() if layer.mandatory} == {
        "environment",
        "no_new_privs",
        "undumpable",
        "parent_death",
        "limits",
        "descriptors",
        "seccomp",
    }
    assert set(layers) - {name for name, layer in layers.items() if layer.mandatory} == {
        "identity",
        "capabilities",
        "namespaces",
        "landlock",
    }
    assert all(layer.in_force for layer in layers.values() if layer.mandatory)
    assert all(layer.detail for layer in layers.values())


def test_a_probe_says_the_same_without_a_sandbox(sandbox: Sandbox) -> None:
    told, reported = probe(), sandbox.start().report()
    assert [(layer.name, layer.in_force, layer.detail) for layer in told] == [
        (layer.name, layer.in_force, layer.detail) for layer in reported
    ]


def test_the_report_tells_what_each_layer_costs(sandbox: Sandbox) -> None:
    layers = {layer.name: layer for layer in sandbox.start().report()}
    # Building a program of a hundred rules takes time once, installing it takes time in every run.
    assert 0.05 < layers["seccomp"].startup_ms < 1000
    assert all(layer.run_us > 0 for layer in layers.values() if layer.name in {"seccomp", "limits", "descriptors"})
    assert sum(layer.run_us for layer in layers.values()) < 100_000
    assert layers["environment"].run_us == 0.0


@pytest.fixture(scope="module")
def language_only() -> Iterator[Sandbox]:
    """A sandbox whose host does without the second wall."""
    with Sandbox(jail="language-only") as sandbox:
        yield sandbox


@pytest.mark.slow
def test_a_host_may_choose_the_language_alone(language_only: Sandbox) -> None:
    layers = {layer.name: layer for layer in probe(jail="language-only")}
    assert not layers["seccomp"].in_force
    assert not layers["seccomp"].mandatory
    assert layers["seccomp"].detail == "left out by the host's choice"
    assert layers["limits"].in_force
    assert language_only.run("1 + 1").value == 2
    assert not {layer.name: layer for layer in language_only.report()}["seccomp"].in_force


@pytest.mark.slow
def test_queries_of_a_host_that_chose_so(language_only: Sandbox) -> None:
    query = "SELECT region, sum(amount) AS total FROM $rows GROUP BY 1 ORDER BY 1"
    rows = [{"region": "n", "amount": 1}, {"region": "n", "amount": 2}, {"region": "s", "amount": 4}]
    for session in (None, "s"):
        outcome = language_only.sql(query, {"rows": rows}, session=session, keep="totals")
        assert outcome.error is None
        assert outcome.value == [{"region": "n", "total": 3}, {"region": "s", "total": 4}]
        assert list(outcome.bound) == ["totals"]
    for hostile in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/byref_leak.csv'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "ATTACH '/tmp/byref_leak.db' AS d",
    ):
        refused = language_only.sql(hostile)
        assert refused.error is not None, hostile
    assert not list(Path("/tmp").glob("byref_leak*"))
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    stopped = language_only.sql(endless, limits=Limits(wall_seconds=3, cpu_seconds=0.3))
    assert stopped.error.kind in ("CpuLimit", "TimeLimit", "MemoryLimit")
    assert language_only.sql("SELECT 1 AS a").value == [{"a": 1}]


def test_a_missing_mandatory_layer_is_named() -> None:
    with pytest.raises(SandboxUnavailable, match=r"seccomp \(the kernel has none\)"):
        require([Layer("landlock", False, False, "no"), Layer("seccomp", False, True, "the kernel has none")])


def test_a_check_that_tells_nothing_is_not_passed() -> None:
    with pytest.raises(SandboxUnavailable, match=r"seccomp \(not reported\)"):
        require([])


def test_importing_the_package_imports_nothing_heavy(script: Script) -> None:
    done = script("import byref_sandbox, sys; print({'pandas', 'numpy', 'pyarrow', 'jq'} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr
