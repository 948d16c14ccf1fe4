"""Attacks on what a session's graph has of libraries: models, distributions, figures, styles, loggers and their settings."""

from __future__ import annotations

from typing import Final

from attacks import EMPTY, NONE, TRUE, call, known, make, number, plain, table, text, values

_LOUD: Final = "class C:\n    def {0}(self, *a, **k):\n        print('RAN')\n        return {1}\n"

# With the language intact. What a cell leaves is written, read and written again: nothing may print RAN meanwhile.
INTACT: Final[dict[str, str]] = {
    "a model with hooks in it": "from sklearn.preprocessing import FunctionTransformer\n" + _LOUD.format("__call__", "1") + "m = FunctionTransformer(C())",
    "a model that a function is in": "from sklearn.preprocessing import FunctionTransformer\ndef f(x):\n    print('RAN')\nm = FunctionTransformer(f)",
    "a model's parameter that compares": "from sklearn.linear_model import Ridge\n" + _LOUD.format("__eq__", "True") + "m = Ridge(alpha=C())",
    "a search over what compares": "from sklearn.model_selection import GridSearchCV\nfrom sklearn.svm import SVC\n" + _LOUD.format("__len__", "1") + "m = GridSearchCV(SVC(), {'C': [C()]})",
    "an attribute that is a hook": "from sklearn.linear_model import Ridge\nm = Ridge()\nm.__getstate__ = lambda: print('RAN')",
    "an attribute by setattr": "from sklearn.linear_model import Ridge\nm = Ridge()\nsetattr(m, '__reduce_ex__', lambda p: print('RAN'))",
    "a model's parameter that is a hook": "from sklearn.linear_model import Ridge\nm = Ridge()\nm.set_params(__reduce__=1)",
    "a network of what compares": "import networkx as nx\n" + _LOUD.format("__eq__", "True") + "    __hash__ = object.__hash__\ng = nx.Graph()\ng.add_edge(C(), C(), w=C())",
    "a network's attributes": "import networkx as nx\n" + _LOUD.format("__getattr__", "None") + "g = nx.Graph()\ng.graph['c'] = C()\ng.add_node(1, c=C())",
    "a distribution of what converts": "from scipy import stats\n" + _LOUD.format("__float__", "1.0") + "d = stats.norm(C())",
    "a distribution of what is an array": "from scipy import stats\n" + _LOUD.format("__array__", "np.array(1.0)") + "d = stats.gamma(C())",
    "a distribution of what compares": "from scipy import stats\n" + _LOUD.format("__gt__", "True") + "d = stats.expon(scale=C())",
    "what was found, with more in it": "from scipy import optimize\n" + _LOUD.format("__iter__", "iter(())") + "r = optimize.minimize(lambda v: v[0] ** 2, [1.0])\nr['more'] = C()",
    "a solver's function": "from scipy import optimize\nseen = []\ndef f(v):\n    print('RAN') if seen else None\n    return v[0] ** 2\nr = optimize.minimize(f, [1.0])\nseen.append(1)",
    "an expression's text": "import sympy\ne = sympy.Symbol('print(\"RAN\")')",
    "a window's table": _LOUD.format("__eq__", "True") + "t = pd.DataFrame({'a': [1, 2]})\nt.attrs['c'] = C()\nw = t.rolling(2)",
    "a window's indexer": "class W(pd.api.indexers.BaseIndexer):\n    def get_window_bounds(self, *a, **k):\n        print('RAN')\nw = pd.Series([1, 2]).rolling(W())",
    "groups by a function": "seen = []\ndef f(x):\n    print('RAN') if seen else None\n    return x\ng = pd.DataFrame({'a': [1, 2]}).groupby(f)\nlen(g)\nseen.append(1)",
    "a logger's level that compares": "import logging\n" + _LOUD.format("__ne__", "True") + "logging.getLogger('a').level = C()",
    "a logger's switch that compares": "import logging\n" + _LOUD.format("__eq__", "True") + "logging.getLogger('a').propagate = C()\nlogging.getLogger('b').disabled = C()",
    "a logger's filters": "import logging\n" + _LOUD.format("filter", "True") + "logging.getLogger('a').addFilter(C())",
    "a logger's handlers": "import logging\nclass H(logging.Handler):\n    def emit(self, record):\n        print('RAN')\n    def __eq__(self, o):\n        print('RAN')\n    def __hash__(self):\n        return 1\nlogging.getLogger('a').addHandler(H())",
    "a list of handlers": "import logging\n" + _LOUD.format("__len__", "1") + "logging.getLogger('a').handlers = C()",
    "a logger's formatter": "import logging\nclass F(logging.Formatter):\n    def format(self, record):\n        print('RAN')\n        return ''\nh = logging.StreamHandler()\nh.setFormatter(F())\nlogging.getLogger('a').addHandler(h)",
    "a database's functions": "import sqlite3\n" + _LOUD.format("__call__", "1") + "con = sqlite3.connect(':memory:')\ncon.row_factory = C()\nseen = []\ndef f(v):\n    print('RAN') if seen else None\n    return v\ncon.create_function('f', 1, f)\ncon.create_collation('c', lambda a, b: f(0))\ncon.execute('create table t (a)')\ncon.executemany('insert into t values (?)', [(n,) for n in range(9)])\ncur = con.execute('select f(a) from t')\nseen.append(1)",
    "a query without end": "import sqlite3\ncon = sqlite3.connect(':memory:')\ncur = con.execute('with recursive c(x) as (select 1 union all select x + 1 from c) select x from c where x < 2')",
    "a writer's end of line": "import csv, io\nclass S(str):\n    def __str__(self):\n        print('RAN')\n        return ''\n    def __len__(self):\n        print('RAN')\n        return 1\nw = csv.writer(io.StringIO(), lineterminator=S('x'))",
    "a writer's dialect": "import csv, io\nclass D(csv.Dialect):\n    quoting = 1\n    delimiter = ','\n    lineterminator = 'x'\n    quotechar = '\"'\n    def __init__(self):\n        print('RAN') if 0 else None\nw = csv.writer(io.StringIO(), D)",
    "a style's function": "seen = []\ndef f(v):\n    print('RAN') if seen else None\n    return ''\ns = pd.DataFrame({'a': [1]}).style.map(f)\ns.to_html()\nseen.append(1)",
    "a style's formatter": "def f(v):\n    print('RAN')\n    return ''\ns = pd.DataFrame({'a': [1]}).style.format(f)",
    "an axis' functions": "import matplotlib.pyplot as plt\nseen = []\ndef f(v):\n    print('RAN') if seen else None\n    return v\nfig, ax = plt.subplots()\ntop = ax.secondary_xaxis('top', functions=(f, f))\nfig.canvas.draw()\nseen.append(1)",
    "a colormap's function": "import matplotlib as mpl\nfrom matplotlib.colors import LinearSegmentedColormap\nseen = []\ndef f(x):\n    print('RAN') if seen else None\n    return x\nm = LinearSegmentedColormap('m', {'red': f, 'green': f, 'blue': f})\nm(0.5)\nseen.append(1)",
    "a plot's data": "import seaborn.objects as so\n" + _LOUD.format("__iter__", "iter(())") + "p = so.Plot(x=[1, 2]).label(x=C())",
    "a grid's function": "import seaborn as sns\nseen = []\ndef f(*a, **k):\n    print('RAN') if seen else None\ng = sns.FacetGrid(pd.DataFrame({'x': [1, 2], 'g': ['a', 'b']}), col='g')\ng.map(f, 'x')\nseen.append(1)",
}  # fmt: skip


def _distribution(name: str, *arguments: bytes, options: bytes = EMPTY) -> bytes:
    return make("distribution", text(name), values(*arguments), options)


def _function(owner: str, name: str, at: int = -1) -> bytes:
    return make("library_function", known(owner), text(name), number(at))


def _logging(settings: object, loggers: bytes) -> bytes:
    return values(plain(settings), loggers)


_PLAIN_LOGS: Final = {"level": 30, "format": "%(message)s", "datefmt": None, "style": "%", "disabled": -1}
_FIGURE: Final = call(known("drawings:matplotlib.figure:Figure"))
_NAMESPACE: Final = make("namespace")
_TABLE: Final = call(known("pandas:DataFrame"), table(a=values(number(1), number(2))))
_TEXT: Final = call(known("io:StringIO"))
_CLASS: Final = values(text("C"), values(known("builtins:object")), table(__getattribute__=known("builtins:len")))

# With the language fallen: (stream, code that uses it as `forged`). The stream is lost, or what it gives is nothing that the
# language's own code could not have.
FORGED: Final[dict[str, tuple[bytes, str]]] = {
    "a module's own attributes": (_distribution("__getattribute__", text("__dict__")), "forged"),
    "a module's class": (_distribution("__class__", text("x"), EMPTY), "forged"),
    "the class of a module": (_distribution("__getattribute__", text("__class__")), "forged('x', {})"),
    "an attribute of a module": (_distribution("__setattr__", text("norm"), known("builtins:len")), "forged"),
    "an attribute of a module that goes": (_distribution("__delattr__", text("norm")), "forged"),
    "a module taken apart": (_distribution("__reduce_ex__", number(2)), "forged"),
    "a test that is no distribution": (_distribution("ttest_ind", values(number(1)), values(number(2))), "forged"),
    "a module's attribute as numbers": (make("tabulated", text("__dict__"), EMPTY), "forged"),
    "a distribution with code as its shapes": (
        make("tabulated", text("rv_sample"), table(shapes=text("a, b=__import__('os').system('x')"))),
        "forged",
    ),
    "a test with fixed numbers": (make("frozen", known("json:"), values(), EMPTY), "forged"),
    "a class of anything as a variable": (make("variable", known("builtins:object"), EMPTY, EMPTY), "forged"),
    "a model as a variable": (make("variable", known("sklearn.base:BaseEstimator"), EMPTY, EMPTY), "forged"),
    "a function of code": (make("undefined_function", text("__import__('os')"), EMPTY), "forged(1)"),
    "a function with a hook": (
        make("undefined_function", text("f"), table(_sage_=known("builtins:len"), __init_subclass__=known("builtins:len"))),
        "forged(1)",
    ),
    "a helper that is a class": (make("helper", text("set_output"), values(known("builtins:object"), text("x"))), "forged"),
    "a helper with a module for a key": (make("helper", text("set_output"), values(known("json:"), known("json:"))), "forged"),
    "a distribution of no name": (make("distribution", number(1), values(), EMPTY), "forged"),
    "a distribution of options that are none": (make("distribution", text("norm"), values(), values()), "forged"),
    "a distribution that is a module": (_distribution("contingency"), "forged"),
    "a distribution of a private name": (_distribution("_continuous_distns"), "forged"),
    "a database of text": (make("connection", text(""), number(0), text("SQLite format 3"), values(), values(NONE, number(0), NONE)), "forged"),
    "a database of a class": (make("connection", text(""), number(0), known("builtins:object"), values(), values(NONE, number(0), NONE)), "forged"),
    "a database by a level that is SQL": (make("connection", text("; ATTACH '/etc/passwd' AS p"), number(0), NONE, values(), values(NONE, number(0), NONE)), "forged.execute('create table t (a)')\nforged.execute('insert into t values (1)')"),
    "a cursor of a list": (make("cursor", b"]", number(1), NONE, number(0), NONE, b"]"), "forged"),
    "a cursor of a module": (make("cursor", known("json:"), number(1), NONE, number(0), NONE, b"]"), "forged"),
    "a writer into a list": (make("csv_writer", b"]", EMPTY), "forged"),
    "a writer into a module": (make("csv_writer", known("json:"), EMPTY), "forged"),
    "a writer into what is like a text": (make("csv_writer", _NAMESPACE, EMPTY), "forged"),
    "a writer of options that are none": (make("csv_writer", _TEXT, values()), "forged"),
    "a writer of a dialect that is a module": (make("csv_writer", _TEXT, table(dialect=known("json:"))), "forged"),
    "a writer of an unknown dialect": (make("csv_writer", _TEXT, table(dialect=text("__import__"))), "forged"),
    "a logger of no name": (make("logger", number(5)), "forged.handlers"),
    "a logger by a list": (make("logger", b"]"), "forged"),
    "a function of a class that is not listed": (_function("pandas:DataFrame", "to_csv"), "forged(pd.DataFrame({'a': [1]}), target_path)"),
    "a function of a module": (make("library_function", known("json:"), text("dumps"), number(-1)), "forged"),
    "a formula's own evaluation": (_function("patsy.eval:EvalEnvironment", "eval"), "from types import SimpleNamespace\nforged(SimpleNamespace(_namespaces=[]), \"__import__('os').getcwd()\")"),
    "a formula's frames": (_function("patsy.eval:EvalEnvironment", "capture"), "forged"),
    "a formula's frames as they were": (_function("patsy.eval:EvalEnvironment", "capture", 3), "forged"),
    "results from a file": (_function("statsmodels.base.model:Results", "load"), "forged(pickle_path)"),
    "a wrapper from a file": (_function("statsmodels.base.wrapper:ResultsWrapper", "load"), "forged(pickle_path)"),
    "a wrapper into a file": (_function("statsmodels.base.wrapper:ResultsWrapper", "save"), "from types import SimpleNamespace\nforged(SimpleNamespace(), target_path)"),
    "texts from a file": (_function("sklearn.feature_extraction.text:_VectorizerMixin", "decode"), "from types import SimpleNamespace\nforged(SimpleNamespace(input='filename', encoding='utf-8', decode_error='strict'), secret_path)"),
    "texts from a file by its model": (call(known("sklearn.feature_extraction.text:CountVectorizer")) + table(input=text("filename")) + b"b", "forged.fit([secret_path]).vocabulary_"),
    "a figure into a file": (_function("drawings:matplotlib.figure:Figure", "savefig"), "import matplotlib.pyplot as plt\nforged(plt.figure(), target_path)"),
    "a figure's method by its class": (make("drawn_method", _FIGURE, text("__class__")), "forged"),
    "a figure's method that takes it apart": (make("drawn_method", _FIGURE, text("__reduce_ex__")), "forged"),
    "a method of a table as a figure's": (make("drawn_method", _TABLE, text("to_csv")), "forged(target_path)"),
    "a plot into a file": (_function("seaborn._core.plot:Plot", "save"), "import seaborn.objects as so\nforged(so.Plot(), target_path)"),
    "an expression that is Python": (call(known("sympy.core.add:Add"), text("__import__('os').getcwd()"), number(1)), "str(forged)"),
    "an expression that looks inside": (call(known("sympy.core.add:Add"), text("().__class__.__bases__"), number(1)), "str(forged)"),
    "a metaclass of expressions": (known("sympy.core.function:UndefinedFunction"), "forged"),
    "another metaclass of expressions": (known("sympy.core.singleton:Singleton"), "forged"),
    "a class by a metaclass of expressions": (known("sympy.core.singleton:Singleton") + _CLASS + b"R", "forged()"),
    "a class by a function's metaclass": (known("sympy.core.function:UndefinedFunction") + values(text("f"), values(known("builtins:str")), table(__getattribute__=known("builtins:len"))) + b"R", "forged('x')"),
    "a class of two others": (known("drawings:matplotlib.cbook:_picklable_class_constructor") + values(known("pandas:DataFrame"), text("{}"), text("x"), known("pandas:Series")) + b"R", "forged"),
    "a style with a template": (make("styler", _TABLE, EMPTY, b"]" + values(text("format"), values(text("{.__class__}")), EMPTY) + b"a"), "forged.to_html()"),
    "a style with a template of its own": (make("styler", _TABLE, table(formatter=text("{0.__globals__}")), b"]"), "forged.to_html()"),
    "a style that writes": (make("styler", _TABLE, EMPTY, b"]" + values(text("to_html"), values(text("target")), EMPTY) + b"a"), "forged.to_html()"),
    "a style that is called": (make("styler", _TABLE, EMPTY, b"]" + values(text("pipe"), values(known("builtins:print")), EMPTY) + b"a"), "forged.to_html()"),
    "a style's private method": (make("styler", _TABLE, EMPTY, b"]" + values(text("_copy"), values(), EMPTY) + b"a"), "forged.to_html()"),
    "a style by the name of a function": (make("styler", _TABLE, EMPTY, b"]" + values(text("map"), values(text("eval")), EMPTY) + b"a"), "forged.to_html()"),
    "a style of no table": (make("styler", known("json:"), EMPTY, b"]"), "forged.data"),
    "a style of a class": (make("styler", known("pandas:DataFrame"), EMPTY, b"]"), "forged.data"),
    "a formatter with a template": (call(known("logging.Formatter")) + table(_given=values(text("{msg.__class__}"), NONE, text("{"), TRUE, NONE)) + b"b", "import logging\nh = logging.StreamHandler()\nh.setFormatter(forged)\nlogging.getLogger('x').addHandler(h)\nlogging.getLogger('x').error('a')"),
    "a formatter of another style": (call(known("logging.Formatter")) + table(_given=values(text("x"), NONE, known("json:"), TRUE, NONE)) + b"b", "import logging\nforged.format(logging.LogRecord('a', 1, 'a', 1, 'a', None, None))"),
    "a handler that writes elsewhere": (call(known("logging.StreamHandler")) + table(_stream=known("builtins:open")) + b"b", "forged"),
    "a window that is none": (call(known("pandas.core.window.rolling:Rolling"), _TABLE) + table(obj=known("json:"), window=text("x")) + b"b", "forged.sum()"),
    "groups by a module": (call(known("pandas.core.groupby.generic:DataFrameGroupBy"), _TABLE, known("json:")), "forged.sum()"),
    "a network of modules": (call(known("networkx.classes.graph:Graph")) + table(_adj=known("json:")) + b"b", "list(forged)"),
    "a network by another's backend": (call(known("networkx.classes.graph:Graph")) + table(__networkx_backend__=text("os")) + b"b", "import networkx as nx\nnx.pagerank(forged)"),
    "an axis' functions by number": (_function("drawings:matplotlib.axes._secondary_axes:SecondaryAxis", "set_functions", 99), "forged"),
}  # fmt: skip

# Settings that are none, or not allowed: (name, value).
SETTINGS: Final[list[tuple[str, bytes]]] = [
    (".settings.matplotlib", plain({"text.usetex": True})),
    (".settings.matplotlib", plain([1])),
    (".settings.matplotlib.colormaps", plain({"a": 1})),
    (".settings.matplotlib.colormaps", plain({"a": ("a", (None, None, None), 5)})),
    (".settings.matplotlib.colormaps", plain({5: ("a", (None, None, None), ["red"])})),
    (".settings.matplotlib.color_sequences", plain({"a": 5})),
    (".settings.logging", plain(5)),
    (".settings.logging", _logging({"level": 1}, EMPTY)),
    (".settings.logging", _logging(_PLAIN_LOGS, plain([1]))),
    (".settings.logging", _logging(_PLAIN_LOGS, plain({"a": 5}))),
]
