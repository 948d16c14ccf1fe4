"""What the runs of a session share is the session's, copied on write: with the language fallen, none can change it for others."""

from __future__ import annotations

import json

import pytest
from jail_prelude import PRELUDE, number

from byref_sandbox import Data, Limits, Outcome, Sandbox
from byref_sandbox.testing import run_in_jail

COUNT = 20_000
RECORDS = json.dumps([{"n": number, "t": f"text-{number}"} for number in range(COUNT)]).encode()
ROWS = {
    "rows": Data("rows", lambda: RECORDS),
    "table": Data("rows", lambda: RECORDS, frame=True),
    "text": Data("text", lambda: b"canary-" * 10_000, "text/plain"),
}
LIMITS = Limits(wall_seconds=10, cpu_seconds=10)
CHECK = """
[sum(row['n'] for row in rows), int(table['n'].sum()), len(rows), text == 'canary-' * 10_000, table['t'].nunique()]
"""
SOUND = [COUNT * (COUNT - 1) // 2, COUNT * (COUNT - 1) // 2, COUNT, True, COUNT]
NO_JAIL = ("landlock", "limits", "descriptors", "seccomp", "undumpable")


def attack(sandbox: Sandbox, source: str, *without: str) -> Outcome:
    return run_in_jail(
        f"{PRELUDE}\nrows, table, text\n{source}",
        LIMITS,
        variables=ROWS,
        session="jail",
        without=without,
        sandbox=sandbox,
    )


def test_no_memory_is_shared_with_a_zygote_but_on_write(sandbox: Sandbox) -> None:
    """A mapping that is shared could be made writable, whatever it was made for."""
    assert sandbox.run(CHECK, ROWS, session="jail").value == SOUND
    # glibc maps its own cache of encodings, from a file that nobody but root may write.
    look = """
lines = open('/proc/self/maps').read().splitlines()
result = [line for line in lines if line.split()[1].endswith('s') and 'gconv-modules.cache' not in line]
"""
    assert attack(sandbox, look, *NO_JAIL).value == []
    found = attack(sandbox, f"import mmap\nkept = mmap.mmap(-1, 4096)\n{look}", *NO_JAIL)
    assert found.value


SCRIBBLES = {
    "over the values": "rows.clear(); text = ''; result = len(rows) == 0",
    "over a table": """
table.drop(columns=['t'], inplace=True)
table['n'] = 0
result = int(table['n'].sum()) == 0
""",
    "over the bytes of a text": "ctypes.memset(id(text) + 64, 0x41, 60_000); result = 'AAAA' in text",
    "over the pages of an array": f"""
array = table['n'].to_numpy()
try: call({number("mprotect")}, array.ctypes.data & ~4095, array.nbytes, 3)
except OSError: pass
ctypes.memset(array.ctypes.data, 0, array.nbytes)
result = int(table['n'].sum()) == 0
""",
    "over what all runs run": "import json; json.dumps = json.loads = sum = None; __builtins__['len'] = None; result = True",
    "over small numbers": "ctypes.c_int.from_address(id(5) + 24).value = 7; result = True",
}


@pytest.mark.every_case("each scribbles somewhere else")
@pytest.mark.parametrize("name", SCRIBBLES)
def test_what_one_run_scribbles_the_next_does_not_read(sandbox: Sandbox, name: str) -> None:
    assert sandbox.run(CHECK, ROWS, session="jail").value == SOUND
    outcome = attack(sandbox, SCRIBBLES[name])
    if name == "over what all runs run":  # its own reply is made with that
        assert outcome.error is not None and outcome.error.kind == "Crash"
    else:
        assert outcome.value is True, f"the scribble had no effect of its own: {outcome.error}"
    assert sandbox.run(CHECK + "\n", ROWS, session="jail").value == SOUND
    assert sandbox.run("[2 + 3, len('abc')]", session="jail").value == [5, 3]
    assert sandbox.run("[2 + 3, len('abc')]").value == [5, 3]


def test_a_session_cannot_read_what_another_was_given(sandbox: Sandbox) -> None:
    """All memory of a run of one session, looked through without its jail, for the text of another."""
    hunt = """
needle = b'canary-' * 20
result = [0, 0]
for line in open('/proc/self/maps').read().splitlines():
    span, rights, *_ = line.split()
    start, end = (int(address, 16) for address in span.split('-'))
    if rights.startswith('rw') and end - start < 1 << 28 and '[v' not in line:
        memory = ctypes.string_at(start, end - start)
        result[0] += len(memory)
        result[1] += memory.count(needle)
"""
    assert sandbox.run("len(text)", ROWS, session="jail").value == 70_000

    def look(session: str, names: str) -> list[int]:
        found = run_in_jail(
            f"{PRELUDE}\n{names}\n{hunt}", LIMITS, variables=ROWS, session=session, without=NO_JAIL, sandbox=sandbox
        ).value
        assert isinstance(found, list)
        return found

    assert look("s", "text")[1] > 400
    looked, found = look("other", "1")
    assert looked > 20_000_000
    assert found < 10  # the needle itself
