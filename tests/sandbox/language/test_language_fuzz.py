"""Any program: if the language accepts it, it means what it means in Python; if not, it is refused with a text."""

from __future__ import annotations

import ast
import contextlib
import io
import random
import re
import tokenize
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_language_everyday import SNIPPETS
from test_language_refusals import REFUSALS

from byref_sandbox import Limits, Sandbox
from byref_sandbox.code.analysis import Analysed
from byref_sandbox.code.source import strip_dollars
from byref_sandbox.language.magics import without_magics
from byref_sandbox.language.policy import Language, Refused

NAMES = ("a", "b", "_c", "d1", "items")
LEAVES = (
    "0", "1", "-3", "2.5", "True", "None", "'x'", "'äb'", "b'z'", "''", "[]", "[1, 2, 3]", "(1, 'y')", "{'k': 1, 'l': [2]}", "{1, 2}",
    "range(4)", "len", "str", "Box(2)", "Pair(1, 'p')", "..."
)  # fmt: skip
BINARY = ("+", "-", "*", "//", "%", "/", "|", "&", "^", "<", "==", "!=", ">=", "in", "not in", "is", "and", "or")
UNARY = ("not ", "-", "+", "~")
METHODS = (
    ".upper()",
    ".get('k')",
    ".copy()",
    ".real",
    ".value",
    "._inner",
    ".bump(1)",
    ".x",
    "[0]",
    "[-1]",
    "[1:]",
    "['k']",
    "[::-1]",
    ".__class__",
)
SPECS = ("", "!r", "!s:>5", ":<8", "=", ":{1 + 4}", "!a:^{6}")
PRELUDE = """
from dataclasses import dataclass
@dataclass
class Pair:
    x: int
    y: object = None
class Box:
    __match_args__ = ("value",)
    made = 0
    def __init__(self, value):
        self.value = value
        self._inner = [value]
        Box.made += 1
    def bump(self, by=1):
        self.value += by
        self._inner += [by]
        return self
    def __repr__(self):
        return f"Box({self.value!r}, {self._inner})"
    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value
    def __hash__(self):
        return 1
    def __getitem__(self, key):
        return self._inner[key]
    def __setitem__(self, key, value):
        self._inner[key] = value
a, b, _c, d1, items = 1, "b", [3, 4], {"k": 1}, [Box(0), 5]
"""

Draw = Callable[[st.SearchStrategy[Any]], Any]


def expression(draw: Draw, depth: int) -> str:
    """An expression; most are meaningful, the rest raise, which must look the same."""
    one = lambda: expression(draw, depth - 1)  # noqa: E731
    kind = draw(st.integers(0, 15)) if depth > 0 else draw(st.integers(0, 1))
    name = draw(st.sampled_from(NAMES))
    match kind:
        case 0:
            return name
        case 1:
            return str(draw(st.sampled_from(LEAVES)))
        case 2 | 3:
            return f"({one()} {draw(st.sampled_from(BINARY))} {one()})"
        case 4:
            return f"({draw(st.sampled_from(UNARY))}{one()})"
        case 5 | 6:
            return f"({one()}){draw(st.sampled_from(METHODS))}"
        case 7:
            return f"({one()} if {one()} else {one()})"
        case 8:
            return f"(w := {one()})"
        case 9:
            opening, closing = draw(
                st.sampled_from([("[", "]"), ("{", "}"), ("list(", ")"), ("sorted([", "], key=repr)")])
            )
            return f"{opening}{one()} for {name} in (1, 'q', 3) if {one()}{closing}"
        case 10:
            return f"{{{one()}: {one()} for {name}, _c in [(1, 2), ('k', 'v')]}}"
        case 11:
            return f"(lambda {name}, *args, z={one()}, **kw: ({one()}, args, z, kw))({one()}, {one()}, q={one()})"
        case 12:
            quotes = one().replace("'", '"')
            return "f'''{(" + quotes + ")" + draw(st.sampled_from(SPECS)) + "} {{}} {" + name + "!r}'''"
        case 13:
            return (
                f"'{{}} {{!r:>4}} {{0}}'.format({one()}, {one()})"
                if draw(st.booleans())
                else f"'%s|%r' % ({one()}, {one()})"
            )
        case 14:
            return f"[*[{one()}], *({one()},), {one()}]"
        case _:
            call = draw(
                st.sampled_from(
                    [
                        "str",
                        "repr",
                        "len",
                        "bool",
                        "type",
                        "list",
                        "sum",
                        "max",
                        "hasattr",
                        "isinstance",
                        "dict",
                        "getattr",
                    ]
                )
            )
            extra = {
                "hasattr": ", 'value'",
                "getattr": ", '_inner', 7",
                "isinstance": ", (int, str, Box)",
                "dict": ", extra=1",
            }.get(call, "")
            return f"{call}({one()}{extra})"


TARGETS = (
    "{n}",
    "{n}, _c",
    "{n}, *_c",
    "[{n}, (d1, *_)]",
    "items[0]",
    "items[0].value",
    "items[0]._inner[0]",
    "d1['k']",
    "_c[:1]",
    "d1['l'], {n}",
)
ANNOTATIONS = ("int", "list[str]", '"Box"')
AUGMENTED = ("{n}", "items[0].value", "items[0]._inner", "items[0][0]", "d1['k']", "_c[0]", "_c[:1]", "Box.made")


def block(draw: Draw, depth: int, inside: str) -> list[str]:
    """A few statements, each possibly of several lines."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += statement(draw, depth, inside)
    return lines


def statement(draw: Draw, depth: int, inside: str) -> list[str]:
    """One statement."""
    name = draw(st.sampled_from(NAMES))
    value = lambda: expression(draw, 2)  # noqa: E731
    body = lambda now=inside: [f"    {line}" for line in block(draw, depth - 1, now)]  # noqa: E731
    match draw(st.integers(0, 17 if depth > 0 else 6)):
        case 0 | 1:
            return [f"{draw(st.sampled_from(TARGETS)).format(n=name)} = {value()}"]
        case 2:
            operator = draw(st.sampled_from(["+", "-", "*", "//", "|", "%", ">>", "@"]))
            return [f"{draw(st.sampled_from(AUGMENTED)).format(n=name)} {operator}= {value()}"]
        case 3:
            return [f"{name}: {draw(st.sampled_from(ANNOTATIONS))} = {value()}"]
        case 4:
            return [f"print({value()}, {value()}, sep='|')"]
        case 5:
            return [value()]
        case 6:
            jump = {
                "loop": ["break", "continue"],
                "def": [f"return {value()}"],
                "gen": [f"{name} = yield {value()}", f"yield from [{value()}]"],
            }
            return [
                draw(
                    st.sampled_from(
                        [
                            *jump.get(inside, ["pass"]),
                            f"assert {value()}, 'no'",
                            "del _c",
                            f"raise ValueError({value()})",
                        ]
                    )
                )
            ]
        case 7 | 8:
            return [f"if {value()}:", *body(), f"elif {value()}:", *body(), "else:", *body()]
        case 9:
            return [
                f"for {name} in {draw(st.sampled_from(['range(3)', '[1, Box(2), None]', 'list(d1)']))}:",
                *body("loop"),
                "else:",
                *body(),
            ]
        case 10:
            return ["turns = 0", "while (turns := turns + 1) < 3:", *body("loop")]
        case 11 | 12:
            error = draw(
                st.sampled_from(
                    [
                        "except Exception as error:",
                        "except (TypeError, ValueError):",
                        "except* (TypeError, ValueError) as error:",
                    ]
                )
            )
            if "*" in error:  # may not be left by break, continue or return
                return ["try:", *body("plain"), error, *body("plain"), "finally:", *body("plain")]
            return ["try:", *body(), error, *body(), "else:", *body(), "finally:", *[f"    print({value()})"]]
        case 13:
            scope = draw(st.sampled_from(["", f"    global {name}"]))
            return [
                f"def f(p, q={value()}, *r, s=None):",
                *([scope] if scope and name != "p" else []),
                *body("def"),
                f"print(f({value()}, {value()}))",
            ]
        case 14:
            return ["def g():", *body("gen"), "    yield 1", "print([*g()][:5])"]
        case 15:
            return ["class K(Box):", "    kind: str = 'k'", "    def bump(self, by=2):", "        self._seen = by", "        return super().bump(by)",
                    "    @property", "    def twice(self):", f"        return ({value()}, self.value)", "print(K(3).bump().twice, K(1)._inner)"]  # fmt: skip
        case 16:
            patterns = [
                "[x, *rest]",
                "{'k': x, **rest}",
                "Box(v) if v",
                "Pair(x=1, y=str() as t)",
                "int() | None",
                "str(s)",
                f"({name}, _)",
            ]
            chosen = [draw(st.sampled_from(patterns)) for _ in range(2)]
            return [
                f"match {value()}:",
                *(line for p in chosen for line in (f"    case {p}:", *(f"    {inner}" for inner in body()))),
                "    case _:",
                "        print('none')",
            ]
        case _:
            return ["def outer():", "    n = 0", "    def inner():", "        nonlocal n", f"        n += {draw(st.integers(0, 9))}",
                    f"        return (n, {value()})", "    return inner", "tick = outer()", "print(tick(), tick())"]  # fmt: skip


@st.composite
def programs(draw: Draw) -> str:
    """A program that ends soon."""
    lines = [PRELUDE, "w = 0"]
    for _ in range(draw(st.integers(1, 4))):
        lines += ["try:", *(f"    {line}" for line in statement(draw, 2, "module"))]
        lines += ["except Exception as error:", "    print(type(error).__name__, error)"]
    return "\n".join([*lines, f"print({', '.join(NAMES)}, w)", expression(draw, 3), ""])


def in_plain_python(source: str) -> str:
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    output, space = io.StringIO(), {"__name__": "__main__"}
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(tree, "<plain>", "exec", dont_inherit=True), space)
            print(repr(eval(compile(ast.Expression(last.value), "<plain>", "eval", dont_inherit=True), space)))
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    return output.getvalue()


def in_the_language(language: Language, source: str) -> str:
    output = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = language.run(language.compile(source), {}, output).value
            print(repr(value), file=output)
        except Refused as refused:
            return f"refused: {refused.failure}"
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=output)
    return output.getvalue()


def no_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<plain>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@given(programs())
@settings(SETTINGS, max_examples=settings.default.max_examples * 3 // 2)
def test_a_program_means_what_it_means_in_python(language: Language, source: str) -> None:
    if compiles(source):
        assert no_addresses(in_the_language(language, source)) == no_addresses(in_plain_python(source))
    else:
        with pytest.raises(Refused) as refused:
            language.compile(source)
        assert refused.value.failure.kind == "SyntaxError"


NASTY = (
    "__class__", "__mro__", "._x", ".__dict__", "await ", "async ", "yield ", "*", "**", ":=", "$", "$users", "lambda: ", "\\", "\n", "\t", "\x0c", "\0",
    "'''", '"', "{", "}", "(", ")", "[", "]", "f'{", "!r", "@", "->", ":", ";", "...", "del ", "global a", "nonlocal b", "import os", "from . import *",
    "match x:", "case _:", "except* E:", "class A(metaclass=B): pass", "type X = int", "print ", "`a`", "<>", "0777", "1_", "é", "\u2028", "\ufeff", "\udcff",
    "🙂", "#", "with a as b, c as d:", "return", "break", "if 1:\n  ", "def f(a, a):", "def f[T](x): pass", "*a, *b = c", "x: int: str", "__debug__ = 1",
)  # fmt: skip
CORPUS = [code for code, _ in SNIPPETS.values()] + [refusal.code for refusal in REFUSALS]


def mutated(code: str, chance: random.Random) -> str:
    """The code with a few tokens taken out, doubled, swapped, or with something nasty put in."""
    try:
        pieces = [
            t.string + (" " if t.type == tokenize.NAME else "")
            for t in tokenize.generate_tokens(io.StringIO(code).readline)
        ]
    except (tokenize.TokenError, SyntaxError):
        pieces = list(code)
    if chance.random() < 0.5:
        pieces = list(code)  # characters keep the lines as they are
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(pieces) + 1)
        match chance.randrange(5):
            case 0:
                del pieces[at : at + chance.randint(1, 3)]
            case 1:
                pieces[at:at] = pieces[at : at + chance.randint(1, 20)]
            case 2 | 3:
                pieces.insert(at, chance.choice(NASTY))
            case _:
                other = chance.randrange(len(pieces) + 1)
                pieces[at : at + 1], pieces[other : other + 1] = pieces[other : other + 1], pieces[at : at + 1]
    return "".join(pieces)


@given(st.sampled_from(CORPUS), st.randoms(use_true_random=False))
@settings(SETTINGS, max_examples=settings.default.max_examples * 6)
def test_any_text_is_compiled_or_refused_in_words(language: Language, code: str, chance: random.Random) -> None:
    source = mutated(code, chance)
    assert isinstance(Analysed(source).uses.names, frozenset)
    plain = strip_dollars(source)
    try:
        language.compile(source)
    except Refused as refused:
        failure = refused.failure
        assert failure.kind in ("SyntaxError", "NotAllowed")
        assert failure.message
        assert failure.line is None or 1 <= failure.line <= source.count("\n") + 2
        # A construct that is refused may hide a mistake further on, never the other way round.
        assert failure.kind == "NotAllowed" or not compiles(plain)
    else:
        assert compiles(without_magics(plain, lambda _: True))


@pytest.mark.slow
@given(st.text(max_size=200))
@settings(SETTINGS, max_examples=settings.default.max_examples * 3)
def test_no_text_stops_the_compiler(language: Language, source: str) -> None:
    with contextlib.suppress(Refused):
        language.compile(source)


@pytest.mark.slow
def test_mutants_end_as_results_or_errors_in_the_jail(sandbox: Sandbox) -> None:
    chance = random.Random(5)
    for _ in range(60):
        source = mutated(chance.choice(CORPUS), chance)
        outcome = sandbox.run(source, {"users": [{"id": 1}]}, limits=Limits(wall_seconds=3, cpu_seconds=2))
        if outcome.error is not None:
            assert outcome.error.kind != "Crash" and outcome.error.message, (outcome.error, source)
