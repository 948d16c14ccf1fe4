"""Normal use: code in, values, text, output, errors and variables out."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from byref_sandbox import Data, Failure, Limits, Outcome, Sandbox, Snapshot, State
from byref_sandbox.outcome import MAX_STDERR_BYTES
from byref_sandbox.testing import run_in_jail

USERS = [{"id": 1, "name": "Ann", "age": 41}, {"id": 2, "name": "Bo", "age": 29}, {"id": 3, "name": "Cy", "age": 35}]


def data(value: object, key: str | None = None, **options: object) -> Data:
    payload = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Data(key or str(hash(payload)), lambda: payload, **options)


def test_the_last_expression_is_the_value(sandbox: Sandbox) -> None:
    outcome = sandbox.run("x = 20\nx + 1")
    assert (outcome.value, outcome.kind, outcome.text, outcome.error) == (21, "json", "21", None)
    assert {name: (bound.kind, bound.data) for name, bound in outcome.bound.items()} == {"x": ("json", b"20")}


def test_no_value_is_none(sandbox: Sandbox) -> None:
    outcome = sandbox.run("x = 1")
    assert (outcome.value, outcome.kind, outcome.text) == (None, "none", "")


def test_print_is_captured(sandbox: Sandbox) -> None:
    outcome = sandbox.run("for i in range(3):\n    print(i, end=' ')\nprint('€', '\\ud800')")
    assert outcome.stdout == "0 1 2 € \\ud800\n"
    assert outcome.stdout_dropped == 0


@pytest.mark.parametrize(
    "code", ["users[1]['name']", "$users[1]['name']", "[u['name'] for u in $users if u['age'] < 30][0]"]
)
@pytest.mark.parametrize("session", [None, "s"])
def test_variables_are_there_by_name(sandbox: Sandbox, code: str, session: str | None) -> None:
    for users in (USERS, data(USERS)):
        assert sandbox.run(code, {"users": users}, session=session).value == "Bo"


@pytest.mark.parametrize("session", [None, "frames"])
@pytest.mark.parametrize("code", ["df('users')['age'].mean()", "df(users)['age'].mean()", "df('$users')['age'].mean()"])
def test_df_makes_a_frame(sandbox: Sandbox, code: str, session: str | None) -> None:
    assert sandbox.run(code, {"users": data(USERS)}, session=session).value == 35.0


@pytest.mark.slow
@pytest.mark.parametrize("session", [None, "constructed"])
def test_pandas_makes_of_variables_what_it_makes_of_plain_objects(sandbox: Sandbox, session: str | None) -> None:
    """Although it is handed a table that the zygote made, unless the code could have changed them before."""
    rows = [{"n": 1, "day": "2024-01-02", "tags": ["x"]}, {"n": None, "day": "2024-01-03"}]
    outer = data({"rows": rows, "total": 2})
    given = {"rows": data(rows), "outer": outer, "inner": Data(outer.key, outer.load, path=("rows",))}
    shown = "[(str(t), c.tolist()) for t, c in zip(d.dtypes, (d[n] for n in d))]"
    plain = [["float64", [1.0, None]], ["str", ["2024-01-02", "2024-01-03"]], ["object", [["x"], None]]]
    changed = [["float64", [7.0, None]], *plain[1:]]
    typed = [plain[0], ["datetime64[us]", ["2024-01-02T00:00:00", "2024-01-03T00:00:00"]], plain[2]]
    cases = [
        ("d = pd.DataFrame(rows)", plain),
        ("import pandas as pd\nrows = pd.DataFrame(rows)\nd = rows.copy()", plain),
        ("d = pd.DataFrame(inner)", plain),
        ("print(len(rows), rows[0]['n'])\nd = pd.DataFrame(rows)", plain),
        ("rows[0]['n'] = 7\nd = pd.DataFrame(rows)", changed),
        ("d = pd.DataFrame(inner)\nouter['total']", plain),
        ("outer['rows'][0]['n'] = 7\nd = pd.DataFrame(inner)", changed),
        ("b = pd.DataFrame(rows)\nb.loc[0, 'n'] = 7\nd = pd.DataFrame(rows)", plain),
        ("d = pd.DataFrame(rows)\nassert df(rows)['day'].dtype.kind == 'M'", plain),
        ("pd.DataFrame(rows)\nd = df(rows)", typed),
        (
            "pd.options.future.infer_string = False\nd = pd.DataFrame(rows)",
            [plain[0], ["object", plain[1][1]], plain[2]],
        ),
    ]
    for code, wanted in cases:
        outcome = sandbox.run(f"{code}\n{shown}", given, session=session)
        assert outcome.error is None, (code, outcome.error)
        assert outcome.value == wanted, code
        assert set(outcome.bound) <= {"d", "b"} and ("rows" in outcome.named) == ("rows =" in code), code


@pytest.mark.slow
def test_options_of_an_earlier_run_count_for_what_pandas_makes_of_variables(sandbox: Sandbox) -> None:
    """Also where the code looks as if it needed neither the values nor the state."""
    rows = {"rows": data([{"day": "2024-01-02"}, {"day": None}])}
    for option, value in (("future.infer_string", False), ("mode.string_storage", "python")):
        first = sandbox.run(f"pd.set_option({option!r}, {value!r})")
        state = State((Snapshot(first.contents),), first.blobs)
        for code in (
            "repr(pd.DataFrame(rows)['day'].dtype)",
            "print(len(rows))\nd = pd.DataFrame(rows)\nrepr(d['day'].dtype)",
        ):
            plain = "d = pd.DataFrame([{'day': '2024-01-02'}, {'day': None}])\nrepr(d['day'].dtype)"
            assert sandbox.run(code, rows, state=state).value == sandbox.run(plain, state=state).value, (option, code)
            assert sandbox.run(code, rows).value == sandbox.run(plain).value
    first = sandbox.run("pd.set_option('display.max_rows', 4)")
    shown = sandbox.run(
        "print(pd.DataFrame(rows))",
        {"rows": data([{"n": n} for n in range(50)])},
        state=State((Snapshot(first.contents),), first.blobs),
    )
    assert shown.stdout.count("\n") < 9


def test_df_gives_the_same_frame_every_time(sandbox: Sandbox) -> None:
    assert sandbox.run("df('users') is df(users) is df('users')", {"users": USERS}).value is True
    assert sandbox.run("rows = [{'a': 1}]\ndf(rows) is df(rows)").value is True


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (USERS, [3, 3]),
        ({"a": 1, "b": "x"}, [1, 2]),
        ({"a": [1, 2], "b": [3, 4]}, [2, 2]),
        ([1, 2, 3], [3, 1]),
        ([], [0, 0]),
        ([{"a": {"b": 1}}], [1, 1]),
    ],
)
def test_df_of_every_shape(sandbox: Sandbox, value: object, shape: list[int]) -> None:
    assert sandbox.run("list(df('v').shape)", {"v": value}).value == shape


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("df('v')", "'rows', 'other'"),
        ("df('nothing')", "there is no variable 'nothing'; there are: v"),
        ("df(3)", "a list of objects; this is int"),
    ],
)
def test_df_says_what_it_needs(sandbox: Sandbox, code: str, message: str) -> None:
    outcome = sandbox.run(code + "\nv['total']", {"v": {"rows": [1], "other": [1, 2], "total": 2}})
    assert message in outcome.error.message + (outcome.error.hint or "")


def test_df_of_a_text_says_which_variable_that_is(sandbox: Sandbox) -> None:
    given = {"note": "It was a dark night. " * 3_000, "users": USERS}
    error = sandbox.run("df(note)", given).error
    assert (error.kind, error.message.partition(":")[0]) == ("TypeError", "note is text and no table")
    error = sandbox.run("df('night ' * 1_000)", given).error
    assert (error.kind, len(error.message) < 200) == ("NameError", True)


def test_only_what_the_code_names_is_loaded(sandbox: Sandbox) -> None:
    def never() -> bytes:
        raise AssertionError("loaded without need")

    variables = {"users": data(USERS), "other": Data("other", never)}
    assert sandbox.run("len(users)", variables).value == 3
    assert sandbox.run("len(users)", variables, session="lazy").value == 3


@pytest.mark.parametrize("session", [None, "paths"])
def test_a_path_inside_the_value(sandbox: Sandbox, session: str | None) -> None:
    loads = []

    def load() -> bytes:
        loads.append(1)
        return json.dumps({"page": {"rows": USERS, "total": 3}}).encode()

    variables = {
        "rows": Data("p", load, path=("page", "rows")),
        "first": Data("p", load, path=("page", "rows", 0, "name")),
        "total": Data("p", load, path=("page", "total")),
    }
    assert sandbox.run("[len(rows), first, total]", variables, session=session).value == [3, "Ann", 3]
    assert len(loads) == 1
    broken = {"x": Data("p", load, path=("page", "nothing"))}
    outcome = sandbox.run("x", broken, session=session)
    assert "'nothing'" in outcome.error.message


@pytest.mark.parametrize("session", [None, "types"])
@pytest.mark.parametrize(
    ("payload", "content_type", "code", "value"),
    [
        ("héllo\n".encode(), "text/plain", "v", "héllo\n"),
        (b"\xef\xbb\xbfx", "text/plain", "len(v)", 1),
        (b"\xff\xfe", "text/plain", "len(v)", 2),
        ("\ud800".encode("utf-8", "surrogatepass"), "text/plain", "ord(v)", 0xD800),
        (b"\x89PNG", "image/png", "[len(v), v[0]]", [4, 0x89]),
        (b'{"a": 1}', "application/ld+json", "v['a']", 1),
        (b"\xef\xbb\xbf[1]", "application/json", "v", [1]),
        (b"[NaN, 1e999, -Infinity]", "application/json", "[v[0] != v[0], v[1] > 1e308, v[2] < 0]", [True, True, True]),
        (b'"\\ud800"', "application/json", "ord(v)", 0xD800),
        (b"123456789012345678901234567890", "application/json", "v + 1", 123456789012345678901234567891),
        (b"1" * 5000, "application/json", "len(v)", 5000),
        (b'{"a":1,"a":2}', "application/json", "v", {"a": 2}),
    ],
)
def test_payloads_of_every_kind(
    sandbox: Sandbox, payload: bytes, content_type: str, code: str, value: object, session: str | None
) -> None:
    bound = data(payload, key=f"{content_type} {payload[:40]!r}", content_type=content_type)
    assert sandbox.run(code, {"v": bound}, session=session).value == value


@pytest.mark.parametrize("session", [None, "broken"])
@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_no_json_is_told(sandbox: Sandbox, payload: bytes, session: str | None) -> None:
    outcome = sandbox.run("v", {"v": data(payload, key=repr(payload[:9]))}, session=session)
    assert outcome.error.kind == "ValueError"
    assert "not JSON" in outcome.error.message


def test_plain_values_go_in_as_they_are(sandbox: Sandbox) -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    variables = {"text": "x", "raw": b"\x00\xff", "none": None, "big": 2**80, "frame": frame, "tuple": (1, 2)}
    outcome = sandbox.run("[text, list(raw), none, big, frame['a'].sum(), type(frame).__name__, tuple]", variables)
    assert outcome.value == ["x", [0, 255], None, 2**80, 3, "DataFrame", [1, 2]]


@pytest.mark.parametrize("value", [object(), {1, object()}, lambda: 1])
def test_what_is_no_data_cannot_be_bound(sandbox: Sandbox, value: object) -> None:
    with pytest.raises(TypeError, match="variable 'v' cannot be bound"):
        sandbox.run("v", {"v": value})


@pytest.mark.parametrize("name", ["", "1x", "a b", "a.b", "$x"])
def test_names_must_be_identifiers(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(ValueError, match="is no Python identifier"):
        sandbox.run("1", {name: 1})


@pytest.mark.parametrize(
    ("code", "kind", "line", "message"),
    [
        ("1\n1 / 0", "ZeroDivisionError", 2, "division by zero"),
        ("x = [1]\n\nx[5]", "IndexError", 3, "index"),
        ("def f():\n    return {}['a']\nf()", "KeyError", 2, "a"),
        ("if True\n  1", "SyntaxError", 1, ":"),
        ("import socket", "ModuleNotFoundError", 1, "socket"),
        ("open('/etc/passwd')", "NotAllowed", 1, "no file 'etc/passwd'"),
        ("raise ValueError('mine')", "ValueError", 1, "mine"),
        ("usrs", "NameError", 1, "usrs"),
        ("'a' + 1", "TypeError", 1, "str"),
    ],
)
def test_errors_are_told(sandbox: Sandbox, code: str, kind: str, line: int, message: str) -> None:
    outcome = sandbox.run(code, {"users": USERS})
    assert (outcome.error.kind, outcome.error.line) == (kind, line), outcome.error
    assert message in outcome.error.message
    assert (outcome.value, outcome.kind) == (None, "none")


def test_an_error_names_what_there_is(sandbox: Sandbox) -> None:
    outcome = sandbox.run("usrs", {"users": USERS})
    assert outcome.error.hint is not None
    assert "users" in outcome.error.hint


def test_output_before_an_error_is_kept(sandbox: Sandbox) -> None:
    outcome = sandbox.run("print('so far')\n1 / 0")
    assert outcome.stdout == "so far\n"
    assert outcome.error is not None


def test_names_come_back_as_data(sandbox: Sandbox) -> None:
    outcome = sandbox.run(
        "import math\ntotal = 3\nrows = [{'a': 1}]\nframe = df(rows)\n"
        "def helper(): return 1\nclass Thing: pass\nstream = pd.DataFrame().iterrows()\ntotal"
    )
    assert {name: outcome.bound[name].data for name in ("total", "rows")} == {"total": b"3", "rows": b'[{"a":1}]'}
    frame = outcome.bound["frame"]
    assert (frame.kind, frame.data, frame.shape) == ("dataframe", b'[{"a":1}]', "DataFrame of 1 row and 1 column")
    assert outcome.named == {"helper": "function", "Thing": "class"}
    assert set(outcome.unkept) == {"stream"}
    assert "generator" in outcome.unkept["stream"]


def test_variables_left_alone_are_not_sent_back(sandbox: Sandbox) -> None:
    outcome = sandbox.run("n = len(users)\nn", {"users": data(USERS)})
    assert set(outcome.bound) == {"n"}


def test_a_frame_kept_comes_in_as_a_frame(sandbox: Sandbox) -> None:
    first = sandbox.run("totals = df('users').groupby('name').agg(total=('age', 'sum'))", {"users": USERS})
    kept = first.bound["totals"]
    assert kept.kind == "dataframe"
    again = Data("totals", lambda: kept.data, frame=True)
    for session in (None, "state"):
        assert sandbox.run("totals['total'].max()", {"totals": again}, session=session).value == 41


def test_every_run_begins_anew(sandbox: Sandbox) -> None:
    sandbox.run("left = 1", session="s")
    outcome = sandbox.run("left", session="s")
    assert outcome.error.kind == "NameError"


def test_a_run_says_what_it_cost(sandbox: Sandbox) -> None:
    usage = sandbox.run("sum(range(300_000))\nx = 'a' * 50_000_000\nlen(x)").usage
    assert 1 < usage.cpu_ms < 5000
    assert usage.wall_ms >= usage.cpu_ms * 0.5
    assert 50_000_000 < usage.peak_bytes < 230_000_000  # the text, how it is kept, its JSON, and that once more


@pytest.mark.slow
def test_code_of_any_length_and_content_is_taken(sandbox: Sandbox) -> None:
    assert sandbox.run("x = 1\n" * 20_000 + "x").value == 1
    too_long = sandbox.run("#" * 1_000_001)
    assert too_long.error == Failure("SyntaxError", "the code is longer than 200,000 characters")
    for code in ("", "\x00", "\ud800", "'\ud800'", "(" * 10_000, "\ufeff1", "-" * 50_000 + "1"):
        outcome = sandbox.run(code)
        assert isinstance(outcome, Outcome)
        assert outcome.error is None or outcome.error.kind == "SyntaxError", outcome.error


def test_warnings_are_apart_from_what_is_printed(sandbox: Sandbox) -> None:
    code = r"""
import sys, warnings
print("before")
warnings.warn("two\nlines")
for n in range(3):
    np.array([1.0]) / 0
print("told", file=sys.stderr)
sys.stderr.write("written\n")
"after"
"""
    outcome = sandbox.run(code)
    assert (outcome.stdout, outcome.value) == ("before\n", "after")
    assert outcome.stderr == (
        "line 4: UserWarning: two lines\nline 6: RuntimeWarning: divide by zero encountered in divide\ntold\nwritten\n"
    )
    failed = sandbox.run("import warnings\nwarnings.warn('first')\n1 / 0")
    assert failed.error is not None and failed.stderr == "line 2: UserWarning: first\n"
    flood = sandbox.run("import sys\nfor n in range(100_000): print('é' * 9, file=sys.stderr)")
    assert len(flood.stderr.encode()) <= MAX_STDERR_BYTES + 3 and flood.stderr.endswith("…")
    assert sandbox.run("1").stderr == ""


def test_what_one_prints_into(sandbox: Sandbox) -> None:
    code = "class Tee:\n    def __init__(self): self.parts = []\n    def write(self, text): self.parts.append(text)\nt = Tee()\n"
    assert sandbox.run(code + "print('a', 1, sep='-', file=t)\nt.parts").value == ["a", "-", "1", "\n"]
    refused = sandbox.run("print('a', file=object())").error
    assert refused is not None and refused.kind == "NotAllowed" and refused.hint and "write method" in refused.hint


def test_settings_of_one_call_hold_for_that_call(sandbox: Sandbox) -> None:
    outcome = sandbox.run("print('abcdef')", limits=Limits(stdout_bytes=3))
    assert (outcome.stdout, outcome.stdout_dropped) == ("abc", 4)
    assert sandbox.run("print('abcdef')").stdout == "abcdef\n"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("import datetime\ndatetime.date(2024, 1, 31)", "2024-01-31"),
        ("import datetime\ndatetime.datetime.strptime('31/01/24', '%d/%m/%y').isoformat()", "2024-01-31T00:00:00"),
        (
            "import pandas as pd\npd.Timestamp('2024-03-10 12:00').tz_localize('Europe/Paris').isoformat()",
            "2024-03-10T12:00:00+01:00",
        ),
        ("import zoneinfo\nstr(zoneinfo.ZoneInfo('Asia/Tokyo'))", "Asia/Tokyo"),
        ("import pandas as pd\npd.to_datetime(pd.Series(['2024-01-01'])).dt.day_name()[0]", "Monday"),
        ("import decimal\nstr(decimal.Decimal('0.1') * 3)", "0.3"),
        ("import re\nre.findall('[a-z]+', 'ab 12 cd')", ["ab", "cd"]),
        ("import statistics\nstatistics.median([3, 1, 2])", 2),
        ("import numpy as np\nfloat(np.linalg.det(np.eye(2)))", 1.0),
        ("import json\njson.loads(json.dumps({'a': [1]}))", {"a": [1]}),
        ("'ünïcode'.encode('latin-1').decode('latin-1')", "ünïcode"),
        ("import random\nrandom.seed(1)\nrandom.randint(1, 1)", 1),
        ("import time\ntime.time() > 1_600_000_000", True),
        ("import datetime\ndatetime.datetime.now().year > 2000", True),
    ],
)
def test_libraries_work_without_files(sandbox: Sandbox, code: str, value: object) -> None:
    outcome = sandbox.run(code)
    assert outcome.error is None
    assert outcome.value == value


def test_values_of_many_kinds(sandbox: Sandbox) -> None:
    """Through the whole way; each conversion has its own test."""
    outcome = sandbox.run("{'a': {1, 2}, 'b': (1, 2.5), 'n': float('nan'), 5: None}")
    assert outcome.value == {"a": [1, 2], "b": [1, 2.5], "n": None, "5": None}
    assert outcome.text == '{"a":[1,2],"b":[1,2.5],"n":null,"5":null}'
    assert sandbox.run("2 ** 200").value == 2**200
    assert sandbox.run("0.1 + 0.2").value == 0.1 + 0.2
    shown = sandbox.run("lambda: 1")
    assert shown.kind == "repr"
    assert shown.text == shown.value
    assert math.isclose(sandbox.run("3.0").value, 3)
    assert sandbox.run("import decimal\ndecimal.Decimal('1.10')").value == "1.10"
    assert sandbox.run("import datetime\ndatetime.timedelta(hours=1)").value == "PT3600S"


def test_an_error_whose_text_lies_about_itself_is_told(sandbox: Sandbox) -> None:
    code = """
class Text(str):
    def encode(self, *_, **__): raise ValueError("no bytes")
    def __getitem__(self, _): return self
    def __len__(self): return 10 ** 9
class Lie(Exception):
    def __str__(self): return Text("told")
raise Lie
"""
    for outcome in (sandbox.run(code), run_in_jail(code, sandbox=sandbox)):
        assert outcome.error == Failure("Lie", "told", 8)
