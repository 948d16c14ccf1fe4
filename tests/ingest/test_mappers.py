"""Mappers and templates change an output exactly or not at all, and none of their faults harms a turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import DataFrame
from sampled import sampled

from byref import ConfigurationError, Engine, Policy, Session, ToolPolicy
from byref.content import values
from byref.conversation.scope import Scope
from byref.ingest.mappers import MapperFailed, apply
from byref.policy.checks import MissingMapper
from byref_sandbox import Sandbox
from byref_sandbox.code import templates

BIG = 12345678901234567890
EXPENSES = {
    "expenses": [{"description": f"Taxi {i}", "amount": i, "category": "travel", "id": BIG + i} for i in range(1, 501)],
    "total_amount": 125_250,
}


class Color(Enum):
    RED = "red"


@pytest.fixture
def scope(chat: Session) -> Scope:
    return chat._scope


def failed(scope: Scope, tool: ToolPolicy, value: object, given: bytes = b"") -> str:
    with pytest.raises(MapperFailed) as caught:
        apply(scope, tool, value, given)
    text = str(caught.value)
    assert text and len(text) < 450 and "\n" not in text
    return text


# jq


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (".a", [1, 2]), (".a[]", [1, 2]), (".a[0]", 1), (".a[] | select(. > 1)", 2), (".a[] | select(. > 2)", []), ("empty", []),
        (".a | add", 3), ("def twice: . * 2; .a | map(twice)  # a comment", [2, 4]), (".b", None), ('"text"', "text"),
        (". as $all | $all.a | length", 2), ("[.a[]], .b", [[1, 2], None]), ("{a: .a[]}", [{"a": 1}, {"a": 2}]),
        ("env | length", 0), ('"\\u00e9\\u0000"', "é\0"),
    ],
)  # fmt: skip
def test_one_output_is_itself_and_others_are_a_list(scope: Scope, program: str, expected: object) -> None:
    assert apply(scope, ToolPolicy(mapper=program), {"a": [1, 2], "b": None}) == expected


def test_more_outputs_than_the_sandbox_frames_and_more_bytes_than_a_datagram(scope: Scope) -> None:
    value = {"rows": [{"id": i, "name": "é" * 20} for i in range(50_000)]}
    assert apply(scope, ToolPolicy(mapper=".rows[] | {id}"), value) == [{"id": i} for i in range(50_000)]


@pytest.mark.parametrize(
    "program",
    [".[]|{id}", "map({id})", "[.[]|{id, n}]|map(del(.n))", "map(to_entries|from_entries|{id})", "[.[]|with_entries(select(.key==\"id\"))]",
     "sort_by(.n)|map({id})", "map({id: .id, kept: true}|del(.kept))", "[.[] | select(.n >= 0) | {id}]"],
)  # fmt: skip
def test_integers_that_are_passed_on_keep_every_digit(scope: Scope, program: str) -> None:
    ids = [BIG, -BIG, 2**53 + 1, 2**63 - 1, 10**40 + 7, 5]
    value = [{"id": id, "n": n} for n, id in enumerate(ids)]
    assert apply(scope, ToolPolicy(mapper=program), value) == [{"id": id} for id in ids]


@pytest.mark.parametrize(
    "program",
    ["{id: (.id * 2)}", "[.id % 10, 1]", ".end % 1_000".replace("_", ""), "{x: (.end - .start), y: (.start | tostring)}",
     "[.[] | . / 3]", "select(.end % 1000 > 780) | 1", "{x: (9007199254740993 * 3)}"],
)  # fmt: skip
def test_integers_that_jq_rounds_are_a_failure(scope: Scope, program: str) -> None:
    value = {"id": BIG, "start": 1700000000123456000, "end": 1700000000123456789}
    assert "integers beyond 2**53, which jq rounds" in failed(scope, ToolPolicy(mapper=program), value)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("id", [2**53, 10**22])
def test_what_a_program_makes_of_large_integers_is_exact_or_a_failure(scope: Scope, id: int) -> None:
    value = {"id": id, "other": 1e300, "more": [2**60 + 1, 5]}
    for program in (
        "{id, next: (.id * 3)}",
        "[.more[0], .id % 7]",
        ".more[0] - 0.5",
        '.more[] | select(tostring | startswith("115"))',
    ):
        assert "integers beyond 2**53, which jq rounds" in failed(scope, ToolPolicy(mapper=program), value), program
    for program, passed in (
        ("{id, more, n: (.more[1] % 3)}", {"id": id, "more": [2**60 + 1, 5], "n": 2}),
        ("(.id | tojson | fromjson), .other", [id, 1e300]),
        (".id + 1", id + 1),
        ("[.more[0] - .id, (.more | add)]", [2**60 + 1 - id, 2**60 + 6]),
        ('[.more[] | tostring | "<" + . + ">"]', ["<1152921504606846977>", "<5>"]),
        ("[.id, .more[]] | sort_by(-.) | first", max(id, 2**60 + 1)),
    ):
        assert apply(scope, ToolPolicy(mapper=program), value) == passed, program


def test_large_floats_are_no_integers(scope: Scope) -> None:
    value = {"a": 1e300, "b": 1e17, "c": 0.1, "d": -2.5e-9}
    assert apply(scope, ToolPolicy(mapper="{a, b, c, d}"), value) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3, alphabet="abc é"), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3))
@settings(max_examples=settings.default.max_examples * 3 // 5)
def test_what_a_program_passes_on_is_what_came(sandbox: Sandbox, local: Engine, value: dict[str, Any]) -> None:
    scope = local.session("property", tenant="mappers")._scope
    assert apply(scope, ToolPolicy(mapper="[{v: .}] | .[0].v"), value) == value


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (".rows[].id", "mapper: Cannot iterate over null"),
        (".a.b", "mapper: Cannot index number with"),
        ('error("no such thing")', "mapper: no such thing"),
        ("error(.)", "mapper: "),
        ("error(null)", "mapper: "),
        ("halt", "the program stopped (halt) before any output"),
        ("input", "mapper: "),
        ('"x" * 3000000000 | length', "mapper: "),
    ],
)
def test_what_goes_wrong_is_said_in_a_line(scope: Scope, program: str, text: str) -> None:
    assert text in failed(scope, ToolPolicy(mapper=program), {"a": 1, "long": "x\n" * 100_000})


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("program", sampled(["def f: f; f", "[range(1e12)] | length", "last(range(1e12))"], 2))
def test_a_program_without_end_is_killed(scope: Scope, program: str) -> None:
    begun = time.monotonic()
    own = ToolPolicy(mapper=program, run_seconds=0.3, run_cpu_seconds=1, run_memory_bytes=64 << 20)
    assert failed(scope, own, {}).startswith("mapper: ")
    assert time.monotonic() - begun < 15
    assert apply(scope, ToolPolicy(mapper=". + {}"), {"a": 1}) == {"a": 1}


def test_a_program_that_gives_too_much(scope: Scope) -> None:
    assert (
        failed(scope, ToolPolicy(mapper='"x" * 2000', max_artifact_bytes=1_000), {})
        == "mapper: it gives more than 1,000 bytes"
    )


def test_jq_is_for_json(scope: Scope) -> None:
    assert (
        failed(scope, ToolPolicy(mapper="."), "text") == "mapper: a jq program needs JSON, and the output is plaintext"
    )


@pytest.mark.parametrize("program", ["map(select(.price > 100))", "[.[] | select(.price > 100)] | . as $all | $all"])
def test_jq_is_given_what_the_model_would_read(scope: Scope, program: str) -> None:
    """The rows of a database's driver, say; each of their types was in the way of a comparison once, without a word."""
    rows = [
        {"price": Decimal("5.00"), "day": date(2024, 1, 2), "id": UUID(int=1), "n": np.int64(1), 7: Color.RED, "x": 1j},
        {
            "price": Decimal("500.25"),
            "day": date(2023, 5, 6),
            "id": UUID(int=2),
            "n": np.int64(500),
            7: Color.RED,
            "x": b"a",
        },
    ]
    wanted = {"price": 500.25, "day": "2023-05-06", "id": str(UUID(int=2)), "n": 500, "7": "red", "x": "YQ=="}
    assert apply(scope, ToolPolicy(mapper=program), rows) == [wanted]
    assert apply(
        scope, ToolPolicy(mapper='map(select(.day < "2024" and .n > 1 and .["7"] == "red")) | map(.n)'), rows
    ) == [500]


LONG = "12345678901234567.89"
NEAR = "0.1000000000000000000001"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (".", f'[{{"v":{LONG},"w":{NEAR}}},{{"v":1.5,"w":0.1}}]'), ("map(select(.v > 12345678901234567.88))", f'[{{"v":{LONG},"w":{NEAR}}}]'),
        ("map(.w) | unique", f"[0.1,{NEAR}]"), ("map(.w == 0.1)", [False, True]), (".[0].w == .[1].w", False), (".[1]", {"v": 1.5, "w": 0.1}),
        (". as $all | $all[0].v", LONG), (".[] | .w", f"[{NEAR},0.1]"), (".[0].w | tostring", NEAR), (".[1].v + 1", 2.5), ("[.[0].w + 0]", [0.1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_text", [False, True])
def test_digits_that_no_float_holds_are_kept(scope: Scope, program: str, expected: object, is_text: bool) -> None:
    text = f'[{{"v": {LONG}, "w": {NEAR}}}, {{"v": 1.5, "w": 0.1}}]'.encode()
    value = json.loads(text) if is_text else json.loads(text, parse_float=Decimal)
    mapped = apply(scope, ToolPolicy(mapper=program), value, text if is_text else b"")
    assert (bytes(mapped).decode() if isinstance(mapped, msgspec.Raw) else mapped) == expected
    assert isinstance(mapped, msgspec.Raw) == (isinstance(expected, str) and "tostring" not in program)


def test_digits_of_a_program_and_of_what_it_reads_are_kept(scope: Scope) -> None:
    assert apply(scope, ToolPolicy(mapper=f"{{a: {NEAR}, b: (.a == {NEAR})}}"), {"a": 0.1}) == msgspec.Raw(
        f'{{"a":{NEAR},"b":false}}'.encode()
    )
    assert apply(scope, ToolPolicy(mapper=".[0] | tonumber"), [NEAR]) == msgspec.Raw(NEAR.encode())
    assert apply(scope, ToolPolicy(mapper=".[0]", template="{{ data }}"), [Decimal(LONG)]) == LONG
    assert "integers beyond 2**53" in failed(scope, ToolPolicy(mapper=".[0] * 2"), [Decimal(LONG)])
    assert "jq is not available here" in failed(
        replace(scope, sandbox=None), ToolPolicy(mapper=".[0]"), [Decimal(LONG)]
    )
    assert apply(replace(scope, sandbox=None), ToolPolicy(mapper=".[0]"), [Decimal("1.10")]) == 1.1


def test_a_mapped_text_keeps_its_digits_and_its_data_are_floats(local: Engine, tenant: str) -> None:
    policy = Policy(per_tool={"t": ToolPolicy(mapper=".rows")})
    session = local.session("digits", tenant=tenant, policy=policy)
    rows = ",".join(f'{{"v":{LONG},"id":{n}}}' for n in range(2_000))
    session.process(f'{{"rows":[{rows}]}}', tool="t")
    assert session.variable("t").value()[1] == {"v": float(LONG), "id": 1}
    assert LONG in session.call("artifact_read", {"artifact_id": "t"}).content


@pytest.mark.parametrize(
    ("program", "value", "said"),
    [
        (".[0]", [float("nan")], "NaN has no JSON"), (".rows", {"rows": [{"a": float("nan")}]}, "NaN has no JSON"),
        (".[0]", [float("-inf")], "beyond 1.8e308"), ("{a: 1.9e308}", [], "beyond 1.8e308"), ("[.[] | tonumber]", ["1e400"], "beyond 1.8e308"),
        ("{n: .a}", {"a": float("inf")}, "beyond 1.8e308"), (".[0]", [Decimal("1e400")], "beyond 1.8e308"),
    ],
)  # fmt: skip
def test_what_has_no_json_is_a_failure(scope: Scope, program: str, value: object, said: str) -> None:
    assert said in failed(scope, ToolPolicy(mapper=program), value)
    assert said in failed(scope, ToolPolicy(mapper=program), value, json.dumps(value, default=float).encode())
    assert apply(scope, ToolPolicy(mapper="length"), value) == len(value)  # type: ignore[arg-type]


def test_a_value_that_contains_itself_is_bounded_for_jq_too(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_PARTS", 100_000)
    loop: list[Any] = []
    loop.append(loop)
    assert apply(scope, ToolPolicy(mapper="length"), loop) == 1


def test_without_a_sandbox_plain_paths_still_work(scope: Scope) -> None:
    bare = replace(scope, sandbox=None)
    assert apply(bare, ToolPolicy(mapper=".rows | map(.id)"), {"rows": [{"id": BIG}]}) == [BIG]
    assert (
        failed(bare, ToolPolicy(mapper=".a as $a | $a"), {"a": 1})
        == "mapper: jq is not available here, but for plain programs"
    )


def test_a_sandbox_that_is_closed(scope: Scope) -> None:
    closed = Sandbox()
    closed.close()
    assert "jq could not be run" in failed(replace(scope, sandbox=closed), ToolPolicy(mapper=". + {}"), {})


# Callables


def test_a_callable_is_given_the_parsed_output_and_may_return_anything(scope: Scope) -> None:
    def total(value: dict[str, Any]) -> int:
        return sum(row["id"] for row in value["expenses"])

    assert apply(scope, ToolPolicy(mapper=total), EXPENSES) == sum(BIG + i for i in range(1, 501))
    assert apply(scope, ToolPolicy(mapper=str.upper), "text") == "TEXT"
    thing = object()
    assert apply(scope, ToolPolicy(mapper=lambda value: thing), {}) is thing


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def raising(error: BaseException) -> Callable[[Any], Any]:
    def mapper(value: Any) -> Any:
        raise error

    return mapper


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("SECRET"), "mapper: KeyError"),
        (ValueError("SECRET" * 10_000), "mapper: ValueError"),
        (ValueError("a\n  SECRET"), "mapper: ValueError"),
        (Rude(), "mapper: Rude"),
        (MemoryError(), "mapper: MemoryError"),
        (RecursionError("deep"), "mapper: RecursionError"),
    ],
)
def test_what_a_callable_raises_is_a_failure(scope: Scope, error: Exception, text: str) -> None:
    at = f" at test_mappers.py:{raising.__code__.co_firstlineno + 2} in mapper"
    assert failed(scope, ToolPolicy(mapper=raising(error)), {}) == text + at


def test_an_interrupt_is_the_hosts(scope: Scope) -> None:
    with pytest.raises(KeyboardInterrupt):
        apply(scope, ToolPolicy(mapper=raising(KeyboardInterrupt())), {})


def test_a_callable_that_returns_a_coroutine(scope: Scope) -> None:
    async def later(value: Any) -> Any:
        return value

    assert (
        failed(scope, ToolPolicy(mapper=lambda value: later(value)), {})
        == "mapper: it returned a coroutine; give an ordinary function"
    )


def test_a_callable_that_fails_halfway_has_changed_nothing(scope: Scope) -> None:
    class Own(dict[str, Any]):
        pass

    def halfway(value: Any) -> Any:
        value["rows"].clear()
        value["other"] = 1
        raise ValueError("no")

    for value in ({"rows": [1, BIG, "\ud800"]}, Own(rows=[1, 2])):
        before = json.dumps(value)
        failed(scope, ToolPolicy(mapper=halfway), value)
        assert json.dumps(value) == before


def test_a_callable_that_was_not_kept(scope: Scope) -> None:
    tool = ToolPolicy(mapper=MissingMapper("shop.mappers.cart", "get_cart"))
    assert failed(scope, tool, {}) == (
        "the mapper 'shop.mappers.cart' of tool 'get_cart' is a Python callable and is not kept with the session: "
        "give policy= again"
    )


# Templates


def test_the_mapper_is_before_the_template(scope: Scope) -> None:
    tool = ToolPolicy(mapper="{n: (.expenses | length)}", template="{{ n }} expenses, {{ data.n }}")
    assert apply(scope, tool, EXPENSES) == "500 expenses, 500"
    assert "Cannot iterate" in failed(scope, ToolPolicy(mapper=".x[]", template="x"), {})


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{{ data }}", "a <b> & 'c'", "a <b> & 'c'"),
        ("{{ data[0] }}", [1, 2], "1"),
        ("{{ a }} {{ data.a }}", {"a": 1}, "1 1"),
        ("{% for x in data.items %}{{ x }}{% endfor %}", {"items": [1, 2]}, "12"),
        ("{% for x in items %}{{ x }}{% endfor %}", {"items": [1, 2]}, "12"),
        ("{{ data.keys }} {{ data['values'] }}", {"keys": "k", "values": "v"}, "k v"),
        ("{% for k, v in data.items() %}{{ k }}={{ v }};{% endfor %}", {"a": 1, "b": 2}, "a=1;b=2;"),
        ("{{ data }} {{ output.data }}", {"data": 5}, "5 5"),
        ("{{ data.a }}", {"data": {"a": 1}}, "1"),
        ("{% for i in range(3) %}{{ i }}{% endfor %}", {"range": "no"}, "012"),
        ("{% for x in data %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}", [1, 2], "1/2,2/2"),
        ("{% for x in data if x > 1 %}{{ x }}{% else %}none{% endfor %}", [1, 2], "2"),
        ("{% for x in data %}{% else %}none{% endfor %}", [], "none"),
        ("{% for x in data recursive %}{{ x.n }}{{ loop(x.of) }}{% endfor %}", [{"n": 1, "of": [{"n": 2, "of": []}]}], "12"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}{{ data | map('upper') | join(', ') }}", ["a", "b"], "<1>A, B"),
        ("{{ '%.2f' % data }} {{ '{:>8.1f}: {}'.format(data, 1) }} {{ '%s: %5d' | format('a', 7) }}", 2.5, "2.50      2.5: 1 a:     7"),
        ("{{ '-' * 20 }}{{ 3 * 4 }}{{ 2 ** 10 }}{{ 7 % 4 }}", {}, "-" * 20 + "1210243"),
        ("{{ data | tojson }}", {"a": "<"}, '{"a": "\\u003c"}'),
        ("{{ data | center(5) }}|{{ data.ljust(3) }}|", "a", "  a  |a  |"),
    ],
)  # fmt: skip
def test_templates(scope: Scope, template: str, value: object, text: str) -> None:
    assert apply(scope, ToolPolicy(template=template), value) == text


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{{ nope }}", {}, "template: UndefinedError: 'nope' is undefined"),
        ("{{ data.a.b }}", {"a": {}}, "template: UndefinedError: 'dict object' has no attribute 'b' (line 1)"),
        ("{% for x in rows %}{% endfor %}", {}, "template: UndefinedError: 'rows' is undefined"),
        ("{{ 1 / data }}", 0, "template: ZeroDivisionError (line 1)"),
        ("\n{{ data + 1 }}", "x" * 100_000, "template: TypeError (line 2)"),
        ("{{ data.__class__ }}", {}, "template: SecurityError: access to attribute '__class__' of 'dict' object is unsafe."),
        ("{{ data.append(1) }}", [], "template: SecurityError: "),
        ("{{ lipsum(1000) }}", {}, "template: UndefinedError: 'lipsum' is undefined"),
        ("{{ range(n) | list }}", {"n": 10**9}, "template: OverflowError (line 1)"),
        ("{{ '-' * n }}", {"n": 10**10}, "template: needed more than the 1,024 MiB of memory a run may use"),
        ("{% for x in data recursive %}{{ loop(data) }}{% endfor %}", [1], "template: RecursionError (line 1)"),
    ],
)  # fmt: skip
def test_what_a_template_cannot_do(scope: Scope, template: str, value: object, text: str) -> None:
    begun = time.monotonic()
    assert failed(scope, ToolPolicy(template=template), value).startswith(text)
    assert time.monotonic() - begun < 3


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in data %}{% for b in data %}{{ b }}{% endfor %}{% endfor %}",
        "{% for a in data %}{% for b in data %}{% endfor %}{% endfor %}",
        "{% macro m() %}{% for a in data %}{% for b in data %}{% endfor %}{% endfor %}{% endmacro %}{{ m() }}",
        "{% set x %}{% for a in data %}{% for b in data %}{% endfor %}{% endfor %}{% endset %}",
    ],
)
def test_a_rendering_ends_in_time(scope: Scope, template: str) -> None:
    begun = time.monotonic()
    reason = failed(scope, ToolPolicy(template=template, run_seconds=0.3), [""] * 100_000)
    assert reason == "template: stopped after 0.3 s" and time.monotonic() - begun < 3


def test_a_text_has_a_bound_in_bytes(scope: Scope) -> None:
    tool = ToolPolicy(template="{% for x in data %}é{% endfor %}", max_artifact_bytes=1_000)
    assert apply(scope, tool, [0] * 500) == "é" * 500
    assert failed(scope, tool, [0] * 501) == "template: the text is larger than 1,000 bytes"


@given(
    st.dictionaries(
        st.text(max_size=12)
        | st.sampled_from(["output", "data", "_byref_deadline", "range", "self", "loop", "row", "caller"]),
        JSON,
    )
)
def test_no_key_of_the_data_changes_what_a_template_means(value: dict[str, Any]) -> None:
    source = "{% for i in range(2) %}{% set row = i %}{{ loop.index }}{{ row }}{% endfor %}{{ output | length }}"
    assert templates.render(source, value, max_bytes=1_000) == f"1021{len(value)}".encode()


PLAIN = [
    ("{{ data }}", "{'rows': [{'n': 1, 's': \"a's\"}, {'n': 2.5, 's': 'é\\n<b>'}], 'id': 12345678901234567890, 'none': None, 'on': True}"),
    ("{% for row in rows %}{{ loop.index }}/{{ loop.length }} {{ row.s | upper | trim }}{{ ', ' if not loop.last }}{% endfor %}", "1/2 A'S, 2/2 É\n<B>"),
    ("{% for k, v in data.items() if v is number %}{{ k }}={{ v }};{% else %}none{% endfor %}", "id=12345678901234567890;on=True;"),
    ("{% if rows | length > 1 and not none %}{{ rows[0].s }}{% elif on %}x{% else %}y{% endif %}", "a's"),
    ("{{ rows[:1] }}{{ rows[-1]['n'] | round(1) }}{{ nope | default('-') }}{{ rows | map(attribute='n') | join(', ') }}", "[{'n': 1, 's': \"a's\"}]2.5-1, 2.5"),
    ("{{ rows | first | tojson }}{{ none is none }}{{ 'n' in rows[0] }}{{ id | string | length }}{{ on and 1 or 2 }}", '{"n": 1, "s": "a\\u0027s"}TrueTrue201'),
    ("{{ rows[1].s | escape }}{{ rows[1].n | int }}{{ rows[1].s | title }}{{ 'c' if id == 1 else 'd' }}", "é\n&lt;b&gt;2É\n<B>d"),
]  # fmt: skip
NOT_PLAIN = [
    "{{ a ~ b }}", "{{ a + b }}", "{{ a * 2 }}", "{{ '%s' % a }}", "{{ a | replace('x', b) }}", "{{ a | indent(2) }}", "{{ a | center(9) }}",
    "{{ a | join(b) }}", "{{ a | join('12345678901') }}", "{{ a | join(',') | join(',') }}", "{{ a | join(attribute='b') }}", "{{ a | round(b) }}",
    "{{ a | round(21) }}", "{{ a | round(-1) }}", "{{ a | round(1, 'floor') }}", "{{ a | tojson(2) }}", "{{ a | tojson | tojson | tojson | tojson | tojson }}",
    "{{ a | map('upper') | list }}", "{{ a | map(attribute=b) | list }}", "{{ a | map(attribute='0.0.0.0.0') | first }}", "{{ a | sort }}", "{{ a | sum }}",
    "{{ a[b] }}", "{{ a[b:] }}", "{{ a.b() }}", "{{ a.items(1) }}", "{{ range(9) }}", "{{ [a, a] }}", "{{ (a, a) }}", "{{ {'a': a} }}", "{{ a == b }}",
    "{{ 1 < a < b }}", "{% set x = a %}", "{% set x %}{% endset %}", "{% macro m() %}{% endmacro %}", "{% for x in a recursive %}{% endfor %}",
    "{% filter upper %}a{% endfilter %}", "{{ a is divisibleby(3) }}", "{{ a is eq(b) }}", "{% call a() %}{% endcall %}", "{% if a | a %}{% endif %}",
    "{{ a }}" * 2_000, "{% with x = a %}{% endwith %}", "{{ -a }}", "{{ a in b }}", "{% if 'a' in b and 'a' in b[:][:][:][:] %}{% endif %}",
]  # fmt: skip


@pytest.mark.parametrize(("template", "text"), PLAIN)
def test_a_plain_template_is_rendered_here_as_the_sandbox_renders_it(scope: Scope, template: str, text: str) -> None:
    value = {"rows": [{"n": 1, "s": "a's"}, {"n": 2.5, "s": "é\n<b>"}], "id": BIG, "none": None, "on": True}
    assert templates.is_plain(template) and scope.sandbox is not None
    assert apply(replace(scope, sandbox=None), ToolPolicy(template=template), value) == text
    assert scope.sandbox.render(template, value).text == text


@pytest.mark.parametrize("template", [each for each in NOT_PLAIN if "| a" not in each])
def test_what_may_multiply_data_is_not_plain(template: str) -> None:
    assert templates.fault(template) is None and not templates.is_plain(template)


def test_without_a_sandbox_plain_templates_are_bounded_and_others_fail_in_words(scope: Scope) -> None:
    bare = replace(scope, sandbox=None)
    assert apply(bare, ToolPolicy(template="{% for x in data %}{{ x }}{% endfor %}"), [1, 2]) == "12"
    for template, value in (
        ("{{ data | sort }}", [1]),
        ("{{ data }}", "x" * (1 << 20) + "x"),
        ("{{ data[0] }}", [b"x"]),
    ):
        reason = failed(bare, ToolPolicy(template=template), value)
        assert reason.startswith("template: nothing here can end it, so it has to be plain, and its data at most 1 MB")
    loops = "{% for a in data %}{% for b in data %}{% if b %}{% endif %}{% endfor %}{% endfor %}"
    own = ToolPolicy(template=loops, run_seconds=0.3)
    assert failed(bare, own, [0] * 100_000) == "template: it takes longer than 0.3 seconds"
    own = ToolPolicy(template="{% for x in data %}{{ data }}{% endfor %}", max_artifact_bytes=10_000)
    assert failed(bare, own, ["x" * 1_000] * 100) == "template: the text is larger than 10,000 bytes"


class Point:
    """A value of a host's own class."""

    def model_dump(self) -> dict[str, Any]:
        return {"x": 1, "on": date(2024, 5, 6)}


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{{ data.d.year }} {{ data.d }}", {"d": date(2024, 5, 6)}, "2024 2024-05-06"),
        ("{{ data.n + 1 }} {{ data.n }}", {"n": Decimal("1.10")}, "2.10 1.10"),
        ("{{ data[1] }} {{ data }}", {1: ("a", 2)}, "('a', 2) {1: ('a', 2)}"),
        ("{{ data.n }}", {"n": 10**5000}, None),
        ("{{ data.n * 0 }} {{ data.f }}", {"n": 10**5000, "f": float("nan")}, "0 nan"),
        ("{{ data[0].x }} {{ data[0]['on'] }} {{ data[1].day is defined }}", [Point(), date(2024, 5, 6)], "1 2024-05-06 False"),
        ("{{ data | length }}{{ data[0] }}", "\ud800é", "2\ud800"),
        ("{{ data[0] | wordwrap }}", ["\ud800é"], "\ud800é"),
        ("{% for row in data.to_dict('records') %}{{ row.a }}{% endfor %}", DataFrame({"a": [1, 2]}), "12"),
    ],
)  # fmt: skip
def test_what_a_template_reads_of_values_of_python(
    scope: Scope, template: str, value: object, text: str | None
) -> None:
    tool = ToolPolicy(mapper=lambda _: value, template=template)
    if text is None:
        assert failed(scope, tool, {}) == "template: ValueError (line 1)"
    else:
        assert apply(scope, tool, {}) == text


def test_a_value_that_repeats_itself_is_not_written_out(scope: Scope) -> None:
    value: Any = ["lol"]
    for _ in range(40):
        value = [value] * 9
    assert "refers to its own parts" in failed(scope, ToolPolicy(mapper=lambda _: value, template="{{ data }}"), {})


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{% for a in data %}" * 21 + "{% endfor %}" * 21, "too many statically nested blocks"),
        ("{{ " + "9" * 5_000 + " }}", "Exceeds the limit"),
        ("{{ " + "(" * 2_000 + ")" * 2_000 + " }}", "nested too deeply"),
        ("{{ data | nothing }}", "No filter named 'nothing'"),
    ],
)
def test_faults_of_templates(template: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no template: .*{fault}"):
        ToolPolicy(template=template)


def test_nothing_of_a_template_is_computed_while_it_is_compiled() -> None:
    begun = time.monotonic()
    ToolPolicy(
        template="{{ 'a' | center(99999999999) }}{{ 7 ** 7 ** 9 }}{{ 5 | round(-30000000) }}{{ '%9999999999d' % 1 }}"
    )
    assert time.monotonic() - begun < 1


# What is said of a failure


def secret_key(value: Any) -> Any:
    return {}[value["name"]]


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (ToolPolicy(mapper=secret_key), "mapper: KeyError at test_mappers.py:"),
        (ToolPolicy(mapper=lambda value: secret_key(value)), " in secret_key"),
        (ToolPolicy(mapper=lambda value: json.loads(value["name"])), " in <lambda>"),
        (ToolPolicy(mapper=str.upper), "mapper: TypeError"),
        (ToolPolicy(mapper=".name[]"), 'mapper: Cannot iterate over string ("…'),
        (ToolPolicy(mapper=".name.a"), 'mapper: Cannot index string with string ("a")'),
        (ToolPolicy(mapper=".inner[.name][.name][]"), "mapper: Cannot iterate over number (…)"),
        (ToolPolicy(mapper=".inner | .[0]"), "mapper: Cannot index object with number"),
        (ToolPolicy(mapper=".name | error"), "mapper: an error whose message is data"),
        (ToolPolicy(mapper="error(.)"), "mapper: the program stopped with: "),
        (ToolPolicy(mapper=".name | tonumber"), "cannot be parsed as a number"),
        (ToolPolicy(mapper='.name | strptime("%Y")'), 'does not match format "%Y"'),
        (ToolPolicy(mapper=".name | test(\"(\" + .)"), "mapper: Regex failure: "),
        (ToolPolicy(mapper=".name | fromjson"), "mapper: Invalid "),
        (ToolPolicy(mapper="{(.inner): 1}"), "mapper: Cannot use object ("),
        (ToolPolicy(mapper="path(.name | ascii_downcase)"), "mapper: Invalid path expression "),
        (ToolPolicy(mapper='.name + 1 | halt_error'), "cannot be added"),
        (ToolPolicy(mapper='.name | halt_error'), "mapper: the program stopped with: …"),
        (ToolPolicy(template="{{ data[name] }}"), "template: UndefinedError: 'dict object' has no attribute '…' (line 1)"),
        (ToolPolicy(template="\n{{ name + 1 }}"), "template: TypeError (line 2)"),
        (ToolPolicy(template="{{ name.format() ~ inner | attr(name) }}"), "template: UndefinedError: 'dict object' has no attribute '…' (line 1)"),
    ],
)  # fmt: skip
def test_a_failure_tells_the_host_where_and_never_the_data(
    local: Engine, tenant: str, caplog: pytest.LogCaptureFixture, tool: ToolPolicy, said: str
) -> None:
    secret = "SECRET\x1b[31m häuser, 4711 ☠"
    session = local.session("s", tenant=tenant, policy=Policy(per_tool={"t": tool}))
    session.process({"name": secret, "inner": {secret: {secret: 1}}}, tool="t", call_id="c")
    explained = str(session.explain("c").numbers["mapper"])
    assert said in explained and explained in caplog.text
    for text in (caplog.text, explained, str(session.explain("c"))):
        assert not any(part in text for part in ("SECRET", "\x1b", "x1b", "31m", "häuser", "4711", "☠"))


# Through `process`


def test_a_failing_mapper_leaves_the_output_and_says_so(local: Engine, tenant: str) -> None:
    policy = Policy(per_tool={"t": {"mapper": ".rows[].id"}, "late": {"mapper": json.loads}})
    local.session("s", tenant=tenant, policy=policy)
    session = local.session("s", tenant=tenant)
    for tool, reason in (("t", "Cannot iterate over null"), ("late", "give policy= again")):
        result = session.process({"a": 1}, tool=tool)
        assert json.loads(str(result.content)) == {"a": 1} and result.step is not None
        assert reason in str(session.explain(result.step))


class Exits(Exception):
    """An error that ends the process of whoever asks what it says."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (ToolPolicy(mapper=raising(SystemExit(2))), "mapper: SystemExit at"),
        (ToolPolicy(mapper=raising(GeneratorExit())), "mapper: GeneratorExit at"),
        (ToolPolicy(mapper=raising(Exits())), "mapper: Exits at"),
    ],
)
def test_nothing_that_a_mapper_raises_ends_the_turn(
    local: Engine, tenant: str, scope: Scope, tool: ToolPolicy, reason: str
) -> None:
    assert failed(scope, tool, {"a": 1}).startswith(reason)
    session = local.session("s", tenant=tenant, policy=Policy(per_tool={"t": tool}))
    assert session.process({"a": 1}, tool="t", call_id="c").content == '{"a":1}'
    assert reason in session.explain("c").numbers["mapper"]


def test_what_a_mapper_returns_is_not_asked_what_it_is(scope: Scope) -> None:
    class Denies:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            raise SystemExit(1)

    assert type(apply(scope, ToolPolicy(mapper=lambda _: Denies()), {"a": 1})) is Denies


@pytest.mark.parametrize(
    "tool",
    [
        ToolPolicy(mapper=raising(KeyboardInterrupt())),
        ToolPolicy(mapper=lambda _: Interrupts(), template="{{ output }}"),
    ],
)
def test_the_keyboard_interrupts_a_mapper(scope: Scope, tool: ToolPolicy) -> None:
    with pytest.raises(KeyboardInterrupt):
        apply(scope, tool, {"a": 1})


class Interrupts:
    def model_dump(self) -> str:
        raise KeyboardInterrupt
