"""What pandas does with text, nullable, categorical, Arrow and time columns is the same inside as outside, whatever it takes for it."""

from __future__ import annotations

import json
import zoneinfo
from typing import Any

import pandas_calls
import pytest
from pandas_calls import KINDS, OWNERS, head, plainly, program
from sampled import sampled

from byref_sandbox import Limits, Sandbox

QUICK = ("str", "category", "arrow decimal", "arrow timestamp tz")
"""Kinds whose grouped calls are tried in the quick suite: one for each way that pandas goes."""
GROUPED = ("SeriesGroupBy", "Resampler", "dt")


@pytest.fixture(scope="module")
def patient() -> Any:
    with Sandbox(Limits(wall_seconds=60, cpu_seconds=60)) as sandbox:
        yield sandbox


def differing(sandbox: Sandbox, owner: str, kind: str) -> dict[str, tuple[Any, Any]]:
    """The calls that give something else inside than outside."""
    outcome = sandbox.run(program(owner, kind))
    assert outcome.error is None, outcome.error
    inside: Any = outcome.value
    outside = json.loads(json.dumps(plainly(program(owner, kind, plain=True))))
    assert outside.keys() == inside.keys()
    return {name: (outside[name], inside[name]) for name in outside if outside[name] != inside[name]}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", sampled(QUICK, 2))
def test_groups_of_each_kind_of_column_are_those_of_plain_pandas(sandbox: Sandbox, kind: str) -> None:
    for owner in GROUPED:
        if pandas_calls.calls(owner, kind):
            assert differing(sandbox, owner, kind) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_method_of_each_object_over_each_kind_of_column_does_what_plain_pandas_does(
    patient: Sandbox, kind: str
) -> None:
    tried = [owner for owner in OWNERS if pandas_calls.calls(owner, kind)]
    assert {"Series", "DataFrame", "Index", "SeriesGroupBy", "Resampler"} <= set(tried)
    assert {owner: found for owner in tried if (found := differing(patient, owner, kind))} == {}


@pytest.mark.slow
def test_nearly_every_method_gives_a_value_for_some_kind_of_column() -> None:
    """A call that fails inside and outside compares nothing."""
    tried: set[tuple[str, str]] = set()
    useful: set[tuple[str, str]] = set()
    for kind in (
        "int64",
        "float64",
        "str",
        "datetime",
        "category",
        "timedelta",
        "period",
        "arrow list",
        "arrow struct",
    ):
        for owner in OWNERS:
            if calls := pandas_calls.calls(owner, kind):
                found = plainly(program(owner, kind, plain=True))
                tried |= {(owner, name) for name in calls}
                useful |= {(owner, name) for name in calls if found[name][0] != "error"}
    assert len(useful) > 0.9 * len(tried), sorted(tried - useful)


ENGINES = (
    "s().groupby(g).agg(['min', 'max', 'first', 'last', 'nunique', 'count', 'size'])",
    "s().groupby(g).max(min_count=3)",
    "f().pivot_table(index='g', values='s', aggfunc=['min', 'max'])",
    "f().groupby('g').agg(low=('s', 'min'), high=('s', 'max'))",
    "t().groupby(pd.Grouper(freq='2D')).max()",
    "f().convert_dtypes(dtype_backend='pyarrow').groupby('g').max()",
    "f().convert_dtypes(dtype_backend='pyarrow').merge(f().convert_dtypes(dtype_backend='pyarrow'), on='g')",
    "pd.read_csv(io.StringIO(f().to_csv()), dtype_backend='pyarrow')",
    "pd.Series(pd.date_range('2024', periods=3)).astype('timestamp[us][pyarrow]').dt.tz_localize('Asia/Tokyo').dt.hour",
    "pd.Series(pd.date_range('2024', periods=3, tz='Asia/Kolkata')).astype('timestamp[us, Asia/Kolkata][pyarrow]').dt.hour",
    "pd.Series([1.0, None, 3]).interpolate(method='pchip')",
    "pd.Series([1.0, 2, 4]).corr(pd.Series([1.0, 5, 3]), method='kendall')",
    "pd.DataFrame({'a': [1.0, 2, 4], 'b': [1.0, 5, 3]}).corr(method='kendall')",
    "pd.Series(range(5)).rolling(3, win_type='triang').mean()",
    "pd.DataFrame({'a': range(2_000_000)}).eval('a * 2 + 1').sum()",
    "pd.DataFrame({'a': range(2_000_000)}).query('a > 100').shape",
    "pd.to_datetime('3 January 2024 5pm')",
    "f().to_markdown()",
    "f().to_markdown(index=False)",
    "f().to_markdown(floatfmt='.2f', tablefmt='github')",
    "pd.DataFrame({'a': [1.23456, None], 'b': ['x|y', '1']}).to_markdown(floatfmt='.1f', index=False)",
    "f().groupby('g').size().to_markdown()",
    "s().to_markdown(tablefmt='grid')",
    "f().to_latex()",
    "f().to_latex(index=False, longtable=True, float_format='%.2f', caption='c', label='l')",
    "f().set_index(['g', 's']).to_latex(escape=True, multirow=True)",
    "s().to_latex()",
)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [ENGINES[::3], pytest.param(ENGINES, marks=pytest.mark.slow)], ids=["some", "all"])
def test_optional_packages_of_pandas_do_inside_what_they_do_outside(sandbox: Sandbox, calls: tuple[str, ...]) -> None:
    lines = "\n".join(f"found[{call!r}] = attempt(lambda: {call})" for call in calls)
    outcome = sandbox.run(f"{head('str', plain=False)}\n{lines}\nfound")
    outside = json.loads(json.dumps(plainly(f"{head('str', plain=True)}\n{lines}\nfound")))
    assert outcome.error is None
    assert outcome.value == outside
    failed = {call for call, told in outside.items() if told[0] == "error"}
    assert failed <= {call for call in ENGINES if "pchip" in call or "kendall" in call or "triang" in call}


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_arrow_knows_every_time_zone_that_zoneinfo_knows(sandbox: Sandbox, step: int) -> None:
    """A zone that Arrow cannot read while code runs ends the process."""
    code = """
import pyarrow as pa
def hours(zone):
    moments = pd.Series(pd.to_datetime(["2024-01-15 12:00", "2024-07-15 12:00"], utc=True)).dt.tz_convert(zone)
    in_arrow = moments.astype(pd.ArrowDtype(pa.timestamp("us", zone))).dt
    assert in_arrow.strftime("%H:%M").tolist() == moments.dt.strftime("%H:%M").tolist(), zone
    return moments.dt.hour.tolist() == in_arrow.hour.tolist() == in_arrow.tz_convert("UTC").dt.tz_convert(zone).dt.hour.tolist()
[zone for zone in zones if not hours(zone)]
"""
    zones = sorted(zoneinfo.available_timezones() - {"Factory", "localtime"})[::step]
    outcome = sandbox.run(code, {"zones": zones})
    assert (outcome.error, outcome.value) == (None, [])


def test_engines_that_need_threads_are_refused_by_name(sandbox: Sandbox) -> None:
    for function in ("read_csv(io.StringIO('a\\n1')", "read_json(io.StringIO('{}'), lines=True"):
        error = sandbox.run(f"pd.{function}, engine='pyarrow')").error
        assert error is not None and error.message == "engine='pyarrow' is not available"
        assert error.hint == "leave it out; dtype_backend='pyarrow' is there"
