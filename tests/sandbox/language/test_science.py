"""The libraries of `byref[science]` under the language: what analysts do with them works, and what reaches further is refused."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from byref_sandbox.code.analysis import Analysed
from byref_sandbox.code.libraries import LIBRARIES, draw, named
from byref_sandbox.language import science
from byref_sandbox.language.policy import Language

QUICK = ("scipy", "networkx")

WORKS: dict[str, list[tuple[str, str]]] = {
    "scipy": [
        ("from scipy import stats\nround(stats.ttest_ind([1, 2, 3], [2, 3, 5]).pvalue, 4)", "np.float64(0.2746)"),
        ("import scipy.stats as st\n[round(float(x), 3) for x in (st.norm.cdf(1.96), st.t.ppf(0.975, 10), st.chi2.sf(3.84, 1))]", "[0.975, 2.228, 0.05]"),
        ("import scipy\nscipy.stats.rankdata([3, 1, 2]).tolist()", "[3.0, 1.0, 2.0]"),
        ("from scipy.optimize import minimize, curve_fit, brentq, linprog, milp\nround(float(minimize(lambda x: (x[0] - 3) ** 2, [0.0]).x[0]), 4)", "3.0"),
        ("from scipy.optimize import linprog\nlinprog([1, 1], A_ub=[[-1, -1]], b_ub=[-2]).fun", "2.0"),
        ("from scipy.optimize import differential_evolution as de\nround(float(de(lambda x: (x[0] - 1) ** 2, [(-3, 3)], seed=1, workers=4, updating='deferred').x[0]), 3)", "1.0"),
        ("from scipy.integrate import quad, solve_ivp\nround(quad(np.sin, 0, np.pi)[0], 6), solve_ivp(lambda t, y: -y, (0, 1), [1.0]).success", "(2.0, True)"),
        ("from scipy.interpolate import interp1d, CubicSpline\nfloat(interp1d([0, 1], [0, 10])(0.5)), float(CubicSpline([0, 1, 2], [0, 1, 4])(1.5))", "(5.0, 2.25)"),
        ("from scipy import sparse\nm = sparse.csr_matrix(np.eye(3)) * 2\nm.sum(), m.indices.tolist(), sparse.vstack([m, m]).shape, m.nnz", "(np.float64(6.0), [0, 1, 2], (6, 3), 3)"),
        ("from scipy.sparse import coo_matrix\nc = coo_matrix(([1, 2], ([0, 1], [1, 0])))\nc.row.tolist(), c.tocsr().toarray().tolist()", "([0, 1], [[0, 1], [2, 0]])"),
        ("from scipy import sparse\nm = sparse.csr_matrix(np.eye(2))\nm.data = np.array([5.0, 6.0])\nm.data += 1\nm.toarray().tolist()", "[[6.0, 0.0], [0.0, 7.0]]"),
        ("from scipy.spatial import distance, KDTree, ConvexHull\ndistance.euclidean([0, 0], [3, 4]), KDTree([[0, 0], [1, 1]]).query([0.9, 1], workers=-1)[1]", "(np.float64(5.0), np.int64(1))"),
        ("from scipy.spatial import cKDTree\nlen(cKDTree([[0, 0], [1, 1]]).query_ball_point([0, 0], 2, workers=3))", "2"),
        ("from scipy.cluster.hierarchy import linkage, fcluster\nfcluster(linkage([[0], [1], [9]]), 2, 'distance').tolist()", "[1, 1, 2]"),
        ("from scipy.linalg import lu, block_diag, expm\nlu(np.eye(2))[2].tolist(), block_diag(1, 2).shape", "([[1.0, 0.0], [0.0, 1.0]], (2, 2))"),
        ("from scipy.fft import fft, ifft\nifft(fft([1.0, 2.0], workers=4)).real.tolist()", "[1.0, 2.0]"),
        ("from scipy import fftpack\nfftpack.ifft(fftpack.fft([1.0, 2.0])).real.tolist(), fftpack.dct([1.0, 0, 0]).tolist()[0], fftpack.fftfreq(4)[1]", "([1.0, 2.0], 2.0, np.float64(0.25))"),
        ("from scipy import signal, ndimage\nsignal.find_peaks([0, 2, 0])[0].tolist(), ndimage.gaussian_filter([0.0, 1.0, 0.0], 1).shape", "([1], (3,))"),
        ("from scipy.special import comb, expit, gamma\nfloat(comb(5, 2)), expit(0), gamma(5)", "(10.0, np.float64(0.5), np.float64(24.0))"),
        ("from scipy.stats import rv_discrete\nclass D(rv_discrete):\n    def _pmf(self, k):\n        return 0.5 * (k >= 0) * (k < 2)\nD(a=0, b=1).pmf(1)", "np.float64(0.5)"),
        ("pd.Series([1, 2, 3]).corr(pd.Series([1, 3, 2]), method='kendall')", "np.float64(0.33333333333333337)"),
        ("pd.Series([1, None, 9.0, 16, 25]).interpolate(method='quadratic').round(2).tolist()", "[1.0, 4.0, 9.0, 16.0, 25.0]"),
        ("import scipy\nfrom scipy import constants\nscipy.__version__[0], constants.c", "('1', 299792458.0)"),
    ],
    "sklearn": [
        ("from sklearn.datasets import load_iris\nfrom sklearn.linear_model import LogisticRegression\nX, y = load_iris(return_X_y=True)\nLogisticRegression(max_iter=500).fit(X, y).score(X, y) > 0.9", "True"),
        ("from sklearn.datasets import load_iris, load_wine, load_digits, load_diabetes, load_breast_cancer\n[f().data.shape[1] for f in (load_iris, load_wine, load_digits, load_diabetes, load_breast_cancer)]", "[4, 13, 64, 10, 30]"),
        ("from sklearn.datasets import load_iris\nload_iris(as_frame=True).frame.shape", "(150, 5)"),
        ("from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler, OneHotEncoder\nfrom sklearn.compose import ColumnTransformer\nfrom sklearn.linear_model import LinearRegression\nf = pd.DataFrame({'a': [1.0, 2, 3, 4], 'c': ['x', 'y', 'x', 'y'], 'y': [1.0, 2, 3, 4]})\np = make_pipeline(ColumnTransformer([('n', StandardScaler(), ['a']), ('c', OneHotEncoder(), ['c'])]), LinearRegression())\np.fit(f[['a', 'c']], f.y).predict(f[['a', 'c']]).round(2).tolist()", "[1.0, 2.0, 3.0, 4.0]"),
        ("from sklearn.model_selection import train_test_split, GridSearchCV, KFold\nfrom sklearn.tree import DecisionTreeClassifier\nX = np.arange(40).reshape(20, 2)\ny = np.tile([0, 1], 10)\nGridSearchCV(DecisionTreeClassifier(random_state=0), {'max_depth': [1, 2]}, cv=2, n_jobs=-1).fit(X, y).best_params_", "{'max_depth': 1}"),
        ("from sklearn.ensemble import RandomForestRegressor\nX = np.arange(20.0).reshape(10, 2)\nf = RandomForestRegressor(5, n_jobs=4, random_state=0).fit(X, X[:, 0])\nlen(f.estimators_), f.feature_importances_.shape, f.estimators_[0].tree_.node_count > 1", "(5, (2,), True)"),
        ("from sklearn.cluster import KMeans\nk = KMeans(2, n_init=1)\nk.n_clusters = 3\nk.fit(np.arange(12.0).reshape(6, 2)).cluster_centers_.shape", "(3, 2)"),
        ("from sklearn.feature_extraction.text import TfidfVectorizer, CountVectorizer\nCountVectorizer().fit(['a big cat', 'big dog']).get_feature_names_out().tolist()", "['big', 'cat', 'dog']"),
        ("from sklearn.metrics import classification_report, confusion_matrix, mean_squared_error\nconfusion_matrix([0, 1], [0, 0]).tolist(), mean_squared_error([1], [3])", "([[1, 0], [1, 0]], 4.0)"),
        ("from sklearn.base import BaseEstimator, TransformerMixin\nclass Scale(BaseEstimator, TransformerMixin):\n    def __init__(self, by=1):\n        self.by = by\n    def fit(self, X, y=None):\n        return self\n    def transform(self, X):\n        return X * self.by\nScale(3).fit_transform(np.ones(2)).tolist(), Scale(2)", "([3.0, 3.0], Scale(by=2))"),
        ("from sklearn.decomposition import PCA\nfrom sklearn.manifold import TSNE\nPCA(1).fit_transform(np.arange(6.0).reshape(3, 2)).shape", "(3, 1)"),
        ("import sklearn\nwith sklearn.config_context(transform_output='pandas'):\n    from sklearn.preprocessing import StandardScaler\n    made = StandardScaler().fit_transform(pd.DataFrame({'a': [1.0, 2]}))\ntype(made).__name__", "'DataFrame'"),
        ("from sklearn.experimental import enable_iterative_imputer\nfrom sklearn.impute import IterativeImputer, SimpleImputer\nSimpleImputer().fit_transform([[1.0], [None], [3.0]]).tolist()", "[[1.0], [2.0], [3.0]]"),
        ("from sklearn.tree import DecisionTreeClassifier, export_text, export_graphviz\nt = DecisionTreeClassifier().fit([[0], [1]], [0, 1])\nexport_text(t)[:15], export_graphviz(t)[:7]", "('|--- feature_0 ', 'digraph')"),
    ],
    "networkx": [
        ("import networkx as nx\nG = nx.path_graph(4)\nround(nx.pagerank(G)[0], 4), nx.adjacency_matrix(G).shape", "(0.1754, (4, 4))"),
        ("import networkx as nx\ng = nx.Graph([(1, 2), (2, 3)])\nnx.shortest_path(g, 1, 3), dict(g.degree()), nx.density(g)", "([1, 2, 3], {1: 1, 2: 2, 3: 1}, 0.6666666666666666)"),
        ("import networkx as nx\nf = pd.DataFrame({'s': ['a', 'b'], 't': ['b', 'c'], 'w': [1, 2]})\ng = nx.from_pandas_edgelist(f, 's', 't', 'w')\nnx.dijkstra_path_length(g, 'a', 'c', weight='w'), sorted(nx.pagerank(g))", "(3, ['a', 'b', 'c'])"),
        ("import networkx as nx\nfrom networkx.algorithms import community\n[sorted(c) for c in community.greedy_modularity_communities(nx.barbell_graph(3, 0))]", "[[0, 1, 2], [3, 4, 5]]"),
    ],
    "statsmodels": [
        ("import statsmodels.api as sm\nf = pd.DataFrame({'x': [1.0, 2, 3, 4], 'y': [2.0, 4, 6, 8]})\nsm.OLS(f.y, sm.add_constant(f.x)).fit().params.round(6).abs().tolist()", "[0.0, 2.0]"),
        ("import statsmodels.formula.api as smf\nf = pd.DataFrame({'x': [1.0, 2, 3, 4], 'y': [1.0, 4, 9, 16], 'g': list('abab')})\nsq = lambda v: v ** 2\nm = smf.ols('y ~ sq(x) + np.log(x) + C(g)', data=f).fit()\nround(m.params['sq(x)'], 4), 'R-squared' in str(m.summary())", "(np.float64(1.0), True)"),
        ("from statsmodels.tsa.stattools import adfuller, acf\nfrom statsmodels.tsa.seasonal import seasonal_decompose\nacf(np.arange(10.0), nlags=1).round(2).tolist()", "[1.0, 0.7]"),
        ("from statsmodels.stats.outliers_influence import variance_inflation_factor\nround(variance_inflation_factor(np.array([[1.0, 2], [1, 3], [1, 5]]), 1), 2)", "np.float64(1.0)"),
    ],
    "sympy": [
        ("from sympy import symbols, solve\nx = symbols('x')\nsorted(round(float(s), 2) for s in solve(2.5 * x**2 + 3.7 * x - 8.31, x))", "[-2.71, 1.23]"),
        ("import sympy\nsympy.nsimplify(4.242640687119286), sympy.nsimplify(3.14159265358979, [sympy.pi])", "(3*sqrt(2), pi)"),
        ("import sympy as sp\nx, y = sp.symbols('x y')\nsp.solve(x ** 2 - 4, x), sp.diff(sp.sin(x), x), sp.integrate(x, (x, 0, 2)), sp.Matrix([[1, 2], [3, 4]]).det()", "([-2, 2], cos(x), 2, -2)"),
        ("from sympy import sympify, Rational, S, latex\nfrom sympy.abc import x\nsympify('x**2 + sin(x)').subs(x, 0), S('1/3') + Rational(2, 3), latex(x ** 2)", "(0, 1, 'x^{2}')"),
        ("from sympy import lambdify, symbols, sin\nx = symbols('x')\nlambdify(x, sin(x) + 1)(np.zeros(2)).tolist(), lambdify(x, x + 1, 'math')(1), lambdify(x, x ** 2, [{'sin': np.sin}, 'numpy'])(3)", "([1.0, 1.0], 2, 9)"),
        ("from sympy.parsing.sympy_parser import parse_expr\nparse_expr('2*x + f(y)')", "2*x + f(y)"),
        ("from mpmath import mp, sqrt\nmp.dps = 40\nmp.prec += 10\nmp.pretty = True\nmade = mp.dps, mp.prec, str(sqrt(2))[:40]\nmp.dps, mp.pretty = 15, False\nmade", "(43, 146, '1.41421356237309504880168872420969807856')"),
        ("import sympy as sp\nsp.init_printing(use_latex='mathjax')\nfrom sympy import *\ninit_printing()\nt = symbols('t')\nt", "t"),
        ("import mpmath\nstr(mpmath.mpf(1) / 3)[:6], float(mpmath.quad(mpmath.sin, [0, mpmath.pi]))", "('0.3333', 2.0)"),
    ],
    "seaborn": [
        ("import seaborn as sns\nf = pd.DataFrame({'x': [1.0, 2, 3], 'g': list('aba')})\nax = sns.histplot(f, x='x', hue='g', kde=False)\nax.get_xlabel()", "'x'"),
        ("import seaborn as sns\nsns.set_theme(style='whitegrid')\ng = sns.pairplot(pd.DataFrame({'x': [1.0, 2, 3], 'y': [1.0, 3, 2]}))\nlen(g.axes.flat)", "4"),
        ("import seaborn as sns\nax = sns.heatmap(np.eye(3), annot=True)\nlen(ax.texts)", "9"),
    ],
}  # fmt: skip
REFUSED: dict[str, list[tuple[str, str]]] = {
    "scipy": [
        ("from scipy.io import loadmat", "have the tool return JSON or CSV"),
        ("import scipy.linalg.lapack", "No module named 'scipy.linalg.lapack'"),
        ("from scipy.fftpack import diff", "scipy.fftpack.diff is not available"),
        ("import scipy.fftpack\nscipy.fftpack.convolve", "scipy.fftpack.convolve is not available"),
        ("from scipy import LowLevelCallable", "give a Python function"),
        ("from scipy.sparse import load_npz\nload_npz('x')", "make the matrix of arrays"),
        ("from scipy import sparse\nsparse.csr_matrix(([1.0], [10**9], [0, 1]), shape=(1, 1)).toarray()", "indices must be"),
        ("from scipy import sparse\nsparse.csr_matrix(np.eye(3)).indices[0] = 10**9", "read-only"),
        ("from scipy import sparse\nsparse.coo_matrix(np.eye(3)).row[0] = 10**9", "read-only"),
        ("from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.indptr = np.array([0, 10**9, 1, 1])", "cannot be set"),
    ],
    "sklearn": [
        ("from sklearn.datasets import fetch_openml", "there is no network"),
        ("from sklearn.feature_extraction.text import CountVectorizer\nCountVectorizer(input='filename').fit(['/etc/passwd'])", "give the texts themselves"),
        ("from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import Ridge\nmake_pipeline(StandardScaler(), Ridge(), memory='/tmp/x').fit([[1.0], [2.0]], [1, 2])", "leave memory out"),
        ("import sklearn\nsklearn.set_config(assume_finite=True)", "cannot be changed"),
        ("from sklearn.tree import DecisionTreeClassifier, export_graphviz\nexport_graphviz(DecisionTreeClassifier().fit([[0], [1]], [0, 1]), out_file='x')", "leave out_file out"),
        ("from sklearn.linear_model import Ridge\nRidge().fit([[1.0]], [1]).coef_ = 1", "cannot be set"),
    ],
    "networkx": [("import networkx as nx\nnx.read_gml('x')", "only the files that code has written"), ("import networkx as nx\nnx.write_gml(nx.Graph(), 'x')", "not available")],
    "statsmodels": [
        ("import statsmodels.formula.api as smf\nsmf.ols('y ~ __import__(\"os\").system(\"id\")', data=pd.DataFrame({'y': [1.0]}))", "not available"),
        ("import statsmodels.api as sm\nsm.OLS([1.0, 2], [1.0, 3]).fit().save('x')", "not available"),
    ],
    "sympy": [
        ("import sympy\nsympy.sympify('().__class__.__bases__')", "not available"),
        ("import sympy\nsympy.lambdify('x', sympy.Function('load')(sympy.Symbol('x')))", "not available"),
        ("import sympy\nsympy.preview('x')", "sympy.latex"),
        ("from mpmath import mp\nmp.dps = 10 ** 7", "more than 1,000,000 digits"),
        ("from mpmath import mp\nmp.prec = 10 ** 8", "more than 1,000,000 digits"),
        ("from mpmath import mp\nmp.sin = 1", "cannot be set"),
    ],
    "seaborn": [("import seaborn as sns\nsns.load_dataset('tips')", "use the data that is bound")],
}  # fmt: skip


def _of(library: str, cases: dict[str, list[tuple[str, str]]]) -> list[Any]:
    marks = [] if library in QUICK else [pytest.mark.slow]
    return [pytest.param(library, *case, marks=marks) for case in cases[library]]


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


def run(language: Language, library: str, code: str) -> Any:
    """The value of code, in a language that has a library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        language.learn(library)
        return language.run(language.compile(code), {}, io.StringIO()).value


@pytest.mark.parametrize(("library", "code", "value"), [case for library in LIBRARIES for case in _of(library, WORKS)])
def test_it_works(language: Language, library: str, code: str, value: str) -> None:
    assert repr(run(language, library, code)) == value


@pytest.mark.parametrize(("library", "code", "why"), [case for library in LIBRARIES for case in _of(library, REFUSED)])
def test_it_is_refused(language: Language, library: str, code: str, why: str) -> None:
    with pytest.raises(Exception) as refused:
        run(language, library, code)
    program = language.compile(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explained = language.explain(refused.value, program, ())
    assert why in f"{explained.message} {explained.hint}"


@pytest.mark.slow
def test_what_the_libraries_import_of_this_python_is_listed() -> None:
    code = "import warnings\nwarnings.simplefilter('ignore')\nimport allow\nprint(*allow.of_python())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    listed = json.loads((Path(science.__file__).parent / "names.json").read_text())["python"]
    assert set(done.stdout.split()) <= {*listed}


@pytest.mark.slow
def test_a_library_starts_no_thread(language: Language) -> None:
    before = len(os.listdir("/proc/self/task"))
    run(
        language,
        "sklearn",
        "from sklearn.ensemble import HistGradientBoostingClassifier as H\nH(max_iter=2).fit(np.eye(40), [0, 1] * 20)",
    )
    assert len(os.listdir("/proc/self/task")) == before


@pytest.mark.parametrize(
    ("code", "libraries"),
    [
        ("import pandas as pd\npd.Series([1]).interpolate()", []),
        ("from sklearn.svm import SVC", ["scipy", "sklearn"]),
        ("%matplotlib inline\nimport seaborn as sns", ["scipy", "seaborn"]),
        ("!pip install scikit-learn", ["scipy", "sklearn"]),
        ("def f():\n    import networkx.algorithms as na", ["scipy", "networkx"]),
        ("df(x).a.interpolate('quadratic')", ["scipy"]),
        ("df(x).a.interpolate(**options)", ["scipy"]),
        ("df(x).a.interpolate( )", []),
        ("x = 'import scipy'", []),
        ("scipy = 1", []),
        ("import mpmath", ["sympy"]),
        ("import sympy\nsympy.lambdify", ["scipy", "sympy"]),
        ("df(x).plot.kde()", ["scipy"]),
        ("df(x).a.corr(df(x).b, method='kendall')", ["scipy"]),
        ("import torch", []),
    ],
)
def test_which_libraries_code_needs(code: str, libraries: list[str]) -> None:
    assert named([Analysed.of(code)]) == libraries


def test_what_draws() -> None:
    assert draw(["scipy"], ["dendrogram(z)"]) and draw(["seaborn"], ["import seaborn"])
    assert not draw([], ["plot_tree(t)"]) and not draw(["scipy"], ["stats.norm"])
