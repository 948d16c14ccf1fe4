"""Nothing that must not be had is in reach of what code is given; and the walk that says so finds what is put there."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing
import pandas as pd
import pytest
from reach import must_not_be_had, reached
from test_language import SAMPLES
from test_plots import SAMPLES as DRAWINGS

from byref_sandbox.language.policy import Language

MORE_SAMPLES = """
import numpy.typing as nt, typing, array, queue, secrets, zoneinfo, csv, io, enum, dataclasses, warnings
@dataclasses.dataclass
class D:
    x: int = 1
class E(enum.Enum):
    A = 1
class G(typing.Generic[typing.TypeVar("T")]): pass
class P(typing.Protocol): pass
class N(typing.NamedTuple):
    x: "int" = 1
class T(typing.TypedDict):
    x: "int"
class Seen:
    taken = []
    def __deepcopy__(self, memo):
        self.taken += [memo, type(memo)]
        return self
    def __init_subclass__(cls): Seen.taken.append(type(cls))
    def __set_name__(self, owner, name): self.taken.append(type(owner))
    def __get__(self, instance, owner): self.taken.append(type(owner)); return 1
class Owner(Seen): x = Seen()
copy.deepcopy([Seen()])
Owner.x
frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])})
masked = np.ma.array([1, 2], mask=[True, False])
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    warnings.warn("x")
errors = []
for make in (lambda: np.add("a", 1), lambda: pd.Timestamp("x"), lambda: frame.nothing, lambda: {}["x"], lambda: json.loads("{"), lambda: int("x"),
             lambda: pd.to_numeric(["x"]), lambda: np.zeros(1)[5], lambda: "".nothing, lambda: next(iter([])), lambda: "a".encode("ascii").decode(5)):
    try: make()
    except Exception as error: errors.append(error)
[nt, nt.NDArray, nt.NDArray[np.int64], nt.ArrayLike, nt.DTypeLike, np.ndarray, np.ndarray[int, np.dtype[np.int8]], np.typing, array.array("i", [1]),
 D, D(), dataclasses.fields(D), D.__annotations__, E, E.A, E.__members__, G, G[int], G[int](), P, N(), N.__annotations__, T, T.__annotations__,
 Seen.taken, masked, np.ma.masked, np.ma.masked_array, np.ma.mvoid, masked.data, masked.mask, np.matrix([[1]]),
 frame.c, frame.c.array, frame.c.cat.codes, frame.dtypes, frame.c.dtype, frame.groupby("c", observed=True), frame.rolling(1), frame.values.base, frame.T,
 pd.Categorical.dtype, pd.CategoricalDtype, pd.CategoricalDtype().construct_array_type(), np.ScalarType, np.dtype("O").type, told, errors,
 [type(x) for x in (frame, masked, np.zeros(1), frame.flags, masked.flags, D, E, P, lambda: 0, globals(), json, np.zeros(1).data, pd.options.display)],
 typing.Type[int], typing.Annotated[nt.NDArray, "x"], typing.Union["int", None], typing.Callable[["int"], str], typing.List["nt.NDArray"],
 csv.reader([]), csv.DictReader([]), zoneinfo.ZoneInfo("UTC"), copy.copy(masked), copy.deepcopy(frame), functools.partial(np.zeros, 1),
 pd.Series([1], dtype="Sparse"), pd.Series(["a"], dtype="string"), pd.Series([1], dtype="Int64").array, pd.Series(["2024"], dtype="datetime64[ns]").dt]
"""
MOST = 40_000


def _in_a_fork(look: Callable[[], list[str]]) -> list[str]:
    """What is found in a process of its own: calls without arguments change settings, seeds and defaults."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # warnings, whose filters the walk itself resets
        try:
            told = look()
        except BaseException as error:
            told = [repr(error)]
        with os.fdopen(writer, "w") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        found: list[str] = json.load(pipe)
    os.waitpid(child, 0)
    return found


@pytest.fixture(scope="module")
def language() -> Language:
    made = Language()
    made.load_plots()
    return made


def _samples(language: Language, code: str) -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = language.execute(language.compile("import warnings\n" + code), language.space({}), io.StringIO())
    assert isinstance(values, list)
    return {f"<{type(value).__name__} {number}>": value for number, value in enumerate(values)}


@pytest.mark.parametrize("samples", [SAMPLES, DRAWINGS, MORE_SAMPLES], ids=["values", "drawings", "classes"])
def test_what_values_lead_to(language: Language, samples: str) -> None:
    def look() -> list[str]:
        reach = reached(language, _samples(language, samples), depth=2, most=MOST)
        return [*reach.found, *([] if len(reach.seen) > 3000 else [f"only {len(reach.seen)} were seen"])]

    assert _in_a_fork(look) == []


def test_what_builtins_and_modules_lead_to(language: Language) -> None:
    def look() -> list[str]:
        starts = {n: v for n, v in language.builtins.items() if n.isidentifier() and not n.startswith("__")}
        del starts["exit"], starts["quit"]
        reach = reached(language, starts | language._modules.facades, depth=2, most=MOST)
        return [*reach.found, *([] if len(reach.seen) > 10_000 else [f"only {len(reach.seen)} were seen"])]

    assert _in_a_fork(look) == []


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("a class", [np.ndarray]),
        ("a class that inherits its constructor", type("Array", (np.ndarray,), {})),
        ("a hint", {"x": numpy.typing.NDArray}),
        ("the class type", (type,)),
        ("a class of classes", {"x": type("Meta", (type,), {})}),
        ("a class of buffers", [memoryview]),
        ("a module", [os]),
        ("flags", {"x": [np.zeros(1).flags]}),
        ("options", pd.options),
        ("a call", lambda: np.ndarray),
        ("an attribute", type("A", (), {"attribute": os})),
        ("a property", type("A", (), {"attribute": property(lambda self: np.ndarray)})()),
    ],
)
def test_what_is_put_there_is_found(language: Language, name: str, planted: object) -> None:
    assert reached(language, {"planted": planted}, depth=2, most=MOST).found


def test_what_may_be_had_is_not_found(language: Language) -> None:
    for value in (
        int,
        np.float64,
        np.dtype,
        pd.DataFrame,
        dict[str, int],
        language._guards.type,
        np.zeros(1),
        property(lambda self: 1),
        print,
    ):
        assert must_not_be_had(language, value) is None
