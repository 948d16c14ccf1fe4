"""Figures, their parts and styled tables are what they were in the next run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from notebook import Notebook
from PIL import Image

from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.language.policy import Language
from byref_sandbox.state.known import Known

_IMPORTS = """import matplotlib.pyplot as plt, matplotlib.dates as md, matplotlib.ticker as mt, matplotlib.patheffects as pe
from matplotlib.colors import LogNorm
"""


@pytest.fixture(scope="module")
def known() -> Known:
    language = Language()
    language.learn_plots()
    return Known(language)


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    yield
    plt.close("all")


class Session(Notebook):
    """A session whose figures are drawn before its names are written, as in a run."""

    def __init__(self, known: Known) -> None:
        super().__init__(known.language, known=known)
        self.images: list[Any] = []

    def run(self, source: str, *given: Any, **options: Any) -> Any:
        language, execute = self.language, Language.execute

        def drawing(program: Any, space: Any, stdout: Any) -> Any:
            value = execute(language, program, space, stdout)
            self.images = [np.asarray(Image.open(io.BytesIO(drawn.png))) for drawn in language.figures(value)[0]]
            return value

        vars(language)["execute"] = drawing
        try:
            return super().run(_IMPORTS + source, *given, **options)
        finally:
            del vars(language)["execute"]


FIGURES = {
    "lines": "fig, ax = plt.subplots()\nax.plot([1, 2, 3], label='a $x^2$')\nax.legend()\nax.set_title('t')",
    "grid": "fig, axs = plt.subplots(2, 2, sharex=True, layout='constrained')\nfor a in axs.flat: a.bar(['a', 'b'], [1, 2])\naxs[0][0].twinx().plot([1])",
    "axes side by side": "from mpl_toolkits.axes_grid1 import ImageGrid\nfrom mpl_toolkits.axes_grid1.inset_locator import inset_axes\nfig = plt.figure()\ng = ImageGrid(fig, 111, nrows_ncols=(1, 2), cbar_mode='single')\nfor a in g: im = a.imshow(np.eye(3))\ng.cbar_axes[0].colorbar(im)\ninset_axes(g[0], 0.5, 0.5).plot([1, 2])",
    "image": "fig, ax = plt.subplots()\nfig.colorbar(ax.imshow(np.eye(30)))",
    "polar": "fig = plt.figure()\nfig.add_subplot(projection='polar').plot([0, 1], [1, 2])",
    "3d": "fig = plt.figure()\na = fig.add_subplot(projection='3d')\na.plot_surface(*np.meshgrid(np.arange(5), np.arange(5)), np.eye(5))\na.scatter([1], [2], [3])",
    "3d contours": "fig = plt.figure()\na = fig.add_subplot(projection='3d')\nc = a.contour3D(*np.meshgrid(np.arange(5), np.arange(5)), np.eye(5))\na.contourf(*np.meshgrid(np.arange(5), np.arange(5)), np.eye(5))",
    "dates": "fig, ax = plt.subplots()\nax.plot(pd.to_datetime(['2024-01-01', '2024-03-01']), [1, 2])\nax.xaxis.set_major_formatter(md.DateFormatter('%b'))\nax.xaxis.set_major_locator(md.MonthLocator())\nfig.autofmt_xdate()",
    "pandas": "ax = pd.DataFrame({'a': [1, 2]}, index=pd.date_range('2024-01-01', periods=2)).plot()\nfig = ax.figure",
    "functions": "fig, ax = plt.subplots()\nk = 3\nax.plot([1, 2])\nax.xaxis.set_major_formatter(lambda x, p: f'{x:.0f}u{k}')\ndef g(x, p): return str(k)\nax.yaxis.set_major_formatter(plt.FuncFormatter(g))",
    "norm": "fig, ax = plt.subplots()\nfig.colorbar(ax.pcolormesh(np.arange(1, 10).reshape(3, 3), norm=LogNorm()))\nax.set_title('x', path_effects=[pe.withStroke(linewidth=2)])",
    "many": "fig, ax = plt.subplots()\nax.loglog([1, 10], [1, 100])\nax.annotate('x', (1, 2), arrowprops={'arrowstyle': '->'})\nax.table([['1']], loc='top')\nax.fill_between([1, 2], [1, 2], alpha=.3)\nax.errorbar([1], [2], [.1])\nax.contourf(np.arange(9.).reshape(3, 3))",
    "others": "fig, ax = plt.subplots()\nax.scatter(np.arange(3), np.arange(3), c=[1, 2, 3], s=[1, 2, 3])\nax.boxplot([[1, 2, 3]])\nax.violinplot([[1, 2, 3]])\nax.pie([1, 2], labels=['a', 'b'])\nax.hexbin([1, 2], [1, 2])\nax.quiver([1], [1], [1], [1])\nax.stem([1, 2])\nax.inset_axes([.5, .5, .2, .2])",
    "ticks": "fig, ax = plt.subplots()\nax.plot([1])\nax.xaxis.set_major_formatter(mt.PercentFormatter())\nax.yaxis.set_major_formatter(mt.StrMethodFormatter('{x:.1f}'))\nax.yaxis.set_major_locator(mt.MultipleLocator(2))\nax.xaxis.set_minor_locator(mt.AutoMinorLocator())\nax.set_yscale('symlog')\nax.tick_params(rotation=45)",
    "texts": "fig, ax = plt.subplots()\nb = ax.bar(['a'], [1], label='z')\nax.legend()\nfig.suptitle('x')\nfig.text(.5, .5, 'y')\nfig.legend()\nax.bar_label(b)",
    "tight": "fig, axs = plt.subplots(1, 2)\nn, bins, patches = axs[0].hist(np.arange(100) % 7, bins=7)\naxs[1].streamplot(np.arange(3), np.arange(3), np.eye(3), np.eye(3))\nfig.tight_layout()",
    "mosaic": "fig, d = plt.subplot_mosaic('AB;CC')\nd['A'].plot([1])\nd['C'].stackplot([1, 2], [1, 2], [2, 3])\nd['B'].step([1, 2], [1, 2])\nfig.supxlabel('q')",
    "subfigures": "fig = plt.figure()\ng = fig.add_gridspec(2, 2)\nfig.add_subplot(g[0, :])\nfig.add_subfigure(g[1, 0]).subplots().plot([1])",
}
_QUICK = ("functions",)


@pytest.mark.parametrize("name", [n if n in _QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FIGURES])
def test_a_figure_is_drawn_again_as_it_was(known: Known, name: str) -> None:
    session = Session(known)
    session.run(FIGURES[name])
    [first] = session.images
    assert not session.lost
    session.run("other = 1")
    assert (session.images, session.lost) == ([], {})  # nobody asked for it
    session.run("fig")
    [again] = session.images
    np.testing.assert_array_equal(first, again)


def test_a_figure_goes_on_in_the_next_run(known: Known) -> None:
    session = Session(known)
    session.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2, 3])\nbars = ax.bar([0, 1], [1, 1])\nn = 5")
    base, figures = session.stored.table.parts
    assert {"fig", "ax", "line", "bars"} <= {name.name for name in figures.names}
    assert "n" in {name.name for name in base.names}  # which does not need matplotlib
    first = session.images[0]
    same = session.run(
        "[fig.axes[0] is ax, ax.lines[0] is line, bars[0] in ax.patches, plt.gcf() is fig, ax.get_title()]"
    )
    assert same == [True, True, True, False, ""]
    assert len(session.images) == 0  # the empty figure of gcf() is not shown
    session.run("fig.suptitle('above')")
    assert len(session.images) == 1 and (session.images[0] != first).any()
    session.run("line.set_color('red')\nax.set_xlabel('below')\nfig")
    assert len(session.images) == 1
    session.run("line.get_color(), ax.get_xlabel(), ax.get_xlim(), fig.canvas.draw()")
    assert session.images == []
    session.run("fig.savefig('kept.png')\nplt.plot([1])")
    assert len(session.images) == 2


@pytest.mark.slow
def test_a_figure_does_not_grow_by_being_shown(known: Known) -> None:
    session = Session(known)
    session.run(FIGURES["lines"])
    sizes = []
    for _ in range(4):
        session.run("fig")
        sizes.append(session.stored.sent)
    assert sizes[3] < sizes[1] + 1_000  # what nothing refers to is stored now and then; a picture is much larger


def test_what_the_code_had_begun_before_an_error_is_not_shown_later(known: Known) -> None:
    language = known.language
    language.run(
        language.compile("import matplotlib.pyplot as plt\nfig = plt.figure()\nplt.plot([1])"), {}, io.StringIO()
    )
    language.figures(is_done=False)
    assert plt.get_fignums() == []


def test_a_part_that_cannot_be_kept_is_named(known: Known) -> None:
    session = Session(known)
    session.run(
        "fig, ax = plt.subplots()\nax.xaxis.set_major_formatter(lambda x, p, g=pd.DataFrame().iterrows(): 'a')\nn = 1"
    )
    assert set(session.lost) == {"fig", "ax"} and all("generator" in why for why in session.lost.values())
    assert session.run("n") == 1


@pytest.mark.slow
def test_a_secondary_axis_goes_on_with_its_functions(known: Known) -> None:
    """Without functions it has two of matplotlib's own, which are made inside a method."""
    session = Session(known)
    session.run("fig, ax = plt.subplots()\nk = 2\nax.set_xlim(0, 10)\ntop = ax.secondary_xaxis('top')")
    session.run(
        "low = ax.secondary_xaxis('bottom', functions=(lambda v: v * k, lambda v: v / k))\ntop.set_xlabel('up')"
    )
    assert session.run("fig.canvas.draw()\n[top.get_xlabel(), list(low.get_xlim()), list(top.get_xlim())]") == [
        "up",
        [0.0, 20.0],
        [0.0, 10.0],
    ]


@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [("axis", "nothing", -1), ("axis", "set_functions", 0), ("axis", "set_functions", 10**9), ("axis", "set_functions", "1"),
     ("axis", 5, -1), ("print", "__init__", -1), ("axis", "__class__", -1), ("axis", "__init__", -10)],
)  # fmt: skip
def test_a_forged_function_of_a_figure_is_one_of_its_class(known: Known, owner: str, name: Any, number: Any) -> None:
    from matplotlib.axes._secondary_axes import SecondaryAxis

    from byref_sandbox.state.builders import Builders
    from byref_sandbox.state.codes import Codes

    codes = Codes(lambda _text: (lambda: None).__code__)
    builders = Builders(known.language, codes, {}, known.by_name, known.figures, known.drawn)
    try:
        made = builders.library_function({"axis": SecondaryAxis, "print": type(print)}[owner], name, number)
    except Exception as error:
        assert type(error).__name__ in ("Unkept", "AttributeError", "TypeError")
    else:
        assert made is vars(SecondaryAxis)[name] and number < 0


def test_colormaps_and_sequences_of_the_code_are_there_in_the_next_run(known: Known) -> None:
    session = Session(known)
    session.run(
        "import matplotlib as mpl\nfrom matplotlib.colors import ListedColormap, LinearSegmentedColormap\n"
        "mpl.colormaps.register(ListedColormap(['red', 'blue'], name='mine'))\n"
        "mpl.colormaps.register(LinearSegmentedColormap.from_list('between', ['red', 'blue']).with_extremes(bad='k'))\n"
        "mpl.color_sequences.register('two', ['red', 'blue'])\nplt.rcParams['image.cmap'] = 'mine'"
    )
    for name in ("mine", "between"):
        matplotlib.colormaps.unregister(name)  # as in another process
    matplotlib.color_sequences.unregister("two")
    session.run("n = 1")
    assert not session.lost
    assert session.run(
        "im = plt.imshow(np.eye(2))\n[im.get_cmap().name, im.get_cmap().N, mpl.colormaps['between'](0.5)[0] > 0.4, "
        "mpl.colormaps['between'].get_bad().tolist(), mpl.color_sequences['two']]"
    ) == ["mine", 2, True, [0, 0, 0, 1], ["red", "blue"]]
    matplotlib.rcParams["image.cmap"] = "viridis"


def test_a_cycle_of_styles_goes_on_in_the_next_run(known: Known) -> None:
    session = Session(known)
    session.run("from matplotlib import cycler\ncolors = cycler('color', ['r', 'g']) + cycler(lw=[1, 2])")
    assert session.run("len(colors), colors.by_key()") == (2, {"color": ["r", "g"], "lw": [1, 2]})


def test_a_styled_table_goes_on_in_the_next_run(known: Known) -> None:
    session = Session(known)
    made = "d = pd.DataFrame({'a': [1.5, 2]})\ns = d.style.set_uuid('u').format({'a': '{:.2f}'}).map(lambda v: 'color: red')"
    first = session.run(made + ".background_gradient()\nt = s\ns.to_html()")
    assert session.run("[s.to_html(), t is s, s.data is d]") == [first, True, True]
    assert session.run("s.format(precision=0)\nt.to_string()") == " a\n0 2\n1 2\n"


@pytest.mark.parametrize(
    ("owner", "name"),
    [("fig", "__init__"), ("print", "__init__"), ("fig", 1), ("fig", "number"), ("ax", "__class__"), ("np", "load")],
)
def test_a_forged_method_of_a_figure_is_a_method_of_its_class(known: Known, owner: str, name: Any) -> None:
    from byref_sandbox.state.builders import Builders
    from byref_sandbox.state.codes import Codes

    figure, axes = plt.subplots()
    builders = Builders(known.language, Codes(lambda _text: (lambda: None).__code__), {}, known.by_name, known.figures)
    given = {"fig": figure, "ax": axes, "print": print, "np": np}[owner]
    try:
        made = builders.drawn_method(given, name)
    except Exception as error:
        assert type(error).__name__ in ("Unkept", "AttributeError")
    else:
        assert made.__self__ is given and made.__func__ is getattr(type(given), name)


MODELS = {
    "a regression": ("from sklearn.linear_model import LinearRegression\nm = LinearRegression().fit([[1.0], [2], [3]], [1, 2, 3])", "float(m.predict([[9]])[0].round(6)), type(m) is LinearRegression"),
    "a pipeline": ("from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import Ridge\nm = make_pipeline(StandardScaler(), Ridge()).fit([[1.0], [2]], [1, 2])\nlast = m[-1]", "m[-1] is last, m.predict([[1.0]]).shape"),
    "a forest": ("from sklearn.ensemble import RandomForestClassifier\nm = RandomForestClassifier(3, random_state=0).fit([[1.0], [2], [3]], [0, 1, 0])\nbefore = m.predict([[1.0], [2]]).tolist()", "m.predict([[1.0], [2]]).tolist() == before, m.feature_importances_.tolist()"),
    "neighbours": ("from sklearn.neighbors import KNeighborsClassifier\nm = KNeighborsClassifier(1, algorithm='kd_tree').fit([[1.0], [2]], [0, 1])", "m.predict([[1.9]]).tolist()"),
    "clusters": ("from sklearn.cluster import KMeans\nm = KMeans(2, n_init=1, random_state=0).fit([[1.0], [1.1], [5]])", "len(m.cluster_centers_), m.predict([[1.0]])[0] == m.labels_[0]"),
    "sparse matrices": ("from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nd = sparse.dok_matrix((2, 2))\nd[0, 1] = 3\nx = {'m': m}", "(m @ m).sum(), d[0, 1], x['m'] is m, type(m).__name__"),
    "distributions and tests": ("from scipy import stats\nn = stats.norm(5, 2)\np = stats.poisson(3)\nt = stats.ttest_ind([1, 2, 3], [2, 3, 5])\nl = stats.linregress([1, 2, 3], [2, 4, 6])\nk = stats.gaussian_kde([1, 2, 3.0])", "n.mean(), p.pmf(2).round(6), t.pvalue.round(6), l.slope, k(2).round(6).tolist(), type(t).__name__"),
    "what was found": ("from scipy import optimize, interpolate\ns = optimize.minimize(lambda v: (v[0] - 3) ** 2, [0.0])\nf = interpolate.interp1d([0, 1, 2], [0, 1, 4])\nc = interpolate.CubicSpline([0, 1, 2], [0, 1, 4])", "s.success, s.x.round(3).tolist(), float(f(1.5)), float(c(1.5)), type(s).__name__"),
    "matrices by a formula": ("import patsy\nd = {'y': np.arange(4.0), 'x': np.arange(4.0) ** 2, 'k': list('abab')}\ny, X = patsy.dmatrices('y ~ standardize(x) + C(k) + np.log(x + 1) + bs(x, df=4)', d)\npart, info, again = X[:, 1], X.design_info, X", "np.asarray(X).round(4).tolist(), np.asarray(y).ravel().tolist(), part.shape, type(part).__name__, info.column_names, info.term_names, info is X.design_info, again is X, np.asarray(patsy.build_design_matrices([info], {'x': np.array([1.0, 4.0]), 'k': ['b', 'a']})[0]).round(4).tolist(), repr(X)"),
    "fits by a formula": ("import statsmodels.formula.api as smf\nd = pd.DataFrame({'x': np.arange(8.0), 'g': list('ab') * 4})\nd['y'] = 3 * d.x + (d.g == 'b')\nr = smf.ols('y ~ x + C(g)', d).fit()", "r.params.round(3).tolist(), r.predict(pd.DataFrame({'x': [9.0], 'g': ['b']})).round(3).tolist()"),
    "expressions": ("import sympy as sp\nx, y = sp.symbols('x y')\ne = (x + 1) ** 2\nm = sp.Matrix([[1, x], [2, 3]])\nq = sp.Eq(x, 2)", "str(e.diff(x)), e.subs(x, 3) == 16, str(m.det()), q.lhs is x"),
    "networks": ("import networkx as nx\ng = nx.Graph()\ng.add_edge('a', 'b', w=2)\ng.nodes['a']['c'] = 1\nh = g.subgraph(['a'])", "g['a']['b']['w'], g.nodes['a'], h.number_of_nodes(), nx.shortest_path(g, 'a', 'b')"),
    "classes made from scikit-learn's": ("from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone\ndef scale(k):\n    class Inner(TransformerMixin, BaseEstimator):\n        def fit(self, X, y=None):\n            return self\n        def transform(self, X):\n            return X * k\n    return Inner\nclass A(BaseEstimator, TransformerMixin):\n    def __init__(self, n=2):\n        self.n = n\n    def fit(self, X, y=None):\n        self.m_ = X.mean()\n        return self\n    def transform(self, X):\n        return X - self.m_ + self.n\n    def get_feature_names_out(self, names=None):\n        return np.array(['p', 'q'])\nclass B(A):\n    again = A.transform\n    def fit_transform(self, X, y=None):\n        return self.fit(X).transform(X) * 2\nclass C(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):\n    def transform(self, X):\n        return X\nclass R(RegressorMixin, BaseEstimator):\n    def fit(self, X, y, sample_weight=None):\n        return self\n    def predict(self, X):\n        return np.zeros(len(X))\n@dataclasses.dataclass\nclass D(TransformerMixin, BaseEstimator):\n    k: int = 3\n    def transform(self, X):\n        return X * self.k\nS = scale(5)\nX = np.arange(4.0).reshape(2, 2)\nb = B(n=1)", "[sorted(vars(c)) for c in (A, B, C, R, D, S)], b.set_output(transform='pandas').fit_transform(X).to_dict(), clone(b), B.again is A.transform, C().transform(1), D(4).transform(2), S().fit_transform(X).tolist(), R().score(X, [1, 2]), hasattr(C(), 'set_output')"),
    "distributions made of numbers": ("from scipy import stats\nh = stats.rv_histogram(np.histogram([1, 2, 2, 3], bins=3))\nf = h(loc=2)\nd = stats.rv_discrete(values=([1, 2], [0.2, 0.8]))\nn = stats.Normal(mu=1, sigma=2)\ns = n + 3\nz = stats.levy_stable(1.8, -0.5)", "h.cdf(2), f.mean(), d.pmf(2), d().mean(), n.mean(), n.cdf(2), s.mean(), z.pdf(1).round(6)"),
    "numbers of mpmath": ("from mpmath import mp\nwith mp.workdps(40):\n    x = mp.mpf(1) / 3\nz, m = mp.mpc(x, -2), mp.matrix([[1, x], [0, mp.mpc(0, 1)]])\ni = [mp.inf, -mp.inf, mp.nan, mp.mpf('-2.5e-400'), mp.mpf(0), x]", "x * 3, mp.nstr(x, 45), z, m, m.rows, i, i[-1] is x, mp.det(m)"),
    "functions of no definition": ("import sympy as sp\nt = sp.Symbol('t')\nf, g = sp.Function('f'), sp.Function('g', real=True)\ne = sp.Eq(f(t).diff(t), f(t))\nheld = {f(t): t}", "sp.dsolve(e), e.lhs.args[0].func is f, held[f(t)], g(t).is_real, sp.Function('f') == f"),
    "a class of networks": ("import networkx as nx\nclass G(nx.DiGraph):\n    def total(self):\n        return sum(d['w'] for *_, d in self.edges(data=True))\ng = G()\ng.add_edge(1, 2, w=3)\nnx.pagerank(g)\ng.adj", "g.total(), list(g.adj), g.subgraph([1]).total(), type(g) is G"),
    "zones of pytz": ("import pytz\nz = pytz.timezone('America/New_York')\nd = z.localize(datetime.datetime(2020, 7, 1))\ni = pd.date_range('2020', periods=2, tz=z)\no = pytz.FixedOffset(30)", "z is pytz.timezone('America/New_York'), d.isoformat(), d.tzinfo, i, o, pytz.utc"),
    "a plot of objects": ("import seaborn.objects as so\np = so.Plot(pd.DataFrame({'a': [1, 2]}), x='a').add(so.Dot())", "type(p.add(so.Line())).__name__"),
    "a grid": ("import seaborn as sns\ng = sns.FacetGrid(pd.DataFrame({'x': [1, 2], 'g': ['a', 'b']}), col='g')\ng.map(plt.hist, 'x')", "len(g.axes.flat), g.figure is g.axes.flat[0].figure, g._legend"),
    "boxes": ("import seaborn as sns, warnings\nwarnings.simplefilter('ignore')\nb = sns.boxplot(x=['a', 'b'], y=[1, 2])", "len(b.containers), type(b.containers[0]).__name__, len(b.containers[0].boxes)"),
}  # fmt: skip


@pytest.mark.slow
def test_models_and_grids_go_on_in_the_next_run() -> None:
    for library in LIBRARIES:
        pytest.importorskip(library)
    language = Language()
    for library in LIBRARIES:
        language.learn(library)
    known = Known(language)
    for name, (made, look) in MODELS.items():
        session = Session(known)
        now = session.run(f"{made}\n{look}")
        assert not session.lost, (name, session.lost)
        session.run("other = 1")
        assert repr(session.run(look)) == repr(now), name


def test_the_precision_of_mpmath_goes_on_in_the_next_run() -> None:
    mpmath = pytest.importorskip("mpmath")
    pytest.importorskip("sympy")
    language = Language()
    language.learn("sympy")
    session = Notebook(language, known=Known(language))
    session.run("from mpmath import mp\nmp.dps, mp.pretty = 40, True\nx = mp.mpf(1) / 3")
    mpmath.mp.dps, mpmath.mp.pretty = 15, False
    try:
        assert session.run("[mp.dps, repr(x * 3 - 1), str(x)]") == [40, "0.0", "0." + "3" * 40]
    finally:
        mpmath.mp.dps, mpmath.mp.pretty = 15, False
