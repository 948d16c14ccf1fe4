"""The contract of the language: values, names, output, refusals, and errors that help to correct the code."""

from __future__ import annotations

import io
import re
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from byref_sandbox.language.policy import Language, Ran, Refused
from byref_sandbox.outcome import Failure

USERS = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]


def run(language: Language, code: str, **variables: object) -> Ran:
    return language.run(language.compile(code), variables, io.StringIO())


def printed(language: Language, code: str, **variables: object) -> str:
    output = io.StringIO()
    language.run(language.compile(code), variables, output)
    return output.getvalue()


def failure(language: Language, code: str, **variables: object) -> Failure:
    try:
        program = language.compile(code)
    except Refused as refused:
        return refused.failure
    with pytest.raises(BaseException) as caught:
        language.run(program, variables, io.StringIO())
    return language.explain(caught.value, program, variables)


# The value, the names, the output -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value", "has_value"),
    [
        ("1 + 1", 2, True),
        ("x = 1", None, False),
        ("x = 1\nx", 1, True),
        ("None", None, False),
        ("for i in range(2):\n    i", None, False),
        ("", None, False),
        ("# nothing", None, False),
        ("x = 5; x * 2", 10, True),
        ("'doc'", "doc", True),
    ],
)
def test_the_last_expression_is_the_value(language: Language, code: str, value: object, has_value: bool) -> None:
    ran = run(language, code)
    assert (ran.value, ran.has_value) == (value, has_value)


def test_names_are_those_bound_or_rebound(language: Language) -> None:
    ran = run(
        language,
        "import math\nfrom collections import Counter\nimport pandas as pd\n_a = 1\ndef f(): pass\nusers = users + [1]\nkept.append(3)\nfor i in [7]: pass\ndel gone",
        users=[0],
        kept=[],
        gone=1,
    )
    assert set(ran.names) == {"_a", "f", "users", "i"}
    assert ran.names["users"] == [0, 1]


def test_variables_may_be_called_and_shadow_builtins(language: Language) -> None:
    frame: Callable[[str], object] = lambda name: pd.DataFrame(USERS)  # noqa: E731
    assert run(language, "df('users')['id'].sum() + len", df=frame, len=1).value == 4


def test_runs_do_not_see_each_other(language: Language) -> None:
    run(language, "x = 1\nclass A: pass\nlen = 3")
    assert failure(language, "x").kind == "NameError"
    assert run(language, "len([1])").value == 1


def test_print_goes_to_the_given_stream_from_anywhere(language: Language, capsys: pytest.CaptureFixture[str]) -> None:
    code = "def f(p=print):\n    p('a', end='')\n    return [print(x) for x in 'b']\nf()\npd.Series([1]).apply(print)"
    assert printed(language, code) == "ab\n1\n"
    assert capsys.readouterr().out == ""


def test_dollars_name_variables(language: Language) -> None:
    assert run(language, "len($users) + $n", users=USERS, n=1).value == 3


def test_a_module_is_never_a_value_of_a_name(language: Language) -> None:
    ran = run(language, "import json as j\nx = [j, pd, np]\ny = j")
    assert set(ran.names) == {"x"}
    assert not any(isinstance(m, types.ModuleType) for m in ran.names["x"])  # type: ignore[attr-defined]


def test_c_code_can_still_import(language: Language) -> None:
    assert run(language, "import datetime\ndatetime.datetime.strptime('2024', '%Y').year").value == 2024


@pytest.mark.parametrize(
    "expression",
    [
        "('`' == a.__class__.__name__) | (a == '`')",
        "'`' + a.__class__.__name__ + '`'",
        'a == "`" or a._mgr == "`"',
        "`a` + a.to_pickle",
    ],
)
@pytest.mark.parametrize("method", ["frame.eval", "frame.query", "pd.eval"])
def test_expressions_are_read_as_pandas_reads_them(language: Language, method: str, expression: str) -> None:
    code = f"a = frame['a']\n{method}({expression!r})"
    assert failure(language, code, frame=pd.DataFrame({"a": ["x"]})).kind == "NotAllowed"


MADE_OF_BYTES = [
    "type(pd.DataFrame({'a': [1]}).to_records())((1,), dtype=[('a', 'O')], buf=b'x' * 8)",
    "np.recarray((1,), dtype=[('a', 'O')], buf=b'x' * 8)",
    "np.ndarray((1,), object, b'x' * 8)",
    "type(np.zeros(1))((1,), object, b'x' * 8)",
    "np.lib.stride_tricks.as_strided(np.zeros(1), (2,))",
    "np.lib.stride_tricks.as_strided(np.zeros(4)[2:], (2,), (-8,))",
    "np.lib.stride_tricks.as_strided(np.array([1, 'a'], dtype=object), (2,), (1,))",
    "np.lib.stride_tricks.as_strided(np.zeros(3, dtype='i1')[1:2].view('i1'), (2,), (1,))",
]


@pytest.mark.parametrize("code", MADE_OF_BYTES)
def test_arrays_show_no_memory_but_their_own(language: Language, code: str) -> None:
    assert failure(language, code).kind == "NotAllowed"


def test_arrays_look_at_their_own_memory(language: Language) -> None:
    code = "from numpy.lib.stride_tricks import as_strided\na = np.arange(6)\n"
    assert run(language, code + "as_strided(a, (3, 2), (16, 8)).tolist()").value == [[0, 1], [2, 3], [4, 5]]
    assert run(language, code + "as_strided(a[::-1], (6,), (-8,)).tolist()").value == [5, 4, 3, 2, 1, 0]
    assert run(language, "isinstance(np.zeros(1, 'i4,i4').view(np.recarray), np.recarray)").value is True
    assert run(language, "a = np.zeros(2)\na.resize(3)\na.shape").value == (3,)


def test_groups_of_exceptions_are_not_inherited_from(language: Language) -> None:
    for group in ("ExceptionGroup", "BaseExceptionGroup", "type(ExceptionGroup('', [ValueError()]))"):
        assert failure(language, f"class G({group}): pass").kind == "NotAllowed"


def test_logging_and_tracebacks_go_to_the_output(language: Language) -> None:
    code = (
        "import logging, traceback\n"
        "logging.basicConfig(level='INFO', format='%(levelname)s|%(name)s|%(message)s')\n"
        "log = logging.getLogger('report')\n"
        "log.debug('no')\n"
        "log.info('%d rows of %s', 3, 'x')\n"
        "logging.warning('%(a)s', {'a': 1})\n"
        "def ratio(a, b):\n"
        "    return a / b\n"
        "try:\n"
        "    ratio(1, 0)\n"
        "except ZeroDivisionError:\n"
        "    log.exception('failed')\n"
        "    traceback.print_exc()\n"
    )
    trace = (
        "Traceback (most recent call last):\n"
        '  File "<code>", line 10, in <module>\n'
        '  File "<code>", line 8, in ratio\n'
        "ZeroDivisionError: division by zero\n"
    )
    expected = f"INFO|report|3 rows of x\nWARNING|root|1\nERROR|report|failed\n{trace}{trace}"
    assert printed(language, code) == expected


def test_tracebacks_name_what_an_error_was_raised_from_and_go_into_a_file(language: Language) -> None:
    code = (
        "import io, sys, traceback\n"
        "log = io.StringIO()\n"
        "try:\n"
        "    try:\n"
        "        1 / 0\n"
        "    except ZeroDivisionError:\n"
        "        {}['a']\n"
        "except KeyError as error:\n"
        "    try:\n"
        "        raise ValueError('bad') from error\n"
        "    except ValueError as last:\n"
        "        traceback.print_exc(file=log)\n"
        "        traceback.print_exception(*sys.exc_info(), file=log)\n"
        "        kept = last\n"
        "print(log.getvalue())\n"
        "traceback.print_exception(kept, chain=False)\n"
        "traceback.print_exception(KeyError('never raised'), file=log)\n"
        "try:\n"
        "    raise kept from kept\n"
        "except ValueError:\n"
        "    text = traceback.format_exc()\n"
        "print(log.getvalue()[-25:], text.count('Traceback'))\n"
    )
    begin = 'Traceback (most recent call last):\n  File "<code>", line '
    whole = (
        f"{begin}5, in <module>\nZeroDivisionError: division by zero\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        f"{begin}7, in <module>\nKeyError: 'a'\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        f"{begin}10, in <module>\nValueError: bad\n"
    )
    expected = f"{whole}{whole}\n{begin}10, in <module>\nValueError: bad\nKeyError: 'never raised'\n 1\n"
    assert printed(language, code) == expected
    assert failure(language, "import traceback\ntraceback.print_exc(file=[])").kind == "NotAllowed"


def test_the_page_of_the_language_lists_its_modules(language: Language) -> None:
    page = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    table = page.split("## Modules")[1].split("| science, with")[0]
    listed = re.findall(r"`(\w+)`", table)
    facades = set(language._modules.facades) - {
        "yaml",
        "natsort",
        "texttable",
    }  # they are there only where they are installed
    assert sorted(listed) == sorted(name for name in facades if re.fullmatch(r"[a-z]\w*", name))


# Refusals before the run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "line", "words"),
    [
        ("x = 1\ny = ().__class__.__mro__", "NotAllowed", 2, "__mro__"),
        ("def f(:\n  pass", "SyntaxError", 1, "invalid syntax"),
        ("\n\nasync def f(): f.__code__", "NotAllowed", 3, "__code__"),
        ("def f():\n    from os import *", "NotAllowed", 2, "*"),
        ("f.__globals__", "NotAllowed", 1, "__globals__"),
        ("class A:\n    def __getattribute__(self, n): pass", "NotAllowed", 2, "__getattribute__"),
        ("(" * 3000 + ")" * 3000, "SyntaxError", None, "nested"),
        ("x = 1\n" + "-" * 50_000 + "x", "SyntaxError", None, ""),
        ("x = '\0'", "SyntaxError", None, "null"),
        ("if 1:\nx = 2", "SyntaxError", 2, "indent"),
        ("return 1", "SyntaxError", 1, "return"),
    ],
)
def test_refusals_name_construct_and_line(
    language: Language, code: str, kind: str, line: int | None, words: str
) -> None:
    refused = failure(language, code)
    assert refused.kind == kind
    if line is not None:
        assert refused.line == line
    assert words in refused.message
    assert len(refused.message) <= 2000


# Errors of the run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "line", "hint"),
    [
        ("x = 1\nusrs", "NameError", 2, "did you mean 'users'? the names there are: frame, users"),
        ("name.upper()", "NameError", 1, "'name' is a key of the records of users: row['name']; the names there are: "),
        ("t = pd.DataFrame({'total': [1]})\ntotal", "NameError", 2, "'total' is a column of t: t['total']; "),
        ("frame.id.str.upper()", "AttributeError", 1, "'id' is integer (int64): use .astype(str).str"),
        (
            "frame['name'].dt.year",
            "AttributeError",
            1,
            "'name' is text (str): use pd.to_datetime(column, errors='coerce')",
        ),
        (
            "pd.Series([1.5]).dt.year",
            "AttributeError",
            1,
            "the values are floating (float64): use pd.to_datetime(column, u",
        ),
        (
            "pd.to_datetime(pd.Series(['2024-01-01'])).str[:4]",
            "AttributeError",
            1,
            "are dates (datetime64[us]): use .dt",
        ),
        ("frame['name'].cat.codes", "AttributeError", 1, "use .astype('category').cat"),
        ("users[0]['nme']", "KeyError", 1, "did you mean 'name'? the keys are: id, name"),
        ("def f(r):\n    return r['x']\nf(users[0])", "KeyError", 2, "the keys are: id, name"),
        ("frame['nmae']", "KeyError", 1, "did you mean 'name'? the columns are: id, name"),
        ("frame.groupby('nope')", "KeyError", 1, "the columns are: id, name"),
        ("frame.merge(frame.rename(columns={'id': 'ID'}), on='id')", "KeyError", 1, "of the other table are: ID, name"),
        ("frame.rename(columns={'id': 'ID'}).merge(frame, on='id')", "KeyError", 1, "the columns are: ID, name"),
        ("frame.append({'id': 1})", "AttributeError", 1, "use pd.concat("),
        ("frame.total()", "AttributeError", 1, "the columns are: id, name"),
        ("users[0].name", "AttributeError", 1, "it is a dict: use ['name']; the keys are: id, name"),
        ("users.name", "AttributeError", 1, "it is a list of 2: use an index, or a loop over its items"),
        ("open('a')", "NotAllowed", 1, "the data is in: frame, users"),
        ("pd.read_csv('users.csv')", "NotAllowed", 1, "pd.read_csv(io.StringIO(text)); the data is in: frame, users"),
        ("import requests", "ModuleNotFoundError", 1, "there is no network; the data is in: frame, users"),
        ("import nonesuch", "ModuleNotFoundError", 1, "the nearest modules there are: "),
        ("import sklern", "ModuleNotFoundError", 1, "the nearest modules there are: sklearn"),
        (
            "from json import codecs",
            "ImportError",
            1,
            "json has: JSONDecodeError, JSONDecoder, JSONEncoder, decoder, dump",
        ),
        ("users['id']", "TypeError", 1, "the value is a list"),
        ("'abc'['id']", "TypeError", 1, "the value is a str"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError", 1, "loop"),
        ("eval('1' * 200_000)", "NotAllowed", 1, "literal_eval"),
        ("frame.plot()", "NotAllowed", 1, "give the numbers"),
        ("1 / 0", "ZeroDivisionError", 1, None),
        ("type('X', (), {'__getattr__': 1})", "NotAllowed", 1, "class statement"),
        ("exit(3)", "SystemExit", 1, None),
    ],
)
def test_errors_tell_how_to_mend(language: Language, code: str, kind: str, line: int, hint: str | None) -> None:
    failed = failure(language, code, users=USERS, frame=pd.DataFrame(USERS))
    assert (failed.kind, failed.line) == (kind, line)
    if hint is None:
        assert failed.hint is None
    else:
        assert failed.hint is not None
        assert hint in failed.hint


@pytest.mark.parametrize(
    "code",
    [
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "class E(Exception):\n    def __str__(self): return 3\nraise E",
        "class E(Exception):\n    def __str__(self): return 'x' * 10_000_000\nraise E",
        "class K:\n    def __repr__(self): raise KeyError\nraise KeyError(K())",
        "class E(Exception): pass\nE.__name__ = 'x' * 100_000\nraise E",
        "class D(dict):\n    def keys(self): 1 / 0\n    def __iter__(self): 1 / 0\nD()['x']",
        "class D(dict):\n    def __contains__(self, k): 1 / 0\nD(a=1).nope",
        "raise KeyError",
        "raise KeyError(*range(1000))",
        "raise NameError",
        "raise AttributeError",
        "x = {i: 1 for i in range(100_000)}\nx['a']",
        "x = {'k' * 10_000 + str(i): 1 for i in range(1000)}\nx['k']",
        "raise ImportError",
        "raise BaseException('x')",
        "class A:\n    def __getattr__(self, n): raise AttributeError(n)\nA().x",
    ],
)
def test_explaining_hostile_errors_is_safe_and_bounded(language: Language, code: str) -> None:
    failed = failure(language, code)
    assert len(failed.kind) <= 200
    assert len(failed.message) <= 2000
    assert len(failed.hint or "") <= 2000


# IPython's lines --------------------------------------------------------------------------------------------------------------


def test_code_whose_depth_python_has_miscounted_is_refused(language: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    def miscount(*_arguments: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch (before=63, after=65)")

    program = language.compile("try:\n    eval('1 + 1')\nexcept SyntaxError as error:\n    found = str(error)\nfound")
    monkeypatch.setattr("byref_sandbox.language.policy.parsed", miscount)
    assert language.run(program, {}, io.StringIO()).value == "the expression is nested too deeply"
    with pytest.raises(Refused) as refused:
        language.compile("1")
    assert (refused.value.failure.kind, refused.value.failure.message) == (
        "SyntaxError",
        "the code is nested too deeply",
    )


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("%matplotlib inline\nx = 1\nx + 1", 2),
        ("!pip install -q pandas numpy\n!pip install -U 'python-dateutil>=2'\n3", 3),
        ("%load_ext autoreload\n%autoreload 2\n4", 4),
        ("%%time\n5", 5),
        ("%time 6", 6),
        ("%timeit -n 10 -r 3 7", 7),
        ("try:\n    import nonesuch\nexcept ImportError:\n    !pip install pandas\n8", 8),
        ("x = (10\n  % 3)\nx", 1),
        ("print('%s' % 1)\n%config InlineBackend.figure_format = 'retina'\n9", 9),
        ("text = '''\n%matplotlib inline\n!ls\n'''\ntext", "\n%matplotlib inline\n!ls\n"),
        ("%matplotlib inline\ntext = '''\n%matplotlib inline\n'''\ntext", "\n%matplotlib inline\n"),
    ],
)
def test_lines_that_change_nothing_are_left_out(language: Language, code: str, value: object) -> None:
    assert language.run(language.compile(code), {}, io.StringIO()).value == value


def test_errors_behind_such_lines_name_their_own_line(language: Language) -> None:
    assert failure(language, "%matplotlib inline\n%%time\nx = 1\n1 / 0").line == 4


def test_a_thousand_such_lines_take_no_time(language: Language) -> None:
    began = time.process_time()
    for code in ("%matplotlib inline\n" * 1000, "!" * 10_000, "%" * 10_000 + "\n%time", "%time (\n" * 1000):
        with pytest.raises(Refused):
            language.compile(code)
    assert time.process_time() - began < 2


def test_display_shows_values(language: Language) -> None:
    output = io.StringIO()
    code = "display(1, 'a')\nfrom IPython.display import display as show\nshow(pd.DataFrame({'a': [1]}))"
    language.run(language.compile(code), {}, output)
    assert output.getvalue() == "1\na\n   a\n0  1\n"


# Before the run: dollars and names ------------------------------------------------------------------------------------------


# Forms of notebooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("len?", "len(obj, /)\n\nReturn the number of items in a container.\n"),
        ("?math", "module math\n\nacos, acosh"),
        ("pd.DataFrame.merge??  ", "merge(self, right: 'DataFrame | Series', how: 'MergeHow' = 'inner'"),
        ("def f(a, *, b=2):\n    '''Does it.'''\nf?\n", "f(a, *, b=2)\n\nDoes it.\n"),
        ("class C:\n    'Holds.'\n    def m(self): ...\nc = C()\nc?", "C object\n\nclass C()\n\nHolds.\n\nnames: m\n"),
        (
            "class C:\n    'Calls.'\n    def __eq__(self, other): return other.no\n    def __call__(self, x): return x\nc = C()\nc?",
            "C(x)\n\nCalls.\n",
        ),
        ("x = 'really?'\nx?;", "str object\n\nclass str(...)\n\nstr(object='') -> str"),
        ("help()", "help(value) tells"),
    ],
)
def test_help_is_printed(language: Language, code: str, words: str) -> None:
    assert printed(language, code).startswith(words)
    assert len(printed(language, code)) <= 4_002


def test_tables_in_xml_need_no_other_parser(language: Language) -> None:
    code = """text = "<data><row><a>1</a><b>x</b></row><row><a>2</a></row></data>"
open("rows.xml", "w").write(text)
tables = [pd.read_xml(io.StringIO(text)), pd.read_xml("rows.xml", xpath="//row"), pd.read_xml(io.StringIO(text), parser="lxml")]
[table.values.tolist()[0] for table in tables]"""
    assert run(language, f"import io\n{code}").value == [[1, "x"]] * 3


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_matrix_is_made_of_variables_where_they_are(language: Language) -> None:
    code = "A, B = np.eye(1), np.zeros((1, 1))\ndef inside():\n    C = A + 1\n    return np.bmat('A C; C B')\n"
    assert run(language, code + "np.bmat('A B').tolist(), inside().tolist()").value == ([[1, 0]], [[1, 2], [2, 0]])
    for text in ("'__builtins__'", "'_getattr_'", "'language'", "'x', ldict={}, gdict=type('D', (dict,), {})()"):
        with pytest.raises(NameError, match="is not defined"):
            run(language, f"np.bmat({text})")


@pytest.mark.parametrize("code", ["x ? y", "'a'?", "f(x)?", "?", "x.?", "x? = 1"])
def test_other_questions_are_broken_code(language: Language, code: str) -> None:
    refused = failure(language, code)
    assert (refused.kind, refused.line) == ("SyntaxError", 1)


@pytest.mark.parametrize(
    "end", ["sys.exit()", "sys.exit(0)", "exit()", "quit(False)", "raise SystemExit", "await leave()"]
)
def test_an_exit_without_a_status_ends_the_code(language: Language, end: str) -> None:
    code = f"import sys\nasync def leave(): sys.exit(0)\nx = 1\nif x:\n    {end}\nx = 2"
    ran = language.run(language.compile(code), {}, io.StringIO())
    assert (ran.value, ran.names["x"]) == (None, 1)


def test_what_compiles_is_not_too_deep(language: Language) -> None:
    deep = "import sys\nsys.setrecursionlimit(50_000)\ntry:\n    found = eval({})\nexcept SyntaxError as error:\n    found = str(error)\nfound"
    for text in ("'-' * 50_000 + '1'", "'1+' * 40_000 + '1'", "'a' + '.b' * 40_000", "'(' * 30_000 + ')' * 30_000"):
        value = language.run(language.compile(deep.format(text)), {}, io.StringIO()).value
        assert isinstance(value, str) and "nest" in value
    code = "import sys\nsys.setrecursionlimit(50_000)\nx = eval('1 + 1')\nsys.getrecursionlimit()"
    assert language.run(language.compile(code), {}, io.StringIO()).value == 50_000
    language.run(language.compile("import sys\nsys.setrecursionlimit(1_000)"), {}, io.StringIO())


# Newer Pythons ----------------------------------------------------------------------------------------------------------------

NEWER = """
type Rows[T] = list[dict[str, T]]
type Number = int | float
def first[T: (int, str)](items: list[T], *more: T) -> T:
    return items[0]
async def later[**P, *Ts](x: Number) -> Rows[Number]:
    return x
class Stack[T]:
    def __init__(self, items: list[T]):
        self._items = items
    def pop(self) -> T:
        return self._items.pop()
class Own[K, V](dict[K, V]): pass
import asyncio, typing
box = Stack[int]([1, 2])
[first([3]), box.pop(), isinstance(box, Stack), Number.__name__, asyncio.run(later(5)), Own(a=1), typing.get_args(Rows[int])]
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_type_parameters(language: Language) -> None:
    value = language.run(language.compile(NEWER), {}, io.StringIO()).value
    assert value == [3, 2, True, "Number", 5, {"a": 1}, (int,)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize(
    "code",
    [
        "type X = ().__class__.__base__.__subclasses__()",
        "type X = int\nX.__value__",
        "type X[__globals__] = int",
        "type X[T: (lambda: 0).__globals__] = T",
        "type __builtins__ = int",
        "def f[T: ().__class__.__mro__](): pass",
        "def f[T](): pass\nf.__type_params__",
        "class C[T: ().__class__.__bases__]: pass",
        "class C[T](np.ndarray): pass",
        "class C:\n    type __slots__ = int",
        "class C[T]:\n    type X = __class__.__mro__",
    ],
)
def test_type_parameters_lead_nowhere(language: Language, code: str) -> None:
    assert failure(language, code).kind == "NotAllowed"
