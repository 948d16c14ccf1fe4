"""Code cannot reach anything forbidden from the objects that it is given; and the walk that checks this finds what is planted."""

from __future__ import annotations

import io
import json
import os
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reach import must_not_be_had, reached

from byref_sandbox.language.policy import Language

VALUES = """
import re, csv, io, random, decimal, uuid, hashlib, difflib, functools, zoneinfo, contextlib, textwrap, string, json, logging, queue, struct
import dateutil.parser, dateutil.rrule, dateutil.tz, html.parser, xml.etree.ElementTree, pathlib, ipaddress, http, graphlib, hmac, secrets
import collections, pyarrow, types, typing, os, shutil, tempfile, glob, zipfile, gzip, bz2, lzma, sqlite3, configparser, pytz, zlib, pprint, reprlib, sched, asyncio, concurrent.futures
database = sqlite3.connect(':memory:')
database.execute('create table t (a)')
database.create_function('own', 1, lambda value: value)
archive = zipfile.ZipFile('a.zip', 'w')
archive.writestr('x', 'y')
settings = configparser.ConfigParser()
settings.read_string('[a]\\nx=1')
from dateutil.relativedelta import relativedelta
@functools.singledispatch
def single(x): pass
class Parser(html.parser.HTMLParser): pass
f = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "d": pd.to_datetime(["2024-01-01", "2024-01-02"])})
@contextlib.contextmanager
def manager(): yield
class C: pass
async def coroutine(): pass
async def generated(): yield 1
@contextlib.asynccontextmanager
async def span(): yield
loop, pool = asyncio.get_event_loop(), concurrent.futures.ThreadPoolExecutor()
[coroutine(), generated(), generated().__anext__(), span(), span, loop, loop.create_future(), loop.create_task(coroutine()), asyncio.gather(coroutine()),
 asyncio.Queue(), asyncio.Condition(), asyncio.Barrier(2), asyncio.timeout(1), asyncio.TaskGroup(), asyncio.as_completed([coroutine()]), asyncio.sleep(0),
 contextlib.AsyncExitStack(), loop.call_soon(print), pool, pool.submit(print), pool.map(print, [1]), concurrent.futures.wait([]), asyncio.Runner(),
 f, f.a, f.b.str, f.index, f.d.dt, f.groupby("a"), f.set_index("d").resample("D"), f.a.rolling(2), f.a.ewm(1), f.a.expanding(), f.loc, f.iloc,
 np.zeros(3), np.dtype("f8"), f.b.array, f.d.array, pd.Categorical(["a"]), pd.Series(["a"], dtype="category").cat, pd.Period("2024", "Y"),
 pd.Timestamp("2024", tz="Europe/Berlin"), pd.Timedelta("1D"), pd.offsets.MonthEnd(), np.random.default_rng(), np.random.RandomState(1),
 f.flags, pd.MultiIndex.from_tuples([(1, 2)]), pd.read_csv(io.StringIO("a"), iterator=True), np.ma.array([1]), np.polynomial.Polynomial([1]),
 np.zeros(2).flat, pd.Interval(1, 2), pd.interval_range(0, 2), pd.Grouper(key="a"), pd.arrays.SparseArray([1]), (x for x in []), lambda: 0,
 io.StringIO(), f.itertuples(), next(f.itertuples()), pd.Series([1], dtype="int64[pyarrow]"), re.compile("a"), re.match("a", "a"),
 json.JSONEncoder(), json.JSONDecoder(), csv.reader([]), csv.DictWriter(io.StringIO(), ["a"]), decimal.getcontext(), random.Random(),
 string.Template("x"), textwrap.TextWrapper(), uuid.uuid4(), zoneinfo.ZoneInfo("UTC"), hashlib.md5(), contextlib.ExitStack(), manager(), C, C(),
 logging.getLogger(), queue.Queue(), queue.PriorityQueue(), struct.Struct("i"), dateutil.tz.tzutc(), dateutil.tz.gettz("UTC"), Parser(),
 dateutil.rrule.rrule(3, count=1), dateutil.parser.parse("2024"), dateutil.parser.parserinfo(), dateutil.parser.isoparser(), relativedelta(),
 xml.etree.ElementTree.fromstring("<a/>"), pathlib.PurePath("a"), pathlib.PureWindowsPath("a"), ipaddress.ip_address("::1"), http.HTTPStatus(404),
 ipaddress.ip_network("10.0.0.0/8"), graphlib.TopologicalSorter(), hmac.new(b"", b"", "md5"), secrets.SystemRandom(), single, globals(),
 ExceptionGroup("g", [ValueError()]), pd.options.mode, pd.options.future,
 pyarrow.list_(pyarrow.int64()), pyarrow.field("a", pyarrow.int64()), pyarrow.struct([("a", pyarrow.string())]), pyarrow.timestamp("ns"),
 pd.ArrowDtype(pyarrow.map_(pyarrow.string(), pyarrow.int8())), np.dtypes.StringDType(), np.zeros(1, "i4,i4").view(np.recarray), np.testing,
 pd.tseries.holiday.USFederalHolidayCalendar(), pd.api.indexers.VariableOffsetWindowIndexer(index=f.set_index("d").index, offset=pd.offsets.BDay()),
 database, database.cursor(), database.execute('select 1'), sqlite3.Row(database.execute('select 1 as x'), (1,)), archive, archive.infolist()[0],
 archive.open('x'), settings, settings['a'], pytz.timezone('Europe/Oslo'), pytz.utc, pytz.FixedOffset(60), os.environ, os.stat('a.zip'), next(os.scandir('/')),
 os.walk('/'), gzip.open('b.gz', 'wt'), gzip.GzipFile(fileobj=io.BytesIO(), mode='wb'), bz2.open('c.bz2', 'w'), lzma.open('d.xz', 'w'),
 bz2.BZ2Compressor(), lzma.LZMADecompressor(), zlib.compressobj(), zlib.decompressobj(), tempfile.TemporaryDirectory(), tempfile.NamedTemporaryFile(),
 io.TextIOWrapper(io.BytesIO()), xml.etree.ElementTree.ElementTree(xml.etree.ElementTree.Element('a')), pathlib.Path('a.zip').stat(), pathlib.Path('a'),
 reprlib.Repr(), pprint.PrettyPrinter(), sched.scheduler(), difflib.HtmlDiff(), hmac.HMAC(b'', b'', 'md5'), hashlib.shake_128(), os.get_terminal_size(),
 functools.partialmethod(print), locals(), collections.ChainMap({}), types.GeneratorType, typing.Pattern,
 difflib.SequenceMatcher(), functools.partial(print), functools.lru_cache(lambda: 0), ValueError("x"), f.agg, f.query, f.to_csv, getattr, type]
"""
DRAWINGS = """
import matplotlib as mpl, matplotlib.pyplot as plt, matplotlib.dates as md, matplotlib.ticker as mt
fig, axs = plt.subplots(2, 2)
ax = axs[0][0]
frame = pd.DataFrame({"a": [1, 2]}, index=pd.to_datetime(["2024-01-01", "2024-02-01"]))
[fig, plt.figure().subfigures(), ax, ax.plot([1]), ax.bar(["a"], [1]), ax.hist([1]), ax.pie([1]), ax.boxplot([1, 2]), ax.contourf(np.eye(3)),
 ax.imshow(np.eye(3)), ax.annotate("x", (0, 0)), ax.legend(["x"]), ax.xaxis, ax.spines, ax.transData, fig.colorbar(ax.imshow(np.eye(3))),
 ax.errorbar([1], [1]), ax.table([["a"]]), ax.quiver([1], [1]), fig.add_subplot(projection="3d"), fig.add_subplot(projection="polar"),
 plt.rcParams, mpl.colormaps, md.AutoDateLocator(), mt.EngFormatter(), fig.canvas, fig.add_gridspec(2, 2), frame.plot(), frame.plot,
 mpl.cycler(color="rgb"), mpl.font_manager.FontProperties(), plt.rc_context({}), ax.callbacks, mpl.tri.Triangulation([0, 1, 0], [0, 0, 1])]
"""
CLASSES = """
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


def in_a_fork(look: Callable[[], list[str]]) -> list[str]:
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
def language(language_with_plots: Language) -> Language:
    return language_with_plots


def _samples(language: Language, code: str) -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = language.execute(language.compile("import warnings\n" + code), language.space({}), io.StringIO())
    assert isinstance(values, list)
    return {f"<{type(value).__name__} {number}>": value for number, value in enumerate(values)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "samples",
    [VALUES, pytest.param(DRAWINGS, marks=pytest.mark.slow), CLASSES],  # these take as long as both others
    ids=["values", "drawings", "classes"],
)
def test_what_values_lead_to(language: Language, samples: str) -> None:
    def look() -> list[str]:
        reach = reached(language, _samples(language, samples), depth=2, most=MOST)
        return [*reach.found, *([] if len(reach.seen) > 3000 else [f"only {len(reach.seen)} were seen"])]

    assert in_a_fork(look) == []


def test_what_builtins_and_modules_lead_to(language: Language) -> None:
    def look() -> list[str]:
        starts = {n: v for n, v in language.builtins.items() if n.isidentifier() and not n.startswith("__")}
        del starts["exit"], starts["quit"]
        reach = reached(language, starts | language._modules.facades, depth=2, most=MOST)
        return [*reach.found, *([] if len(reach.seen) > 10_000 else [f"only {len(reach.seen)} were seen"])]

    assert in_a_fork(look) == []


@pytest.mark.slow
@pytest.mark.parametrize("samples", [VALUES, DRAWINGS, CLASSES], ids=["values", "drawings", "classes"])
def test_what_values_lead_to_further_on(language: Language, samples: str) -> None:
    assert in_a_fork(lambda: reached(language, _samples(language, samples), depth=3, most=60_000).found) == []


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("a class", [np.ndarray]),
        ("a class that inherits its constructor", type("Array", (np.ndarray,), {})),
        ("a hint", {"x": types.GenericAlias(np.ndarray, (Any,))}),
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
