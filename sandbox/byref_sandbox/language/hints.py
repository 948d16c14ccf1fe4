"""Explains errors in words by which a model can mend its code."""

from __future__ import annotations

import ast
import difflib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.language import missing
from byref_sandbox.language.calling import functions_of
from byref_sandbox.language.facades import Facade, facade_hints, facade_name
from byref_sandbox.language.inspecting import not_loaded_in
from byref_sandbox.language.magics import Magic
from byref_sandbox.language.names import FRAME_HELPER
from byref_sandbox.language.refusal import NotAllowed, not_loaded
from byref_sandbox.language.science.hints import parts_left_out
from byref_sandbox.outcome import NAMES_THERE, Failure

MAX_MESSAGE_CHARS = 2_000
MAX_LISTED = 30
MAX_INSIDE = 3
"""The most errors of a group that its message names."""
MAX_NAMES = 10
"""Variables given to the code that a hint names at most: more would cost more tokens than they help."""
_FEW = 6
"""If fewer are named, names that earlier code left fill up to so many."""


class Known(NamedTuple):
    """The variables that a hint may name."""

    data: tuple[str, ...]
    """Names of what was given to the code, the most likely first."""
    others: tuple[str, ...]
    """Names that earlier code left."""
    allowed: Mapping[str, str] = {}
    """Further modules that the host allows, by name, and why one, or a library that is installed, could not be loaded."""


def syntax_error(error: SyntaxError, source: str) -> Failure:
    """Return the failure of a parser's error, with the text of the line."""
    lines = source.splitlines()
    line = error.lineno
    text = lines[line - 1].strip()[:200] if line and 0 < line <= len(lines) else ""
    return Failure("SyntaxError", str(error.msg)[:MAX_MESSAGE_CHARS], line, f"in: {text}" if text else None)


def magic(refused: Magic) -> Failure:
    """Return the failure of a line of IPython's that has no meaning here."""
    if refused.packages:
        package = refused.packages[0]
        instead = missing.instead_of(package)
        hint = instead[0] if instead is not None else "do without it: pandas and numpy are there"
        return Failure("NotAllowed", f"{package!r} cannot be installed: there is no network", refused.line, hint)
    message = f"{refused.what} is not available: this is Python alone, without IPython and a shell"
    return Failure("NotAllowed", message, refused.line, f"leave the line out; {_where(Known((), ()))}")


def explain(
    error: BaseException,
    source: str,
    filename: str,
    known: Known,
    modules: Mapping[str, Facade],
    builtin: Mapping[str, Any],
) -> Failure:
    """Return the failure of an error: kind, bounded message, line and hint."""
    frame, line, lasti = _place(error, filename)
    try:
        hint = _hint(error, frame, lasti, source, known, modules, builtin)
    except Exception:  # noqa: BLE001  # objects of the code may raise anything when looked at
        hint = None
    kind = (
        NotAllowed if isinstance(error, NotAllowed) else type(error)
    )  # as text: a missing file is an error of Python's
    return Failure(kind.__name__[:200], message_of(error), line, hint and hint[:MAX_MESSAGE_CHARS])


def message_of(error: BaseException) -> str:
    """Return `str(error)`, bounded, whatever the error's own methods do."""
    try:
        if isinstance(error, NotAllowed):
            text = error.message
        elif isinstance(error, SystemExit) and type(error.code) is int:
            text = f"the code exited with status {error.code}"
        elif isinstance(error, BaseExceptionGroup):
            inside = (f"{type(each).__name__}: {each}" for each in error.exceptions[:MAX_INSIDE])
            text = f"{error}: {'; '.join(inside)}"
        elif isinstance(error, KeyError) and len(error.args) == 1:
            text = f"{error.args[0]!r}" if not isinstance(error.args[0], str) else error.args[0]
        else:
            text = str(error)
    except Exception:  # noqa: BLE001
        text = "(the error's message could not be made)"
    text = str.__str__(text)  # one of a class of the code's own may lie about its length
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def _place(error: BaseException, filename: str) -> tuple[types.FrameType | None, int | None, int]:
    """Return the deepest frame that is the code's own, its line and its instruction."""
    frame, line, lasti = None, None, -1
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            frame, line, lasti = trace.tb_frame, trace.tb_lineno, trace.tb_lasti
        trace = trace.tb_next
    return frame, line, lasti


def listed(names: Iterable[object]) -> str:
    """Return names on one line, bounded."""
    texts: list[str] = []
    for name in names:
        if len(texts) == MAX_LISTED:
            return ", ".join([*texts, "…"])
        texts.append(repr(name)[:80] if not isinstance(name, str) else name[:80])
    return ", ".join(texts)


def _close(name: str, candidates: Iterable[object]) -> str:
    texts = [c for c in candidates if type(c) is str and c != name]
    folded = {c.casefold(): c for c in reversed(texts)}
    close = [folded[c] for c in difflib.get_close_matches(name.casefold(), list(folded)[-2000:], n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(repr(c) for c in close)}? " if close else ""


def _hint(
    error: BaseException,
    frame: types.FrameType | None,
    lasti: int,
    source: str,
    known: Known,
    modules: Mapping[str, Facade],
    builtin: Mapping[str, Any],
) -> str | None:
    functions = functions_of(frame.f_globals) if frame is not None else {}
    builtin = {**builtin, **functions}
    if isinstance(error, NotAllowed):
        if error.about_files:
            return "; ".join(filter(None, [error.hint, _where(known)]))
        return error.hint or None
    if isinstance(error, NameError):
        own = (
            [n for n in (*frame.f_globals, *frame.f_locals) if n.isidentifier() and not n.startswith("__")]
            if frame
            else []
        )
        given = dict.fromkeys(known.data)
        others = [name for name in dict.fromkeys([*known.others, *own]) if name not in given]
        missed = error.name or ""
        if frame is not None and missed in not_loaded_in(frame.f_globals):
            return str(not_loaded(missed))
        close = _close(missed, [*given, *functions, *others]) or _close(
            missed, [name for name in builtin if name.isidentifier()]
        )
        imports = f"import {missed} first; " if missed in modules else ""
        inside = _inside(missed, frame) or imports or close
        return f"{inside}{NAMES_THERE}{_names(known.data, others, 2 * MAX_NAMES)}"
    if isinstance(error, ImportError):
        optional = re.search(r"`Import (\w+)", message_of(error))  # a dependency of pandas
        if optional is not None:
            instead = missing.instead_of(optional[1])
            return instead[0] if instead is not None else "the package is not installed: do without it"
        if there := [name for name in _imported(error, source) if name in functions]:
            return f"there without an import: {listed(there)}"
        return _import_hint(error, known, modules)
    if isinstance(error, KeyError):
        return _key_hint(error, frame, lasti, source)
    if isinstance(error, AttributeError | TypeError) and (taken := _helper_hint(error, frame, lasti, source, builtin)):
        return taken
    if isinstance(error, AttributeError):
        return _accessor_hint(error) or _message_hint(message_of(error)) or _attribute_hint(error)
    if (
        isinstance(error, FileNotFoundError) and error.errno is not None
    ):  # without, it is a function's of the host or of the code
        return f"only files that code has written are there; {_where(known)}"
    if isinstance(error, RecursionError):
        return "use a loop, or make the recursion end earlier"
    if isinstance(error, TypeError | ValueError | NotImplementedError):  # the last one is Arrow's, beneath pandas
        return _message_hint(message_of(error))
    return None


def _inside(name: str, frame: types.FrameType | None) -> str:
    """Say of which table or object a missing name is a column or a key."""
    from pandas import DataFrame

    for owner, value in {**frame.f_globals, **frame.f_locals}.items() if frame is not None and name else ():
        first = value[0] if type(value) is list and value else value
        if not owner.isidentifier() or owner == "__builtins__":
            continue
        if type(value) is DataFrame and name in value.columns:
            return f"{name!r} is a column of {owner}: {owner}[{name!r}]; "
        if type(first) is dict and name in first:
            of = f"the records of {owner}: row[{name!r}]" if first is not value else f"{owner}: {owner}[{name!r}]"
            return f"{name!r} is a key of {of}; "
    return ""


def _helper_hint(
    error: BaseException, frame: types.FrameType | None, lasti: int, source: str, builtin: Mapping[str, Any]
) -> str | None:
    """Say how `df` is used, where code takes it for a DataFrame, and how a builtin comes back, where code bound its name to a value."""
    node = _node_at(frame, lasti, source)
    owner = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
    if frame is None or not isinstance(owner, ast.Name):
        return None
    name = owner.id
    value = frame.f_locals[name] if name in frame.f_locals else frame.f_globals.get(name)
    if name == FRAME_HELPER:
        wanted = f".{node.attr}" if isinstance(node, ast.Attribute) else "[...]"
        is_helper = type(value) is types.MethodType and not isinstance(node, ast.Call)
        return f"df is a function that makes a DataFrame of a variable: df(name){wanted}" if is_helper else None
    if name not in builtin or value is None or value is builtin[name]:
        return None
    is_missed = isinstance(node, ast.Attribute) and not hasattr(builtin[name], node.attr)
    if is_missed or isinstance(node, ast.Subscript) or callable(value):
        return None
    return f"{name!r} is a value of this code or of earlier code: `del {name}` brings back what it was"


def _accessor_hint(error: AttributeError) -> str | None:
    """Say what a column holds, and what to do, where it lacks the accessor that was used (`.str`, `.dt`, `.cat`)."""
    from pandas import Index, Series
    from pandas.api.types import infer_dtype

    asked = re.match(r"Can only use \.(str|dt|cat) accessor", message_of(error))
    if asked is None:
        return None
    trace, column = error.__traceback__, None
    while trace is not None and not isinstance(column, Series | Index):
        column = next((trace.tb_frame.f_locals[n] for n in ("data", "obj") if n in trace.tb_frame.f_locals), None)
        trace = trace.tb_next
    if not isinstance(column, Series | Index):
        return None
    kind = column.dtype.kind if hasattr(column.dtype, "kind") else "O"
    what = {"M": "dates", "m": "durations"}.get(kind) or infer_dtype(column, skipna=True).replace("string", "text")
    named = "the values are" if column.name is None else f"{str(column.name)[:60]!r} is"
    return f"{named} {what} ({column.dtype}): {_ACCESSOR_CURES[asked[1]](what, kind)}"


def _for_str(what: str, kind: str) -> str:
    if kind in "Mm":
        return "use .dt, for example .dt.strftime('%Y-%m')" if kind == "M" else "use .dt"
    return (
        "use .astype(str).str" if kind in "biufc" or what not in ("mixed", "empty") else "use .map(lambda value: ...)"
    )


def _for_dt(what: str, kind: str) -> str:
    if kind in "iuf":
        return "use pd.to_datetime(column, unit='s'), or 'ms', if these are epochs; then .dt"
    if what in ("datetime", "date", "text", "datetime64"):
        return "use pd.to_datetime(column, errors='coerce') first, with utc=True for several time zones; then .dt"
    return "use pd.to_datetime(column, errors='coerce') first; then .dt"


_ACCESSOR_CURES: Mapping[str, Callable[[str, str], str]] = {
    "str": _for_str,
    "dt": _for_dt,
    "cat": lambda _what, _kind: "use .astype('category').cat",
}


def _imported(error: ImportError, source: str) -> Iterator[str]:
    """Yield the names that the code wanted from the module that is not there."""
    yield error.name or ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == error.name:
            yield from (each.name for each in node.names)


def _import_hint(error: ImportError, known: Known, modules: Mapping[str, Facade]) -> str:
    module = error.name or ""
    if module in modules:
        asked = re.match("cannot import name '([^']+)'", message_of(error))
        there = dir(modules[module])
        return f"{_close(asked[1], there) if asked else ''}{module} has: {listed(there)}"
    top, _, inner = module.partition(".")
    for name, fault in known.allowed.items():
        if fault and top == name.partition(".")[0]:
            return f"it could not be loaded: {fault}"
        if top == name.partition(".")[0] and top in modules:
            there = sorted(each for each in modules if each == name or each.startswith(f"{name}."))
            return f"of {top} there is: {listed(there)}"
    if top in modules and (instead := parts_left_out(module)):
        return instead
    found = None if top in modules and top in LIBRARIES else missing.instead_of(module)
    if found is not None and found[0] == missing.NO_PLOTS and top in modules:
        names = f"{top} has: {listed(dir(modules[top]))}"
        return facade_hints(modules[top]).get(inner.partition(".")[0], names)
    if found is None:
        importable = {*modules, *LIBRARIES}
        there = sorted(name for name in importable if name[0] != "_" and ("." in module or "." not in name))
        near = difflib.get_close_matches(module, there, 3, 0.0)
        others = [name for name, fault in known.allowed.items() if not fault and name not in near]
        also = f"; there is also: {listed(others)}" if others else ""
        return f"the nearest modules there are: {', '.join(near)}{also}"
    hint, about_data = found
    return f"{hint}; {_where(known)}" if about_data else hint


def _where(known: Known) -> str:
    names = _names(known.data, known.others, _FEW)
    return f"the data is in: {names}" if names else "the data is already bound as variables"


def _names(data: Sequence[str], others: Sequence[str], most: int) -> str:
    """Return names of data, then others up to `most`, and how many more there are."""
    first = sorted(data[:MAX_NAMES])
    shown = [*first, *others[: max(0, most - len(first))]]
    more = len(data) + len(others) - len(shown)
    return listed(shown) + (f" and {more:,} more" if more else "")


def _key_hint(error: KeyError, frame: types.FrameType | None, lasti: int, source: str) -> str | None:
    from pandas import DataFrame, Series

    missing: object = error.args[0] if error.args else None
    trace, first = error.__traceback__, None
    while trace is not None:
        # In frames of pandas `self` is the object that was asked. The outermost is the one in the code.
        owner: object = trace.tb_frame.f_locals.get("self") if trace.tb_frame is not frame else None
        by_label = type(owner).__name__ in ("_LocIndexer", "_AtIndexer")
        owner = getattr(owner, "obj", owner) if _of_pandas(owner) else None
        if isinstance(owner, DataFrame | Series) and type(owner) in (DataFrame, Series):
            if isinstance(owner, DataFrame) and not by_label and type(missing) is str and missing in owner.columns:
                first, trace = owner, trace.tb_next  # the other table of a merge lacks it
                continue
            labels = list((owner.columns if isinstance(owner, DataFrame) else owner.index)[: MAX_LISTED + 1])
            what = "columns" if isinstance(owner, DataFrame) else "index labels"
            rows = (
                f"; the index labels are: {listed(owner.index[: MAX_LISTED + 1])}"
                if what == "columns" and by_label
                else ""
            )
            of = "" if first is None or first is owner else " of the other table"
            close = _close(missing, labels) if type(missing) is str else ""
            return f"{close}the {what}{of} are: {listed(labels)}{rows}"
        trace = trace.tb_next
    owner = _subscripted(frame, lasti, source)
    if isinstance(owner, dict) and type(owner).keys is dict.keys:
        keys = list(owner)
        return f"{_close(missing, keys[:2000]) if type(missing) is str else ''}the keys are: {listed(keys)}"
    return None


def _of_pandas(value: object) -> bool:
    return str(type(value).__module__).partition(".")[0] == "pandas"


def _subscripted(frame: types.FrameType | None, lasti: int, source: str) -> object:
    """Return the object of the failing `object[key]`, if names, constants and plain containers lead to it: nothing of the code's is called."""
    node = _node_at(frame, lasti, source)
    return _plain_value(node.value, frame) if frame is not None and isinstance(node, ast.Subscript) else None


def _node_at(frame: types.FrameType | None, lasti: int, source: str) -> ast.Subscript | ast.Call | ast.Attribute | None:
    """Return the subscript, call or attribute at which the code stopped; None if it was something else."""
    if frame is None or lasti < 0:
        return None
    start, end, left, right = list(frame.f_code.co_positions())[lasti // 2]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript | ast.Call | ast.Attribute) and (start, end, left, right) == (
            node.lineno,
            node.end_lineno,
            node.col_offset,
            node.end_col_offset,
        ):
            return node
    return None


def _plain_value(node: ast.expr, frame: types.FrameType) -> Any:
    if isinstance(node, ast.Name):
        return frame.f_locals[node.id] if node.id in frame.f_locals else frame.f_globals[node.id]
    if isinstance(node, ast.Subscript):
        owner, key = _plain_value(node.value, frame), _plain_value(node.slice, frame)
        if type(owner) in (dict, list, tuple) and type(key) in (str, int):
            return owner[key]
    if isinstance(node, ast.Constant):
        return node.value
    raise LookupError


def _attribute_hint(error: AttributeError) -> str | None:
    value, name = getattr(error, "obj", None), error.name
    if value is None or name is None:
        return None
    kind = type(value)
    if kind is Facade:
        there = dir(value)
        few = f"{facade_name(value)} has: {listed(there)}" if len(there) <= MAX_LISTED else ""
        return _close(name, there).strip() or few or None
    if issubclass(kind, dict) and kind.keys is dict.keys:
        keys = list(value)[: MAX_LISTED + 1]
        return (
            f"it is a dict: use [{name!r}]; the keys are: {listed(keys)}"
            if name in value
            else f"it is a dict; the keys are: {listed(keys)}"
        )
    if issubclass(kind, list):
        return f"it is a list of {len(value)}: use an index, or a loop over its items"
    if _of_pandas(value):
        if name == "append":
            return "pandas has no append any more: use pd.concat([table, pd.DataFrame([row])], ignore_index=True)"
        columns = list(getattr(value, "columns", ()))[: MAX_LISTED + 1]
        return (
            f"{_close(name, [*columns, *dir(kind)])}" + (f"the columns are: {listed(columns)}" if columns else "")
            or None
        )
    return _close(name, [n for n in dir(kind) if not n.startswith("_")]).strip() or None


def _message_hint(message: str) -> str | None:
    for part, hint in _MESSAGE_HINTS.items():
        if part in message:
            return hint
    return None


_MESSAGE_HINTS = {
    "'coroutine' object": "it is a coroutine: await it",
    "non-iterable coroutine": "it is a coroutine: await it",
    "object async_generator can't be used": "loop over it with async for",
    "can't be used in 'await' expression": "it is no coroutine: leave await out",
    "can't be awaited": "it is no coroutine: leave await out",
    "'async_generator' object is not iterable": "loop over it with async for",
    "string indices must be integers": "the value is a str, not a dict: look at it first, or parse it with json.loads()",
    "list indices must be integers": "the value is a list: loop over it, or take an item by number first",
    "'NoneType' object is not subscriptable": "the value is None: test for it, or use (value or {}).get(...)",
    "not supported between instances of": "the values are of different types or None: convert them, or filter them first",
    "unsupported operand type(s)": "convert the values first, for example with float() or pd.to_numeric()",
    **dict.fromkeys(
        ("with string dtype", "dtype 'str'", "dtype=str and", "(large_string)", "to numeric"),
        "the column is text: convert it first, with pd.to_numeric(column, errors='coerce')",
    ),
    "could not convert string to float": "of values with other text in them, use pd.to_numeric(values, errors='coerce')",
    "is not JSON serializable": "convert the value first, or pass default=str to json.dumps()",
    "can only concatenate str": "convert the numbers with str(), or use an f-string",
    "must be str, not": "convert the value with str(), or use an f-string",
    "truth value of a": "use & | ~ with parentheses between conditions, or .any() and .all()",
    "too many values to unpack": "look at one item first: it has more parts than names",
    "is read-only": "the array belongs to a table: take a .copy() first, or assign to the column",
    "Shape of passed values": "the lengths differ: look at .shape first",
    "unhashable type": "use a tuple, or json.dumps(value, sort_keys=True), as the key",
}
