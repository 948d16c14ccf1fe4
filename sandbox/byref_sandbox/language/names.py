"""Which attribute names are refused, which are checked at run time, and which are plain."""

from __future__ import annotations

from RestrictedPython.transformer import INSPECT_ATTRIBUTES

from byref_sandbox.code.words import words

FRAME_HELPER = "df"
"""What makes a DataFrame of a variable. `df = pd.DataFrame(orders)` is written everywhere: called, the name stays what it was."""

REFUSED_ATTRIBUTES: frozenset[str] = INSPECT_ATTRIBUTES | words(
    """tb_lasti f_lasti f_trace_lines f_trace_opcodes cr_running ag_running
    func_globals func_code func_closure func_defaults func_dict
    _abc_impl _is_protocol _is_runtime_protocol"""
)
"""Frames, code, tracebacks, what compiled functions call their globals, and what makes isinstance lie: refused wherever they are written."""

FILE_METHODS = words("""to_pickle to_sql to_excel to_parquet to_feather to_hdf to_stata to_gbq to_orc to_clipboard to_xml to_iceberg
    tofile dump dumps""")
TEXT_METHODS = words("to_csv to_json to_html to_string to_markdown to_latex")
"""pandas methods that return text, or write it to a path."""
FUNCTION_METHODS = words("agg aggregate apply transform")
"""pandas methods that take the name of a method as a string."""
EXPRESSION_METHODS = words("query eval")
PLOT_METHODS = words("plot hist boxplot style")
MEMORY_ATTRIBUTES = words("ctypes cffi capsule setfield getfield resize sp_index")
"""numpy: raw addresses and the ways to make an array look at memory that is not its own."""
TRUSTED_ATTRIBUTES = words("setflags flags base at from_codes set_codes set_levels codes levels")
"""Ways to memory that compiled code trusts without looking: integers out of range there end the process."""
BUFFER_ATTRIBUTES = words("readinto readinto1 pack_into")
"""What writes bytes into any buffer: into an array of objects, too, which are addresses there."""
CLASS_ATTRIBUTES = words("mro register baseclass")
"""Of classes: `register` makes isinstance lie, `baseclass` is a property whose getter would not be asked for by its name."""
PROPERTY_ATTRIBUTES = words("fget fset fdel")
"""Of a property: the functions behind it, which read and set attributes past the checks of their names."""
LIBRARY_ATTRIBUTES = words(
    "from_file no_cache clear_cache from_arrow from_spmatrix pyarrow_dtype env loader handles parser set_state"
)
FIGURE_ATTRIBUTES = words("canvas")
"""matplotlib: what writes files and opens windows."""

TEMPLATE_ATTRIBUTES = frozenset({"format", "format_map"})

CHECKED_ATTRIBUTES = (
    FILE_METHODS
    | TEXT_METHODS
    | FUNCTION_METHODS
    | EXPRESSION_METHODS
    | PLOT_METHODS
    | MEMORY_ATTRIBUTES
    | TRUSTED_ATTRIBUTES
    | BUFFER_ATTRIBUTES
    | CLASS_ATTRIBUTES
    | PROPERTY_ATTRIBUTES
    | LIBRARY_ATTRIBUTES
    | FIGURE_ATTRIBUTES
    | {"pivot_table", "obj", "fields", "data"}
    | TEMPLATE_ATTRIBUTES
)
"""Every other public name is an ordinary attribute access in the compiled code: what it can reach is tested by a crawl over all that is exposed."""

CLASS_DUNDERS = words("""__init__ __new__ __post_init__ __repr__ __str__ __format__ __bytes__ __len__ __length_hint__ __iter__ __next__
    __reversed__ __getitem__ __setitem__ __delitem__ __contains__ __missing__ __lt__ __le__ __eq__ __ne__ __gt__
    __ge__ __hash__ __bool__ __call__ __getattr__ __setattr__ __delattr__ __dir__ __enter__ __exit__ __get__
    __set__ __delete__ __set_name__ __init_subclass__ __class_getitem__ __add__ __radd__ __iadd__ __sub__ __rsub__
    __isub__ __mul__ __rmul__ __imul__ __matmul__ __rmatmul__ __imatmul__ __truediv__ __rtruediv__ __itruediv__
    __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __divmod__ __rdivmod__ __pow__ __rpow__
    __ipow__ __lshift__ __rlshift__ __ilshift__ __rshift__ __rrshift__ __irshift__ __and__ __rand__ __iand__
    __or__ __ror__ __ior__ __xor__ __rxor__ __ixor__ __neg__ __pos__ __abs__ __invert__ __int__ __float__
    __complex__ __index__ __round__ __trunc__ __floor__ __ceil__ __copy__ __deepcopy__ __slots__ __doc__
    __match_args__ __array__""")
"""What a class body may define. Not among them: what intercepts every look-up (`__getattribute__`), what makes isinstance lie, what rebuilds
objects (`__reduce__`), and what hands out raw memory (`__array_interface__`, `__buffer__`, `__dlpack__`)."""

MODULE_DUNDERS = words("__all__ __author__ __version__ __doc__ __date__ __license__")
"""Names a script sets about itself."""

READ_DUNDERS = (CLASS_DUNDERS - {"__slots__", "__array__", "__class_getitem__"}) | words(
    """__name__ __qualname__ __doc__ __module__ __class__ __dict__ __cause__ __context__ __notes__ __version__ __annotations__
    __members__"""
)
"""Dunder attributes that may be read, each through a check."""
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
    """Whether an attribute may be read without any check of an instance of a class that the code defined."""
    return name[:1] != "_" and name not in REFUSED_ATTRIBUTES and name not in TEMPLATE_ATTRIBUTES


def why_refused(name: str) -> str:
    """What to use instead of a refused attribute."""
    return _INSTEAD.get(name, "")


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
