"""Calls that only read a session's names, or bind them anew: what need not be written or read is not, and all stays as it was."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sqlalchemy import select

from byref import Engine, Session
from byref.db.tables import NameRow
from byref_sandbox import Sandbox
from byref_sandbox.wire import Written

FRAME = "frame = pd.DataFrame({'n': range(20_000), 's': ['x', 'y'] * 10_000, 'l': [[1], [2]] * 10_000})"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each run sent the state of the session's names."""
    found: list[bool] = []
    real = Sandbox.answer

    def answer(*given: object, **options: object) -> object:
        made = real(*given, **options)  # type: ignore[arg-type]
        found.append(any(isinstance(frame, Written) for frame in made.frames))
        return made

    monkeypatch.setattr(Sandbox, "answer", answer)
    return found


def rows(engine: Engine, session: Session) -> Mapping[str, int]:
    query = select(NameRow.name, NameRow.id).where(NameRow.tenant == session.tenant, NameRow.name != ".last")
    return {row.name: row.id for row in engine.database.read(lambda connection: connection.execute(query).all())}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "code",
    [
        "frame.shape",
        "frame.groupby('s')['n'].sum().to_dict()",
        "frame['n'].max()",
        "numbers[1]",
        "[numbers, text, len(tree['a'])]",
        "frame.head(2)",
        "sum(n for n in numbers)",
    ],
)
def test_what_only_reads_data_writes_no_state(engine: Engine, session: Session, written: list[bool], code: str) -> None:
    session.run(f"{FRAME}\nnumbers = [1, 2]\ntext = 'é'\ntree = {{'a': [{{'b': 1}}]}}")
    before, first = rows(engine, session), session.run(code)
    again = session.run(code)
    assert first.error is None
    assert (first.value, first.shown) == (again.value, again.shown)
    assert written == [True, False, False]
    assert rows(engine, session) == before
    assert session.run("[numbers, text, tree, frame.shape, frame['l'][0]]").value == [
        [1, 2],
        "é",
        {"a": [{"b": 1}]},
        [20_000, 3],
        [1],
    ]


@pytest.mark.parametrize(
    ("setup", "code", "values"),
    [
        ("from collections import defaultdict\nd = defaultdict(list)", "len([d['x'], d])", [2, 2]),
        (
            "class C:\n    n = 0\n    @property\n    def shape(self):\n        self.n += 1\n        return self.n\nc = C()",
            "c.shape",
            [1, 2],
        ),
        ("i = iter([1, 2, 3])", "list(zip(i, [0]))", [[[1, 0]], [[3, 0]]]),
        (
            "class S:\n    n = 0\n    def __add__(self, o):\n        self.n += 1\n        return self.n\ns = S()",
            "s + 1",
            [1, 2],
        ),
        (
            "class S:\n    n = 0\n    def __len__(self):\n        self.n += 1\n        return self.n\n"
            "f = pd.DataFrame({'o': [S()]}, dtype=object)",
            "f['o'].map(len).max()",
            [1, 2],
        ),
        ("def f(known=[]):\n    known.append(1)\n    return len(known)", "f()", [1, 2]),
        ("import random\nr = random.Random(0)", "r.sample(range(1000), 1)", [[864], [394]]),
    ],
)
def test_what_reading_changes_is_kept(session: Session, setup: str, code: str, values: list[object]) -> None:
    session.run(setup)
    assert [session.run(code).value for _ in range(2)] == values
    if "defaultdict" in setup:
        assert session.run("[*d]").value == ["x"]


def test_what_it_shows_of_a_kept_list_is_no_value_of_its_own(session: Session) -> None:
    session.run("rows = [{'a': [1]}]\nframe = pd.DataFrame({'l': [[1], [2]]})")
    for code in ("rows[0]", "frame['l'][0]"):
        session.run(code)
        outcome = session.run("_.append(5)") if code.startswith("frame") else session.run("_['b'] = 5")
        assert outcome.error is not None
        assert "part of a value that has a name" in str(outcome.error.hint)
    assert session.run("[rows, frame['l'].tolist()]").value == [[{"a": [1]}], [[1], [2]]]


def test_what_is_bound_anew_is_as_it_was_where_the_code_fails_before(session: Session) -> None:
    session.run(f"{FRAME}\nother = frame")
    failed = session.run("x = 1\nframe = pd.DataFrame({'n': [1 / 0]})")
    assert failed.error is not None
    assert failed.error.kind == "ZeroDivisionError"
    assert session.run("[frame.shape, other is frame, x]").value == [[20_000, 3], True, 1]
    assert session.run("frame = frame[frame['n'] > 5]\nframe.shape").value == [19_994, 3]
    assert session.run("frame = pd.DataFrame({'n': [1]})\nframe.shape").value == [1, 1]
    assert session.run("[frame.shape, other.shape]").value == [[1, 1], [20_000, 3]]


def test_a_name_in_a_text_is_read_before_it_is_bound(session: Session) -> None:
    session.run(FRAME)
    assert session.run("size = df('frame').shape[0]\nframe = [1]\n[size, frame]").value == [20_000, [1]]
    session.run(FRAME)
    assert session.run("frame = df('frame').head(2)\nframe.shape").value == [2, 3]
    assert session.run("frame = eval('len(frame)')\nframe").value == 2
    assert session.run("other = globals()['fra' + 'me']\nframe = 5\n[other, frame]").value == [2, 5]


def test_a_function_finds_a_name_that_is_bound_after_its_call(session: Session) -> None:
    session.run(f"{FRAME}\ndef size(): return len(frame)")
    assert session.run("before = size()\nframe = frame_2 = pd.DataFrame({'n': [1]})\n[before, size()]").value == [
        20_000,
        1,
    ]
    session.run(FRAME)
    assert session.run("try:\n    before = size()\nfinally:\n    pass\nframe = [0]\n[before, size()]").value == [
        20_000,
        1,
    ]
