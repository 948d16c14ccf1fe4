"""matplotlib as the language has it: figures become images, and no file or program is in reach."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import itertools
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final

from byref_sandbox.language import fonts, plot_names
from byref_sandbox.language.facades import Facade, stand_in
from byref_sandbox.language.files import Files
from byref_sandbox.language.gallery import Drawn, Gallery, pixels_of
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.modules import Modules, public
from byref_sandbox.language.names import PLOT_METHODS
from byref_sandbox.language.refusal import NotAllowed, no_files, not_written
from byref_sandbox.language.templates import refused_attribute

_NO_TEX: Final = "mathtext needs no LaTeX: write '$x^2$' and leave usetex alone"
_LOOKED_INTO: Final = 20
"""Items of a container that are looked at, to see whether it holds drawings."""
_LOOKED_DEEP: Final = 2
"""Levels of containers that are looked into: `plt.subplots` returns an array in a tuple."""
_originals: dict[str, Any] = {}
"""The functions of matplotlib that were replaced, by name: this is done once in a process."""


class Plots:
    """matplotlib of one language; raises ImportError where it is not installed."""

    def __init__(self, guards: Guards, modules: Modules, files: Files) -> None:
        fonts.import_matplotlib()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("pyplot", "style", "backends.backend_agg", "_qhull", "_tri", *plot_names.PARTS):
                importlib.import_module(f"matplotlib.{name}")
            for name in (*plot_names.TOOLKITS, "pandas.plotting._matplotlib", "contourpy"):
                importlib.import_module(name)
            with contextlib.suppress(ImportError):  # rcdefaults() imports it in some versions
                importlib.import_module("matplotlib.style.core")
        import matplotlib.pyplot
        from matplotlib.figure import Figure

        importlib.import_module("PIL.Image").preinit()
        fonts.hold_fonts()
        self._pyplot = matplotlib.pyplot
        self._gallery = Gallery(self._pyplot, _originals.setdefault("savefig", Figure.savefig), files)
        self._wall_up(Figure)
        guards.substitutes["canvas"] = _canvas
        guards.stand_ins[Settings] = stand_in(matplotlib.RcParams, "use plt.rcParams")
        for name in PLOT_METHODS:
            guards.wrappers[name] = lambda method, _name: method
        guards.inner = _inner
        for kind, names in _writable():
            guards.writable_attributes[kind] = names
        self._add_modules(modules)
        matplotlib.rcParams["figure.max_open_warning"] = 0  # already here: what code changes is told by a comparison
        self._settings = dict(matplotlib.rcParams)
        self._is_warm = False

    def reset(self) -> None:
        """Forget figures and settings of the last run."""
        self._gallery.reset()
        self._pyplot.rcParams.clear()
        dict.update(self._pyplot.rcParams, self._settings)

    def begin(self) -> None:
        """Note that the names of the session are bound, and that the code begins."""
        self._gallery.begin()

    def figures(self, value: object = None, *, is_done: bool = True) -> tuple[list[Drawn], int]:
        """Return the images so far, and how many figures there was no room for. With `is_done`, figures left open are drawn, and `value`."""
        from matplotlib.figure import Figure

        if is_done:
            if isinstance(value, _seaborn("_core.plot", "Plot")):
                _draw_plot(value)
            self._gallery.show()
            if isinstance(value, Figure):
                self._gallery.show([value])
            self._gallery.show_changed()
        else:
            self._pyplot.close("all")  # so that the next run does not show what this one had begun
        return self._gallery.drawn, self._gallery.left_out

    def is_drawing(self, value: object, depth: int = 0) -> bool:
        """Whether a value is a figure, a part of one, or a container of such: an image says more than its repr."""
        from matplotlib.artist import Artist
        from matplotlib.container import Container

        if isinstance(value, (Artist, Container, *_seaborn("axisgrid", "_BaseGrid"), *_seaborn("_core.plot", "Plot"))):
            return True
        import numpy as np

        items: list[object] = []
        if type(value) in (list, tuple) or (type(value) is np.ndarray and value.dtype == object):
            parts: Any = value.flat if isinstance(value, np.ndarray) else value
            items = list(itertools.islice(parts, _LOOKED_INTO))
        elif type(value) is dict:
            items = list(itertools.islice(value.values(), _LOOKED_INTO))
        return depth < _LOOKED_DEEP and any(self.is_drawing(item, depth + 1) for item in items)

    def display(self, *values: object, **_options: object) -> None:
        """IPython's `display`: a figure becomes an image, everything else is printed."""
        from matplotlib.figure import Figure

        for value in values:
            if isinstance(value, _seaborn("_core.plot", "Plot")):
                _draw_plot(value)
                self._gallery.show()
            elif isinstance(value, Figure):
                self._gallery.save(value)
            else:
                print(value)

    # What is put in place of files, windows and programs ----------------------------------------------------------------------

    def _wall_up(self, figure_class: Any) -> None:
        import matplotlib
        from matplotlib import cbook, figure, font_manager, image, texmanager, text, ticker, transforms, tri
        from pandas.plotting import _core

        gallery = self._gallery
        triangles = property(
            lambda made: vars(made)["triangles"].copy(), lambda made, given: vars(made).update(triangles=given)
        )
        setattr(tri.Triangulation, "triangles", triangles)  # noqa: B010  as `_copied`, of what instances hold themselves
        figure_class.savefig = lambda figure, fname=None, **options: gallery.save(figure, fname, **options)
        figure_class.show = lambda figure, warn=True: gallery.show([figure])
        set_state = _originals.setdefault("Figure.__setstate__", figure_class.__setstate__)

        def restore(figure: Any, state: Any) -> None:
            set_state(figure, state)
            gallery.restored(figure)

        figure_class.__setstate__ = restore
        setattr(transforms.TransformNode, "__setstate__", _restore_transform)  # noqa: B010
        matplotlib.pyplot.savefig = lambda *arguments, **options: self._pyplot.gcf().savefig(*arguments, **options)
        matplotlib.pyplot.show = lambda *_arguments, **_options: gallery.show()
        backend = importlib.import_module("pandas.plotting._matplotlib")
        for owner, name, make in (
            (matplotlib.RcParams, "__setitem__", _checked_setting),
            (matplotlib.pyplot, "figure", _no_figure_class),
            (figure.FigureBase, "_process_projection_requirements", _known_projection),
            # Verbose: otherwise it opens /dev/null for its messages.
            (
                importlib.import_module("matplotlib._qhull"),
                "delaunay",
                lambda real: lambda x, y, _verbose: real(x, y, 1),
            ),
            (tri.Triangulation, "edges", _copied),
            (tri.Triangulation, "neighbors", _copied),
            (font_manager.FontProperties, "set_file", _no_font_file),
            (text.Text, "set_usetex", _no_usetex),
            (ticker.StrMethodFormatter, "__init__", _checked_template),
            (cbook, "_auto_format_str", _checked_format),
            (image._ImageBase, "write_png", lambda _real: _refuse(not_written(".write_png()"))),
            (texmanager.TexManager, "make_tex", lambda _real: _refuse(NotAllowed("usetex is not available", _NO_TEX))),
            (texmanager.TexManager, "make_dvi", lambda _real: _refuse(NotAllowed("usetex is not available", _NO_TEX))),
            (_core, "_get_plot_backend", lambda _real: lambda _backend=None: backend),
        ):
            key = f"{owner.__name__}.{name}"
            if key not in _originals and hasattr(owner, name):
                _originals[key] = getattr(owner, name)
                setattr(owner, name, make(_originals[key]))

    def _add_modules(self, modules: Modules) -> None:
        import matplotlib

        cycler = importlib.import_module("cycler")

        parts: dict[str, object] = {}
        for name, listed in plot_names.PARTS.items():
            real = importlib.import_module(f"matplotlib.{name}")
            full = f"matplotlib.{name}"
            parts[name] = modules.add(full, _own(public(real, listed.split())), real, plot_names.HINTS.get(full))
        # All colormaps are attributes of the module as well: plt.cm.viridis.
        maps = {name: matplotlib.colormaps[name] for name in matplotlib.colormaps if name.isidentifier()}
        vars(parts["cm"]).update(maps)
        parts["style"] = modules.add(
            "matplotlib.style",
            {"use": _use_style, "context": _style_context, "available": _styles(), "library": _style_library()},
        )
        for name, listed in plot_names.TOOLKITS.items():
            modules.add(name, public(importlib.import_module(name), listed.split()))
            package, _, part = name.rpartition(".")
            if package in plot_names.TOOLKITS:
                vars(modules.facades[package])[part] = modules.facades[name]
        modules.add(
            "mpl_toolkits", {name: modules.facades[f"mpl_toolkits.{name}"] for name in ("mplot3d", "axes_grid1")}
        )
        modules.add("cycler", {"cycler": cycler.cycler, "Cycler": cycler.Cycler})
        own = self._pyplot_functions() | {"cm": parts["cm"], "style": parts["style"]}
        names = public(self._pyplot, plot_names.PYPLOT.split())
        pyplot = modules.add("matplotlib.pyplot", names | own, self._pyplot, plot_names.HINTS["matplotlib.pyplot"])
        vars(parts["artist"])["getp"] = _getp
        vars(modules.facades["IPython.display"])["display"] = self.display
        parts |= {"pyplot": pyplot, "use": _nothing, "rc_context": _rc_context, "cycler": cycler.cycler}
        parts |= {name: vars(pyplot)[name] for name in ("rcParams", "rcParamsDefault")}
        top = public(matplotlib, plot_names.TOP.split())
        modules.add("matplotlib", top | parts, matplotlib, plot_names.HINTS["matplotlib"])
        plotting = importlib.import_module("pandas.plotting")
        drawers = modules.add("pandas.plotting", public(plotting, plot_names.PANDAS_PLOTTING.split()), plotting)
        vars(modules.facades["pandas"])["plotting"] = drawers
        modules.facades["pylab"] = modules.facades["matplotlib.pylab"] = pyplot

    def _pyplot_functions(self) -> dict[str, Any]:
        functions: dict[str, Any] = {
            **_settings(self._pyplot),
            "figure": self._pyplot.figure,
            "getp": _getp,
            "savefig": self._pyplot.savefig,
            "show": self._pyplot.show,
            "rc_context": _rc_context,
            "ion": contextlib.nullcontext,
            "ioff": contextlib.nullcontext,
        }
        return functions | dict.fromkeys(
            ("pause", "switch_backend", "interactive", "draw_if_interactive", "set_loglevel"), _nothing
        )

    def warm_up(self) -> None:
        """Draw once, so that libraries do what they do on first use, and the usual fonts are loaded."""
        if self._is_warm:
            return
        self._is_warm = True
        import numpy as np
        import pandas as pd

        figure, axes = self._pyplot.subplots(2, 2)
        axes[0][0].plot(pd.to_datetime(["2024-01-01", "2024-03-01"]), [1, 2], label="a $x^2_i$")
        axes[0][0].legend()
        axes[0][0].set_title("Title", fontweight="bold")
        axes[0][1].bar(["a", "b"], [1, 2])
        axes[0][1].set_yscale("log")
        figure.colorbar(axes[1][0].imshow(np.eye(3)))
        axes[1][1].contourf(np.arange(9.0).reshape(3, 3))
        axes[1][1].text(0.5, 0.5, "x", style="italic", family="monospace")
        pd.DataFrame({"a": [1, 2]}, index=pd.to_datetime(["2024-01-01", "2024-02-01"])).plot(ax=axes[1][1])
        self._gallery.save(figure, io.BytesIO(), bbox_inches="tight")
        self._gallery.reset()


class Settings(MutableMapping[str, Any]):
    """Stands for `plt.rcParams`: the real one is a dict, and dict's own methods set values without its checks."""

    __slots__ = ("_real",)

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getitem__(self, key: str) -> Any:
        return self._real[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._real[key] = value

    def __delitem__(self, key: str) -> None:
        raise NotAllowed(f"the setting {str(key)[:60]!r} cannot be deleted", "plt.rcdefaults() undoes changes")

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def __repr__(self) -> str:
        return repr(self._real)

    def __str__(self) -> str:
        return str(self._real)

    def copy(self) -> Settings:
        """Return a copy of the settings."""
        return Settings(self._real.copy())

    def find_all(self, pattern: str) -> Settings:
        """Return a copy of the settings whose names match a regular expression."""
        return Settings(self._real.find_all(pattern))


def _settings(pyplot: Any) -> dict[str, Settings]:
    return {"rcParams": Settings(pyplot.rcParams), "rcParamsDefault": Settings(pyplot.rcParamsDefault.copy())}


def _seaborn(module: str, name: str) -> tuple[type, ...]:
    """Return a class of seaborn, alone in a tuple; an empty tuple where that is not loaded."""
    loaded = sys.modules.get(f"seaborn.{module}")
    return () if loaded is None else (getattr(loaded, name),)


def _draw_plot(plot: Any) -> None:
    """Draw a `seaborn.objects.Plot`, which draws nothing before it is shown."""
    plot.plot(pyplot=True)


def _own(names: dict[str, Any]) -> dict[str, Any]:
    """Return a module's names with copies of its dicts and lists: what code changes must not be the library's."""
    return {name: copy.copy(value) if type(value) in (dict, list) else value for name, value in names.items()}


def _writable() -> Iterator[tuple[type, frozenset[str]]]:
    """By class of matplotlib, the attributes that may be set."""
    axes = importlib.import_module("mpl_toolkits.mplot3d").Axes3D
    listed: dict[type, frozenset[str]] = {axes: frozenset(plot_names.WRITABLE_3D.split())}
    for path, names in plot_names.WRITABLE.items():
        module, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(f"matplotlib.{module}"), name)
        listed[kind] = frozenset(names.split())
    found: dict[type, frozenset[str]] = {}
    for kind in listed:
        waiting = [kind]
        while waiting:
            each = waiting.pop()
            waiting += each.__subclasses__()
            found[each] = frozenset().union(*(names for base, names in listed.items() if issubclass(each, base)))
    yield from found.items()


def _inner(value: Any, name: str) -> Any:
    """Return what holds a copy of a drawing's own attribute whose name begins with an underscore, if that is data or a drawing; else None.

    Code that looks at a plot reads `text._text` and `grid._legend`.
    """
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cbook import GrouperView
    from matplotlib.container import Container
    from matplotlib.gridspec import GridSpecBase, SubplotSpec

    if not isinstance(value, (Artist, Container, SubplotSpec, *_seaborn("axisgrid", "_BaseGrid"))):
        return None
    if name in plot_names.INNER_METHODS:
        return types.SimpleNamespace(**{name: getattr(value, name)})
    if name == "_twinned_axes" and isinstance(value, Axes):
        return types.SimpleNamespace(_twinned_axes=GrouperView(getattr(value, name)))
    found = vars(value).get(name, Artist)
    if isinstance(found, Artist | GridSpecBase):
        return types.SimpleNamespace(**{name: found})
    try:
        return types.SimpleNamespace(**{name: _plain(found)})
    except TypeError:
        return None


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a copy of plain data; raise TypeError of anything else."""
    import numpy as np

    kind = type(value)
    if kind in (str, int, float, bool, type(None)) or isinstance(value, np.number | np.bool):
        return value
    if kind is np.ndarray and value.dtype.kind in "biufc":
        return value.copy()
    if depth < _LOOKED_DEEP:
        if kind in (list, tuple):
            return kind(_plain(each, depth + 1) for each in value)
        if kind is dict:
            return {_plain(key, depth + 1): _plain(each, depth + 1) for key, each in value.items()}
    raise TypeError(f"a {kind.__name__} is no plain data")


def _getp(obj: Any, *arguments: Any, **options: Any) -> Any:
    """getp() of drawings only: the real one calls any method of any object, by a name that it makes of a text."""
    from matplotlib.artist import Artist, getp

    if not all(isinstance(each, Artist) for each in (obj if type(obj) in (list, tuple) else [obj])):
        raise NotAllowed("getp() is of what was drawn", "call the object's own method")
    return getp(obj, *arguments, **options)


def _restore_transform(node: Any, state: dict[str, Any]) -> None:
    """What `TransformNode.__setstate__` does; its own keeps all that ever depended on the node, so that figures grow with each run."""
    parents: dict[int, Any] = {}
    for key, parent in state.pop("_parents").items():
        if parent is not None:
            parents[key] = weakref.ref(parent, lambda _gone, key=key: parents.pop(key, None))  # type: ignore[misc]
    vars(node).update(state, _parents=parents)


def _nothing(*_arguments: object, **_options: object) -> None:
    """Do nothing: for functions that need a window, since the backend stays Agg."""


def _refuse(refusal: NotAllowed) -> Callable[..., Any]:
    def call(*_arguments: object, **_options: object) -> Any:
        raise refusal

    return call


def _canvas(value: Any) -> Any:
    """Return a figure's canvas without what writes files and opens windows; an attribute `canvas` of other objects as it is."""
    from matplotlib.backend_bases import FigureCanvasBase

    canvas = value.canvas
    if not isinstance(canvas, FigureCanvasBase):
        return canvas
    width, height = canvas.get_width_height()
    return Facade(
        "figure.canvas",
        {
            "draw": canvas.draw,
            "draw_idle": _nothing,
            "flush_events": _nothing,
            "mpl_connect": lambda *_arguments: 0,
            "mpl_disconnect": _nothing,
            "get_width_height": lambda: (width, height),
            "get_renderer": _nothing,  # None stands for it where an extent is asked for
            "buffer_rgba": lambda: pixels_of(value),
            "get_supported_filetypes": lambda: {"png": "Portable Network Graphics"},
        },
        hints=dict.fromkeys(
            ("print_figure", "print_png", "manager", "tostring_argb", "tostring_rgb"), "use fig.savefig(name)"
        ),
    )


def _checked_setting(real: Callable[..., None]) -> Callable[..., None]:
    def set_item(settings: Any, key: Any, value: Any) -> None:
        key = str.__str__(key) if isinstance(key, str) else key
        if key in plot_names.FIXED_SETTINGS:
            if key == "text.usetex" and value:
                raise NotAllowed("usetex is not available", _NO_TEX)
            return
        if key == "axes.prop_cycle" and isinstance(value, str):
            raise NotAllowed("a cycler cannot be given as text", "use cycler(color=[...])")
        real(settings, key, value)

    return set_item


def _checked(check: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put `check` before a function of matplotlib: it gets the same arguments, and raises NotAllowed."""

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            check(*arguments, **options)
            return real(*arguments, **options)

        return functools.wraps(real)(call)

    return before


@_checked
def _no_figure_class(*_arguments: Any, **options: Any) -> None:
    """Of plt.figure(), which subplots() and its like call with what they get: a figure's class would get the canvas."""
    if "FigureClass" in options:
        raise NotAllowed("FigureClass is not available", "use plt.figure() and draw on it")


@_checked
def _known_projection(_figure: Any, **options: Any) -> None:
    from matplotlib.axes import Axes

    kind, projection = options.get("axes_class"), options.get("projection")
    if not (kind is None or (isinstance(kind, type) and issubclass(kind, Axes))):
        raise NotAllowed("axes_class is a class of matplotlib's axes", "leave it out")
    if not (projection is None or isinstance(projection, str)):
        raise NotAllowed("a projection is given by its name", "use projection='polar' or projection='3d'")


def _copied(real: property) -> property:
    """Return a property that gives out copies: compiled code uses this array as indexes, which were checked once."""
    return property(lambda triangulation: real.__get__(triangulation).copy())


@_checked
def _no_font_file(_properties: Any, file: Any) -> None:
    if file is not None:
        raise no_files("a font by its path", "give the name of a family: DejaVu Sans, DejaVu Serif, STIXGeneral")


def _no_usetex(real: Callable[..., None]) -> Callable[..., None]:
    def set_usetex(text: Any, usetex: Any) -> None:
        is_asked = bool(usetex)  # once: an object could answer in another way the second time
        if is_asked:
            raise NotAllowed("usetex is not available", _NO_TEX)
        real(text, is_asked)

    return set_usetex


def _checked_template(real: Callable[..., None]) -> Callable[..., None]:
    return lambda formatter, fmt: real(formatter, _template(fmt))


def _checked_format(real: Callable[..., str]) -> Callable[..., str]:
    return lambda fmt, value: real(_template(fmt), value)


def _template(text: Any) -> str:
    template = str.__str__(str(text))
    if (refused := refused_attribute(template)) is not None:
        raise NotAllowed(f"attribute {refused!r} is not available in a format string", "use a function")
    return template


def _rc_context(rc: Any = None, fname: Any = None) -> contextlib.AbstractContextManager[None]:
    import matplotlib

    if fname is not None:
        raise no_files("a file of settings", "give them as a dict")
    return _within_settings(lambda: matplotlib.rcParams.update(rc or {}))


@contextlib.contextmanager
def _within_settings(change: Callable[[], None]) -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context():
        change()
        yield


def _styles() -> list[str]:
    from matplotlib import style

    return list(style.available)


def _style_library() -> dict[str, Settings]:
    from matplotlib import style

    return {name: Settings(settings.copy()) for name, settings in style.library.items()}


def _use_style(style: Any) -> None:
    from matplotlib import style as real

    known = {*real.available, "default", "classic"}
    for each in style if type(style) in (list, tuple) else [style]:
        if type(each) is dict:
            import matplotlib

            matplotlib.rcParams.update(each)
        elif type(each) is str and each in known:
            real.use(each)
        elif type(each) is str and each.startswith("seaborn"):
            real.use(
                each.replace("seaborn", "seaborn-v0_8", 1)
                if each.replace("seaborn", "seaborn-v0_8", 1) in known
                else "seaborn-v0_8"
            )
        else:
            raise NotAllowed(
                f"the style {str(each)[:60]!r} is not available", f"the styles are: {', '.join(sorted(known))}"
            )


def _style_context(style: Any, after_reset: bool = False) -> contextlib.AbstractContextManager[None]:
    def change() -> None:
        if after_reset:
            import matplotlib

            matplotlib.rcdefaults()
        _use_style(style)

    return _within_settings(change)
