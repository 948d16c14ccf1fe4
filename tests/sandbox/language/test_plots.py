"""Figures that code makes come out as images; nothing else does, whatever the code, or the run itself, tries."""

from __future__ import annotations

import io
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from remembered import Session
from sampled import sampled

from byref_sandbox import Limits, Outcome, Sandbox, wire
from byref_sandbox.host.exchange import Answer
from byref_sandbox.host.reading import outcome_of
from byref_sandbox.language.policy import Language
from byref_sandbox.outcome import MAX_FIGURE_PIXELS, MAX_FIGURE_SIDE, MAX_FIGURES
from byref_sandbox.values import png
from byref_sandbox.values.plots import are_named

ROWS = [{"day": "2024-01-01", "sales": 3}, {"day": "2024-01-02", "sales": 5}, {"day": "2024-01-03", "sales": 4}]


LIMITS = Limits(wall_seconds=20, cpu_seconds=10, memory_bytes=512 << 20)


def run(sandbox: Sandbox, code: str, limits: Limits = LIMITS) -> Outcome:
    return sandbox.run(code, {"rows": ROWS}, session="plots", limits=limits)


def drawn(sandbox: Sandbox, code: str) -> list[tuple[str, int, int]]:
    outcome = run(sandbox, code)
    assert outcome.error is None, outcome.error
    assert outcome.stdout == ""
    return [(figure.name, figure.width, figure.height) for figure in outcome.figures]


def pixels(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


# What code that plots looks like -------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("code", "shown"),
    sampled([
        ("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()", ["plot_1"]),
        ("plt.plot([1, 2, 3])", ["plot_1"]),
        ("fig, ax = plt.subplots()\nax.bar(['a', 'b'], [1, 2])\nfig", ["plot_1"]),
        ("from matplotlib.figure import Figure\nfig = Figure()\nfig.subplots().plot([1])\nfig", ["plot_1"]),
        ("df(rows).plot(x='day', y='sales')", ["plot_1"]),
        ("df(rows).plot.bar(x='day')", ["plot_1"]),
        ("df(rows)['sales'].hist(bins=3)", ["plot_1"]),
        ("df(rows).boxplot()", ["plot_1"]),
        ("df(rows).groupby('day').sales.sum().plot(kind='pie')", ["plot_1"]),
        ("plt.plot([1])\nplt.savefig('charts/sales by region.png', dpi=50)", ["sales_by_region"]),
        ("plt.plot([1])\nplt.savefig('a.svg')\nplt.show()", ["a"]),
        ("plt.plot([1])\nplt.savefig('a.png')\nplt.plot([2])\nplt.savefig('a.png')", ["a"]),
        ("plt.plot([1])\nplt.savefig('a.png')\nplt.title('x')\nplt.show()", ["a", "plot_1"]),
        ("plt.plot([1])\nplt.savefig('a.png')\nplt.close()\nplt.plot([2])\nplt.savefig('b.pdf')", ["a", "b"]),
        ("for i in range(3):\n    plt.figure()\n    plt.plot([i])", ["plot_1", "plot_2", "plot_3"]),
        ("plt.plot([1])\nplt.close('all')", []),
        ("fig, axes = plt.subplots(2, 2, figsize=(8, 6))\nfor a in axes.flat: a.plot([1])\nplt.tight_layout()", ["plot_1"]),
        ("buffer = io.BytesIO()\nplt.plot([1])\nplt.savefig(buffer, format='png')\nassert buffer.getvalue()[1:4] == b'PNG'\ndel buffer", ["plot_1"]),
        ("import matplotlib\nmatplotlib.use('TkAgg')\nplt.ion()\nplt.plot([1])\nplt.pause(0.1)\nplt.draw()\nplt.switch_backend('Qt5Agg')", ["plot_1"]),
        ("plt.style.use('ggplot')\nplt.rcParams['figure.figsize'] = (4, 3)\nplt.rcParams.update({'font.size': 9})\nplt.plot([1])", ["plot_1"]),
        ("with plt.style.context('seaborn-v0_8'), plt.rc_context({'lines.linewidth': 3}):\n    plt.plot([1])\n    plt.show()", ["plot_1"]),
        ("import matplotlib.dates as mdates\nfig, ax = plt.subplots()\nax.plot(pd.to_datetime(df(rows)['day']), [1, 2, 3])\nax.xaxis.set_major_formatter(mdates.DateFormatter('%b %d'))\nfig.autofmt_xdate()", ["plot_1"]),
        ("from matplotlib.ticker import FuncFormatter, StrMethodFormatter\nfig, ax = plt.subplots()\nax.plot([1000, 2000])\nax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f'{x:,.0f}'))\nax.xaxis.set_major_formatter('{x:.1f}')", ["plot_1"]),
        ("from matplotlib.colors import LinearSegmentedColormap, Normalize\nplt.imshow(np.eye(4), cmap=LinearSegmentedColormap.from_list('m', ['red', 'blue']), norm=Normalize(0, 2))\nplt.colorbar()", ["plot_1"]),
        ("from mpl_toolkits.mplot3d import Axes3D\nax = plt.figure().add_subplot(projection='3d')\nax.scatter([1], [2], [3])\ndel ax", ["plot_1"]),
        ("import matplotlib.gridspec as gridspec, matplotlib.patches as mpatches\nfig = plt.figure()\nax = fig.add_subplot(gridspec.GridSpec(2, 2)[0, :])\nax.add_patch(mpatches.Rectangle((0, 0), 1, 1))\nax.legend(handles=[mpatches.Patch(color='red', label='x')])", ["plot_1"]),
        ("bars = plt.bar(['a'], [1.25])\nplt.bar_label(bars, fmt='{:.1f}')\nplt.title(r'$\\frac{a}{b}$ $\\alpha^2$', fontweight='bold', family='serif', style='italic')", ["plot_1"]),
        ("ax = plt.subplot(polar=True)\nax.plot([0, 1], [1, 2])\nplt.contourf", ["plot_1"]),
        ("fig, ax = plt.subplots()\nfig.canvas.draw()\nax.set_xticks([0, 1])\nax2 = ax.twinx()\nax2.plot([1])\nplt.setp(ax.get_xticklabels(), rotation=45)", ["plot_1"]),
        ("fig, ax = plt.subplots()\nx = np.linspace(0, 1, 9)\nX, Y = np.meshgrid(x, x)\nax.contour(X, Y, X * Y)\nax.fill_between(x, x, alpha=.3)\nax.annotate('here', (0.5, 0.5), arrowprops={'arrowstyle': '->'})", ["plot_1"]),
        ("def chart(values):\n    fig, ax = plt.subplots()\n    ax.plot(values)\n    return fig\nchart([1, 2])", ["plot_1"]),
        ("from matplotlib import pyplot as p, cm\np.scatter([1, 2], [3, 4], c=cm.viridis([0.1, 0.9]))", ["plot_1"]),
        ("plt.xkcd()\nplt.plot([1, 2])", ["plot_1"]),
        ("x, y, z = np.random.default_rng(0).random((3, 20))\nplt.tricontourf(x, y, z)\nplt.tripcolor(x, y, z)\nplt.triplot(x, y)", ["plot_1"]),
        ("from mpl_toolkits.mplot3d import axes3d, proj3d\nax = plt.figure().add_subplot(projection='3d')\nax.azim, ax.elev, ax.xaxis.pane.fill = 30, 10, False\nassert ax.azim == 30\ndel ax", ["plot_1"]),
        ("fig, ax = plt.subplots()\nim = ax.imshow(np.eye(3))\ncb = fig.colorbar(im)\nfig.dpi, ax.xaxis.labelpad, ax.zorder, im.norm.vmax = 80, 9, 3, 2\nassert ax.get_zorder() == 3 and im.get_clim() == (0, 2)", ["plot_1"]),
        ("t = plt.title('x', color='r')\nl = plt.plot([1], label='q')[0]\nlegend = plt.legend(ncol=2)\nplt.suptitle('s')\nassert (t._text, t._color, l._label, legend._ncols, plt.gcf()._suptitle.get_text()) == ('x', 'r', 'q', 2, 's')\nassert plt.gca().xaxis._major_tick_kw is not plt.gca().xaxis._major_tick_kw", ["plot_1"]),
        ("from matplotlib import lines\nfor m in lines.lineMarkers: plt.plot([1], marker=m)\nassert '--' in lines.lineStyles and isinstance(plt.axline((0, 0), (1, 2)), lines.AxLine)", ["plot_1"]),
        ("pd.plotting.scatter_matrix(pd.DataFrame({'a': [1, 2], 'b': [3, 5]}))", ["plot_1"]),
        ("from pandas.plotting import parallel_coordinates\nparallel_coordinates(pd.DataFrame({'a': [1, 2], 'b': [3, 5], 'k': ['x', 'y']}), 'k')", ["plot_1"]),
        ("from mpl_toolkits.axes_grid1.axes_divider import make_axes_locatable\nax = plt.gca()\nplt.colorbar(ax.imshow(np.eye(2)), cax=make_axes_locatable(ax).append_axes('right', '5%'))", ["plot_1"]),
        ("fig, ax = plt.subplots()\nax.plot([1])\ndisplay(fig)", ["plot_1"]),
        ("fig, ax = plt.subplots()\nax.plot([1])\nfrom IPython.display import display\ndisplay(fig)\nax.set_title('x')", ["plot_1", "plot_2"]),
        ("ax = plt.gca()\ntwin = ax.twinx()\nax.plot([1], label='x')\nlegend = ax.legend(loc=1)\nassert legend._get_loc() == 1 and twin in ax._twinned_axes.get_siblings(ax)", ["plot_1"]),
        ("plt.rcParams['font.size'] = 3\nplt.rcdefaults()\nassert plt.rcParams['font.size'] == 10\nplt.plot([1])", ["plot_1"]),
        ("fig, ax = plt.subplots(figsize=(2, 1), dpi=50)\nt = ax.text(0, 0, 'x')\nassert t.get_window_extent(renderer=fig.canvas.get_renderer()).width > 1\nassert np.asarray(fig.canvas.buffer_rgba()).shape == (50, 100, 4)\ndel t", ["plot_1"]),
        ("import os, base64\nplt.plot([1])\nplt.savefig('charts/a.png')\nassert os.path.exists('charts/a.png') and base64.b64encode(open('charts/a.png', 'rb').read())[:6] == b'iVBORw'", ["a"]),
        ("x, y, z = np.random.default_rng(0).random((3, 20))\nplt.figure().add_subplot(projection='3d').plot_trisurf(x, y, z)", ["plot_1"]),
    ], 3),
)  # fmt: skip
def test_figures_come_out(sandbox: Sandbox, code: str, shown: list[str]) -> None:
    outcome = run(sandbox, code)
    assert outcome.error is None, outcome.error
    assert [figure.name for figure in outcome.figures] == shown
    for figure in outcome.figures:
        image = pixels(figure.png)
        assert image.shape == (figure.height, figure.width, 3)
        assert len(np.unique(image)) > 1, "an empty page"


def test_what_is_drawn_is_what_was_plotted(sandbox: Sandbox) -> None:
    [figure] = run(
        sandbox,
        "plt.figure(figsize=(2, 1), dpi=100, facecolor='red')\nplt.axes([0, 0, .5, 1]).imshow([[0]], cmap='gray', aspect='auto')\nplt.axis('off')",
    ).figures
    image = pixels(figure.png)
    assert image[50, 25].tolist() == [0, 0, 0]
    assert image[50, 175].tolist() == [255, 0, 0]


@pytest.mark.slow
def test_sizes_are_those_asked_for(sandbox: Sandbox) -> None:
    assert drawn(sandbox, "plt.plot([1])") == [("plot_1", 640, 480)]
    assert drawn(sandbox, "plt.figure(figsize=(3, 2), dpi=50)\nplt.plot([1])\nplt.axis('off')\nplt.show()") == [
        ("plot_1", 150, 100)
    ]
    assert drawn(sandbox, "plt.plot([1])\nplt.savefig('x', dpi=200)") == [("x", 1280, 960)]
    [(_, width, height)] = drawn(sandbox, "plt.plot([1])\nplt.savefig('x', bbox_inches='tight')")
    assert 400 < width < 640 and 300 < height < 480


def test_labels_that_hang_over_the_edge_are_not_cut_off(sandbox: Sandbox) -> None:
    label = "a label much too long for the place it has below the axis"
    [(_, width, height)] = drawn(sandbox, f"plt.bar(['{label}'], [1])\nplt.xticks(rotation=90)")
    assert height > 500 and width == 640


@pytest.mark.slow
def test_what_stands_for_a_drawing_is_not_printed(sandbox: Sandbox) -> None:
    for code in (
        "plt.plot([1])",
        "plt.subplots()[1]",
        "plt.hist([1, 2])",
        "df(rows).plot()",
        "df(rows).hist()",
        "plt.bar(['a'], [1])",
    ):
        outcome = run(sandbox, code)
        assert (outcome.error, outcome.kind, outcome.text) == (None, "none", ""), code
    assert run(sandbox, "plt.plot([1])\n41 + 1").value == 42


def test_parts_of_figures_are_kept(sandbox: Sandbox) -> None:
    session = Session(sandbox, limits=LIMITS)
    outcome = session.run("fig, axes = plt.subplots(1, 2)\nboth = fig, axes\nline, = axes[0].plot([1])\nn = 5")
    assert list(outcome.bound) == ["n"]
    assert outcome.named == {"fig": "Figure", "axes": "ndarray", "both": "tuple", "line": "Line2D"}
    assert session.value("[fig.axes[0] is axes[0], both[0] is fig, axes[0].lines[0] is line, n]") == [True] * 3 + [5]
    changed = session.run("line.set_color('red')\nfig.suptitle('above')")
    assert changed.error is None and len(changed.figures) == 1


def test_figures_shown_before_an_error_come_out_with_it(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "plt.plot([1])\nplt.savefig('first')\nplt.figure()\nplt.plot([2])\n1 / 0")
    assert outcome.error is not None and (outcome.error.kind, outcome.error.line) == ("ZeroDivisionError", 5)
    assert [figure.name for figure in outcome.figures] == ["first"]


def test_an_import_is_kept_for_the_next_run(sandbox: Sandbox) -> None:
    session = Session(sandbox, limits=LIMITS)
    session.run("import matplotlib.pyplot as chart\ndef line(values):\n    chart.plot(values)")
    later = session.run("line([1, 2])")
    assert later.error is None and [figure.name for figure in later.figures] == ["plot_1"]


def test_runs_do_not_share_settings_or_figures(sandbox: Sandbox) -> None:
    run(sandbox, "plt.rcParams['figure.figsize'] = (1, 1)\nplt.style.use('dark_background')\nplt.figure(7)")
    assert drawn(sandbox, "assert plt.get_fignums() == []\nplt.plot([1])") == [("plot_1", 640, 480)]


def test_letters_that_the_fonts_lack_are_told(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "plt.title('\u4e2d')")
    assert "Glyph 20013" in outcome.stderr and len(outcome.figures) == 1
    assert drawn(sandbox, "plt.rcParams['font.family'] = ['Arial', 'sans-serif']\nplt.title('x')") == [
        ("plot_1", 640, 480)
    ]


SEABORN = """import seaborn as sns, seaborn.objects as so
d = pd.DataFrame({"x": [3.0, 1, 2, 5, 4, 6], "y": [1.0, 3, 2, 4, 6, 5], "g": list("ababab"), "t": range(6)})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("sns.set_theme(style='whitegrid', palette='pastel')\nsns.scatterplot(d, x='x', y='y', hue='g', size='t')", ["plot_1"]),
        ("sns.set()\nsns.lineplot(d, x='t', y='y', hue='g')\nplt.title('t')\nplt.show()\nsns.histplot(d, x='x', kde=True)", ["plot_1", "plot_2"]),
        ("fig, axs = plt.subplots(2, 3)\na = iter(axs.flat)\nsns.boxplot(d, x='g', y='y', ax=next(a))\nsns.violinplot(d, x='g', y='y', ax=next(a))\nsns.barplot(d, x='g', y='y', ax=next(a))\nsns.countplot(d, x='g', ax=next(a))\nsns.stripplot(d, x='g', y='y', ax=next(a))\nsns.regplot(d, x='x', y='y', ax=next(a))\ndel a", ["plot_1"]),
        ("sns.heatmap(d[['x', 'y']].corr(), annot=True, cmap='coolwarm', fmt='.2f')", ["plot_1"]),
        ("sns.clustermap(d[['x', 'y']])", ["plot_1"]),
        ("sns.pairplot(d, hue='g')", ["plot_1"]),
        ("sns.jointplot(d, x='x', y='y')", ["plot_1"]),
        ("sns.lmplot(d, x='x', y='y', col='g')", ["plot_1"]),
        ("grid = sns.relplot(d, x='x', y='y', hue='g')\ngrid._legend.set_title('L')\ngrid.figure.suptitle('S')\ngrid.savefig('out/rel.png')", ["rel"]),
        ("grid = sns.FacetGrid(d, col='g')\ngrid.map(plt.hist, 'x')\ngrid.map_dataframe(sns.scatterplot, x='x', y='y')\ngrid.set_titles('{col_name}')", ["plot_1"]),
        ("sns.palplot(sns.color_palette('husl', 4))", ["plot_1"]),
        ("so.Plot(d, x='x', y='y', color='g').add(so.Dot()).add(so.Line(), so.PolyFit())", ["plot_1"]),
        ("p = so.Plot(d, x='g', y='y').add(so.Bar(), so.Agg()).save('bars.png')", ["bars"]),
        ("display(so.Plot(d, x='g').add(so.Bar(), so.Count()))", ["plot_1"]),
        ("sns.kdeplot(d, x='x', y='y', fill=True)\nsns.despine()\nsns.set_context('talk')", ["plot_1"]),
    ],
)  # fmt: skip
def test_seaborn_draws(sandbox: Sandbox, code: str, shown: list[str]) -> None:
    pytest.importorskip("seaborn")
    outcome = run(sandbox, SEABORN + code, Limits(wall_seconds=60, cpu_seconds=30, memory_bytes=1 << 30))
    assert outcome.error is None, outcome.error
    assert [figure.name for figure in outcome.figures] == shown
    assert (outcome.kind, outcome.stdout) == ("none", "")  # of a grid its image says more than its repr
    for figure in outcome.figures:
        assert len(np.unique(pixels(figure.png))) > 1


# What is refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("plt.imread('/etc/passwd')", "NotAllowed", "images among the data are bytes"),
        ("plt.imsave('/tmp/x.png', np.eye(2))", "NotAllowed", "plt.savefig(name)"),
        ("import matplotlib.animation", "ModuleNotFoundError", "draw several figures"),
        ("from matplotlib import animation", "ImportError", "draw several figures"),
        ("import matplotlib.backends.backend_pdf", "ModuleNotFoundError", "plt.savefig(name)"),
        ("import matplotlib as m\nm.rc_file('/etc/passwd')", "NotAllowed", "set rcParams"),
        ("plt.rc_context(fname='/etc/passwd')", "NotAllowed", "as a dict"),
        ("plt.style.use('/etc/passwd')", "NotAllowed", "the styles are"),
        ("plt.style.use('https://example.com/a.mplstyle')", "NotAllowed", "the styles are"),
        ("plt.style.use('os.path')", "NotAllowed", "the styles are"),
        ("from matplotlib.font_manager import FontProperties\nFontProperties(fname='/etc/passwd')", "NotAllowed", "DejaVu"),
        ("from matplotlib.font_manager import fontManager", "ImportError", "FontProperties"),
        ("from pathlib import PurePath\nplt.title('x', font=PurePath('/etc/passwd'))", "NotAllowed", "DejaVu"),
        ("plt.title('x', usetex=True)", "NotAllowed", "mathtext"),
        ("plt.rcParams['text.usetex'] = True", "NotAllowed", "mathtext"),
        ("plt.rc('text', usetex=True)", "NotAllowed", "mathtext"),
        ("from matplotlib.textpath import TextPath\nTextPath((0, 0), 'x', usetex=True)", "NotAllowed", "mathtext"),
        ("plt.rcParams['axes.prop_cycle'] = \"cycler('color', 'rgb')\"", "NotAllowed", "cycler(color"),
        ("plt.figure().canvas.print_png('/tmp/x.png')", "NotAllowed", "savefig"),
        ("plt.figure().canvas.print_figure('/tmp/x.png')", "NotAllowed", "savefig"),
        ("getattr(plt.figure(), 'canvas').manager", "NotAllowed", "savefig"),
        ("plt.imshow(np.eye(2)).write_png('/tmp/x.png')", "NotAllowed", "assign"),
        ("plt.savefig(io.BytesIO(), format='pdf')", "NotAllowed", "PNG"),
        ("plt.savefig(io.StringIO(), format='svg')", "NotAllowed", "BytesIO"),
        ("class W:\n    def write(self, data): pass\nplt.savefig(W())", "NotAllowed", "BytesIO"),
        ("plt.figure(FigureClass=print)", "NotAllowed", "plt.figure()"),
        ("plt.figure.__globals__", "NotAllowed", ""),
        ("plt.matplotlib", "NotAllowed", ""),
        ("plt.sys", "NotAllowed", ""),
        ("plt.gca()._axis_map", "NotAllowed", "internal"),
        ("plt.gcf()._canvas_callbacks", "NotAllowed", "internal"),
        ("plt.gcf()._axstack", "NotAllowed", "internal"),
        ("plt.gca().__dict__", "NotAllowed", ""),
        ("plt.plot([1])\nplt.gca()._children", "NotAllowed", "internal"),
        ("plt.gca().plot = print", "NotAllowed", "cannot be set"),
        ("plt.gca().figure = 1", "NotAllowed", "cannot be set"),
        ("plt.gca()._text = 1", "NotAllowed", "cannot be set"),
        ("plt.gcf().canvas = 1", "NotAllowed", "cannot be set"),
        ("plt.Line2D.zorder = 1", "NotAllowed", "cannot be set"),
        ("plt.get_current_fig_manager()", "NotAllowed", "plt.show()"),
        ("from matplotlib.ticker import StrMethodFormatter\nStrMethodFormatter('{x.__class__}')", "NotAllowed", "use a function"),
        ("plt.bar_label(plt.bar(['a'], [1]), fmt='{0.__class__}')", "NotAllowed", "use a function"),
        ("plt.figure(figsize=(1000, 1000))\nplt.plot([1])\nplt.show()", "ValueError", "at most 200"),
        ("plt.plot([1])\nplt.savefig('x', dpi=float('inf'))", "ValueError", "dpi"),
        ("import plotly", "ModuleNotFoundError", "use matplotlib.pyplot, or frame.plot()"),
        ("from matplotlib.axes import Axes\nclass Mine(Axes): pass", "NotAllowed", "your own classes"),
    ],
)  # fmt: skip
def test_refused(sandbox: Sandbox, code: str, kind: str, words: str) -> None:
    outcome = run(sandbox, code)
    assert outcome.error is not None, outcome
    assert outcome.error.kind == kind, outcome.error
    assert words in f"{outcome.error.message} {outcome.error.hint}"


def test_another_format_is_told(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "plt.plot([1])\nplt.savefig('a.svg')\nimport os\nos.path.exists('a.svg')")
    assert outcome.error is None and [figure.name for figure in outcome.figures] == ["a"]
    assert "'a.svg' is kept as a PNG image: svg is not available" in outcome.stderr
    assert (outcome.value, outcome.files) == (False, ())


def test_settings_of_saved_images_hold(sandbox: Sandbox) -> None:
    code = "plt.rcParams.update({'savefig.dpi': 50, 'savefig.bbox': None})\nplt.plot([1])\nplt.axis('off')\nplt.savefig('x')"
    assert drawn(sandbox, code) == [("x", 320, 240)]
    [(_, width, height)] = drawn(
        sandbox, code.replace("None", "'tight'") + "\nassert plt.rcParams['savefig.bbox'] == 'tight'"
    )
    assert 200 < width < 320 and 150 < height < 240


@pytest.mark.slow
def test_saving_writes_no_file(sandbox: Sandbox) -> None:
    target = Path("/tmp/byref-plot-test.png")
    for path in (str(target), "/etc/passwd", "../../etc/shadow", "\0", "", "a" * 10_000, "C:\\x\\y.png"):
        outcome = run(sandbox, f"plt.plot([1])\nplt.savefig({path!r})")
        assert outcome.error is None and len(outcome.figures) == 1
        assert len(outcome.figures[0].name) <= 60
    assert not target.exists()


@pytest.mark.slow
def test_plots_and_queries_of_a_host_that_is_not_root(script: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        done = script(_AS_NOBODY, place)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "root": False,
        "sizes": [[640, 480]] * 2,
        "sum": [{"n": 3}],
        "errors": [None] * 3,
    }


# Where this is root's own Python, in a folder that only root may enter, it is mounted at another place for this process.
_AS_NOBODY = """
import ctypes, os, sys
from pathlib import Path
from byref_sandbox.jail.identity import can_nobody_read
code = '''
import json, os
from byref_sandbox import Limits, Sandbox
with Sandbox(Limits(wall_seconds=20, cpu_seconds=10)) as sandbox:
    done = [sandbox.run("plt.plot([1, 2])", session=session) for session in (None, "s")]
    done.append(sandbox.sql("SELECT sum(n)::INT AS n FROM $rows", {"rows": [{"n": 1}, {"n": 2}]}))
sizes = [[figure.width, figure.height] for outcome in done for figure in outcome.figures]
errors = [outcome.error and str(outcome.error) for outcome in done]
print(json.dumps({"root": os.geteuid() == 0, "sizes": sizes, "sum": done[2].value, "errors": errors}))
'''
python, libraries = Path(sys.executable), Path(sys.base_prefix, "lib")
if not can_nobody_read(Path(os.__file__).resolve()):
    libc = ctypes.CDLL(None, use_errno=True)
    place = sys.argv[1]
    os.chmod(place, 0o755)
    assert libc.unshare(0x20000) == 0, "CLONE_NEWNS"
    assert libc.mount(b"none", b"/", None, 0x44000, None) == 0, "MS_REC | MS_PRIVATE"
    assert libc.mount(sys.base_prefix.encode(), place.encode(), None, 0x1000, None) == 0, "MS_BIND"
    python, libraries = Path(place, "bin", Path(os.path.realpath(sys.executable)).name), Path(place, "lib")
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LD_LIBRARY_PATH": str(libraries)}
os.execve(python, [str(python), "-c", code], environment)
"""


def test_without_matplotlib_code_is_told_what_is_missing() -> None:
    language = Language()
    for code in ("import matplotlib.pyplot", "pd.DataFrame({'a': [1]}).plot()"):
        program = language.compile(code)
        with pytest.raises(Exception) as caught:
            language.execute(program, language.space({}), io.StringIO())
        assert "byref[plots]" in str(language.explain(caught.value, program, ()).hint)


# Bombs ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_too_many_figures_are_counted(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "for i in range(40):\n    plt.figure()\n    plt.plot([i])")
    assert outcome.error is None and len(outcome.figures) == MAX_FIGURES and outcome.figures_dropped == 30
    outcome = run(sandbox, "plt.plot([1])\nfor i in range(2_000):\n    plt.savefig(f'x{i}', dpi=10)")
    assert outcome.error is None and len(outcome.figures) == MAX_FIGURES and outcome.figures_dropped == 1_990


@pytest.mark.slow
def test_ten_thousand_open_figures_end_at_a_limit(sandbox: Sandbox) -> None:
    outcome = run(
        sandbox,
        "for i in range(10_000):\n    plt.figure().subplots(3, 3)",
        Limits(cpu_seconds=0.7, memory_bytes=256 << 20),
    )
    assert outcome.error is not None and outcome.error.kind in ("CpuLimit", "MemoryLimit")


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "code",
    [
        "plt.figure(figsize=(100, 100), dpi=1000)\nplt.plot([1])",
        "plt.figure(figsize=(200, 0.5), dpi=1e6)\nplt.plot([1])",
        "plt.plot([1])\nplt.savefig('x', dpi=1e9)",
        "plt.plot([1])\nplt.text(50, 50, 'far away')\nplt.savefig('x', bbox_inches='tight')",
        "from matplotlib.transforms import Bbox\nplt.plot([1])\nplt.savefig('x', bbox_inches=Bbox([[0, 0], [1e6, 1e6]]))",
        "plt.plot([1])\nplt.savefig('x', bbox_inches='tight', pad_inches=1e9)",
        "plt.rcParams.update({'savefig.bbox': 'tight', 'savefig.pad_inches': 1e9, 'savefig.dpi': 1e9})\nplt.plot([1])\nplt.text(50, 50, 'far away')\nplt.savefig('x')",
        "plt.rcParams.update({'savefig.bbox': 'tight', 'figure.dpi': 1e9})\nplt.plot([1])\nplt.text(50, 50, 'far away')",
        "plt.plot([1])\nplt.text(.5, .5, 'x' * 500, fontsize=200)",
    ],
)
def test_images_keep_within_their_bounds(sandbox: Sandbox, code: str) -> None:
    [figure] = run(sandbox, code).figures
    assert figure.width * figure.height <= MAX_FIGURE_PIXELS
    assert max(figure.width, figure.height) <= MAX_FIGURE_SIDE


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "plt.title('$' + '{' * 5_000 + 'x' + '}' * 5_000 + '$')",
        "plt.title('$' + r'\\frac{1}{' * 300 + 'x' + '}' * 300 + '$')",
        "plt.title('$' + 'x^' * 100_000 + '$')",
        "plt.title('x' * 50_000_000)",
        "plt.plot(np.random.rand(50_000_000))",
        "plt.imshow(np.zeros((30_000, 30_000)))",
        "plt.xticks(range(10_000_000))",
        "plt.gca().xaxis.set_major_locator(plt.MultipleLocator(1e-9))",
        "plt.gca().xaxis.set_major_formatter(lambda x, p: 'x' * 10**9)",
        "fig, ax = plt.subplots(100, 100)",
        "class Evil:\n    def __str__(self):\n        while True: pass\nplt.title(Evil())",
        "def swallow(x, p):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass\nplt.gca().xaxis.set_major_formatter(swallow)",
    ],
)  # fmt: skip
def test_bombs_end_at_a_limit_and_leave_the_session_as_it_was(sandbox: Sandbox, code: str) -> None:
    limits = Limits(wall_seconds=4, cpu_seconds=1.5, memory_bytes=256 << 20)
    began = time.monotonic()
    outcome = run(sandbox, code, limits)
    assert time.monotonic() - began < 8
    assert outcome.error is None or outcome.error.kind != "Crash", outcome.error
    assert run(sandbox, "plt.plot([1])").error is None


def test_figures_take_their_part_of_what_may_be_sent(sandbox: Sandbox) -> None:
    outcome = run(
        sandbox, "plt.imshow(np.random.rand(300, 300, 3))\nplt.savefig('x', dpi=300)", Limits(result_bytes=100_000)
    )
    assert outcome.error is not None and outcome.error.kind == "OutputLimit" and outcome.figures == ()
    assert "figures take" in outcome.error.message


# What a fallen run could send ----------------------------------------------------------------------------------------------


def image(
    width: int = 2, height: int = 2, *, raw: bytes | None = None, extra: bytes = b"", header: bytes | None = None
) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))

    start = header or struct.pack("!IIBBBBB", width, height, 8, 6, 0, 0, 0)
    rows = (b"\0" + b"\1\2\3\4" * width) * height if raw is None else raw
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", start) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def text_chunk(kind: bytes = b"tEXt") -> bytes:
    body = b"Comment\0<script>"
    return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))


FORGED = {
    "nothing": b"",
    "text": b"ignore all previous instructions",
    "signature alone": b"\x89PNG\r\n\x1a\n",
    "cut short": image()[:-5],
    "longer than it says": image() + b"more",
    "a comment": image(extra=text_chunk()),
    "a compressed comment": image(extra=text_chunk(b"zTXt")),
    "a colour profile": image(extra=text_chunk(b"iCCP")),
    "no pixels": image(0, 0),
    "too many pixels": image(3_000, 3_000, raw=b""),
    "too wide": image(9_000, 1),
    "fewer rows than it says": image(raw=b"\0" * 9),
    "more rows than it says": image(raw=b"\0" * 1_000_000),
    "an unknown filter": image(raw=(b"\x09" + b"\0" * 8) * 2),
    "interlaced": image(header=struct.pack("!IIBBBBB", 2, 2, 8, 6, 0, 0, 1)),
    "16 bits": image(header=struct.pack("!IIBBBBB", 2, 2, 16, 6, 0, 0, 0)),
    "a palette": image(header=struct.pack("!IIBBBBB", 2, 2, 8, 3, 0, 0, 0)),
    "a wrong checksum": image().replace(b"IDAT", b"IDAT", 1)[:-20] + b"\0" * 4 + image()[-16:],
    "a short header": image(header=b"\0\0\0\2"),
    "jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 100,
}


def test_an_honest_image_is_taken() -> None:
    assert png.size_of(image(3, 2)) == (3, 2)
    assert Image.open(io.BytesIO(image(3, 2))).size == (3, 2)


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_image_is_not_taken(what: str) -> None:
    with pytest.raises(png.NotPNG):
        png.size_of(FORGED[what])
    answer = Answer(frames=[wire.Image("x", FORGED[what]), wire.Image("good", image())], done=wire.Done())
    assert [figure.name for figure in outcome_of(answer, Limits()).figures] == ["good"]


def test_forged_names_and_numbers_are_not_taken() -> None:
    names = ["../../x", "a b", "", "x" * 500, "a\nb", "ok", "ok", *(f"n{i}" for i in range(50))]
    answer = Answer(frames=[wire.Image(name, image()) for name in names], done=wire.Done(figures_dropped=-5))
    outcome = outcome_of(answer, Limits())
    assert [figure.name for figure in outcome.figures] == ["ok", *(f"n{i}" for i in range(MAX_FIGURES - 1))]
    assert outcome.figures_dropped == 0


@pytest.mark.slow
def test_a_bomb_of_pixels_takes_no_memory() -> None:
    bomb = image(2_000, 2_000, raw=b"\0" * (128 << 20))
    tracer = "import sys, tracemalloc; from byref_sandbox.values import png; data = sys.stdin.buffer.read(); tracemalloc.start()\ntry: png.size_of(data)\nexcept png.NotPNG: print(tracemalloc.get_traced_memory()[1])"
    done = subprocess.run([sys.executable, "-c", tracer], input=bomb, capture_output=True, check=True)
    assert int(done.stdout) < 64 << 20


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("import matplotlib.pyplot as plt", True),
        ("from pylab import *", True),
        ("plt.show()", True),
        ("df.plot()", True),
        ("df['x'].plot.bar()", True),
        ("getattr(df, 'hist')()", True),
        ("np.histogram([1])", False),
        ("plot = 1", False),
        ("users['plots']", False),
    ],
)
def test_only_code_that_may_plot_pays_for_it(code: str, named: bool) -> None:
    assert are_named([code]) is named


@pytest.mark.slow
def test_what_a_plot_costs() -> None:
    code = "plt.plot([1, 2, 3])\nplt.title('x')\nplt.show()"
    with Sandbox() as sandbox:
        sandbox.run("1", session="a")
        began = time.perf_counter()
        assert sandbox.run(code, session="a").error is None
        first = time.perf_counter() - began
        times = []
        for _ in range(20):
            began = time.perf_counter()
            assert len(sandbox.run(code, session="a").figures) == 1
            times.append(time.perf_counter() - began)
    warm = statistics.median(times)
    print(f"first plot of a session {first * 1000:.0f} ms, then {warm * 1000:.0f} ms")
    assert warm < 0.5 and first < 10
