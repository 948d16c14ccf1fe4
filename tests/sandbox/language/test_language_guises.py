"""Ways around the language that look like something else: copies, parents of libraries' classes, in-place operators, names in options.

Each attack's last expression tells whether it got what it must not have; it ends in a refusal or in nothing.
"""

from __future__ import annotations

import io

import pytest
from corpus import pieces

from byref_sandbox.language.policy import Language

GUISES = {piece.name: piece for piece in pieces("guises.txt")}


def named(kind: str) -> list[str]:
    """The names of the guises of one kind."""
    return [name for name in GUISES if name.startswith(f"{kind}: ")]


@pytest.fixture(scope="module")
def language(language_with_plots: Language) -> Language:
    return language_with_plots


def _run(language: Language, code: str) -> object:
    return language.run(language.compile("import warnings, types, copy\n" + code), {}, io.StringIO()).value


def test_there_are_enough_guises() -> None:
    assert len(named("refused")) >= 122 and len(named("nothing")) >= 19


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", named("refused"))
def test_it_is_refused(language: Language, name: str) -> None:
    with pytest.raises(Exception) as raised:
        _run(language, GUISES[name].code)
    assert type(raised.value).__name__ in ("NotAllowed", "Refused")


@pytest.mark.parametrize("name", named("nothing"))
def test_it_gets_nothing(language: Language, name: str) -> None:
    assert not _run(language, GUISES[name].code)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", named("works"))
def test_what_is_meant_well_works(language: Language, name: str) -> None:
    assert f"{_run(language, GUISES[name].code)!r}\n" == GUISES[name].recorded


@pytest.mark.parametrize("name", named("in time"))
def test_it_is_stopped_in_time(language: Language, name: str) -> None:
    assert _run(language, GUISES[name].code) is True


def test_a_zone_of_a_rule_is_no_path(language: Language) -> None:
    code = "from dateutil.rrule import rrulestr\nrrulestr('DTSTART;TZID=/etc/passwd:20240101T090000\\nRRULE:FREQ=DAILY')[0].tzinfo"
    assert _run(language, code) is None


@pytest.mark.parametrize(
    "code",
    [
        "pd.Categorical.from_codes(np.array([99]), categories=['a'], validate=False)",
        "pd.MultiIndex.from_product([['a'], [1]]).set_codes([99], level=0, verify_integrity=False)",
        "np.add.at(pd.Categorical(['a']).codes, 0, 99)",
        "np.maximum.at(pd.Categorical(['a']).codes, [0], [99])",
        "np.put(pd.Categorical(['a']).codes, [0], [99])",
        "np.copyto(pd.Categorical(['a']).codes, 99)",
        "np.putmask(pd.Categorical(['a']).codes, [True], [99])",
        "np.lib.stride_tricks.as_strided(pd.Categorical(['a']).codes)[0] = 99",
        "np.lib.stride_tricks.sliding_window_view(pd.Categorical(['a']).codes, 1, writeable=True)[0] = 99",
        "np.random.default_rng().shuffle(pd.Categorical(['a', 'b']).codes)",
    ],
)
def test_codes_stay_within_their_categories(language: Language, code: str) -> None:
    with pytest.raises(ValueError, match=r"read-only|codes? (need|max)"):
        _run(language, code)


def test_codes_that_are_given_are_copied(language: Language) -> None:
    code = (
        "k = np.array([0, 1], 'int8')\nc = pd.Categorical.from_codes(k, categories=['a', 'b'])\nk[0] = 99\nc.tolist()"
    )
    assert _run(language, code) == ["a", "b"]


def test_arrays_of_ones_own_are_written_to_as_ever(language: Language) -> None:
    code = """
a = np.zeros(3)
np.add.at(a, [0, 0, 2], 1)
a.setflags(write=True, align=True)
view = a[1:]
f = pd.DataFrame({"x": [1, 2]})
f.at[0, "x"] = 7
f.at[1, "x"] += 1
m = pd.MultiIndex.from_product([["a", "b"], [1]]).set_codes([1, 0], level=0)
[a.tolist(), a.base is None, view.base is a, f.x.tolist(), m.tolist(), f.x.dtype.base.name]
"""
    assert _run(language, code) == [[2, 0, 1], True, True, [7, 3], [("b", 1), ("a", 1)], "int64"]


def test_indexes_are_made_and_changed_as_ever(language: Language) -> None:
    code = """
k = np.array([0, 1], "int8")
m = pd.MultiIndex(levels=[["a", "b"], [1, 2]], codes=[k, [0, 1]], names=["x", "y"])
k[0] = 99
n = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "y"])
[
    m.equals(n), type(m) is pd.MultiIndex, isinstance(n, pd.MultiIndex), pd.MultiIndex.__name__,
    m.set_levels(["c", "d"], level="x").tolist(), pd.MultiIndex.set_codes(m, [1, 0], level=0).tolist(),
    m.levels[0].tolist(), m.codes[1].tolist(), pd.Categorical(["a"]).from_codes([0], ["z"]).tolist(),
    pd.DataFrame({"v": [1, 2]}, index=m).unstack().shape,
]
"""
    assert _run(language, code) == [
        *(True, True, True, "MultiIndex"),
        *([("c", 1), ("d", 2)], [("b", 1), ("a", 2)]),
        *(["a", "b"], [0, 1], ["z"], (2, 2)),
    ]


def test_codes_of_one_level_alone_are_of_the_same_length(language: Language) -> None:
    with pytest.raises(ValueError, match="Unequal code lengths"):
        _run(language, "pd.MultiIndex.from_product([['a'], [1]]).set_codes([0, 0], level=0)")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_shape_is_set_where_one_variable_holds_the_array(language: Language) -> None:
    code = "def f():\n    b = np.arange(4)\n    b.shape = 2, 2\n    return b.shape\na = np.arange(6)\na.shape = 3, -1\n[a.shape, f()]"
    assert _run(language, code) == [(3, 2), (2, 2)]


def test_a_pattern_prints_nothing_of_itself(language: Language) -> None:
    output = io.StringIO()
    code = "import re\nre.compile('a+b', re.RegexFlag.DEBUG).findall('aab ab')"
    assert language.run(language.compile(code), {}, output).value == ["aab", "ab"]
    assert output.getvalue() == ""
