"""Settings and seeds of libraries: values that code has set in one run are still set in the next.

They are compared with the values before the first line of a run, and only differences are written.
"""

from __future__ import annotations

import calendar
import contextlib
import copy
import csv
import decimal
import importlib
import operator
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from pandas._config import config as pandas_config

from byref_sandbox.code.analysis import INFERENCE
from byref_sandbox.contents import OTHER_INFERENCE, SETTINGS
from byref_sandbox.language.logs import Logging
from byref_sandbox.language.modules import MAX_RECURSION, recursion
from byref_sandbox.language.policy import Language
from byref_sandbox.language.science import learning

_DECIMAL: Final = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_DECIMAL_TEMPLATES: Final = ("DefaultContext", "BasicContext", "ExtendedContext")
"""Contexts of decimal's own, from which others are made."""
_CYCLE: Final = "axes.prop_cycle"
_CALL: Final = "call"
"""The name under which what numpy calls on errors is, beside what it does on each kind of error."""
_PLOTS: Final = "matplotlib"
_COLORMAPS: Final = "matplotlib.colormaps"
_COLOR_CODES: Final = "matplotlib.color_codes"
_SEQUENCES: Final = "matplotlib.color_sequences"
_NUMBERS: Final = "mpmath"
_SEEDS: Final = ("numpy.random", "random")
_LEARNING: Final = "sklearn"
_SPECIAL: Final = "scipy.special"
_CLUSTERS: Final = "scipy.cluster.hierarchy"
_SYMBOLS: Final = "sympy.core.numbers"
_OF_RUNS: Final = (*_SEEDS, _LEARNING, _SPECIAL, _CLUSTERS, _SYMBOLS)
"""Groups that are read as a run begins: each has seeds of its own, and these libraries are loaded for the runs that need them."""
_PANDAS: Final = "pandas"
_ENVIRONMENT: Final = "os.environ"
MAX_ENVIRONMENT_CHARS: Final = 64 << 10
"""Of names and values of variables together: every run of the session reads them."""
_TREE: Final = ".pandas"
"""The tree in which pandas has its options, beside the table of them."""


class _Group(NamedTuple):
    read: Callable[[], Any]
    apply: Callable[[Any], None]
    is_table: bool = False
    """Whether it is a table of settings by name, of which only the differing ones are kept."""
    library: str = ""
    """The module that has them, where not every run has loaded it."""


Before = Mapping[str, Any]
"""Settings by group, before any code ran."""


def before() -> Before:
    """Return the settings of this process, without those `_OF_RUNS`. It is called once, before the runs are forked."""
    return {name: group.read() for name, group in _GROUPS.items() if name not in _OF_RUNS} | {
        _TREE: copy.deepcopy(_tree())
    }


class Settings:
    """The settings of this process when this object was made, before any code ran."""

    def __init__(self, language: Language, before: Before) -> None:
        modules: Any = language._modules.facades
        self._set_option: Any = modules["pandas"].set_option
        logs = Logging(modules["logging"].root)
        self._groups = {**_GROUPS, "logging": _Group(logs.read, logs.apply)}
        self._environment: dict[Any, Any] = modules["os"].environ
        self._groups[_ENVIRONMENT] = _Group(self._texts, self._environment.update, is_table=True)
        self._before = {**before, **{name: self._groups[name].read() for name in (*_OF_RUNS, "logging", _ENVIRONMENT)}}
        self._unread: dict[str, Any] = {}
        self.lost: dict[str, str] = {}
        """Those that cannot be kept, with the reason, after `changed`."""

    def changed(self) -> dict[str, Any]:
        """Return the settings that differ now, by name."""
        found = dict(self._unread)
        self.lost = {}
        for name, group in self._groups.items():
            if name == _PANDAS and _tree() == self._before[_TREE]:
                continue  # at a twentieth of the cost
            before, now = self._before[name], group.read()
            if group.is_table:
                different = {
                    key: value for key, value in now.items() if key not in before or not _same(before[key], value)
                }
                if name == _COLORMAPS:
                    different = _as_data(now, different)
                if different:
                    found[SETTINGS + name] = different
                if name == _PANDAS and any(key.endswith(INFERENCE) for key in different):
                    found[OTHER_INFERENCE] = True
            elif not _same(before, now):
                found[SETTINGS + name] = now
        return found

    def apply(self, name: str, value: Any) -> None:
        """Set the values that another run has left. Raises what a library raises for a value that it does not accept."""
        group = self._groups.get(name.removeprefix(SETTINGS))
        if group is None:
            return
        if group.library and group.library not in sys.modules:
            self._unread[name] = value  # this run does not need the library, but the next one may
            return
        if name == SETTINGS + _PANDAS:
            self._set_pandas(value)
        else:
            group.apply(value)

    def settle(self) -> None:
        """Have those count that must not while names are read."""
        if recursion.limit:
            with contextlib.suppress(RecursionError):  # it is lower than where this is called
                sys.setrecursionlimit(recursion.limit)

    def _texts(self) -> dict[str, str]:
        """Return the variables of the environment that can be kept; of others note why not."""
        texts = {name: value for name, value in self._environment.items() if type(name) is type(value) is str}
        if len(texts) < len(self._environment):
            self.lost[SETTINGS + _ENVIRONMENT] = "os.environ: names and values that are no texts"
        if sum(len(name) + len(value) for name, value in texts.items()) > MAX_ENVIRONMENT_CHARS:
            self.lost[SETTINGS + _ENVIRONMENT] = f"os.environ: more than {MAX_ENVIRONMENT_CHARS:,} characters"
            return {}
        return texts

    def _set_pandas(self, value: dict[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about options that will be removed
            for name, each in value.items():
                self._set_option(name, each)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _numpy_random() -> tuple[Any, ...]:
    state: Any = np.random.get_state(legacy=False)
    inner = state["state"]
    return state["bit_generator"], inner["key"].tobytes(), int(inner["pos"]), state["has_gauss"], float(state["gauss"])


def _set_numpy_random(value: Any) -> None:
    kind, key, pos, has_gauss, gauss = value
    np.random.set_state((kind, np.frombuffer(key, np.uint32), pos, has_gauss, gauss))


def _tree() -> dict[str, Any]:
    found: dict[str, Any] = vars(pandas_config)["_global_config"]
    return found


def _pandas() -> dict[str, Any]:
    return dict(_flat(_tree(), ""))


def _flat(tree: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield path + name, value


def _decimal() -> tuple[Any, ...]:
    return _of_context(decimal.getcontext())


def _of_context(context: decimal.Context) -> tuple[Any, ...]:
    traps = tuple(sorted(signal.__name__ for signal, is_on in context.traps.items() if is_on))
    return *(getattr(context, name) for name in _DECIMAL), traps


def _set_decimal(value: Any) -> None:
    _set_context(decimal.getcontext(), value)


def _set_context(context: decimal.Context, value: Any) -> None:
    *plain, traps = value
    for name, each in zip(_DECIMAL, plain, strict=True):
        setattr(context, name, each)
    for signal in context.traps:
        context.traps[signal] = signal.__name__ in traps


def _decimal_templates() -> dict[str, Any]:
    return {name: _of_context(getattr(decimal, name)) for name in _DECIMAL_TEMPLATES}


def _set_decimal_templates(value: dict[str, Any]) -> None:
    for name in _DECIMAL_TEMPLATES:
        if name in value:
            _set_context(getattr(decimal, name), value[name])


def _print_options() -> dict[str, Any]:
    return {name: value for name, value in np.get_printoptions().items() if name != "override_repr"}


def _numpy_errors() -> dict[str, Any]:
    return {**np.geterr(), _CALL: np.geterrcall()}


def _set_numpy_errors(value: dict[str, Any]) -> None:
    np.seterrcall(value.get(_CALL))
    np.seterr(**{name: each for name, each in value.items() if name != _CALL})


def _set_buffer(value: int) -> None:
    np.setbufsize(value)


def _masked() -> tuple[Any, Any]:
    return np.ma.masked_print_option.display(), np.ma.masked_print_option.enabled()


def _set_masked(value: Any) -> None:
    display, is_on = value
    np.ma.masked_print_option.set_display(display)
    np.ma.masked_print_option.enable(is_on)


def _polynomials() -> str:
    return "unicode" if np.polynomial.Polynomial._use_unicode else "ascii"


def _set_recursion(value: int) -> None:
    recursion.limit = min(operator.index(value), MAX_RECURSION)


def _learning() -> dict[str, Any]:
    sklearn: Any = sys.modules.get(_LEARNING)
    if not hasattr(sklearn, "get_config"):
        return {}
    return {name: value for name, value in sklearn.get_config().items() if name in learning.SETTINGS}


def _set_learning(value: dict[str, Any]) -> None:
    sys.modules[_LEARNING].set_config(**{name: each for name, each in value.items() if name in learning.SETTINGS})


def _special() -> dict[str, Any]:
    special: Any = sys.modules.get(_SPECIAL)
    found: dict[str, Any] = special.geterr() if hasattr(special, "geterr") else {}
    return found


def _set_special(value: dict[str, Any]) -> None:
    sys.modules[_SPECIAL].seterr(**value)


def _link_colors() -> list[str]:
    found: Any = getattr(sys.modules.get(_CLUSTERS), "_link_line_colors", ())
    return [*found]


def _set_link_colors(value: list[str]) -> None:
    sys.modules[_CLUSTERS].set_link_color_palette([str(each) for each in value])


def _symbols() -> bool:
    return bool(getattr(sys.modules.get(_SYMBOLS), "_errdict", {}).get("divide"))


def _set_symbols(value: bool) -> None:
    sys.modules[_SYMBOLS].seterr(divide=bool(value))


def _mpmath() -> tuple[Any, ...]:
    mp = getattr(sys.modules.get(_NUMBERS), "mp", None)
    return (53, False, False) if mp is None else (mp.prec, mp.pretty, mp.trap_complex)


def _set_mpmath(value: Any) -> None:
    mp: Any = importlib.import_module(_NUMBERS).mp
    prec, mp.pretty, mp.trap_complex = value
    mp.prec = prec


def _set_field_size(value: int) -> None:
    csv.field_size_limit(value)


def _filters() -> list[Any]:
    return list(warnings.filters)


def _set_filters(value: Any) -> None:
    warnings.filters[:] = [tuple(each) for each in value]  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _matplotlib() -> Any:
    """Matplotlib, or None where it is not loaded as a whole."""
    found = sys.modules.get(_PLOTS)
    return found if hasattr(found, "rcParams") and hasattr(found, "colormaps") else None


def _colormaps() -> dict[str, Any]:
    """The colormaps by name that are not matplotlib's own."""
    matplotlib = _matplotlib()
    if matplotlib is None:
        return {}
    maps = matplotlib.colormaps
    own = frozenset(maps._builtin_cmaps)
    return {name: maps[name] for name in maps if name not in own}


def _as_data(held: Mapping[str, Any], different: Mapping[str, Any]) -> dict[str, Any]:
    """These colormaps, and the one that is set and that a library has registered, which the next run need not have loaded.

    They are taken apart, so that not every run of the session has to load matplotlib.
    """
    matplotlib = _matplotlib()
    used = "" if matplotlib is None else str(matplotlib.rcParams["image.cmap"])
    wanted = {**different, **({used: held[used]} if used in held else {})}
    found: dict[str, Any] = {}
    for name, colormap in wanted.items():
        extremes = colormap._rgba_bad, colormap._rgba_under, colormap._rgba_over
        if hasattr(colormap, "_segmentdata"):
            found[name] = colormap.name, extremes, colormap._segmentdata, colormap.N, colormap._gamma
        elif hasattr(colormap, "colors"):
            found[name] = colormap.name, extremes, colormap.colors
    return found


def _set_colormaps(value: dict[str, Any]) -> None:
    matplotlib: Any = importlib.import_module(_PLOTS)
    colors: Any = importlib.import_module("matplotlib.colors")
    for key, (name, (bad, under, over), first, *rest) in value.items():
        if type(key) is not str:
            raise ValueError("a colormap without a name")
        is_of_segments = bool(rest)
        kind = colors.LinearSegmentedColormap if is_of_segments else colors.ListedColormap
        colormap = kind(name, first, *rest) if is_of_segments else kind(first, name)
        colormap = colormap.with_extremes(bad=bad, under=under, over=over)
        maps = matplotlib.colormaps
        if key not in maps or maps[key] != colormap:
            with contextlib.suppress(ValueError), warnings.catch_warnings(action="ignore"):
                maps.register(colormap, name=key, force=True)


def _sequences() -> dict[str, Any]:
    matplotlib = _matplotlib()
    return {} if matplotlib is None else dict(matplotlib.color_sequences)


def _set_sequences(value: dict[str, Any]) -> None:
    matplotlib: Any = importlib.import_module(_PLOTS)
    for name, each in value.items():
        with contextlib.suppress(ValueError):
            matplotlib.color_sequences.register(name, each)


def _color_codes() -> dict[str, Any]:
    """Colors of one letter that are not matplotlib's own: seaborn sets them."""
    if _matplotlib() is None:
        return {}
    colors: Any = importlib.import_module("matplotlib.colors")
    now = colors.colorConverter.colors
    return {code: tuple(now[code]) for code, own in colors.BASE_COLORS.items() if tuple(now[code]) != tuple(own)}


def _set_color_codes(value: dict[str, Any]) -> None:
    colors: Any = importlib.import_module("matplotlib.colors")
    for code, color in value.items():
        if code in colors.BASE_COLORS:
            colors.colorConverter.colors[code] = colors.to_rgb(color)


def _plots() -> dict[str, Any]:
    matplotlib = _matplotlib()
    if matplotlib is None:
        return {}
    found = dict(dict.items(matplotlib.rcParams))
    if _CYCLE in found:
        found[_CYCLE] = found[_CYCLE].by_key()
    return found


def _set_plots(value: dict[str, Any]) -> None:
    matplotlib: Any = importlib.import_module(_PLOTS)
    for name, each in value.items():
        with contextlib.suppress(KeyError, ValueError):
            matplotlib.rcParams[name] = matplotlib.cycler(**each) if name == _CYCLE else each


_GROUPS: Final[Mapping[str, _Group]] = {
    "numpy.random": _Group(_numpy_random, _set_numpy_random),
    "random": _Group(random.getstate, random.setstate),
    _PANDAS: _Group(_pandas, lambda _value: None, is_table=True),
    "decimal": _Group(_decimal, _set_decimal),
    "decimal.templates": _Group(_decimal_templates, _set_decimal_templates, is_table=True),
    "numpy.print": _Group(_print_options, lambda value: np.set_printoptions(**value), is_table=True),
    "numpy.errors": _Group(_numpy_errors, _set_numpy_errors),
    "numpy.buffer": _Group(np.getbufsize, _set_buffer),
    "numpy.ma": _Group(_masked, _set_masked),
    "numpy.polynomial": _Group(_polynomials, np.polynomial.set_default_printstyle),
    "sys.recursion": _Group(lambda: recursion.limit, _set_recursion),
    "warnings": _Group(_filters, _set_filters),
    "calendar": _Group(calendar.firstweekday, calendar.setfirstweekday),
    _NUMBERS: _Group(_mpmath, _set_mpmath, library=_NUMBERS),
    "csv": _Group(csv.field_size_limit, _set_field_size),
    _COLORMAPS: _Group(_colormaps, _set_colormaps, is_table=True, library=_PLOTS),
    _SEQUENCES: _Group(_sequences, _set_sequences, is_table=True, library=_PLOTS),
    _COLOR_CODES: _Group(_color_codes, _set_color_codes, is_table=True, library=_PLOTS),
    _PLOTS: _Group(_plots, _set_plots, is_table=True, library=_PLOTS),
    _LEARNING: _Group(_learning, _set_learning, is_table=True, library=_LEARNING),
    _SPECIAL: _Group(_special, _set_special, is_table=True, library=_SPECIAL),
    _CLUSTERS: _Group(_link_colors, _set_link_colors, library=_CLUSTERS),
    _SYMBOLS: _Group(_symbols, _set_symbols, library=_SYMBOLS),
}
