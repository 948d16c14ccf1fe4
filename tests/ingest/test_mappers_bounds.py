"""Templates and jq mappers over hostile data end in time and with a clear text, whatever they size, repeat or nest."""

from __future__ import annotations

import re
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from byref import Session, ToolPolicy
from byref.conversation.scope import Scope
from byref.ingest import mappers
from byref.ingest.mappers import MapperFailed, apply
from byref_sandbox.code import templates

BIG = 10**9
BEYOND = "mapper: it computes infinity, or numbers beyond 1.8e308, for which jq has 1.797e308; use a Python callable"
LINES = "a\n" * 30_000
LONG = "x" * 200_000
WORDS = "ab " * 100_000
MANY = ["ab"] * 100_000
NUMBERS = list(range(100_000))
ROWS = [{"a": i, "b": "x" * 20} for i in range(20_000)]
PADDED = "%(a)9999s" * 50_000
DEEP: Any = [1]
for _ in range(600):
    DEEP = [DEEP]

ENDS = r"needed more than the \d+ MiB|stopped after|larger than|MemoryError|Error \(line \d+\)|Error: .* \(line \d+\)"
"""Words in which a rendering ends that was too much."""

SIZED: list[tuple[str, Any]] = [
    # What data sizes by itself
    ("{{ text | indent(level) }}", {"text": LINES, "level": BIG // 10_000}),
    ("{{ text | replace('a', by) }}", {"text": LINES, "by": LONG}),
    ("{{ text | replace('', text) }}", {"text": LONG}),
    ("{{ text.replace('a', by) }}", {"text": LINES, "by": LONG}),
    ("{{ rows | join(sep) }}", {"rows": MANY, "sep": LONG}),
    ("{{ sep.join(rows) }}", {"rows": MANY, "sep": LONG}),
    ("{{ text.expandtabs(n) }}", {"text": "\t" * 100_000, "n": 100_000}),
    ("{{ data | tojson(indent=5000) }}", DEEP[0][0]),
    ("{{ rows | tojson(indent=n) }}", {"rows": MANY, "n": 10_000}),
    ("{{ text | wordwrap(1, wrapstring=w) }}", {"text": WORDS, "w": LONG}),
    ("{{ text | urlize(target=w) }}", {"text": "http://a.bc " * 30_000, "w": LONG}),
    ("{{ text | urlize(rel=w) }}", {"text": "http://a.bc " * 30_000, "w": LONG}),
    ("{{ text.translate(table) }}", {"text": LONG, "table": {120: LONG}}),
    ("{{ text.translate([by] * 200) }}", {"text": LONG, "by": LONG}),
    ("{{ f % data }}", {"f": PADDED, "a": "x"}),
    ("{{ f | format(a='x') }}", {"f": PADDED}),
    ("{{ [[t] * n] * n }}", {"t": LONG, "n": 20_000}),
    ("{{ ([t] * n) | join }}", {"t": LONG, "n": 100_000}),
    ("{{ t * n }}", {"t": LONG, "n": 100_000}),
    ("{{ t.ljust(n) }}", {"t": "x", "n": BIG}),
    ("{{ t.zfill(n) }}", {"t": "1", "n": BIG}),
    ("{{ t | center(n) }}", {"t": "x", "n": BIG}),
    ("{{ (t | list | slice(n) | list) }}", {"t": "x", "n": BIG}),
    ("{{ (t | batch(n, 'x') | list) }}", {"t": "x", "n": BIG}),
    # Formats
    ("{{ f.format(1) }}", {"f": "{:٩٩٩٩٩٩٩٩٩}"}),
    ("{{ f.format(1) }}", {"f": "{:９９９９９９９９９}"}),
    ("{{ f.format([1]) }}", {"f": "{0[}]:1500000000}"}),
    ("{{ f.format(data) }}", {"f": "{0[}]:1500000000}", "}": 1}),
    ("{{ f.format(1, n) }}", {"f": "{:{}}", "n": BIG}),
    ("{{ f.format_map(data) }}", {"f": "{f:999999999}"}),
    ("{{ f % 1 }}", {"f": "%999999999d"}),
    ("{{ f % 1.5 }}", {"f": "%.999999999f"}),
    ("{{ '%*d' % (n, 1) }}", {"n": BIG}),
    ("{{ '%.*f' % (n, 1.5) }}", {"n": BIG}),
    ("{{ (f * 2000) | format(*rows) }}", {"f": "%9999s", "rows": ["x"] * 2000}),
    ("{{ f | format(1) }}", {"f": "%0999999999d"}),
]
"""What takes memory: it ends as soon as it asks for too much."""

ENDLESS: list[tuple[str, Any]] = [
    ("{{ price | round(digits) }}", {"price": 5, "digits": -30_000_000}),
    ("{{ price | round(digits) }}", {"price": 5, "digits": -(10**9)}),
    ("{{ price | round(digits, 'floor') }}", {"price": 5, "digits": 10**8}),
    ("{{ 10 ** n }}", {"n": 10**10}),
    ("{{ n ** n ** n }}", {"n": 9999}),
    ("{{ rows | sum(start=[]) }}", {"rows": [["x"]] * 100_000}),
    ("{% for a in rows %}{% for b in rows %}{% endfor %}{% endfor %}", {"rows": NUMBERS}),
    ("{% for a in data %}{% for b in data %}{{ b }}{% endfor %}{% endfor %}", {str(i): i for i in range(50_000)}),
]
"""What takes time, the first of them where nothing in this process could interrupt it."""

MORE: list[tuple[str, Any]] = [
    ("{{ text | indent(text | length) }}", {"text": LINES}),
    ("{{ text | indent(level, true, true) }}", {"text": LINES, "level": 10**6}),
    ("{{ text | indent(level) | indent(level) }}", {"text": LINES, "level": 2_000}),
    ("{{ text | replace('a', text) | replace('a', text) }}", {"text": "a" * 3_000}),
    ("{{ text | replace('a', by, 99999) }}", {"text": LINES, "by": LONG}),
    ("{{ rows | map('replace', '', by) | join }}", {"rows": MANY, "by": LONG}),
    ("{{ rows | map('center', n) | list | length }}", {"rows": MANY, "n": 99_999}),
    ("{{ rows | map('format', 'x') | join }}", {"rows": ["%999999999s"] * 10}),
    ("{{ rows | map('tojson', n) | join }}", {"rows": [MANY], "n": 10**5}),
    ("{{ rows | map('wordwrap', 1, true, w) | join }}", {"rows": [WORDS], "w": LONG}),
    ("{{ rows | map('round', n) | list }}", {"rows": [5] * 5, "n": -(10**9)}),
    ("{{ rows | batch(n, fill) | list }}", {"rows": [1], "n": BIG, "fill": LONG}),
    ("{{ rows | slice(n, fill) | list }}", {"rows": [1], "n": BIG, "fill": LONG}),
    ("{{ rows | join(sep, attribute='a') }}", {"rows": ROWS, "sep": LONG}),
    ("{{ rows | xmlattr }}{{ data | xmlattr }}", {"rows": LONG * 2}),
    ("{{ data | pprint }}", {"a": [{str(i): [i] * 5} for i in range(60_000)]}),
    ("{% for r in rows %}{{ rows | pprint }}{% endfor %}", {"rows": ROWS}),
    ("{{ rows | groupby('a') | list }}{{ rows * 200 }}", {"rows": ROWS}),
    ("{{ (rows * 500) | sort(attribute='b') | length }}", {"rows": ROWS}),
    ("{{ (rows * 500) | unique | list | length }}", {"rows": MANY}),
    ("{{ (rows * 500) | map('string') | join }}", {"rows": MANY}),
    ("{{ (rows * 999) | tojson }}", {"rows": MANY}),
    ("{{ (text * 99) | urlize }}", {"text": "a@b.c " * 20_000}),
    ("{{ text | urlize(3, true, w) }}", {"text": "www.a.bc " * 30_000, "w": LONG}),
    ("{{ (text * 50) | striptags | length }}{{ text * 5000 }}", {"text": "<" * 100_000}),
    ("{{ text | truncate(300000, true, end) * 9999 }}", {"text": WORDS, "end": LONG}),
    ("{{ text | title * 9999 }}", {"text": WORDS}),
    ("{{ text | forceescape * 9999 }}", {"text": "'" * 100_000}),
    ("{{ text | urlencode * 9999 }}", {"text": "é" * 100_000}),
    ("{{ data | urlencode * 9999 }}", {str(i): "é" * 100 for i in range(1_000)}),
    ("{{ text.center(n) }}{{ text.rjust(n) }}", {"text": "x", "n": BIG}),
    ("{{ text.replace('', text) }}", {"text": LONG}),
    ("{{ text.expandtabs(99999) }}", {"text": "\t" * 1_000_000}),
    ("{{ text.join(text) }}", {"text": "x" * 100_000}),
    ("{{ text.encode('utf-32') * 99999 }}", {"text": LONG}),
    ("{{ text.split('x') * 9999 }}", {"text": LONG}),
    ("{{ text.splitlines() * 99999 }}", {"text": LINES}),
    ("{{ text.translate(data) }}{{ text * n }}", {"text": LONG, "n": 99_999}),
    ("{{ f % (1, 2) }}", {"f": "%(a)9999s" * 100_000}),
    ("{{ f % data }}", {"f": "%(f)99999s" * 20_000}),
    ("{{ f.format(*rows) }}", {"f": "{:99999}" * 20_000, "rows": ["x"] * 20_000}),
    ("{{ f.format(**data) }}", {"f": "{f:>99999}" * 20_000}),
    ("{{ '{:{w}.{w}f}'.format(1.5, w=n) }}", {"n": BIG}),
    ("{{ '{:0{}d}'.format(1, n) }}", {"n": BIG}),
    ("{{ f.format(1.5) }}", {"f": "{:.٩٩٩٩٩٩٩٩٩f}"}),
    ("{{ f | format(1) }}", {"f": "%٩d %999999999d"}),
    ("{{ (f | string) % 1 }}", {"f": "%-999999999d"}),
    ("{{ 1 | round(n) }}", {"n": -(10**12)}),
    ("{{ n * n * n * n * n * n * n * n ** n }}", {"n": 10**6}),
    ("{{ 2 ** n }}", {"n": 10**9}),
    ("{{ n ** -1 ** n }}{{ n ** (10 ** 9) }}", {"n": 7}),
    ("{{ (10 ** n) // (10 ** (n - 5)) }}", {"n": 10**8}),
    ("{{ (10 ** n) % 7 }}", {"n": 10**8}),
    ("{{ [1] * n }}", {"n": 10**10}),
    ("{{ (range(99999) | list) * n }}", {"n": 10**5}),
    ("{{ [data] * 10**6 }}", {"a": LONG}),
    ("{{ (data, data, data) * 10**7 }}", {"a": LONG}),
    ("{{ {'a': [t] * n} }}", {"t": LONG, "n": 10**5}),
    ("{{ dict(a=[t] * n) | tojson }}", {"t": LONG, "n": 10**5}),
    ("{{ dict(a=t * n) }}", {"t": LONG, "n": 10**6}),
    ("{{ t ~ t * n }}", {"t": LONG, "n": 10**6}),
    ("{{ cycler(*([t] * n)).next() * n }}", {"t": LONG, "n": 10**5}),
    ("{% set j = joiner(t * n) %}{{ j() }}{{ j() }}", {"t": LONG, "n": 10**5}),
    ("{% set ns = namespace(t=t) %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}", {"t": LONG}),
    ("{% set ns = namespace(n=3) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}", {}),
    ("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", {}),
    ("{% set ns = namespace(l=[]) %}{% for i in range(900) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}", {}),
    ("{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}", {}),
    ("{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == ns.l[0] }}{{ ns.l | tojson }}", {}),
    ("{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", {}),
    ("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}", {}),
    ("{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call m() %}{{ t * 9999 }}{% endcall %}", {"t": LONG}),
    ("{% for x in data recursive %}{{ loop(data) }}{% endfor %}", [1]),
    ("{% for x in data recursive %}{{ loop([x, x]) }}{% endfor %}", [1]),
    ("{% for a in rows %}{% for b in rows %}{% for c in rows %}{% endfor %}{% endfor %}{% endfor %}", {"rows": NUMBERS[:5000]}),
    ("{% for a in rows %}{% for b in rows %}{% if a.b == b.b and a == 0 %}x{% endif %}{% endfor %}{% endfor %}", {"rows": ROWS}),
    ("{% for a in rows %}{% for b in a.b %}{{ rows }}{% endfor %}{% endfor %}", {"rows": ROWS}),
    ("{% for c in text %}{% for d in text %}{{ c }}{% endfor %}{% endfor %}", {"text": LONG}),
    ("{% for a in rows if rows | sort(attribute='b') %}{% endfor %}", {"rows": ROWS}),
    ("{% for a in rows %}{{ loop.length }}{{ rows | tojson | length }}{% endfor %}", {"rows": ROWS}),
    ("{% for a in rows %}{{ rows | map(attribute='b') | join(', ') }}{% endfor %}", {"rows": ROWS}),
    ("{% for a in rows %}{% if 'none' in texts %}x{% endif %}{% endfor %}", {"rows": ROWS, "texts": MANY}),
    ("{% filter indent(99999) %}{{ text }}{% endfilter %}", {"text": LINES}),
    ("{% filter replace('a', by) %}{{ text }}{% endfilter %}", {"text": LINES, "by": LONG}),
    ("{% set x %}{% for a in rows %}{{ rows }}{% endfor %}{% endset %}{{ x }}", {"rows": ROWS}),
    ("{{ lipsum is defined }}{{ rows | random | string * 10**9 }}", {"rows": MANY}),
    ("{{ [text] | map('urlize', target=text) | join }}", {"text": "http://a.bc " * 20_000}),
]  # fmt: skip
"""More of both."""

MILD: list[tuple[str, Any]] = [
    ("{{ text | indent(width=data.text) | length }}", {"text": LONG + "\n" * 100_000}),
    ("{{ rows | sum(start=()) }}", {"rows": [()] * 100_000}),
    ("{{ n ** 2 ** 30 }}", {"n": 3}),
    ("{{ n | float }}", {"n": "9" * 1_000_000}),
    ("{{ n | int }}", {"n": "9" * 1_000_000}),
    ("{{ n | float }}", {"n": "0." + "0" * 1_000_000 + "1"}),
    ("{{ n | int(base=16) }}", {"n": "f" * 1_000_000}),
    ("{{ data }}", DEEP),
    ("{{ data | tojson | length }}", DEEP),
    ("{{ data == data }}", DEEP),
    ("{{ n | filesizeformat }}", {"n": 10**4000}),
    ("{{ n | string | length }}", {"n": 10**4000}),
    ("{{ n | round(2) }}", {"n": 1e308}),
    ("{{ text | title | length }}", {"text": "(" * 1_000_000}),
    ("{{ text | striptags | length }}", {"text": "<!--" * 100_000}),
    ("{{ text | urlize | length }}", {"text": "http://" + "a." * 100_000}),
    ("{{ text | wordcount }}", {"text": WORDS}),
    ("{{ rows | join(', ') | length }}", {"rows": "é" * 500_000}),
    ("{{ text | escape | tojson | tojson | length }}", {"text": "'" * 160_000}),
    ("{{ rows | map(attribute='b') | join(', ') | length }}", {"rows": ROWS}),
]
"""What may end well, as long as it ends."""

ESCAPES = [
    "{{ data.__class__ }}", "{{ data['__class__'] }}", "{{ data | attr('__class__') }}", "{{ ''.__class__.__mro__ }}",
    "{{ data.__class__.__base__.__subclasses__() }}", "{{ data | map(attribute='__class__') | list }}",
    "{{ [data] | map(attribute='__class__.__mro__') | list }}", "{{ '{0.__class__}'.format(data) }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(data) }}", "{{ f.format(data) }}", "{{ f.format_map({'a': data}) }}",
    "{{ ['{0.__class__}'] | map('format', data) | list }}{{ data.__class__ }}", "{{ self.__init__.__globals__ }}", "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__ }}", "{{ joiner.__init__.__globals__.os }}", "{{ namespace.__init__.__globals__ }}",
    "{{ range.__class__ }}", "{{ dict.__subclasses__() }}", "{{ loop.__class__ }}{% for x in [1] %}{{ loop.__init__ }}{% endfor %}",
    "{% for x in [1] %}{{ loop._iterable.__class__ }}{{ loop.__class__ }}{% endfor %}", "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}", "{{ data.append(1) }}", "{{ data.update({}) }}", "{{ data.clear() }}",
    "{{ (data | list).append(1) }}", "{{ ().__class__.__bases__[0] }}", "{{ data.items.__self__.__class__ }}", "{{ undefined_name.__class__ }}",
    "{{ data.__getattribute__('__class__') }}", "{{ data | attr('__init__') | attr('__globals__') }}", "{{ (data | map).gi_frame }}",
    "{{ (data | map('string')).gi_code }}", "{{ ''.join.__self__.__class__ }}", "{{ environment.globals }}", "{{ get_flashed_messages.__globals__ }}",
    "{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% extends '/etc/passwd' %}",
]  # fmt: skip


@pytest.fixture
def scope(chat: Session) -> Scope:
    return chat._scope


@contextmanager
def bounded(extra: int = 512 << 20) -> Iterator[list[float]]:
    """This process may take so much more memory, whatever it renders; how long its threads stood still comes out."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    gaps, is_over = [0.0], threading.Event()

    def beat() -> None:
        last = time.monotonic()
        while not is_over.wait(0.02):
            now = time.monotonic()
            gaps[0] = max(gaps[0], now - last)
            last = now

    heart = threading.Thread(target=beat)
    heart.start()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, before[1]))
    try:
        yield gaps
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        is_over.set()
        heart.join()


def ends(scope: Scope, cases: list[tuple[str, Any]], *, may_succeed: bool = False, seconds: float = 0.4) -> None:
    """Every case ends within bounds: in words, or with a text that is small enough."""
    limits = {"run_seconds": seconds, "run_cpu_seconds": 2, "run_memory_bytes": 96 << 20, "max_artifact_bytes": 8 << 20}
    assert apply(scope, ToolPolicy(mapper="1 + 1"), {}) == 2  # the sandbox has started
    with bounded() as stood_still:
        for template, value in cases:
            begun = time.monotonic()
            try:
                text = str(apply(scope, ToolPolicy(template=template, **limits), value))
                assert may_succeed and len(text.encode()) <= 8 << 20, (template, len(text))
            except MapperFailed as failure:
                assert re.search(ENDS, str(failure)), (template, str(failure))
                assert "MemoryError" not in str(failure), template  # here, that is: the worker says how much it was
            assert time.monotonic() - begun < seconds + 4, template
        assert apply(scope, ToolPolicy(template="{{ a | wordwrap }}"), {"a": "still here"}) == "still here"
    assert stood_still[0] < 2


@pytest.mark.slow
def test_what_data_sizes_ends_in_words(scope: Scope) -> None:
    ends(scope, [SIZED[at] for at in (1, 3, 4, 6, 10, 11, 18, 21, 23, 24, 27, 31)])
    ends(scope, ENDLESS[0:1] + ENDLESS[5:6], seconds=0.2)
    ends(scope, MILD[3:6] + MILD[7:9], may_succeed=True, seconds=3)


@pytest.mark.slow  # a run for each
def test_all_that_data_sizes_ends_in_words(scope: Scope) -> None:
    ends(scope, SIZED + ENDLESS + MORE)
    ends(scope, MILD, may_succeed=True, seconds=5)


def test_no_template_gets_out(scope: Scope) -> None:
    value = {"f": "{0.__class__.__init__.__globals__}", "a": [1]}
    for template in ESCAPES[:-3]:
        try:
            text = str(apply(scope, ToolPolicy(template=template), value))
        except MapperFailed:
            continue
        assert not re.search(r"<class|<module|subprocess|__builtins__|/home|/root", text), (template, text[:200])
    for template in ESCAPES[-3:]:
        with pytest.raises(ValueError, match="a template stands alone"):
            ToolPolicy(template=template)


WIDE = "é<" * 340_000
PLAIN: list[tuple[str, Any]] = [
    ("{{ t | join('<<<<<<<<<<') | tojson | length }}", {"t": WIDE}),
    ("{{ t | tojson | tojson | tojson | tojson }}", {"t": '"<' * 340_000}),
    ("{{ t | escape | string | tojson | tojson }}", {"t": "'" * 900_000}),
    ("{{ rows | map(attribute='0.0.0.0') | join(',') }}", {"rows": ["x"] * 250_000}),
    ("{% for a in rows %}{% for b in rows %}{{ b }}{% endfor %}{% endfor %}", {"rows": NUMBERS}),
    ("{% for a in rows %}{{ data }}{% endfor %}", {"rows": NUMBERS}),
    ("{{ t | title | title | title | title }}", {"t": "(a " * 340_000}),
    ("{{ rows[:][:][:][:] }}", {"rows": NUMBERS}),
    ("{% for x in rows %}{% for y in loop %}{{ loop | join(',') }}{% endfor %}{% endfor %}", {"rows": NUMBERS}),
    ("{% for a in t %}{% if 'zzzzzzz' in t %}{% endif %}{% endfor %}", {"t": "zzzzzz" + "y" * 900_000}),
    ("{% for x in t | join('aaaaaaaaaa') %}{% for y in x | tojson | tojson %}{% endfor %}{% endfor %}", {"t": WIDE}),
    ("{{ t | capitalize | lower | upper | trim }}", {"t": "ŉ" * 500_000}),
    ("{% for x in data.items().mapping.items() %}{{ x }}{% endfor %}", {"t": WIDE}),
]


@pytest.mark.slow  # up to a second each
def test_what_is_rendered_here_takes_little(scope: Scope) -> None:
    bare = replace(scope, sandbox=None)
    with bounded(256 << 20) as stood_still:
        for template, value in PLAIN:
            assert templates.is_plain(template), template
            begun = time.monotonic()
            try:
                apply(bare, ToolPolicy(template=template, run_seconds=0.5), value)
            except MapperFailed as failure:
                assert re.search(r"longer than 0.5 seconds|larger than 67,108,864 bytes", str(failure)), (
                    template,
                    str(failure),
                )
            assert time.monotonic() - begun < 4, template
    assert stood_still[0] < 2


# jq

NEST: Any = 1
for _ in range(900):
    NEST = [NEST]

JQ: list[tuple[str, Any, object]] = [
    ("tojson | fromjson | [..] | length", NEST, 901),
    ("[tostream] | length", NEST, 901),
    (". == .", NEST, True),
    ("getpath([range(900) | 0])", NEST, 1),
    (".[0] | fromjson", ["[" * 20_000 + "]" * 20_000], "mapper: Exceeds depth limit for parsing"),
    (".[0] | fromjson | tojson | length", ["[" * 9_000 + "]" * 9_000], 18_000),
    ("reduce range(9000) as $i (.; [.])", [], "mapper: what it gives is nested too deeply"),
    ("reduce range(9000) as $i (.; {a: .})", [], "mapper: what it gives is nested too deeply"),
    (".[0] * 1", [10**4000], BEYOND),
    (".[0] | tonumber | tostring | length", ["9" * 100_000], 100_000),
    ("[.[0] | tonumber] | .[0] | floor", ["1e999999999"], BEYOND),
    ("debug", [1], [1]), ("stderr", [1], [1]), ("env", [1], {}), ("$ENV.PATH", [1], None), ("input_filename", [1], None),
    ("get_search_list", [1], []), ("$__loc__.line", [1], 1), ("[inputs]", [1], []), ("input", [1], "mapper: break"),
    ("halt_error", {"a": "SECRET"}, r'mapper: the program stopped with: {"a":"…"}'), ("halt", [], r"mapper: the program stopped \(halt\)"),
    ("setpath([1e9]; 1)", [], "mapper: Array index too large"), (".[99999999] = 1", [], "mapper: needed more than 96 MiB"),
    (".[-1e9] = 1", [], "mapper: Out of bounds negative array index"), (".[-1e9]", [1], None), (".[nan]", [1], None), (".[infinite]", [1], None),
    (".[nan] = 1", [1], "mapper: Cannot set array element at NaN index"), (".[infinite] = 1", [1], "mapper: Array index too large"),
    (".[1e300:]", [1], []), (".[1e9:2e9] = [1]", [1], [1, 1]), ("getpath([range(100000) | \"a\"])", {"a": 1}, "mapper: Path too deep"),
    ("implode", [1_114_112], "\ufffd"), ("implode", [55_296], "\ufffd"), ("implode", [-1], "\ufffd"), ("implode", ["a"], "mapper: "),
    (".[0] | @base64d", ["\x00\xff!!!"], "mapper: string "), ("@sh", [["a"]], "mapper: "), ("@csv", [[[1]]], "mapper: "),
    ('.[0] | test("(a*)*b")', ["a" * 100_000], False), ('.[0] | test("(" * 50000)', ["a"], "mapper: Regex failure"),
    (".[0] | test(.)", ["(" * 100_000], "mapper: Regex failure"), ('.[0] | strptime("%")', ["x"], "mapper: "),
    ("mktime", [1e18, 1, 1, 1, 1, 1], "mapper: it computes with integers beyond"), ("mktime", ["a"], "mapper: mktime"),
    (".[0] | gmtime", [1e300], "mapper: error converting"), ('.[0] | strftime("%Y" * 9999)', [0], "mapper: strftime"),
    ("5 % .[0]", [0], "mapper: number"), ("pow(.[0]; .[0])", [1e308], BEYOND), ("nan | [.] | sort", [], "mapper: NaN has no JSON"),
    ('.[0] * 1e18', ["x"], "mapper: Repeat string result too long"), (".[0] * 1e9", ["x"], "mapper: needed more than 96 MiB"),
    ("reduce range(60) as $i (.[0]; . + .)", ["x"], "mapper: needed more than 96 MiB"),
    ("reduce range(40) as $i ([1]; [., .]) | . == .", [], True),
    ("modulemeta", ["a"], "mapper: modulemeta"), (".[0] | modulemeta", ["/etc/passwd"], "mapper: "), ("getpath(1)", [], "mapper: Path must be"),
    ("error(null)", [1], "mapper: the program stopped with: null"), ("[limit(10; .[])]", [1] * 100, [1] * 10),
]  # fmt: skip
"""Programs, what they meet, and what they give, or a pattern of the words in which they fail."""

JQ_ENDLESS: list[tuple[str, Any]] = [
    ("[range(3e6) | []]", []),
    ("[limit(1e9; repeat(1))]", 1), ("repeat(1)", 1), ("range(1e18)", 1), ("[range(1e18)]", 1), ("range(infinite)", 1), ("range(nan)", 1),
    ("last(range(1e18))", 1), ("until(false; .)", 1), ("def f: [.] | f; f", 1), ("def f(x): x | f(x); f(.)", 1), ("label $f | repeat(.)", 1),
    ("nth(1e9; repeat(1))", 1), ("[recurse(.)] | length", 1), ("[combinations(99)]", [1, 2]), ("getpath([range(1e7)])", 1),
    ("del(.[range(1e6)])", [1] * 100), ("delpaths([range(1e7) | [.]])", [1] * 1000), ('.[0] | test("(a+)+$")', ["a" * 40 + "b"]),
    ('.[0] | test("^(([a-z])+.)+[A-Z]([a-z])+$")', ["a" * 50]), ('.[0] | gsub("";"xx") | length', ["a" * 200_000]),
    ('.[0] | gsub("a"; "b" * 1000) | length', ["a" * 200_000]), ('.[0] | [match("";"g")] | length', ["a" * 200_000]),
    ('.[0] | splits("a*?")', ["a" * 100_000]), (".[0]" + " | @json" * 14 + " | length", ['"' * 100_000]), (".[0]" + " | @sh" * 9, ["'" * 200_000]),
    ("reduce range(40) as $i ([1]; [., .]) | tojson | length", 1), ("reduce range(40) as $i ([1]; [., .])", 1), ("reduce range(40) as $i ([1]; [., .]) | flatten", 1),
    ("reduce range(60) as $i ({}; {a: ., b: .}) | [paths] | length", 1), ("[range(1114112)] | implode | length", 1), ("reduce range(60) as $i (.; . + .) | length", [1]),
]  # fmt: skip


@pytest.mark.slow
def test_jq_over_hostile_data(scope: Scope) -> None:
    limits = {"run_seconds": 2, "run_cpu_seconds": 2, "run_memory_bytes": 96 << 20, "max_artifact_bytes": 8 << 20}
    assert apply(scope, ToolPolicy(mapper="1 + 1"), {}) == 2
    with bounded() as stood_still:
        for program, value, expected in JQ:
            try:
                given = apply(scope, ToolPolicy(mapper=program, **limits), value)
                assert given == expected and type(given) is type(expected), (program, str(given)[:100])
            except MapperFailed as failure:
                assert isinstance(expected, str) and re.match(expected, str(failure)), (program, str(failure))
                assert "SECRET" not in str(failure) and len(str(failure)) < 400
    assert stood_still[0] < 2


@pytest.mark.slow  # each takes its time
def test_jq_without_end(scope: Scope) -> None:
    limits = {"run_seconds": 0.4, "run_cpu_seconds": 2, "run_memory_bytes": 96 << 20, "max_artifact_bytes": 8 << 20}
    assert apply(scope, ToolPolicy(mapper="1 + 1"), {}) == 2
    with bounded() as stood_still:
        for program, value in JQ_ENDLESS:
            begun = time.monotonic()
            try:
                given = apply(scope, ToolPolicy(mapper=program, **limits), value)
            except MapperFailed as failure:
                assert re.search(r"stopped after|needed more than|it gives|match over", str(failure)), (
                    program,
                    failure,
                )
            else:
                pytest.fail(f"{program} has ended: {str(given)[:100]}")
            assert time.monotonic() - begun < 5, program
    assert stood_still[0] < 2


def test_what_jq_gives_can_be_held(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mappers, "MAX_OBJECT_BYTES", 1 << 20)
    assert apply(scope, ToolPolicy(mapper="[limit(.[0]; repeat([]))]"), [5]) == [[]] * 5
    with pytest.raises(MapperFailed, match="it gives too many arrays, objects and values"):
        apply(scope, ToolPolicy(mapper="[limit(.[0]; repeat([]))]"), [20_000])
