"""Files that code writes are artifacts: named in the reply, read by later calls, by tools, and by other processes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import byref
from byref_sandbox import Sandbox

ORDERS = [{"id": number, "region": "ns"[number % 2]} for number in range(2000)]


@pytest.fixture
def chat(engine: byref.Engine) -> byref.Session:
    session = engine.session(secrets.token_hex(8), model="claude-sonnet-5")
    session.process(ORDERS, tool="orders")
    return session


@pytest.fixture
def ask(chat: byref.Session) -> Callable[..., str]:
    def ask(code: str, **options: object) -> str:
        return str(chat.call("code_interpreter", {"code": code, **options}).text)

    return ask


def test_the_reply_names_the_file_and_later_code_reads_it(ask: Callable[..., str]) -> None:
    assert ask("df(orders).to_csv('out.csv', index=False)") == (
        "[written: out.csv (12,900 bytes); later code opens it by name, artifact_read and artifact_grep too]"
    )
    assert ask("pd.read_csv('out.csv').shape") == "[2000,2]"
    assert ask("open('out.csv').readline().strip()") == "id,region"
    assert ask("with open('out.csv', 'a') as f:\n    f.write('end\\n')").startswith("[written: out.csv (12,904 bytes)")
    assert ask("name = 'out'\nopen(f'{name}.csv').readlines()[-1].strip()").startswith("end\n")
    assert ask("1", reset=True) == "1"
    assert ask("len(open('out.csv').read())") == "12904"
    assert "there is no file 'outt.csv'; there are: out.csv" in ask("open('outt.csv')")


def test_tools_reach_the_newest_file_of_a_name(chat: byref.Session, ask: Callable[..., str]) -> None:
    ask("open('notes/a.txt', 'w').write('one\\ntwo\\n')")
    ask("open('notes/a.txt', 'a').write('three\\n')")
    assert "three" in chat.call("artifact_read", {"artifact": "notes/a.txt"}).text
    assert "2| two" in chat.call("artifact_grep", {"artifact": "notes/a.txt", "pattern": "t.o"}).text
    ask("json.dump(orders[:3], open('o.json', 'w'))")
    assert chat.call("artifact_jq", {"artifact": "o.json", "program": "map(.id)"}).text == "[0,1,2]"
    binary = ask("open('b.bin', 'wb').write(bytes(range(150, 256)))")
    assert "[written: b.bin (106 bytes); later code opens it by name]" in binary
    stored = chat.get_artifact("b.bin")
    assert stored is not None and (stored.kind, stored.value) == ("document", bytes(range(150, 256)))


@pytest.mark.slow
def test_another_process_of_the_host_finds_files_in_the_database(
    chat: byref.Session, ask: Callable[..., str], engine: byref.Engine
) -> None:
    ask("open('a.txt', 'w').write('kept')")
    url = engine.database.engine.url.render_as_string(hide_password=False)
    with Sandbox() as other, byref.Engine(url, interpreter=other) as second:
        session = second.session(chat.id, model="claude-sonnet-5")
        assert session.call("code_interpreter", {"code": "open('a.txt').read()"}).text == "kept"


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("two transactions at once")
def test_a_file_that_two_calls_at_once_have_written_is_named(ask: Callable[..., str]) -> None:
    ask("open('log.txt', 'w').write('0')\nopen('other.txt', 'w').write('0')")
    codes = [
        f"import time\nopen('log.txt', 'a').write('{n}')\nopen('own{n}.txt', 'w').write('0')\ntime.sleep(0.3)"
        for n in range(2)
    ]
    with ThreadPoolExecutor() as pool:
        told = [*pool.map(ask, codes)]
    [later] = [n for n, text in enumerate(told) if "meanwhile" in text]
    assert "[written by another call meanwhile: log.txt; what this call wrote took the place of that]" in told[later]
    assert ask("open('log.txt').read()") == f"0{later}"
    assert "meanwhile" not in ask("open('log.txt', 'w').write('1')")


def test_files_stay_with_their_session(ask: Callable[..., str], engine: byref.Engine) -> None:
    ask("open('secret.txt', 'w').write('kept')")
    other = engine.session(secrets.token_hex(8), model="claude-sonnet-5")
    assert (
        "there is no file 'secret.txt': code has written none yet"
        in other.call("code_interpreter", {"code": "open('secret.txt')"}).text
    )


def test_the_host_finds_files_in_the_outcome_and_they_are_stored(chat: byref.Session, ask: Callable[..., str]) -> None:
    outcome = chat.run("open('h.txt', 'w').write('of the host')")
    assert [(file.name, file.data) for file in outcome.files] == [("h.txt", b"of the host")]
    assert ask("open('h.txt').read()") == "of the host"


def test_what_is_not_stored_is_told(engine: byref.Engine) -> None:
    policy = byref.Policy(max_artifact_bytes=1_000)
    session = engine.session(secrets.token_hex(8), model="claude-sonnet-5", policy=policy)
    reply = session.call(
        "code_interpreter", {"code": "open('big.txt', 'w').write('x' * 2000)\nopen('a.txt', 'w').write('y')"}
    ).text
    assert "[written: a.txt (1 bytes)" in reply
    assert "[big.txt is not stored: 2,000 bytes are more than max_artifact_bytes=1,000 allows]" in reply
    many = session.call("code_interpreter", {"code": "for n in range(60): open(f'{n}.txt', 'w').write('x')"}).text
    assert "and 10 more; later code opens them by name" in many and "[30 more files are not stored]" in many
    assert len(many) < 1_500
