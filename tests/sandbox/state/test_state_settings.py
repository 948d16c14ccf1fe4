"""Each setter of a module that code has: what it sets is there in the next run, or the run says that it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from byref_sandbox import Sandbox, Snapshot, State
from byref_sandbox.code.libraries import LIBRARIES, is_installed
from byref_sandbox.code.words import words
from byref_sandbox.language.facades import Facade
from byref_sandbox.language.policy import Language

SETTER = re.compile(
    r"(set(?!(item|p|s|diff1d|xor1d)$)(?!_(add|div|function|mul|pow|sub)$)|seed$|register|use|enable|disable|(re)?config|simplefilter|filterw"
    r"|reset|environ$|rc|init_|DefaultContext|masked_print)\w*|\w*(options?|Config|_limit|_context|seterr)|colormaps|color_sequences"
)
KEPT = {
    # By setter: a cell that sets something, and an expression that tells it.
    "calendar.setfirstweekday": ("import calendar\ncalendar.setfirstweekday(6)", "calendar.firstweekday()"),
    "csv.field_size_limit": ("import csv\ncsv.field_size_limit(50)", "csv.field_size_limit()"),
    "decimal.setcontext": ("import decimal\ndecimal.setcontext(decimal.Context(prec=7))", "decimal.getcontext().prec"),
    "decimal.DefaultContext": ("import decimal\ndecimal.DefaultContext.prec = 5", "decimal.Context().prec"),
    "logging.basicConfig": ("import logging\nlogging.basicConfig(level=10)", "logging.getLogger('a').isEnabledFor(10)"),
    "logging.disable": ("import logging\nlogging.disable(40)", "logging.getLogger('a').isEnabledFor(40)"),
    "matplotlib.color_sequences": ("import matplotlib as mpl\nmpl.color_sequences.register('mine', ['r', 'b'])", "list(mpl.color_sequences)[-1]"),
    "matplotlib.colormaps": ("import matplotlib as mpl\nfrom matplotlib.colors import ListedColormap\nmpl.colormaps.register(ListedColormap(['r', 'b'], name='mine'))", "'mine' in mpl.colormaps"),
    "matplotlib.rc": ("plt.rc('font', size=19)", "plt.rcParams['font.size']"),
    "matplotlib.rcParams": ("plt.rcParams['font.size'] = 18", "plt.rcParams['font.size']"),
    "matplotlib.pylab.rc": ("from matplotlib import pylab\npylab.rc('font', size=17)", "plt.rcParams['font.size']"),
    "matplotlib.pylab.set_cmap": ("from matplotlib import pylab\npylab.set_cmap('hot')", "plt.rcParams['image.cmap']"),
    "matplotlib.style.use": ("plt.style.use('ggplot')", "plt.rcParams['axes.facecolor']"),
    "numpy.ma.masked_print_option": ("np.ma.masked_print_option.set_display('XX')", "str(np.ma.array([1, 2], mask=[0, 1]))"),
    "numpy.polynomial.set_default_printstyle": ("np.polynomial.set_default_printstyle('ascii')", "str(np.polynomial.Polynomial([1, 2]))"),
    "numpy.random.seed": ("np.random.seed(5)\nnp.random.rand(3)", "str(np.random.get_state(legacy=False)['state'])"),
    "numpy.random.set_state": ("np.random.set_state(np.random.RandomState(3).get_state())", "str(np.random.get_state(legacy=False)['state'])"),
    "numpy.set_printoptions": ("np.set_printoptions(precision=2)", "str(np.array([1.23456]))"),
    "numpy.setbufsize": ("np.setbufsize(16384)", "np.getbufsize()"),
    "numpy.seterr": ("np.seterr(divide='raise', over='ignore')", "np.geterr()"),
    "numpy.seterrcall": ("def told(kind, flag):\n    print(kind)\nnp.seterrcall(told)\nnp.seterr(divide='call')", "np.geterrcall() is not None and np.geterrcall() is told"),
    "os.environ": ("import os\nos.environ['MODE'] = 'test'", "dict(os.environ)"),
    "pandas.set_option": ("pd.set_option('display.max_rows', 7)", "pd.get_option('display.max_rows')"),
    "random.seed": ("import random\nrandom.seed(4)", "random.getstate()[1][:3]"),
    "random.setstate": ("import random\nrandom.setstate(random.Random(9).getstate())", "random.getstate()[1][:3]"),
    "scipy.cluster.hierarchy.set_link_color_palette": ("from scipy.cluster import hierarchy as h\nh.set_link_color_palette(['c', 'm'])", "h.dendrogram(h.linkage([[0], [1], [5], [6.0]]), no_plot=True)['color_list']"),
    "scipy.special.seterr": ("import scipy.special as sc\nsc.seterr(singular='raise')", "sc.geterr()"),
    "seaborn.set": ("import seaborn as sns\nsns.set(font_scale=3)", "plt.rcParams['font.size']"),
    "seaborn.set_color_codes": ("import seaborn as sns\nsns.set_color_codes('muted')\nimport matplotlib.colors as mc", "mc.to_rgb('b')"),
    "seaborn.set_context": ("import seaborn as sns\nsns.set_context('poster')", "plt.rcParams['font.size']"),
    "seaborn.set_palette": ("import seaborn as sns\nsns.set_palette('husl', 3)", "len(plt.rcParams['axes.prop_cycle'])"),
    "seaborn.set_style": ("import seaborn as sns\nsns.set_style('dark')", "plt.rcParams['axes.facecolor']"),
    "seaborn.set_theme": ("import seaborn as sns\nsns.set_theme(font_scale=2)", "plt.rcParams['font.size']"),
    "sklearn.set_config": ("import sklearn\nsklearn.set_config(transform_output='pandas', display='text')", "sklearn.get_config()"),
    "sympy.seterr": ("import sympy\nsympy.seterr(divide=True)\ndef ask():\n    try:\n        return str(sympy.Rational(0, 0))\n    except ValueError:\n        return 'raised'", "ask()"),
    "sys.setrecursionlimit": ("import sys\nsys.setrecursionlimit(5000)", "sys.getrecursionlimit()"),
    "warnings.filterwarnings": ("import warnings\nwarnings.filterwarnings('error', message='x')\ndef ask():\n    try:\n        warnings.warn('x')\n    except UserWarning:\n        return 'raised'", "ask()"),
    "warnings.simplefilter": ("import warnings\nwarnings.simplefilter('error')\ndef ask():\n    try:\n        warnings.warn('x')\n    except UserWarning:\n        return 'raised'", "ask()"),
}  # fmt: skip
TOLD = {
    # By setter: a cell whose setting cannot be kept, and a word of why.
    "pandas.set_eng_float_format": ("import warnings\nwarnings.simplefilter('ignore')\npd.set_eng_float_format(accuracy=1)", "EngFormatter"),
    "os.environ": ("import os\nos.environ['MODE'] = 'x' * 100_000", "more than 65,536 characters"),
    "numpy.seterrcall": ("it = pd.DataFrame().iterrows()\ndef make(rows):\n    return lambda *flags: rows\nnp.seterrcall(make(it))\nnp.seterr(divide='call')", "generator"),
}  # fmt: skip
NOTHING = words("""asyncio.set_event_loop matplotlib.dates.set_epoch matplotlib.pylab.rcdefaults matplotlib.rcParamsDefault matplotlib.rc_context
    matplotlib.rcdefaults matplotlib.use networkx.algorithms.bipartite.configuration_model networkx.configuration_model
    networkx.set_edge_attributes networkx.set_node_attributes numpy.get_printoptions numpy.ma.set_fill_value numpy.printoptions
    pandas.describe_option pandas.get_option pandas.option_context pandas.plotting.register_matplotlib_converters
    pandas.reset_option scipy.fft.register_backend scipy.fft.set_backend scipy.fft.set_global_backend scipy.fft.set_workers
    scipy.sparse.linalg.use_solver seaborn.plotting_context seaborn.reset_defaults seaborn.reset_orig seaborn.set_hls_values
    sklearn.config_context statsmodels.formula.options statsmodels.stats.outliers_influence.reset_ramsey
    statsmodels.tsa.statespace.tools.set_mode sympy.combinatorics.named_groups.set_alternating_group_properties
    sympy.combinatorics.named_groups.set_symmetric_group_properties sympy.polys.polyclasses.init_normal_ANP
    sympy.init_printing sympy.polys.polyclasses.init_normal_DMF sympy.rcode sympy.rcollect sympy.solvers.polysys.build_options sympy.use
    warnings.resetwarnings""")
"""Names that sound like setters and leave nothing to keep: they give a value, count in a `with` statement, change what they are given, take
settings back, do nothing, or are refused."""


def named() -> set[str]:
    """The names of all modules that sound like setters, each once."""
    language = Language()
    language.learn_plots()
    for library in LIBRARIES:
        language.learn(library)
    found: dict[int, str] = {}
    for module, facade in sorted(language._modules.facades.items()):
        for name, value in vars(facade).items():
            if SETTER.fullmatch(name) and type(value) is not Facade and not isinstance(value, type):
                found.setdefault(id(value), f"{module}.{name}")
    return set(found.values())


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.mark.slow  # it loads all libraries
@pytest.mark.skipif(not all(map(is_installed, LIBRARIES)), reason="needs byref[science]")
def test_each_setter_is_known() -> None:
    assert named() <= {*KEPT, *TOLD} | NOTHING


def _skip_without(setter: str) -> None:
    library = setter.partition(".")[0]
    if library in LIBRARIES and not is_installed(library):
        pytest.skip(f"needs {library}")


@pytest.mark.parametrize("setter", KEPT)
def test_what_a_setter_sets_is_there_in_the_next_run(sandbox: Sandbox, setter: str) -> None:
    _skip_without(setter)
    cell, look = KEPT[setter]
    first = sandbox.run(f"{cell}\n{look}")
    assert first.error is None and not first.unkept and not first.missed
    state = State((Snapshot(first.contents),), first.blobs)
    between = sandbox.run("text = 'of a run that needs nothing of it'", state=state)
    assert between.error is None and not between.missed
    state = State((Snapshot(between.contents),), {**first.blobs, **between.blobs})
    second = sandbox.run(look, state=state)
    assert second.error is None and not second.missed
    assert second.value == first.value


@pytest.mark.parametrize("setter", TOLD)
def test_a_setting_that_cannot_be_kept_is_named(sandbox: Sandbox, setter: str) -> None:
    cell, why = TOLD[setter]
    first = sandbox.run(cell)
    assert first.error is None
    assert why in first.missed["settings_of_libraries"]
