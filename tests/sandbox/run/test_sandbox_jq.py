"""jq programs a model wrote: exact outputs, readable errors, and nothing of the host in reach."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from byref_sandbox import EXACT, Data, JqOutcome, Limits, Sandbox, jsontext
from byref_sandbox.code import plainjq

ROWS = {"rows": [{"id": 1, "name": "Ann", "tags": ["x"]}, {"id": 2, "name": "Bö", "tags": []}], "total": 2}
LIMITS = Limits(wall_seconds=0.5, cpu_seconds=1, memory_bytes=128 << 20)


@pytest.mark.parametrize(
    ("program", "outputs"),
    [
        (".total", ["2"]),
        (".rows[].name", ['"Ann"', '"Bö"']),
        ("[.rows[] | select(.id > 1)]", ['[{"id":2,"name":"Bö","tags":[]}]']),
        (".rows | length", ["2"]),
        ("empty", []),
        (".nothing", ["null"]),
        (".rows | map(.id) | add", ["3"]),
        ('1, 2.5, "a", null, true, [], {}', ["1", "2.5", '"a"', "null", "true", "[]", "{}"]),
        ("to_entries | map(.key)", ['["rows","total"]']),
        ("[.rows[] | {(.name): .id}] | add", ['{"Ann":1,"Bö":2}']),
        ("@json", [json.dumps(json.dumps(ROWS, separators=(",", ":"), ensure_ascii=False), ensure_ascii=False)]),
        ("nan, infinite", ["null", "1.7976931348623157e+308"]),
        ("# a comment\n.total # and another", ["2"]),
    ],
)
def test_outputs_come_in_order(sandbox: Sandbox, program: str, outputs: list[str]) -> None:
    outcome = sandbox.jq(program, ROWS)
    assert outcome.error is None
    assert [output.decode() for output in outcome.outputs] == outputs
    assert not outcome.truncated


def test_data_is_loaded_and_walked(sandbox: Sandbox) -> None:
    payload = json.dumps(ROWS).encode()
    assert sandbox.jq("length", Data("k", lambda: payload)).outputs == (b"2",)
    assert sandbox.jq(".name", Data("k", lambda: payload, path=("rows", 1))).outputs == ('"Bö"'.encode(),)
    assert sandbox.jq("length", Data("k", lambda: b"some text", "text/plain")).outputs == (b"9",)
    assert sandbox.jq(".", Data("k", lambda: b"\xef\xbb\xbf[1]")).outputs == (b"[1]",)
    missing = sandbox.jq(".", Data("k", lambda: payload, path=("nothing",)))
    assert missing.error is not None
    assert "'nothing'" in missing.error.message


def test_a_value_with_its_types_is_its_json(sandbox: Sandbox) -> None:
    made = sandbox.run("t = pd.DataFrame({'a': [1, 2], 'b': [b'x', None]})\ns = pd.Series([1.5], index=['x'])").bound
    for name, written in {"t": b'[\n{"a":1,"b":"eA=="},\n{"a":2,"b":null}\n]', "s": b'{"x":1.5}'}.items():
        given = Data("k", lambda name=name: made[name].exact, EXACT)  # type: ignore[misc]
        [same] = sandbox.jq(".", given).outputs
        assert json.loads(same) == json.loads(made[name].data) == json.loads(written)
        assert sandbox.jq("length", given).outputs == (b"2" if name == "t" else b"1",)
        assert sandbox.jq(".", given, max_bytes=5).truncated
    broken = sandbox.jq(".", Data("k", lambda: made["t"].exact[:-9], EXACT))
    assert broken.error is not None
    assert "no kept value" in broken.error.message


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (".[", "syntax error"),
        (".rows[", "syntax error"),
        (".rows.name", "Cannot index array"),
        (".total[]", "Cannot iterate over number (2)"),
        ("nosuch(1)", "nosuch/1 is not defined"),
        ('error("mine")', "mine"),
        ('.rows | map(.id) | .[0] + "a"', "cannot be added"),
        ("tonumber", "cannot be parsed as a number"),
        ("{", "syntax error"),
    ],
)
def test_errors_are_readable(sandbox: Sandbox, program: str, words: str) -> None:
    outcome = sandbox.jq(program, ROWS)
    assert outcome.error is not None
    assert outcome.error.kind == "JqError"
    assert words in outcome.error.message
    assert not outcome.error.message.startswith("jq:")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ('"abc" | halt_error', "the program stopped with: abc"),
        ('"abc\\n" | halt_error(3)', "the program stopped with: abc"),
        ("halt_error", 'the program stopped with: {"a":null}'),
        ("null | halt_error", "the program stopped with: null"),
        ("[.a, (1 | halt_error)] // 2", "the program stopped with: 1"),
        ('halt_error("a")', "halt_error/1: number required"),
        ("error", 'the program stopped with: {"a": null}'),
        ("error(null)", "the program stopped with: null"),
        (".a | error", "the program stopped with: null"),
        ('error("abc")', "abc"),
        ("halt", "the program stopped (halt) before any output"),
        ("halt | nosuch", "nosuch/0 is not defined at <top-level>, line 1"),
    ],
)
def test_what_a_program_stopped_with_is_told(sandbox: Sandbox, program: str, message: str) -> None:
    outcome = sandbox.jq(program, {"a": None})
    assert outcome.outputs == ()
    assert outcome.error is not None
    assert outcome.error.message.startswith(message)


def test_a_program_that_halts_keeps_its_outputs(sandbox: Sandbox) -> None:
    outcome = sandbox.jq("1, 2, halt, 3", None)
    assert (outcome.outputs, outcome.error, outcome.truncated) == ((b"1", b"2"), None, False)
    assert sandbox.jq("def halt: 5; halt", None).outputs == (b"5",)
    assert sandbox.jq('"halt"', None).outputs == (b'"halt"',)


def test_outputs_before_an_error_are_kept(sandbox: Sandbox) -> None:
    outcome = sandbox.jq(".[] | 1 / .", [1, 2, 0, 4])
    assert outcome.outputs == (b"1", b"0.5")
    assert outcome.error is not None


@pytest.mark.parametrize("payload", [b"{", b"\xff\xfe", b"[1,]"])
def test_input_that_is_no_json_is_told(sandbox: Sandbox, payload: bytes) -> None:
    outcome = sandbox.jq(".", Data("k", lambda: payload))
    assert outcome.outputs == ()
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message[:12]) == ("JqError", "parse error:")


def test_no_input_has_no_outputs(sandbox: Sandbox) -> None:
    outcome = sandbox.jq(".", Data("k", lambda: b""))
    assert (outcome.outputs, outcome.error) == ((), None)


def test_outputs_are_capped_in_number_and_bytes(sandbox: Sandbox) -> None:
    outcome = sandbox.jq("range(100)", None, max_outputs=7)
    assert (outcome.outputs, outcome.truncated) == (tuple(str(i).encode() for i in range(7)), True)
    exact = sandbox.jq("range(7)", None, max_outputs=7)
    assert (len(exact.outputs), exact.truncated) == (7, False)
    outcome = sandbox.jq('range(100) | "xxxxxxxx"', None, max_bytes=35)
    assert (outcome.outputs, outcome.truncated) == ((b'"xxxxxxxx"',) * 3, True)
    endless = sandbox.jq("repeat(1)", None, max_outputs=1000)
    assert (len(endless.outputs), endless.truncated) == (1000, True)


@pytest.mark.parametrize(("option", "value"), [("max_outputs", 0), ("max_bytes", 0), ("max_outputs", -1)])
def test_caps_must_be_positive(sandbox: Sandbox, option: str, value: int) -> None:
    with pytest.raises(ValueError, match=option):
        sandbox.jq(".", None, **{option: value})


def test_there_is_no_environment(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYREF_SECRET", "top")
    assert sandbox.jq("env, $ENV", None).outputs == (b"{}", b"{}")


@pytest.mark.every_case("each is a way of its own to a file")
@pytest.mark.parametrize(
    "program",
    [
        'import "a" as a; 1',
        'include "a"; 1',
        'import "etc/passwd" as $p {search: "/"}; $p',
        'import "passwd" as $p {search: "/etc"}; $p',
        'include "x" {search: "/tmp"}; 1',
        "input",
        'get_search_list | .[0] | ltrimstr("~") | error',
        "modulemeta",
        '"a" | modulemeta',
    ],
)
def test_there_are_no_files(sandbox: Sandbox, program: str) -> None:
    outcome = sandbox.jq(program, {})
    assert outcome.error is not None
    assert outcome.outputs == ()
    assert "root:" not in outcome.error.message


def test_there_is_no_name_of_the_input(sandbox: Sandbox) -> None:
    assert sandbox.jq("input_filename", None).outputs == (b"null",)


@pytest.mark.every_case("each writes or ends in a way of its own")
@pytest.mark.parametrize(
    "program", ["debug", 'debug("x")', "stderr", '"x" | halt_error', "halt", "input_line_number", "$__prog_args"]
)
def test_what_writes_or_ends_does_no_harm(sandbox: Sandbox, program: str, capfd: pytest.CaptureFixture[str]) -> None:
    sandbox.jq(program, {"a": 1})
    assert capfd.readouterr() == ("", "")
    assert sandbox.jq(".a", {"a": 1}).outputs == (b"1",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "def f: f; f",
        "def f: 1 + f; f",
        "last(repeat(1))",
        "until(false; .)",
        "[limit(1e12; repeat(1))] | length",
        "last(range(1e15))",
        "reduce range(1e12) as $i (0; . + $i)",
        '"a" * 1e9',
        "[range(1e9)]",
        "reduce range(100) as $i ([1]; . + .)",
        'reduce range(60) as $i ("a"; . + .)',
        '[splits("a")] as $x | def f: [f]; f',
        "[recurse([., .])]",
        "def f(x): f(x | x); f(.)",
        "path(repeat(.))",
        "[combinations(30)]",
        ". as $x | [limit(1e9; repeat($x))]",
        "getpath([range(1e6)])",
        "setpath([0, 5e8]; 1)",
        'error("a" * 1e7)',
    ],
)
def test_programs_that_never_end_do(sandbox: Sandbox, program: str) -> None:
    root = sandbox.start()._root
    began = time.monotonic()
    outcome = sandbox.jq(program, [0, 1], limits=LIMITS)
    assert time.monotonic() - began < 5
    assert outcome.error is not None or outcome.truncated
    if outcome.error is not None:
        assert outcome.error.kind in {"TimeLimit", "CpuLimit", "MemoryLimit", "JqError"}, outcome.error
    assert sandbox._root is root
    assert sandbox.jq(".", 1).outputs == (b"1",)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["length", ".[3].id", ".[1:3]", "map(.id)[-1]", ".[0].in.x", ".[99999]"])
def test_a_pick_is_answered_from_what_the_session_keeps_decoded(sandbox: Sandbox, program: str) -> None:
    rows = [{"id": 2**63 + i, "in": {"x": i}} for i in range(100)]
    loads = []

    def load() -> Iterator[bytes]:
        loads.append(1)
        payload = json.dumps(rows).encode()
        yield payload[:500]
        yield payload[500:]

    data = Data(f"picked {program}", load)
    first = sandbox.pick(program, data, session="picks")
    again = sandbox.pick(program, data, session="picks")
    assert first is not None and again is not None
    assert (first.outputs, first.error, len(loads)) == (again.outputs, None, 1)
    assert [jsontext.decode(output) for output in first.outputs] == list(plainjq.compiled(program)(rows))
    assert sandbox.run("len(rows)", {"rows": data}, session="picks").value == 100
    assert len(loads) == 1


def test_what_is_more_than_a_pick_is_left_to_jq(sandbox: Sandbox) -> None:
    def pick(program: str, payload: bytes = b'{"a":[1]}', path: tuple[str, ...] = ()) -> JqOutcome | None:
        return sandbox.pick(program, Data(f"{payload!r}", lambda: payload, path=path), session="left")

    assert pick(". + 1") is pick(".a.b") is pick(".", b"{") is pick(".[") is None
    inside = pick(".[0]", path=("a",))
    assert inside is not None
    assert inside.outputs == (b"1",)


def test_picks_are_capped_too(sandbox: Sandbox) -> None:
    data = Data("capped", lambda: json.dumps(["x" * 10] * 100).encode())
    many = sandbox.pick(".[]", data, session="caps", max_outputs=7)
    big = sandbox.pick(".[]", data, session="caps", max_bytes=35)
    assert many is not None and big is not None
    assert (len(many.outputs), many.truncated, len(big.outputs), big.truncated) == (7, True, 2, True)


@pytest.mark.slow
def test_the_data_itself_counts_for_no_limit(sandbox: Sandbox) -> None:
    payload = json.dumps([{"id": i, "name": f"user {i}", "tags": ["a", "b"]} for i in range(100_000)]).encode()
    outcome = sandbox.jq(
        "map(.id) | add",
        Data("big", lambda: payload),
        limits=Limits(wall_seconds=20, cpu_seconds=20, memory_bytes=64 << 20),
    )
    assert (outcome.outputs, outcome.error) == ((b"4999950000",), None)


def test_what_loads_is_bytes(sandbox: Sandbox) -> None:
    for wrong in ("text", 5):
        with pytest.raises(TypeError, match="expected bytes"):
            sandbox.jq(".", Data("wrong", lambda wrong=wrong: wrong))  # type: ignore[misc]


@pytest.mark.parametrize(
    "program",
    [
        '("a" * 50000) | test("^(a?){5000}a{5000}$")',
        '("ab" * 2000) | test("^(([a-z])+.)+[A-Z]([a-z])+$")',
        '("a" * 40) | test("(a*)*b")',
        '("a" * 40) | test("(a|a)*b")',
        '("a" * 100000) | test("(x+x+)+y")',
    ],
)
def test_catastrophic_regexes_end(sandbox: Sandbox, program: str) -> None:
    outcome = sandbox.jq(program, None, limits=LIMITS)
    if outcome.error is None:
        assert outcome.outputs == (b"false",)
    else:
        assert outcome.error.kind in {"TimeLimit", "CpuLimit"} or "Regex failure" in outcome.error.message


def test_limits_are_named(sandbox: Sandbox) -> None:
    assert sandbox.jq("def f: f; f", None, limits=LIMITS).error.kind in {"TimeLimit", "CpuLimit"}  # type: ignore[union-attr]
    memory = sandbox.jq(
        "[range(1e9)]", None, limits=Limits(wall_seconds=5, cpu_seconds=5, memory_bytes=128 << 20)
    ).error
    assert memory is not None
    assert (memory.kind, "128 MiB" in memory.message) == ("MemoryLimit", True)


def test_big_integers_are_rounded_by_jq(sandbox: Sandbox) -> None:
    """libjq computes with 64-bit floats; this states it rather than wishes it."""
    assert sandbox.jq(". + 0", 2**53 + 1).outputs == (b"9007199254740992",)
    assert sandbox.jq(".", 2**53).outputs == (b"9007199254740992",)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r'"\ud83d"', "�"),
        (r'"a\uD83D\u0041\n"', "a�A\n"),
        (r'"\ude00\ud83d"', "��"),
        (r'"\ud83d\ud83d\ude00"', "�😀"),
        (r'"\\ud83d \\\ud83d"', r"\ud83d \�"),
    ],
)
def test_half_of_a_character_is_read_as_one_that_is_unknown(sandbox: Sandbox, text: str, read: str) -> None:
    [encoded] = sandbox.jq('. + ""', Data(text, text.encode)).outputs
    assert json.loads(encoded) == read


def test_programs_of_any_content_are_taken(sandbox: Sandbox) -> None:
    for program in ("", "\x00", "\ud800", ".\x00a", "(" * 10_000, "-" * 10_000, "." * 10_000, "[" * 300 + "]" * 300):
        outcome = sandbox.jq(program, None, limits=LIMITS)
        assert outcome.error is None or outcome.error.kind in {"JqError", "MemoryLimit", "UnicodeDecodeError"}, outcome
    assert sandbox.jq("x" * 1_000_001, None).error is not None


def test_deep_input_does_no_harm(sandbox: Sandbox) -> None:
    for depth in (200, 5_000, 100_000):
        payload = b"[" * depth + b"]" * depth
        outcome = sandbox.jq("length", Data(str(depth), lambda payload=payload: payload), limits=LIMITS)
        if depth < 10_000:  # jq's own limit
            assert outcome.outputs == (b"1",)
        else:
            assert outcome.error is not None and "Exceeds depth limit" in outcome.error.message
