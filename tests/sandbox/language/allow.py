"""Makes the allow-lists of the libraries of `byref[science]`, into byref_sandbox/language/science/names.json: `make allowed`.

A survey follows each function of a library to what it reaches (`byref_sandbox.code.survey`). Public names that reach nothing are
allowed; methods that reach something are replaced. What was looked at by hand is in the tables below, each entry with its reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import subprocess
import sys
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import byref_sandbox
from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.code.survey import Survey, Surveyed
from byref_sandbox.code.words import words

TARGET = Path(byref_sandbox.__file__).parent / "language/science/names.json"

LOADED: Mapping[str, str] = {
    "scipy": """cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg linalg.interpolative ndimage
        optimize optimize.elementwise signal signal.windows sparse sparse.csgraph sparse.linalg spatial spatial.distance spatial.transform special stats
        stats.contingency stats.distributions stats.mstats stats.qmc stats.sampling""",
    "sklearn": """base calibration cluster compose covariance cross_decomposition datasets decomposition discriminant_analysis dummy
        ensemble exceptions experimental.enable_iterative_imputer experimental.enable_halving_search_cv feature_extraction
        feature_extraction.text feature_extraction.image feature_selection gaussian_process gaussian_process.kernels impute inspection
        isotonic kernel_approximation kernel_ridge linear_model manifold metrics metrics.cluster metrics.pairwise mixture model_selection
        multiclass multioutput naive_bayes neighbors neural_network pipeline preprocessing random_projection semi_supervised svm tree
        utils utils.class_weight utils.extmath utils.multiclass utils.validation utils.random utils.sparsefuncs utils.metaestimators""",
    "statsmodels": """api formula.api tsa.api graphics.api stats.api stats.outliers_influence stats.multivariate_tools
        stats.dist_dependence_measures discrete.diagnostic distributions.copula.api graphics.dotplots graphics.mosaicplot
        graphics.plot_grids graphics.tukeyplot miscmodels.api miscmodels.ordinal_model multivariate.plots othermod.api regression.dimred
        regression.process_regression regression.rolling treatment.treatment_effects tsa.forecasting.theta tsa.varma_process
        tsa.vector_ar.api tsa.descriptivestats""",
    "seaborn": "objects",
    "sympy": "abc stats ntheory combinatorics physics.units parsing.sympy_parser geometry",
    "networkx": """algorithms.community algorithms.bipartite algorithms.approximation algorithms.isomorphism algorithms.flow
        algorithms.components algorithms.shortest_paths algorithms.centrality algorithms.tree algorithms.traversal generators
        drawing.layout utils classes""",
    "mpmath": "",
    "patsy": "",
}
"""By library, its parts that are loaded with it. Of all modules that come with them, the public ones are given to code."""

LEFT_OUT = words("""scipy.io scipy.datasets scipy.misc scipy.odr scipy.weave scipy.linalg.blas scipy.linalg.lapack scipy.linalg.cython_blas
    scipy.linalg.cython_lapack scipy.special.cython_special scipy.optimize.cython_optimize scipy.sparse.sputils scipy.interpolate.dfitpack
    scipy.version scipy.fftpack.pseudo_diffs
    sklearn.externals sklearn.utils.estimator_checks sklearn.utils.discovery sklearn.utils.parallel sklearn.utils.fixes sklearn.callback
    sklearn.conftest sklearn.utils.murmurhash sklearn.utils.arrayfuncs sklearn.utils.graph
    statsmodels.sandbox statsmodels.iolib.openfile statsmodels.iolib.smpickle statsmodels.tools.web statsmodels.tools.print_version
    statsmodels.tools.parallel statsmodels.tsa.x13 statsmodels.datasets statsmodels.compat statsmodels.tools.docstring
    statsmodels.formula.formulatools statsmodels.tools.testing statsmodels.tools.decorators statsmodels.base.wrapper statsmodels.base.data
    statsmodels.base.l1_cvxopt statsmodels.base.shrink_pickle statsmodels.regression.recursive_ls.tests
    seaborn.external seaborn.cm seaborn.widgets seaborn.miscplot
    sympy.printing.preview sympy.printing.gtk sympy.printing.llvmjitcode sympy.testing sympy.utilities.autowrap sympy.utilities.codegen
    sympy.utilities.runtests sympy.utilities.decorator sympy.utilities.source sympy.utilities.magic sympy.utilities.matchpy_connector
    sympy.utilities.pkgdata sympy.utilities.mathml sympy.interactive sympy.external sympy.release sympy.multipledispatch
    sympy.strategies sympy.core.decorators sympy.core.cache sympy.core._print_helpers sympy.assumptions.ask_generated sympy.polys.polyconfig sympy.polys.polyutils sympy.polys.compatibility
    sympy.printing.printer sympy.printing.codeprinter sympy.printing.pycode sympy.printing.numpy sympy.printing.theanocode
    sympy.printing.aesaracode sympy.printing.dot sympy.printing.tableform sympy.plotting sympy.unify sympy.this
    sympy.deprecated sympy.polys.domains.gmpyintegerring sympy.core.compatibility sympy.core.random
    networkx.drawing.nx_agraph networkx.drawing.nx_pydot networkx.utils.backends networkx.utils.decorators
    networkx.utils.configs networkx.lazy_imports networkx.exception.backends networkx.convert networkx.relabel networkx.conftest
    mpmath.visualization mpmath.usertools
    patsy.eval patsy.util patsy.parse_formula patsy.infix_parser patsy.tokens patsy.compat patsy.mgcv_cubic_splines patsy.user_util
    patsy.test_build""")
"""Modules that code does not get: machinery, files, and compiled functions that trust what they are given."""

HIDDEN = words("""sympy.core.sympify sympy.core.basic sympy.core.core sympy.core.assumptions sympy.core.parameters sympy.core.kind
    networkx.readwrite networkx.drawing networkx.convert_matrix""")
"""Modules that code does not get, while other modules may hand on what is in them."""
REFUSED = {
    "scipy": """LowLevelCallable show_config test get_include PytestTester construct_fast show_options cython_optimize
        get_blas_funcs get_lapack_funcs find_best_blas_type save_npz load_npz""",
    "sklearn": """show_versions register_parallel_backend parallel_backend all_estimators
        estimator_html_repr gen_batches_ load_svmlight_files Memory check_memory deprecated _safe_indexing delayed
        murmurhash3_32 parallel_helper Parallel clear_data_home get_data_home DistanceMetric BallTree KDTree""",
    "statsmodels": "test webdoc load load_pickle save_pickle datasets show_versions PytestTester add_trend_ ",
    "seaborn": "load_dataset get_dataset_names get_data_home dogplot",
    "sympy": """preview test doctest source init_session init_printing interactive_traversal
        print_gtk plot plot3d plot_parametric plot_implicit plot3d_parametric_line plot3d_parametric_surface plotting var
        pager_print print_ccode_ register_handler textplot PlotGrid autowrap ufuncify pycode threaded xthreaded memoize_property
        public lazy_function cacheit dotprint evalf""",
    "networkx": """write_graph6 read_graph6 config backends""",
    "mpmath": "runtests doctests plot cplot splot identify",
    "patsy": """dmatrix dmatrices incr_dbuilder incr_dbuilders EvalEnvironment EvalFactor design_matrix_builders build_design_matrices
        ModelDesc DesignInfo test""",
}
"""Names that code does not get of any module of a library, whatever the survey says. Some stand in `walls` in another form."""

FINE = {
    # It is compared with classes of libraries that may not be loaded; no module is given out.
    "sklearn.utils._dataframe:is_pandas_df_or_series": "asks whether a library is loaded",
    "sklearn.utils._dataframe:is_polars_df_or_series": "asks whether a library is loaded",
    "sklearn.utils._dataframe:is_pandas_df": "asks whether a library is loaded",
    "sklearn.utils._dataframe:is_polars_df": "asks whether a library is loaded",
    "sklearn.utils._dataframe:is_pyarrow_data": "asks whether a library is loaded",
    "sklearn.utils._indexing:_safe_indexing": "asks whether a library is loaded",
    "sklearn.utils._set_output:check_library_installed": "imports by a name out of a fixed list",
    "sklearn.utils.validation:check_memory": "replaced: no memory on disk",
    "sklearn.feature_extraction.text:_VectorizerMixin.decode": "replaced: reads no file",
    "sklearn.metrics._ranking:auc": "asks whether an array is a memmap",
    "sklearn.datasets._base:load_csv_data": "replaced: preloaded",
    "sklearn.datasets._base:load_gzip_compressed_csv_data": "replaced: preloaded",
    "sklearn.datasets._base:load_linnerud": "replaced: preloaded",
    "sklearn.datasets._base:load_descr": "replaced: preloaded",
    "sklearn.utils._repr_html.estimator:_get_css_style": "a file of its own, read when it is imported",
    "sklearn.utils._repr_html.estimator:estimator_html_repr": "a file of its own, only for HTML",
    "scipy.stats._distn_infrastructure:rv_generic._attach_argparser_methods": "runs a template of its own; names of shapes are checked",
    "scipy.stats._distn_infrastructure:rv_generic._construct_argparser": "names of shapes are checked",
    "scipy.sparse._sputils:is_pydata_spmatrix": "asks whether a library is loaded",
    "scipy._lib.deprecation:_sub_module_deprecation": "imports by a name out of its own source",
    "scipy._lib._util:MapWrapper.__init__": "replaced: no processes",
    "scipy._lib._docscrape:ClassDoc.__init__": "documentation",
    "scipy._lib._bunch:_make_tuple_bunch": "runs a template of its own, when it is imported",
    "scipy._lib._ccallback:LowLevelCallable._parse_callback": "takes only what ctypes and cffi make, which code has not",
    "scipy.optimize._nonlin:_nonlin_wrapper": "runs a template of its own, when it is imported",
    "scipy.optimize._optimize:_clip_x_for_func": "a name: eval is a variable there",
    "scipy.ndimage._support_alternative_backends:delegate_xp": "arrays of other libraries, which code has not",
    "scipy.signal._support_alternative_backends:delegate_xp": "arrays of other libraries, which code has not",
    "scipy.special._support_alternative_backends:_FuncInfo.wrapper": "looks up a function of its own by its own name",
    "scipy.special._support_alternative_backends:_FuncInfo._wrapper_for": "looks up a function of its own by its own name",
    "scipy.stats._continuous_distns:genhyperbolic_gen._integrate_pdf": "hands its own numbers to its own compiled function",
    "scipy.stats._continuous_distns:geninvgauss_gen._cdf": "hands its own numbers to its own compiled function",
    "scipy.stats._continuous_distns:studentized_range_gen._munp": "hands its own numbers to its own compiled function",
    "scipy.stats._continuous_distns:studentized_range_gen._pdf": "hands its own numbers to its own compiled function",
    "scipy.stats._continuous_distns:studentized_range_gen._cdf": "hands its own numbers to its own compiled function",
    "statsmodels.graphics.utils:_import_mpl": "imports matplotlib, which has walls of its own",
    "statsmodels.stats.multitest:multipletests": "collects garbage",
    "statsmodels.tools.parallel:parallel_func": "replaced: one process",
    "statsmodels.iolib.openfile:get_file_obj": "replaced: no files",
    "networkx.utils.backends:_get_backends": "only when it is imported",
    "networkx.utils.decorators:argmap.compile": "runs a template of its own over names that it makes",
    "networkx.utils.decorators:argmap.assemble": "runs a template of its own over names that it makes",
    "networkx.algorithms.isomorphism.matchhelpers:copyfunc": "copies its own functions, when it is imported",
    "networkx.lazy_imports:attach": "only when it is imported",
    "networkx.lazy_imports:_lazy_import": "only when it is imported",
    "seaborn.external.docscrape:ClassDoc.__init__": "documentation",
    "seaborn._core.plot:Plotter._repr_png_": "makes a PNG in memory",
    "sympy.multipledispatch.core:dispatch": "only when it is imported",
    "sympy.parsing.sympy_parser:parse_expr": "replaced: what the text says is checked",
    "sympy.parsing.sympy_parser:eval_expr": "replaced: what the text says is checked",
    "sympy.utilities.decorator:public": "only when it is imported",
    "sympy.external.importtools:import_module": "replaced: imports only what is loaded",
    "sympy.core.cache:lazy_function": "only when it is imported",
    "sympy:__sympy_debug": "only when it is imported",
    "sympy.external.importtools:__sympy_debug": "only when it is imported",
    "sympy.utilities.lambdify:lambdify": "replaced: its source is checked",
    "sympy.solvers.ode.ode:dsolve": "looks up a function of its own by a name out of its own list",
    "sympy.solvers.ode.ode:_helper_simplify": "looks up a function of its own by a name out of its own list",
    "sympy.solvers.pde:_helper_simplify": "looks up a function of its own by a name out of its own list",
    "sympy.solvers.ode.lie_group:infinitesimals": "looks up a function of its own by a name out of its own list",
    "sympy.polys.monomials:MonomialOps._build": "runs a template of its own over numbers of variables",
    "sympy.polys.ring_series:_rs_series": "replaced by the check of sympify",
    "sympy.ntheory.partitions_:_partition": "changes a variable of its own",
    "sympy.printing.mathml:MathMLPrinterBase.__init__": "makes XML, reads none",
    "sympy.printing.pretty.stringpict:stringPict.terminal_width": "asks for the width of a terminal",
    "sympy.matrices.determinant:_det": "compares the type of a function",
    "sympy.matrices.eigen:_eigenvals_list": "compares the type of a function",
    "sympy.matrices.eigen:_eigenvals_dict": "compares the type of a function",
    "sympy.matrices.eigen:_eigenvects": "compares the type of a function",
    "sympy.matrices.reductions:_echelon_form": "compares the type of a function",
    "sympy.matrices.reductions:_rank": "compares the type of a function",
    "sympy.matrices.reductions:_rref": "compares the type of a function",
    "mpmath.ctx_mp_python:binary_op": "only when it is imported",
    "mpmath.libmp.backend:exec_": "only when it is imported",
    "mpmath.functions.zeta:_load_zeta_zeros": "refused: it reads a page",
    "patsy.eval:EvalEnvironment.capture": "replaced: no frames",
    "patsy.eval:EvalEnvironment.eval": "replaced: the code is checked",
    "patsy.util:assert_no_pickling": "a test of its own",
    "patsy.util:repr_pretty_delegate": "asks whether a library is loaded",
}
"""Functions that reach something and are harmless as they are used, with the reason: each was read."""

_HAND_ON = words("seaborn.objects")
"""Modules whose names come from private modules."""
_TESTS = words("tests testing conftest _testutils _testing")
_SLOW = (
    "sympy.physics.",
    "sympy.stats.sampling.",
    "sympy.holonomic",
    "sympy.categories",
    "sympy.parsing.",
    "sympy.plotting",
)
"""Modules that are not loaded for the functions that import them: hardly anybody calls these, and loading takes long."""
_DEPTH = {"sympy": 3, "networkx": 3, "mpmath": 1, "patsy": 1}
"""Parts of a module's name, of libraries whose top has all that code uses."""
_PLAIN = (int, float, complex, str, bool, tuple, list, dict, frozenset, set)


def lists() -> dict[str, Any]:
    """The allow-lists of all libraries, as they are written down."""
    made: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in LOADED:
            loaded = _loaded(library)
            found = Survey([library], FINE, _UNREAD).result()
            made[library] = {
                "loads": loaded[1:],
                "modules": _modules(library, found),
                "replaced": _replaced(library, found),
                "imports": sorted(_imports(library, found) | _of_helper(library)),
            }
    return {"python": of_python(), **made}


def _loaded(library: str) -> list[str]:
    names = [library, *(f"{library}.{part}" for part in LOADED[library].split())]
    for name in names:
        importlib.import_module(name)
    return names


def of_python() -> list[str]:
    """Modules of Python's own that the libraries import and that a root zygote has not imported."""
    for library in LOADED:
        _loaded(library)
    known = subprocess.run(
        [sys.executable, "-c", _AS_A_ROOT], capture_output=True, text=True, check=True
    ).stdout.split()
    standard = (name for name in sys.modules if name.partition(".")[0] in sys.stdlib_module_names)
    return sorted({*standard} - {*known} - _OWN_IMPORTS | _OF_OTHER_PYTHONS)


_AS_A_ROOT = """
from byref_sandbox.language.policy import Language
from byref_sandbox.zygote.warm import warm
import sys
warm(Language())
print(*sys.modules)
"""
_OWN_IMPORTS = words("__main__ __mp_main__ subprocess")
_OF_OTHER_PYTHONS = words("importlib.resources._adapters")
"""What the libraries import under another Python than the one that makes the lists: 3.13 imports it to read their data files."""


_UNREAD = words("""scipy.io scipy.datasets scipy.misc scipy._lib.array_api_extra scipy._lib.array_api_compat scipy._lib.pyprima
    statsmodels.sandbox sympy.testing sympy.plotting.pygletplot sympy.utilities._compilation sympy.parsing.latex sympy.parsing.c
    sympy.parsing.fortran sympy.parsing.autolev""")


def _modules(library: str, found: Surveyed) -> dict[str, str]:
    made = {}
    refused = words(REFUSED[library])
    for name in sorted(sys.modules):
        if not (name == library or name.startswith(f"{library}.")) or name not in found.modules:
            continue
        parts = name.split(".")
        if any(part.startswith(("_", "test")) for part in parts) or _is_out(name) or name in HIDDEN:
            continue
        module = sys.modules[name]
        listed = getattr(module, "__all__", None)
        own = [n for n in (dir(module) if listed is None else listed) if not n.startswith("_")]
        if len(parts) > _DEPTH.get(library, 9):
            continue
        names = sorted(
            n for n in {*own} if n not in refused and _is_allowed(module, n, library, listed is not None, found)
        )
        if names or ".experimental." in name:  # those are imported for what that does
            made[name] = " ".join(names)
    return made


_why: dict[str, str] = {}


def _is_out(module: str) -> bool:
    return any(module == out or module.startswith(f"{out}.") for out in LEFT_OUT)


def _is_allowed(module: types.ModuleType, name: str, library: str, is_listed: bool, found: Surveyed) -> bool:
    if not hasattr(module, name):
        return False
    value = getattr(module, name)
    if isinstance(value, types.ModuleType) or (isinstance(value, type) and issubclass(value, type)):
        return False
    if isinstance(value, _PLAIN):
        return is_listed or isinstance(value, (int, float, complex))
    origin = getattr(value, "__module__", None)
    kind = value if isinstance(value, type) else type(value)
    # Without a list of its own, a module has what it defines, and what it has of public modules of the library. Instances, such
    # as a distribution, have their class's module; others were imported from elsewhere.
    is_own = f"{origin}.".startswith(f"{module.__name__}.") or (
        str(origin).startswith(f"{library}.") and ("._" not in str(origin) or module.__name__ in _HAND_ON)
    )
    if not (is_own or is_listed) and (callable(value) or not str(kind.__module__).startswith(library)):
        return False
    if _is_out(str(origin)):
        return False
    with_place = inspect.unwrap(value) if callable(value) else value
    place = f"{getattr(with_place, '__module__', '')}:{getattr(with_place, '__qualname__', '')}"
    why = found.reached.get(place) or found.reached.get(f"{kind.__module__}:{kind.__qualname__}")
    if why:
        _why[f"{module.__name__}.{name}"] = why
    return why is None


def _replaced(library: str, found: Surveyed) -> dict[str, str]:
    """Public methods that reach something, of classes that can be imported."""
    made = {}
    for place, why in found.reached.items():
        module, _, name = place.partition(":")
        owner, _, method = name.partition(".")
        if not method or (method.startswith("_") and method != "__call__") or module not in sys.modules:
            continue
        kind = getattr(sys.modules[module], owner, None)
        if isinstance(kind, type) and method in vars(kind):
            made[place] = why
    return dict(sorted(made.items()))


def _imports(library: str, found: Surveyed) -> set[str]:
    """Modules that its functions import, of those that were loaded here or that belong to it."""
    names = set()
    for name in found.imported:
        top = name.partition(".")[0]
        is_known = top in (library, *LIBRARIES) and name in found.modules and not _is_out(name)
        if is_known and not name.startswith(_SLOW) and not _TESTS & {*name.split(".")}:
            names.add(name)
    return names


def _of_helper(library: str) -> set[str]:
    """What narwhals imports when scikit-learn uses it to look at a table, as far as it is about pandas."""
    if library != "sklearn" or importlib.util.find_spec("narwhals") is None:
        return set()
    found = Survey(["narwhals"]).result()
    others = words("polars duckdb dask spark pyspark ibis arrow sql sqlframe modin cudf")
    names = {name for name in found.imported & found.modules if name.startswith("narwhals.")}
    return {name for name in names if not any(other in name for other in others)}


def written(made: dict[str, Any]) -> str:
    """The lists as text."""
    return json.dumps(made, indent=1) + "\n"


def refused() -> dict[str, str]:
    """What a public name of an allowed module reaches, if it is refused for that: for whoever looks over the lists."""
    return _why


if __name__ == "__main__":
    text = written(lists())
    TARGET.write_text(text)
    for library, made in list(json.loads(text).items())[1:]:
        count = sum(len(names.split()) for names in made["modules"].values())
        for name, why in refused().items():
            if name.startswith(library) and "--why" in sys.argv:
                print(f"  {name}: {why}")
        print(f"{library}: {count:,} names of {len(made['modules'])} modules, {len(made['replaced'])} methods replaced")
