"""Names that the language gives, `df` above all, after the code has taken them for something else; and what hints name."""

from __future__ import annotations

import pytest

from byref_sandbox import EXACT, Data, Sandbox

ORDERS = [{"id": number, "region": "ns"[number % 2]} for number in range(5)]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("df = pd.DataFrame(orders)\n[len(df), len(df(orders)), len(df('orders'))]", [5, 5, 5]),
        ("df = df(orders)\ndf = df[df.id > 1]\n[len(df), len(df(orders)), len(df(df))]", [3, 5, 3]),
        ("df = 5\nlen(df(orders))", 5),
        ("df = None\nlen(df(orders))", 5),
        ("df = [orders]\nlen(df(orders))", 5),
        ("df = df(orders)\ndel df\nlen(df(orders))", 5),
        ("def f(df):\n    return len(df(orders)) + len(df)\nf(pd.DataFrame(orders[:2]))", 7),
        ("[len(df(orders)) for df in [df(orders)]]", [5]),
        ("df = lambda rows: len(rows) + 1\ndf(orders)", 6),
        ("def df(rows):\n    return rows[0]\ndf(orders)['id']", 0),
        ("class df:\n    def __init__(self, rows): self.n = len(rows)\ndf(orders).n", 5),
    ],
)
def test_df_makes_a_frame_whatever_else_it_names(sandbox: Sandbox, code: str, value: object) -> None:
    outcome = sandbox.run(code, {"orders": ORDERS})
    assert (outcome.error, outcome.value) == (None, value)


def test_df_makes_a_frame_where_an_earlier_call_left_one_of_that_name(sandbox: Sandbox) -> None:
    left = sandbox.run("df = pd.DataFrame(orders).head(2).astype({'id': 'int8'})", {"orders": ORDERS}).bound["df"]
    kept = Data("left", lambda: left.exact, EXACT, kept=True)
    outcome = sandbox.run("[len(df), len(df(orders))]", {"orders": ORDERS, "df": kept})
    assert (outcome.error, outcome.value) == (None, [2, 5])


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("sum = 5\nsum([1])", "'sum' is a value of this code or of earlier code: `del sum` brings back what it was"),
        ("def f():\n    list = [1]\n    return list('ab')\nf()", "'list' is a value"),
        ("pd = 3\npd.DataFrame(orders)", "'pd' is a value of this code or of earlier code: `del pd`"),
        ("print = orders\nprint(1)", "'print' is a value"),
        ("df.head()", "df is a function that makes a DataFrame of a variable: df(name).head"),
        ("df['id']", "df is a function that makes a DataFrame of a variable: df(name)[...]"),
        ("df('order')", "did you mean 'orders'? "),
    ],
)
def test_a_helper_whose_name_was_taken_is_explained(sandbox: Sandbox, code: str, hint: str) -> None:
    error = sandbox.run(code, {"orders": ORDERS}).error
    assert error is not None and error.hint is not None
    assert error.hint.startswith(hint)


def test_del_brings_back_a_helper(sandbox: Sandbox) -> None:
    assert sandbox.run("sum = 5\ndel sum\nsum([1, 2])").value == 3


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (
            "len(order)",
            "did you mean 'orders'? the names there are: orders, v0, v1, v2, ",
        ),
        (
            "import tarfile",
            "of files, open(), pathlib, os, zipfile and pandas reach those that code has written; the data is in: orders, v0, v1, v2, v3, v4 and 55 more",
        ),
        ("import requests", "there is no network; the data is in: orders, v0, v1, v2, v3, v4 and 55 more"),
    ],
)
def test_hints_name_what_was_given_before_what_code_left(sandbox: Sandbox, code: str, hint: str) -> None:
    left = {f"v{number}": Data(f"v{number}", lambda: b"1", kept=True) for number in range(60)}
    error = sandbox.run(code, left | {"orders": ORDERS}).error
    assert error is not None and error.hint is not None
    assert error.hint.startswith(hint) and len(error.hint) < 200


def test_hints_name_no_more_than_helps(sandbox: Sandbox) -> None:
    given = {f"table_{number:03}": [] for number in range(200)}
    error = sandbox.run("import tarfile", given).error
    assert error is not None and error.hint is not None
    assert error.hint.endswith("table_008, table_009 and 190 more") and len(error.hint) < 250


def test_a_module_that_is_not_imported_is_named(sandbox: Sandbox) -> None:
    error = sandbox.run("secrets.token_hex(2)").error
    assert error is not None and error.hint is not None and error.hint.startswith("import secrets first; ")


def test_a_method_that_is_no_function_is_told_how_to_be_one(sandbox: Sandbox) -> None:
    error = sandbox.run("class C(dict):\n    __getattr__ = dict.get").error
    assert error is not None and error.hint == "write it out: def __getattr__(self, …), without a decorator"


@pytest.mark.parametrize("code", ["C.__repr__ = str", "setattr(C, '__len__', str)"])
def test_a_method_that_is_set_later_is_told_where_to_define_it(sandbox: Sandbox, code: str) -> None:
    error = sandbox.run(f"class C:\n    pass\n{code}").error
    assert error is not None and error.hint == "define it in the class"


@pytest.mark.parametrize(
    "code",
    [
        "text.mean()",
        "text.median()",
        "text.quantile(0.5)",
        "text > 2",
        "text.astype(float)",
        "text.astype(object).mean()",
        "df({'a': ['x', 'y'], 'b': ['1', 'NA']}).groupby('a').b.mean()",
        "sum(map(float, text))",
    ],
)
def test_computing_with_text_is_told_how_to_convert_it(sandbox: Sandbox, code: str) -> None:
    error = sandbox.run(f"text = pd.Series(['1', 'NA'])\n{code}").error
    assert error is not None and error.hint is not None and "pd.to_numeric(" in error.hint, error


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("hasattr(1)", "hasattr() missing 1 required positional argument: 'name'"),
        ("open()", "open() missing 1 required positional argument: 'file'"),
        ("df()", "df() missing 1 required positional argument: 'source'"),
        ("import os\nos.listdir(1, 2, 3)", "listdir() takes from 0 to 1 positional arguments but 3 were given"),
        (
            "from collections import namedtuple\nT = namedtuple('T', 'a', module=__name__)\nnamedtuple('T', 'a', b=T)",
            "namedtuple() got an unexpected keyword argument 'b'",
        ),
    ],
)
def test_errors_about_arguments_name_functions_as_code_does(sandbox: Sandbox, code: str, message: str) -> None:
    error = sandbox.run(code).error
    assert error is not None and (error.kind, error.message) == ("TypeError", message)
