"""Which attribute names are refused, which are checked at run time, and which are plain."""

from __future__ import annotations

from RestrictedPython.transformer import INSPECT_ATTRIBUTES

from byref_sandbox.code.words import words
from byref_sandbox.contents import OWN_DUNDERS

FRAME_HELPER = "df"
"""The helper that makes a DataFrame of a variable. Models write `df = pd.DataFrame(orders)` everywhere, so a call of `df` reaches the helper even then."""

REFUSED_ATTRIBUTES: frozenset[str] = INSPECT_ATTRIBUTES | words(
    """tb_lasti f_lasti f_trace_lines f_trace_opcodes cr_running ag_running
    func_globals func_code func_closure func_defaults func_dict
    _abc_impl _is_protocol _is_runtime_protocol"""
)
"""Refused wherever they are written: frames, code objects, tracebacks, the globals of functions, and what makes isinstance lie."""

FILE_METHODS = words("""to_pickle to_sql to_excel to_parquet to_feather to_hdf to_stata to_gbq to_orc to_clipboard to_xml to_iceberg
    tofile dump dumps""")
TEXT_METHODS = words("to_csv to_json to_html to_string to_markdown to_latex")
"""pandas methods that return text, or write it to a file."""
FUNCTION_METHODS = words("agg aggregate apply transform")
"""pandas methods that accept the name of any method as a string."""
EXPRESSION_METHODS = words("query eval")
PLOT_METHODS = words("plot hist boxplot")
STYLE_ATTRIBUTES = words("style")
"""What leads to a Styler, which has templates."""
MEMORY_ATTRIBUTES = words("ctypes cffi capsule setfield getfield resize sp_index")
"""numpy's raw addresses, and its ways to make an array look at memory that is not its own."""
TRUSTED_ATTRIBUTES = words("setflags flags base at from_codes set_codes set_levels codes levels")
"""Ways to memory that compiled code uses without a check: an integer out of range there ends the process."""
BUFFER_ATTRIBUTES = words("readinto readinto1 pack_into")
"""Methods that write bytes into any buffer. In an array of objects those bytes would be addresses."""
CLASS_ATTRIBUTES = words("mro register baseclass")
"""Attributes of classes. `register` makes isinstance lie; `baseclass` gives out a class of arrays under another name."""
PROPERTY_ATTRIBUTES = words("fget fset fdel")
"""The functions behind a property: they read and set attributes without a check of their names."""
LIBRARY_ATTRIBUTES = words(
    "from_file no_cache clear_cache from_arrow from_spmatrix pyarrow_dtype env loader handles parser set_state from_callable"
) | words("ntpath posixpath")
"""`parser`, and in newer versions of Python `ntpath`, are modules that classes of pathlib hold."""
INDEX_ATTRIBUTES = words("indices indptr")
"""Arrays of positions that compiled code of scipy follows without a check."""
TREE_ATTRIBUTES = words("tree_")
"""Trees of scikit-learn, whose numbers compiled code follows without a check."""
PLAIN_UNTIL_LOADED = INDEX_ATTRIBUTES | TREE_ATTRIBUTES
"""Names that mean nothing before their library is loaded: pandas' groups have `indices` as well."""
UNCHECKED_ATTRIBUTES = words("construct_fast")
"""Constructors of scipy that leave out the checks of what compiled code gets."""
FIGURE_ATTRIBUTES = words("canvas")
"""What writes files and opens windows in matplotlib."""

TEMPLATE_ATTRIBUTES = frozenset({"format", "format_map"})

CHECKED_ATTRIBUTES = (
    FILE_METHODS
    | TEXT_METHODS
    | FUNCTION_METHODS
    | EXPRESSION_METHODS
    | PLOT_METHODS
    | STYLE_ATTRIBUTES
    | MEMORY_ATTRIBUTES
    | TRUSTED_ATTRIBUTES
    | BUFFER_ATTRIBUTES
    | CLASS_ATTRIBUTES
    | PROPERTY_ATTRIBUTES
    | LIBRARY_ATTRIBUTES
    | FIGURE_ATTRIBUTES
    | INDEX_ATTRIBUTES
    | TREE_ATTRIBUTES
    | UNCHECKED_ATTRIBUTES
    | {"pivot_table", "obj", "fields", "data"}
    | TEMPLATE_ATTRIBUTES
)
"""All other public names are plain attribute accesses in the compiled code. A test crawls all that these can reach."""

CLASS_DUNDERS = words("""__init__ __new__ __post_init__ __repr__ __str__ __format__ __bytes__ __len__ __length_hint__ __iter__ __next__
    __reversed__ __getitem__ __setitem__ __delitem__ __contains__ __missing__ __lt__ __le__ __eq__ __ne__ __gt__
    __ge__ __hash__ __bool__ __call__ __getattr__ __setattr__ __delattr__ __dir__ __enter__ __exit__ __get__
    __set__ __delete__ __set_name__ __init_subclass__ __class_getitem__ __add__ __radd__ __iadd__ __sub__ __rsub__
    __isub__ __mul__ __rmul__ __imul__ __matmul__ __rmatmul__ __imatmul__ __truediv__ __rtruediv__ __itruediv__
    __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __divmod__ __rdivmod__ __pow__ __rpow__
    __ipow__ __lshift__ __rlshift__ __ilshift__ __rshift__ __rrshift__ __irshift__ __and__ __rand__ __iand__
    __or__ __ror__ __ior__ __xor__ __rxor__ __ixor__ __neg__ __pos__ __abs__ __invert__ __int__ __float__
    __complex__ __index__ __round__ __trunc__ __floor__ __ceil__ __copy__ __deepcopy__ __slots__ __doc__
    __match_args__ __array__ __await__ __aiter__ __anext__ __aenter__ __aexit__""")
"""Dunder names that a class body may define. Left out is what intercepts every look-up (`__getattribute__`), makes isinstance lie,
rebuilds objects (`__reduce__`) or gives out raw memory (`__array_interface__`, `__buffer__`, `__dlpack__`)."""

MODULE_DUNDERS = OWN_DUNDERS
"""Names by which a script describes itself."""

READ_DUNDERS = (CLASS_DUNDERS - {"__slots__", "__array__", "__class_getitem__"}) | words(
    """__name__ __qualname__ __doc__ __module__ __class__ __dict__ __cause__ __context__ __notes__ __version__ __annotations__
    __members__"""
)
"""Dunder attributes that may be read; each is checked at run time."""
WRITTEN_DUNDERS = words("__name__ __qualname__ __doc__")
"""Dunder attributes that a decorator sets on a function."""

_NOT_PLAIN = REFUSED_ATTRIBUTES | CHECKED_ATTRIBUTES

NAMEDTUPLE_ATTRIBUTES = words("_asdict _replace _fields _make _field_defaults")


def is_dunder(name: str) -> bool:
    """Whether a name is of the form `__x__`."""
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def is_ordinary(name: str) -> bool:
    """Whether an attribute may be read without any check."""
    return name[:1] != "_" and name not in _NOT_PLAIN


def is_own(name: str) -> bool:
    """Whether an attribute of an instance of the code's own class may be read without any check."""
    return name[:1] != "_" and name not in REFUSED_ATTRIBUTES and name not in TEMPLATE_ATTRIBUTES


def may_be_slot(name: str) -> bool:
    """Whether a class of the code may have a slot of this name."""
    return name in ("__dict__", "__weakref__") or not (is_dunder(name) or name in REFUSED_ATTRIBUTES)


def why_refused(name: str) -> str:
    """Return what to use instead of a refused attribute."""
    return _INSTEAD.get(name, "")


def why_not_set(name: str) -> str:
    """Return what to do instead of setting a refused attribute: methods of Python's own are defined with their class."""
    return why_refused(name) or ("define it in the class" if name in CLASS_DUNDERS else "")


_INSTEAD = {
    "__mro__": "use isinstance() or issubclass()",
    "__bases__": "use isinstance() or issubclass()",
    "__subclasses__": "keep a list of your classes yourself",
    "__traceback__": "str(error) and type(error).__name__ tell what went wrong",
    "with_traceback": "raise ... from error keeps the cause",
    "__globals__": "use plain variables",
    "__code__": "call the function",
    "__getattribute__": "define __getattr__ instead",
    "__del__": "use a context manager instead",
    "__builtins__": "builtins are available by their names",
    "__file__": "there is no file; the data is bound as variables",
    "__import__": "use an import statement",
    "__reduce__": "use copy.copy() or copy.deepcopy()",
    "__reduce_ex__": "use copy.copy() or copy.deepcopy()",
    "__wrapped__": "keep the wrapped function in a variable of your own",
    "__self__": "keep the object in a variable of your own",
    "__defaults__": "keep the defaults in variables of your own",
    "__metaclass__": "use __init_subclass__ or a class decorator",
}
