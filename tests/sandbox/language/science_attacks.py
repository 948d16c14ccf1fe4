"""Attacks through the libraries of `byref[science]`, by library and name. Each would get its loot, or damage memory, in plain Python."""

from __future__ import annotations

_SECRETS = ("().__class__.__bases__[0].__subclasses__()", "open(secret_path).read()", "__import__('os').getcwd()")
_DEEP = {
    "scipy": (
        "scipy.stats",
        "scipy.optimize",
        "scipy.sparse",
        "scipy.signal",
        "scipy.linalg",
        "scipy.interpolate",
        "scipy.special",
        "scipy",
    ),
    "sklearn": (
        "sklearn.base",
        "sklearn.utils",
        "sklearn.pipeline",
        "sklearn.datasets",
        "sklearn.metrics",
        "sklearn.model_selection",
    ),
    "statsmodels": ("statsmodels.api", "statsmodels.formula.api", "statsmodels.tsa.api", "statsmodels.iolib.table"),
    "sympy": (
        "sympy",
        "sympy.core.symbol",
        "sympy.utilities.lambdify",
        "sympy.parsing.sympy_parser",
        "sympy.utilities.iterables",
    ),
    "networkx": ("networkx", "networkx.utils", "networkx.algorithms", "networkx.readwrite"),
    "seaborn": ("seaborn", "seaborn.utils", "seaborn.axisgrid", "seaborn.distributions"),
}
_MODULES = ("os", "sys", "importlib", "builtins", "warnings", "np", "inspect", "pickle")


def _files(library: str, alias: str, calls: str) -> dict[str, str]:
    """Calls that read or write: `name(arguments)` of a module, one a line."""
    return {f"{alias} {call}": f"import {library} as {alias}\n{call}" for call in calls.splitlines() if call.strip()}


def _inner_modules(library: str) -> dict[str, str]:
    """Modules that modules of the library have imported."""
    wanted = {}
    for name in _DEEP[library]:
        for inner in _MODULES:
            wanted[f"{inner} of {name}"] = f"import {name}\n[m for m in [{name}.{inner}] if hasattr(m, '__name__')][0]"
    return wanted


def _insides(library: str, function: str) -> dict[str, str]:
    """What a function of the library knows of its module."""
    ways = (
        "__globals__",
        "__code__",
        "__closure__",
        "__builtins__",
        "__wrapped__.__globals__",
        "__func__.__globals__",
        "__self__.__dict__",
        "__init__.__globals__",
        "__reduce__()",
        "__subclasses__()",
        "mro()[-1].__subclasses__()",
    )
    return {f"{way} of {function}": f"import {library}\n{function}.{way}" for way in ways} | {
        f"getattr {way} of {function}": f"import {library}\ngetattr({function}, '{way}')"
        for way in ("__globals__", "__code__", "__builtins__")
    }


_GRAPH_FILES = "\n".join(
    [
        *(
            f"list(nx.read_{form}(secret_path).nodes)"
            for form in [
                "adjlist",
                "multiline_adjlist",
                "edgelist",
                "weighted_edgelist",
                "gml",
                "graphml",
                "gexf",
                "leda",
                "sparse6",
                "graph6",
                "pajek",
            ]
        ),
        *(
            f"nx.write_{form}(nx.path_graph(3), target_path)"
            for form in [
                "adjlist",
                "multiline_adjlist",
                "edgelist",
                "weighted_edgelist",
                "gml",
                "graphml",
                "gexf",
                "sparse6",
                "graph6",
                "pajek",
                "network_text",
                "latex",
            ]
        ),
    ]
)
_LEARNED = "from sklearn.linear_model import LogisticRegression\nm = LogisticRegression().fit([[0.0], [1.0]], [0, 1])\n"
_TREE = "from sklearn.tree import DecisionTreeClassifier\nt = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])\n"
_FORMULA = (
    "import statsmodels.formula.api as smf\nf = pd.DataFrame({'x': [1.0, 2, 3, 4], 'y': [1.0, 3, 2, 5]})\ngot = []\n"
)
_FORMULAS = (
    "got.append(__import__('os').getcwd()) or x",
    "got.append(().__class__.__bases__[0].__subclasses__()) or x",
    "got.append(open(secret_path).read()) or x",
    "got.append(x.__init__.__globals__) or x",
    "got.append(np.__init__.__globals__) or x",
    "got.append((lambda: 0).__globals__) or x",
    "got.append(eval('__import__(\"os\")')) or x",
    "got.append([c for c in (1,)][0].__class__.__mro__) or x",
    "got.append(__builtins__) or x",
    "got.append(globals()['__builtins__']) or x",
    "got.append(self) or x",
    "got.append(EvalEnvironment) or x",
    "got.append(sys.modules) or x",
    "got.append(os.listdir('/')) or x",
    "got.append(getattr(x, '__class__').__bases__) or x",
    "got.append('{0.__class__.__init__.__globals__}'.format(x)) or x",
    "got.append(x.to_csv(target_path)) or x",
)
_EXPRESSIONS = (
    *_SECRETS,
    "x.__class__.__mro__",
    "Symbol.__init__.__globals__",
    "Symbol('x').__init__.__func__.__globals__",
    "lambdify.__globals__['__builtins__']",
    "sympify.__globals__",
    "Function.__subclasses__()",
    "(lambda x: x).__globals__",
    "[c for c in ().__class__.__base__.__subclasses__()]",
    "eval('1+1')",
    "exec('import os')",
    "getattr(x, '__class__')",
    "parse_expr.__globals__",
    "x.subs.__func__.__globals__",
    "Integer(1).__reduce__()",
    "'{0.__class__}'.format(1)",
    "preview(x)",
    "compile('1', '', 'eval')",
)
_WRITTEN = (
    ("load", "secret_path", "numpy"),
    ("loadtxt", "secret_path", "numpy"),
    ("fromfile", "secret_path", "numpy"),
    ("genfromtxt", "secret_path", "numpy"),
    ("open", "secret_path", "math"),
    ("eval", "'__import__(\"os\").getcwd()'", "math"),
    ("exec", "'import os'", "math"),
    ("__import__", "'os'", "math"),
    ("getattr", "x", "math"),
    ("globals", "x", "math"),
    ("vars", "x", "numpy"),
    ("compile", "x", "numpy"),
    ("memmap", "secret_path", "numpy"),
)
ATTACKS: dict[str, dict[str, str]] = {
    "scipy": {
        **_files("scipy.io", "io", "io.loadmat(numpy_path)\nio.mmread(secret_path)\nio.readsav(secret_path)\nio.savemat(target_path, {'a': 1})\nio.mmwrite(target_path, np.eye(2))\nio.FortranFile(secret_path)\nio.netcdf_file(target_path, 'w')"),
        **_files("scipy.sparse", "sp", "sp.load_npz(numpy_path)\nsp.save_npz(target_path, sp.eye(2))\nsp.sys\nsp._base\nsp._csr"),
        **_files("scipy.datasets", "ds", "ds.face()\nds.download_all()"),
        **_files("scipy", "sc", "sc.LowLevelCallable\nsc.test()\nsc.show_config()\nsc.datasets\nsc.io\nsc._lib\nsc.linalg.lapack\nsc.linalg.blas\nsc.linalg.get_lapack_funcs(('gesv',))\nsc.special.cython_special\nsc.optimize._optimize"),
        **_inner_modules("scipy"),
        **_insides("scipy.stats", "scipy.stats.ttest_ind"),
        **_insides("scipy.stats", "scipy.stats.norm"),
        **_insides("scipy.stats", "scipy.stats.rv_continuous"),
        "a module by the name of a distribution": "from scipy import stats\nstats.kstest([1.0], 'sys')",
        "a module's own names by that of a distribution": "from scipy import stats\nstats.kstest([1.0], '__builtins__')",
        "modules of a distribution's module": "from scipy import stats\nstats.distributions.sys",
        "private names of a subclass": "from scipy.stats import rv_continuous\nclass D(rv_continuous): pass\nD()._construct_argparser.__func__.__globals__",
        "text in the shapes of a distribution": "from scipy.stats import rv_continuous\nclass D(rv_continuous): pass\nD(shapes='a=open(secret_path)')",
        "indexes out of a matrix": "from scipy import sparse\nsparse.csr_matrix(([1.0], [10**9], [0, 1]), shape=(1, 1)).toarray()",
        "negative indexes of a matrix": "from scipy import sparse\nsparse.csr_matrix(([1.0], [-10**9], [0, 1]), shape=(1, 1)).toarray()",
        "indexes of a csc matrix": "from scipy import sparse\nsparse.csc_matrix(([1.0], [10**9], [0, 1]), shape=(1, 1)).toarray()",
        "indexes of a csr array": "from scipy import sparse\nsparse.csr_array(([1.0], [10**9], [0, 1]), shape=(1, 1)).toarray()",
        "pointers of a matrix": "from scipy import sparse\nsparse.csr_matrix((np.ones(2), [0, 0], [0, 10**9, 2]), shape=(2, 2)).toarray()",
        "pointers that go back": "from scipy import sparse\nsparse.csr_matrix((np.ones(2), [0, 1], [0, 10**6, 2]), shape=(2, 2)) @ np.ones(2)",
        "indexes changed after the check": "from scipy import sparse\ni = np.array([0])\nm = sparse.csr_matrix((np.ones(1), i, np.array([0, 1])), shape=(1, 1))\ni[0] = 10**9\nm.toarray()",
        "pointers changed after the check": "from scipy import sparse\np = np.array([0, 1, 2], dtype='i4')\nm = sparse.csr_matrix((np.ones(2), np.array([0, 1], dtype='i4'), p), shape=(2, 2))\np[1] = 10**9\nm @ np.ones(2)",
        "indexes changed in place": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.indices[0] = 10**9\nm.toarray()",
        "pointers changed in place": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.indptr[1] = 10**9\nm.toarray()",
        "indexes made writable": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.indices.setflags(write=True)\nm.indices[0] = 10**9\nm.toarray()",
        "the base of the indexes": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.indices.base[0] = 10**9\nm.toarray()",
        "indexes by getattr": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\ngetattr(m, 'indices')[0] = 10**9\nm.toarray()",
        "indexes by attrgetter": "from scipy import sparse\nfrom operator import attrgetter\nm = sparse.csr_matrix(np.eye(3))\nattrgetter('indices')(m)[0] = 10**9\nm.toarray()",
        "indexes by a pattern": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nmatch m:\n    case sparse.csr_matrix(indices=i):\n        i[0] = 10**9\nm.toarray()",
        "indexes of a coo matrix": "from scipy import sparse\nm = sparse.coo_matrix(np.eye(3))\nm.row[0] = 10**9\nm.toarray()",
        "coordinates of a coo matrix": "from scipy import sparse\nm = sparse.coo_array(np.eye(3))\nm.coords[0][0] = 10**9\nm.toarray()",
        "coordinates changed after the check": "from scipy import sparse\nr = np.array([0], dtype='i4')\nm = sparse.coo_matrix((np.ones(1), (r, np.array([0], dtype='i4'))), shape=(1, 1))\nr[0] = 10**9\nm.toarray()",
        "indexes of a bsr matrix": "from scipy import sparse\nsparse.bsr_matrix((np.ones((1, 1, 1)), [10**9], [0, 1]), shape=(1, 1)).toarray()",
        "indexes of a bsr matrix in place": "from scipy import sparse\nm = sparse.bsr_matrix(np.eye(4), blocksize=(2, 2))\nm.indices[0] = 10**9\nm.toarray()",
        "rows of a list of lists": "from scipy import sparse\nm = sparse.lil_matrix(np.eye(2))\nm.rows[0] = [10**9]\nm.tocsr().toarray()",
        "an index attribute set": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.indices = np.array([10**9] * 3)\nm.toarray()",
        "an index attribute by setattr": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nsetattr(m, 'indptr', np.array([0, 10**9, 0, 0]))\nm.toarray()",
        "short data": "from scipy import sparse\nm = sparse.csr_matrix(np.eye(3))\nm.data = np.ones(0)\nm.toarray()",
        "a spline without checks": "from scipy.interpolate import BSpline\nBSpline.construct_fast(np.zeros(1), np.zeros(1), 10**6)(0.5)",
    },
    "sklearn": {
        **_files("sklearn.datasets", "ds", "ds.load_files(secret_path)\nds.load_svmlight_file(secret_path)\nds.dump_svmlight_file([[1]], [1], target_path)\nds.fetch_openml('iris')\nds.fetch_california_housing()\nds.get_data_home(target_path)\nds.clear_data_home(target_path)\nds.fetch_20newsgroups()\nds.load_sample_image(secret_path)\nds._base.load_csv_data(secret_path)\nds.fetch_file('x')"),
        **_files("sklearn.utils", "u", "u.estimator_html_repr\nu.all_estimators()\nu.discovery.all_estimators()\nu.parallel_backend('loky')\nu._testing\nu.validation.check_memory(target_path)"),
        **_files("joblib", "jl", "jl.load(pickle_path)\njl.dump([1], target_path)\njl.Memory(target_path)"),
        **_inner_modules("sklearn"),
        **_insides("sklearn.base", "sklearn.base.clone"),
        **_insides("sklearn.svm", "sklearn.svm.SVC"),
        "texts of files": "from sklearn.feature_extraction.text import CountVectorizer\nstr(CountVectorizer(input='filename').fit([secret_path]).vocabulary_)",
        "texts of files by tf-idf": "from sklearn.feature_extraction.text import TfidfVectorizer\nlist(TfidfVectorizer(input='filename', lowercase=False, token_pattern='.+').fit([secret_path]).vocabulary_)",
        "texts of files later": "from sklearn.feature_extraction.text import CountVectorizer\nv = CountVectorizer(lowercase=False, token_pattern='.+')\nv.input = 'filename'\nlist(v.fit([secret_path]).vocabulary_)",
        "texts of files by a text that lies": "from sklearn.feature_extraction.text import CountVectorizer\nclass T(str):\n    pass\nv = CountVectorizer(lowercase=False, token_pattern='.+')\nv.set_params(input=T('filename'))\nlist(v.fit([secret_path]).vocabulary_)",
        "a hashed file": "from sklearn.feature_extraction.text import HashingVectorizer\nHashingVectorizer(input='filename').decode(secret_path)",
        "decode of a file": "from sklearn.feature_extraction.text import CountVectorizer\nCountVectorizer(input='filename').decode(secret_path)",
        "a cache on disk": "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nmake_pipeline(StandardScaler(), StandardScaler(), memory=target_path).fit([[1.0], [2.0]])",
        "a cache of clusters": "from sklearn.cluster import AgglomerativeClustering\nAgglomerativeClustering(memory=target_path, connectivity=np.eye(3)).fit(np.eye(3))",
        "a graph in a file": _TREE + "from sklearn.tree import export_graphviz\nexport_graphviz(t, out_file=target_path)",
        "a graph in a file by position": _TREE + "from sklearn.tree import export_graphviz\nexport_graphviz(t, target_path)",
        "processes": "from sklearn.model_selection import cross_val_score\nfrom sklearn.svm import SVC\nfrom sklearn.base import BaseEstimator\ncross_val_score(SVC(), np.eye(20), [0, 1] * 10, n_jobs=2, cv=2)\nimport joblib\njoblib",
        "nodes of a tree": _TREE + "t.tree_.children_left[0] = 10**9\nt.predict([[0.0]])",
        "features of a tree": _TREE + "t.tree_.feature[0] = 10**9\nt.predict([[0.0]])",
        "nodes of a tree by getattr": _TREE + "getattr(t, 'tree_').children_right[0] = 10**9\nt.predict([[1.0]])",
        "the tree itself": _TREE + "t.tree_._tree",
        "the state of a tree": _TREE + "t.tree_.__getstate__()['nodes'][0] = 0\nt.tree_.__reduce__()",
        "nodes of a forest": "from sklearn.ensemble import RandomForestClassifier\nm = RandomForestClassifier(1).fit([[0.0], [1.0]] * 9, [0, 1] * 9)\nm.estimators_[0].tree_.children_left[0] = 10**9\nm.predict([[0.0]])",
        "a tree set": _TREE + "t.tree_ = 1",
        "settings without checks": "import sklearn\nsklearn.set_config(skip_parameter_validation=True)\nsklearn.get_config().__class__",
        "a context without checks": "import sklearn\nwith sklearn.config_context(assume_finite=True):\n    pass\nsklearn.get_config.__globals__",
        "the configuration's module": "import sklearn\nsklearn._config._threadlocal",
        "private names of a subclass": "from sklearn.base import BaseEstimator\nclass E(BaseEstimator): pass\nE()._get_param_names.__func__.__globals__",
        "the state of an estimator": _LEARNED + "m.__getstate__.__globals__",
        "a state set": _LEARNED + "m.__setstate__({'coef_': 1, '__class__': 1})\nm.__setstate__.__globals__",
        "attributes of an estimator as a dict": _LEARNED + "m.__dict__['coef_'] = open",
        "a fitted attribute set": _LEARNED + "m.coef_ = np.zeros((10**9,))",
        "support vectors": "from sklearn.svm import SVC\nm = SVC().fit([[0.0], [1.0]], [0, 1])\nm.support_ = np.array([10**9])\nm.n_support_[0] = 10**9\nm._n_support[0] = 10**9\nm.predict([[0.0]])",
        "a scorer's parts": "from sklearn.metrics import get_scorer\nget_scorer('accuracy')._score_func.__globals__",
        "a scorer by a lying text": "from sklearn.metrics import get_scorer\nget_scorer('accuracy').__class__.__init__.__globals__",
        "a function of a transformer": "from sklearn.preprocessing import FunctionTransformer\nFunctionTransformer(open).fit_transform(secret_path)",
        "a format in a name": "from sklearn.base import BaseEstimator\nclass E(BaseEstimator):\n    _doc_link_template = '{0.__class__}'\nE()._get_doc_link.__globals__",
        "a tree of neighbours": "from sklearn.neighbors import KDTree\nt = KDTree(np.eye(3))\nt.idx_array[0] = 10**9\nt.query(np.eye(3))",
        "a class by its name": "from sklearn.utils import estimator_checks\nestimator_checks.sys",
        "imports of the callback": "import sklearn.callback\nsklearn.callback",
    },
    "networkx": {
        **_files("networkx", "nx", _GRAPH_FILES),
        **_files("networkx", "nx", "nx.nx_agraph.read_dot(secret_path)\nnx.nx_pydot.read_dot(secret_path)\nnx.utils.open_file\nnx.utils.backends.os\nnx.config\nnx._dispatchable\nnx.lazy_imports.importlib\nnx.utils.decorators.argmap.compile\nnx.graph_atlas(3)"),
        **_inner_modules("networkx"),
        **_insides("networkx", "networkx.pagerank"),
        "another backend": "import networkx as nx\nnx.pagerank(nx.path_graph(3), backend='os')\nnx.utils.backends.sys",
        "source of a dispatched function": "import networkx as nx\nnx.pagerank.orig_func.__globals__",
        "private names of a subclass": "import networkx as nx\nclass G(nx.Graph): pass\nG().add_edge.__func__.__globals__",
    },
    "statsmodels": {
        **_files("statsmodels.api", "sm", "sm.load(pickle_path)\nsm.load_pickle(pickle_path)\nsm.datasets.get_rdataset('x')\nsm.webdoc('x')\nsm.show_versions()\nsm.test()\nsm.OLS([1.0, 2], [1.0, 3]).fit().save(target_path)\nsm.OLS([1.0, 2], [1.0, 3]).fit().load(pickle_path)\nsm.regression.linear_model.RegressionResults.load(pickle_path)\nsm.iolib.smpickle.load_pickle(pickle_path)\nsm.iolib.openfile.get_file_obj(secret_path)\nsm.iolib.table.csv2st(secret_path)\nsm.tools.web.webdoc('x')\nsm.tsa.x13_arima_analysis(pd.Series([1.0]))\nsm.graphics.hdrboxplot(np.eye(9))"),
        **_inner_modules("statsmodels"),
        **_insides("statsmodels.api", "statsmodels.api.OLS"),
        **{f"formula {text}": _FORMULA + f"try:\n    smf.ols({'y ~ ' + text!r}, data=f).fit()\nexcept Exception:\n    pass\ngot" for text in _FORMULAS},
        "a formula's data with a guard's name": _FORMULA + "smf.ols('y ~ got.append(x.__class__.__init__) or x', data={**dict(f), '.getattr': getattr, '.dunder': lambda v, n: type, 'got': got, 'x': f.x})\ngot",
        "the environment of a formula": _FORMULA + "m = smf.ols('y ~ x', data=f)\nm.data.design_info.factor_infos[list(m.data.design_info.factor_infos)[0]].state['eval_env'].namespace['__builtins__']",
        "builtins by the environment": _FORMULA + "import patsy\npatsy.EvalEnvironment.capture(0).namespace['__builtins__']",
        "an environment's eval": _FORMULA + "import patsy\npatsy.EvalEnvironment([{}]).eval('__import__(\"os\")')",
        "patsy's dmatrix": "import patsy\npatsy.dmatrix('__import__(\"os\").getcwd()', {})",
        "an environment far up": _FORMULA + "smf.ols('y ~ got.append(os) or x', data=f, eval_env=5)\ngot",
        "formulaic": "import formulaic\nformulaic.model_matrix('x', pd.DataFrame({'x': [1]}))",
    },
    "sympy": {
        **{f"sympify {text}": f"import sympy\nsympy.sympify({text!r})" for text in _EXPRESSIONS},
        **{f"S {text}": f"import sympy\nsympy.S({text!r})" for text in _EXPRESSIONS[:6]},
        **{f"parse_expr {text}": f"from sympy.parsing.sympy_parser import parse_expr\nparse_expr({text!r}, {{'secret_path': secret_path}})" for text in _EXPRESSIONS[:8]},
        **{f"subs {text}": f"import sympy\nx = sympy.Symbol('x')\nx.subs(x, {text!r})" for text in _EXPRESSIONS[:4]},
        **{
            f"lambdify {name} {module}": f"import sympy\nx = sympy.Symbol('x')\nsympy.lambdify(x, sympy.Function({name!r})(x), {module!r})({argument if argument != 'x' else '[]'})"
            for name, argument, module in _WRITTEN
        },
        **_files("sympy", "sp", "sp.preview(sp.Symbol('x'), viewer='file', filename=target_path)\nsp.plot(sp.Symbol('x'))\nsp.init_session()\nsp.test()\nsp.doctest()\nsp.source(sp.sin)\nsp.utilities.autowrap.ufuncify\nsp.utilities.codegen\nsp.utilities.runtests.sys\nsp.external.import_module('os')\nsp.printing.preview\nsp.parsing.sympy_parser.eval_expr('1', {}, {})\nsp.parsing.sympy_parser.eval_expr.args[0]\nsp.utilities.source.get_class('os.path')\nsp.var('y')\nsp.utilities.pkgdata.get_resource(secret_path)\nsp.interactive.printing\nsp.logic.utilities.dimacs.load_file(secret_path)\nsp.polys.polyconfig.configure()\nsp.Symbol('x').doit_numerically"),
        **_inner_modules("sympy"),
        **_insides("sympy", "sympy.solve"),
        **_insides("sympy", "sympy.Symbol"),
        "a printer of one's own": "import sympy\nclass P:\n    def doprint(self, e): return '__import__(\"os\").getcwd()'\n    def __init__(self, *a): pass\nsympy.lambdify(sympy.Symbol('x'), sympy.Symbol('x'), printer=P())(1)",
        "a name that is code": "import sympy\nsympy.lambdify(sympy.Symbol('x'), sympy.Function('(lambda: ().__class__.__base__.__subclasses__())')(sympy.Symbol('x')))(1)",
        "a symbol that is code": "import sympy\ns = sympy.Symbol('__import__(\"os\").getcwd()')\nsympy.lambdify([], s)()",
        "a printed method": "import sympy\nclass E(sympy.Expr):\n    def _numpycode(self, printer): return '__import__(\"os\").getcwd()'\nsympy.lambdify([], E())()",
        "a printed function": "import sympy\nclass F(sympy.Function):\n    def _numpycode(self, printer): return 'open(secret_path)'\nsympy.lambdify(sympy.Symbol('x'), F(sympy.Symbol('x')))(1)",
        "a dictionary of functions": "import sympy\nx = sympy.Symbol('x')\nsympy.lambdify(x, sympy.Function('f')(x), [{'f': open}])(secret_path)",
        "cse of one's own": "import sympy\nx = sympy.Symbol('x')\nsympy.lambdify(x, x, cse=lambda e: ([], ['__import__(\"os\")']))(1)",
        "a docstring": "import sympy\nx = sympy.Symbol('x\"\"\"+__import__(\"os\")+\"\"\"')\nsympy.lambdify(x, x)(1)\nsympy.lambdify(x, x).__globals__",
        "a method _sympy_": "import sympy\nclass A:\n    def _sympy_(self): return '__import__(\"os\")'\nsympy.sympify(A())\nsympy.sympify.__globals__",
        "a text by its representation": "import sympy\nclass A:\n    def __str__(self): return '().__class__.__bases__[0].__subclasses__()'\nsympy.sympify(A())",
        "a text by __repr__ of a list": "import sympy\nsympy.Matrix([['().__class__.__bases__']])",
        "an argument that is code": "import sympy\nsympy.lambdify('x=__import__(\"os\")', 'x')()",
        "identify": "import mpmath\nmpmath.identify(0.5, ['__import__(\"os\").getcwd()'])",
        "identify by a text": "import mpmath\nmpmath.mp.identify(0.5, '__import__(\"os\").getcwd()')",
        "identify by a tuple": "import mpmath\nmpmath.fp.identify(0.5, ('open(secret_path).read()',))",
        "identify by a dict of its own": "import mpmath\nclass D(dict):\n    def __iter__(self):\n        return iter(['open(secret_path).read()'])\nmpmath.mp.identify(0.5, D(a=1))",
        "identify by the context": "import mpmath\nmpmath.mp.identify(0.5, ['open(secret_path).read()'])",
        "mpmath's plot": "import mpmath\nmpmath.plot(mpmath.sin, file=target_path)",
        "mpmath's library": "import mpmath\nmpmath.libmp.backend",
        "the context's module": "import mpmath\nmpmath.mp.zeta.__func__.__globals__",
    },
    "seaborn": {
        **_files("seaborn", "sns", "sns.load_dataset('tips')\nsns.get_dataset_names()\nsns.utils.get_data_home(target_path)\nsns.utils.urlretrieve\nsns.utils.os\nsns.external\nsns.cm\nsns.miscplot.dogplot()\nsns.dogplot()"),
        **_files("seaborn.objects", "so", "so.Plot(pd.DataFrame({'x': [1]}), x='x').add(so.Dot()).save(target_path)"),
        **_inner_modules("seaborn"),
        **_insides("seaborn", "seaborn.histplot"),
        "a figure in a file": "import seaborn as sns\nsns.FacetGrid(pd.DataFrame({'x': [1]})).figure.canvas.print_png(target_path)",
        "a style that is a file": "import seaborn as sns\nsns.set_style(secret_path)\nimport matplotlib\nmatplotlib.rc_file(secret_path)",
    },
}  # fmt: skip
