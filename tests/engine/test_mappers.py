"""Mappers and templates: what they make of an output, exactly or not at all, and that nothing they do harms a turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byref import Engine, Policy, Session, ToolPolicy, templates
from byref.knobs import MissingMapper
from byref.mappers import MapperFailed, apply
from byref.scope import Scope
from byref_sandbox import Sandbox

BIG = 12345678901234567890
EXPENSES = {
    "expenses": [{"description": f"Taxi {i}", "amount": i, "category": "travel", "id": BIG + i} for i in range(1, 501)],
    "total_amount": 125_250,
}
DOCUMENTED = """
{
  expenses: [.data.expenses[] | {description, amount, category}],
  total_amount: .data.total_amount,
  expense_count: (.data.expenses | length)
}
"""
RENDERED = """Here are your submitted expenses:
{% for expense in data.expenses %}
- {{ expense.description }}: ${{ expense.amount }} ({{ expense.category }})
{% endfor %}
Total: ${{ data.total_amount }}
"""


@pytest.fixture
def scope(chat: Session) -> Scope:
    return chat._scope


def failed(scope: Scope, tool: ToolPolicy, value: object) -> str:
    with pytest.raises(MapperFailed) as caught:
        apply(scope, tool, value)
    text = str(caught.value)
    assert text and len(text) < 450 and "\n" not in text
    return text


# jq


def test_the_documented_mapper(scope: Scope) -> None:
    mapped = apply(scope, ToolPolicy(mapper=DOCUMENTED), {"data": EXPENSES})
    kept = [{name: row[name] for name in ("description", "amount", "category")} for row in EXPENSES["expenses"]]
    assert mapped == {"expenses": kept, "total_amount": 125_250, "expense_count": 500}
    assert list(mapped) == ["expenses", "total_amount", "expense_count"]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (".a", [1, 2]), (".a[]", [1, 2]), (".a[0]", 1), (".a[] | select(. > 1)", 2), (".a[] | select(. > 2)", []), ("empty", []),
        (".a | add", 3), ("def twice: . * 2; .a | map(twice)  # a comment", [2, 4]), (".b", None), ('"text"', "text"),
        (". as $all | $all.a | length", 2), ("[.a[]], .b", [[1, 2], None]), ("{a: .a[]}", [{"a": 1}, {"a": 2}]),
        ("nan", None), ("env | length", 0), ('"\\u00e9\\u0000"', "é\0"),
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
    "program", [".id + 1 | {id: .}", "{id: (.id | floor)}", "{id: (.id * 2)}", "{x: (9007199254740993 + 0)}"]
)
def test_integers_that_jq_rounds_are_a_failure(scope: Scope, program: str) -> None:
    assert "integers beyond 2**53, which jq rounds" in failed(scope, ToolPolicy(mapper=program), {"id": BIG})


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


@pytest.mark.parametrize("program", ["def f: f; f", "[range(1e12)] | length", "last(range(1e12))"])
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


def test_what_cannot_be_handed_to_jq(scope: Scope) -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in ({"a": object()}, loop, {"a": [b"\xff", complex(1)]}):
        assert "mapper: " in failed(scope, ToolPolicy(mapper=". as $all | $all"), value)


def test_without_a_sandbox_plain_paths_still_work(scope: Scope) -> None:
    bare = replace(scope, sandbox=None)
    assert apply(bare, ToolPolicy(mapper=".rows | map(.id)"), {"rows": [{"id": BIG}]}) == [BIG]
    assert (
        failed(bare, ToolPolicy(mapper=".a + 1"), {"a": 1}) == "mapper: jq is not available here, but for plain paths"
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
        (KeyError("rows"), "mapper: KeyError: 'rows'"),
        (ValueError("x" * 100_000), "mapper: ValueError: " + "x" * 300 + "…"),
        (ValueError("a\n  b"), "mapper: ValueError: a b"),
        (Rude(), "mapper: Rude: "),
        (MemoryError(), "mapper: MemoryError: "),
        (RecursionError("deep"), "mapper: RecursionError: deep"),
    ],
)
def test_what_a_callable_raises_is_a_failure(scope: Scope, error: Exception, text: str) -> None:
    assert failed(scope, ToolPolicy(mapper=raising(error)), {}) == text


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


def test_the_documented_template(scope: Scope) -> None:
    text = apply(scope, ToolPolicy(template=RENDERED), EXPENSES)
    lines = str(text).split("\n")
    assert len(lines) == 502
    assert lines[:2] == ["Here are your submitted expenses:", "- Taxi 1: $1 (travel)"]
    assert lines[-2:] == ["- Taxi 500: $500 (travel)", "Total: $125250"]


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
        ("{{ data.a.b }}", {"a": {}}, "template: UndefinedError: 'dict object' has no attribute 'b'"),
        ("{% for x in rows %}{% endfor %}", {}, "template: UndefinedError: 'rows' is undefined"),
        ("{{ 1 / data }}", 0, "template: ZeroDivisionError: division by zero"),
        ("{{ data + 1 }}", "x" * 100_000, "template: TypeError: "),
        ("{{ data.__class__ }}", {}, "template: SecurityError: access to attribute '__class__' of 'dict' object is unsafe."),
        ("{{ data.append(1) }}", [], "template: SecurityError: "),
        ("{{ lipsum(1000) }}", {}, "template: UndefinedError: 'lipsum' is undefined"),
        ("{{ range(n) | list }}", {"n": 10**9}, "template: OverflowError: Range too big."),
        ("{{ '-' * n }}", {"n": 10**10}, "template: SecurityError: a text or list is not repeated to more than 100,000"),
        ("{{ [1] * n }}", {"n": 10**10}, "template: SecurityError: a text or list is not repeated to more than 100,000"),
        ("{{ data * 2 }}", "x" * 50_001, "template: SecurityError: a text or list is not repeated to more than 100,000"),
        ("{{ 10 ** n }}", {"n": 10**10}, "template: SecurityError: a power has at most 10,000 bits"),
        ("{{ 'a'.center(n) }}", {"n": 10**10}, "template: SecurityError: a text is not made wider than 100,000"),
        ("{{ 'a' | center(n) }}", {"n": 10**10}, "template: SecurityError: a text is not made wider than 100,000"),
        ("{{ 'a\n' | indent(width=n) }}", {"n": 10**10}, "template: SecurityError: a text is not made wider than 100,000"),
        ("{{ ['a'] | map('center', n) | join }}", {"n": 10**10}, "template: SecurityError: a text is not made wider than 100,000"),
        ("{{ '%*d' % (n, 1) }}", {"n": 10**9}, "template: SecurityError: a format has widths of at most four digits"),
        ("{{ f % 1 }}", {"f": "%999999999d"}, "template: SecurityError: a format has widths of at most four digits"),
        ("{{ f % data }}", {"f": "%(f)999999999s"}, "template: SecurityError: a format has widths of at most four digits"),
        ("{{ f | format(1) }}", {"f": "%999999999d"}, "template: SecurityError: a format has widths of at most four digits"),
        ("{{ f.format(1) }}", {"f": "{:999999999}"}, "template: SecurityError: a format has widths of at most four digits"),
        ("{{ '{:{}}'.format(1, n) }}", {"n": "999999999"}, "template: SecurityError: a format has widths of at most four digits"),
        ("{% for x in data recursive %}{{ loop(data) }}{% endfor %}", [1], "template: RecursionError: "),
    ],
)  # fmt: skip
def test_what_a_template_cannot_do(scope: Scope, template: str, value: object, text: str) -> None:
    begun = time.monotonic()
    assert failed(scope, ToolPolicy(template=template), value).startswith(text)
    assert time.monotonic() - begun < 3


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
    assert reason == "template: it takes longer than 0.3 seconds" and time.monotonic() - begun < 3


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
    assert templates.render(source, value, seconds=5, max_bytes=1_000) == f"1021{len(value)}"


# Through `process`


def test_a_mapped_output_is_what_the_session_works_on(local: Engine, tenant: str) -> None:
    policy = Policy(per_tool={"list_expenses": {"mapper": DOCUMENTED, "names": {"expenses": "spent"}}})
    session = local.session("s", tenant=tenant, policy=policy, context_window=200_000)
    result = session.process({"data": EXPENSES}, tool="list_expenses")
    assert result.route == "variables" and session.variable("spent").value()[499]["amount"] == 500
    assert session.process({"data": {"expenses": [], "total_amount": 0}}, tool="list_expenses").content == (
        '{"expenses":[],"total_amount":0,"expense_count":0}'
    )


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


class ExitsWhenWritten:
    """A value of a host's own that does the same."""

    __str__ = Exits.__str__


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (ToolPolicy(mapper=raising(SystemExit(2))), "mapper: SystemExit: 2"),
        (ToolPolicy(mapper=raising(GeneratorExit())), "mapper: GeneratorExit:"),
        (ToolPolicy(mapper=raising(Exits())), "mapper: Exits:"),
        (ToolPolicy(mapper=lambda _: ExitsWhenWritten(), template="{{ output }}"), "template: SystemExit: 3"),
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
    def __str__(self) -> str:
        raise KeyboardInterrupt
