"""The language: it compiles a model's code to a program, runs that over variables, and explains its errors."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import io
import types
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from byref_sandbox.code.awaiting import awaited_in
from byref_sandbox.code.libraries import LIBRARIES, PARTS, is_installed
from byref_sandbox.code.source import TOO_DEEP, parsed, shows_no_value, strip_dollars
from byref_sandbox.language import calling, copying, eventloop, hints, libraries, names, science, styles, transformer
from byref_sandbox.language.attributes import Namespace
from byref_sandbox.language.builtin_names import safe_builtins
from byref_sandbox.language.calling import Functions, HostFunction
from byref_sandbox.language.evaluation import evaluator, runner
from byref_sandbox.language.facades import Facade, stand_in
from byref_sandbox.language.files import BinaryFile, Files, TextFile
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.inspecting import NOT_LOADED_NAMES
from byref_sandbox.language.magics import Magic, without_magics
from byref_sandbox.language.modules import Modules
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.language.science import walls
from byref_sandbox.language.transformer import Transformer
from byref_sandbox.outcome import Failure

if TYPE_CHECKING:
    from byref_sandbox.language.gallery import Drawn
    from byref_sandbox.language.plotting import Plots

_PACKAGE: Final = __name__.partition(".")[0]
_OF_PLOTS: Final = ("matplotlib", "mpl_toolkits", "pylab")
FILENAME = "<code>"
EVALUATED = "<eval>"
"""The file name of what `eval` evaluates: its lines are not those of the code."""


class Refused(Exception):
    """The code was refused before it ran; `failure` says what was refused and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Program:
    """Compiled code."""

    code: types.CodeType
    source: str
    has_value: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program left when it ended."""

    value: object
    """The value of the last expression, as in a REPL."""
    has_value: bool
    names: Mapping[str, object]
    """Top-level names that it bound or rebound, without modules."""


class Language:
    """RestrictedPython for analysts, with its guards and modules. It is made once and used for one run at a time, by one thread.

    `allowed` are names of further modules that the host allows; each is loaded by `learn`.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self.allowed: dict[str, str] = {name.partition(".")[0]: name for name in allowed}
        """Further modules, by the first words of their names."""
        self._broken: dict[str, str] = {}
        """Why one of them, or a library that is installed, is not there, by the first word of its name."""
        self._guards = Guards()
        self.files = Files()
        """The files that the running code reads and writes."""
        copying.install(self._guards)
        self._modules = Modules(self._guards, self.files, runner(_compiled_statements))
        libraries.install(self._guards, self._modules, self.files)
        styles.install(self._guards, self._modules)
        self._guards.stand_ins.update(
            {
                Namespace: dict,
                Facade: stand_in(types.ModuleType, "use an import statement"),
                types.CodeType: stand_in(types.CodeType, "write the code directly"),
                HostFunction: stand_in(types.BuiltinFunctionType, "define a function with def"),
            }
        )
        self._guards.stand_ins.update({TextFile: io.StringIO, BinaryFile: io.BytesIO})
        self.evaluated: dict[str, types.CodeType] = {}
        """Expressions that the running code evaluated and that may have made functions."""
        evaluate = evaluator(_compiled_expression, self.evaluated)
        self.builtins = safe_builtins(self._guards, self._modules, self.files, evaluate)
        """The names that code has without defining or importing them."""
        self._plots: Plots | None = None
        self._learned: set[str] = set()
        self._note_imported()

    def _note_imported(self) -> None:
        imported = [*map(vars, self._modules.facades.values())]
        for space in (self.builtins, *imported):
            _name_as_code_does(space)
        self._imported = {id(v) for space in imported for v in space.values() if callable(v)}

    def learn_plots(self) -> None:
        """Load matplotlib and use it once, unless that is done; it takes most of a second. If it is missing, code is told so."""
        self.load_plots()
        if self._plots is not None:
            with contextlib.suppress(Exception):  # what is wrong shows when code draws
                self._plots.warm_up()

    def load_plots(self) -> None:
        """Import matplotlib, unless that is done. It is the part of `learn_plots` that reads files."""
        if self._plots is not None or importlib.util.find_spec("matplotlib") is None:
            return
        try:
            from byref_sandbox.language.plotting import Plots

            self._plots = Plots(self._guards, self._modules, self.files)
        except Exception as error:  # noqa: BLE001  (of an installation: code is told)
            self._broken |= dict.fromkeys(_OF_PLOTS, _said(error))
            return
        self.builtins["plt"] = self._modules.facades["matplotlib.pyplot"]
        self.builtins["display"] = self._plots.display
        self._note_imported()

    def learn(self, library: str) -> None:
        """Load a library of `code.libraries` or a module of `allowed`, and what it needs, unless that is done.

        If it is missing, or could not be loaded, code is told so.
        """
        if library in self.allowed.values():
            self._learn_further(library)
            return
        for name in (*LIBRARIES[library], library):
            if name in self._learned or not is_installed(name):
                continue
            self._learned.add(name)
            if name == "seaborn":
                self.learn_plots()
            try:
                if needed := next((each for each in LIBRARIES[name] if each in self._broken), None):
                    raise ImportError(f"{needed}: {self._broken[needed]}")
                science.load(name, walls.Given(self._guards, self._modules, self.builtins, _compiled_expression))
            except Exception as error:  # noqa: BLE001  (importing it runs its code)
                parts = (part for part, whole in PARTS.items() if whole == name)
                self._broken |= dict.fromkeys((name, *parts), _said(error))
            self._note_imported()

    def _learn_further(self, name: str) -> None:
        if name in self._learned:
            return
        from byref_sandbox.code.checking import check
        from byref_sandbox.language import further

        self._learned.add(name)
        try:
            for library in check(name).libraries:
                self.learn(library)
                if library in self._broken:  # its walls may not be up
                    raise ImportError(f"{library}: {self._broken[library]}")
            further.load(name, self._modules, self.builtins)
        except Exception as error:  # noqa: BLE001  (importing it runs its code)
            self._broken[name.partition(".")[0]] = _said(error)
        self._note_imported()

    def figures(self, value: object = None, *, is_done: bool = True) -> tuple[list[Drawn], int]:
        """Return the images of the run so far, and how many figures there was no room for. With `is_done`, figures left open are drawn too."""
        return ([], 0) if self._plots is None else self._plots.figures(value, is_done=is_done)

    def is_drawing(self, value: object) -> bool:
        """Whether a value is a figure, a part of a figure, or a container of such."""
        return self._plots is not None and self._plots.is_drawing(value)

    def is_closed_file(self, value: object) -> bool:
        """Whether a value is a file that was closed."""
        return isinstance(value, TextFile | BinaryFile) and value.closed

    def compile(self, source: str, filename: str = FILENAME) -> Program:
        """Check and compile code; raise `Refused` with a failure of kind SyntaxError or NotAllowed."""
        source = strip_dollars(source)
        try:
            source = without_magics(source, self._modules.facades.__contains__)
            code, has_value = _compiled(source, filename, "exec")
        except Magic as magic:
            raise Refused(hints.magic(magic)) from None
        except SyntaxError as error:
            raise Refused(hints.syntax_error(error, source)) from None
        except TOO_DEEP:
            raise Refused(
                Failure("SyntaxError", "the code is nested too deeply", None, "split it into several statements")
            ) from None
        except ValueError as error:  # NUL characters, lone surrogates
            raise Refused(Failure("SyntaxError", str(error)[:200])) from None
        return Program(code, source, has_value)

    def run(self, program: Program, variables: Mapping[str, object], stdout: TextIO) -> Ran:
        """Run a program over variables; raise whatever it raises. Everything that it prints goes to `stdout`."""
        space = self.space(variables)
        value = self.execute(program, space, stdout)
        return Ran(value, value is not None, self.bound(space, variables))

    def space(
        self,
        variables: Mapping[str, object],
        helper: object = None,
        files: Mapping[str, bytes] | None = None,
        functions: Functions | None = None,
        not_loaded: frozenset[str] = frozenset(),
    ) -> dict[str, Any]:
        """Return the top-level names of a new run, and forget the classes of the last one.

        `helper` is called by `df(…)` where the code has bound `df` to something that cannot be called; without it, the variable
        `df` is. `files` are those that earlier runs wrote; `functions` are the host's. `not_loaded` are variables
        that are bound, but that the run is not given.
        """
        self._guards.reset()
        self.files.reset(files or {})
        self.evaluated.clear()
        eventloop.begin(functions)
        if self._plots is not None:
            self._plots.reset()
        helper = variables.get(names.FRAME_HELPER) if helper is None else helper
        known = {**self.builtins, transformer.HELPER: lambda value: value if callable(value) else helper}
        if helper is not None:
            known[names.FRAME_HELPER] = helper  # so that it is there again after `del df`
        if functions is not None:
            known |= {"functions": calling.finder(functions.all), **functions.all}
        if not_loaded:
            known[NOT_LOADED_NAMES] = not_loaded
        return {**variables, "__builtins__": known, "__name__": "__main__"}

    def execute(self, program: Program, space: dict[str, Any], stdout: TextIO | io.TextIOBase) -> object:
        """Run a program in the names of a run and return its value. What it bound before an error stays in `space`."""
        if self._plots is not None:
            self._plots.begin()
        with contextlib.redirect_stdout(stdout):
            try:
                main = eval(program.code, space)
                if main is not None:  # the program awaits at its top level, so it is a coroutine
                    eventloop.get_event_loop().run_until_complete(main)
                eventloop.finish()
            except SystemExit as ended:
                if not _is_normal(ended):
                    raise
        value = space.pop(transformer.VALUE, None)
        if eventloop.is_unawaited(value):
            eventloop.tell(f"the value is a coroutine that was never awaited: await {value.__name__}(...)")
        return value

    def bound(self, space: Mapping[str, Any], variables: Mapping[str, object]) -> dict[str, object]:
        """Return the names that code bound or rebound in a space that began with `variables`, without what it imported."""
        return {
            name: made
            for name, made in space.items()
            if not name.startswith(("__", "."))
            and not (name in variables and variables[name] is made)
            and not self.is_imported(made)
        }

    def is_imported(self, value: object) -> bool:
        """Whether a value is a module, or a function or class of a module."""
        return type(value) is Facade or id(value) in self._imported

    def explain(
        self, error: BaseException, program: Program, data: Iterable[str], others: Iterable[str] = ()
    ) -> Failure:
        """Say what went wrong, where, and how the code could be mended. Never raises, whatever the error is.

        `data` are names of what was given to the code, the most likely first, `others` names that earlier code left.
        """
        allowed = self._broken | {name: self._broken.get(top, "") for top, name in self.allowed.items()}
        known = hints.Known(tuple(data), tuple(others), allowed)
        return hints.explain(error, program.source, FILENAME, known, self._modules.facades, self.builtins)


def _said(error: Exception) -> str:
    return str(error)[:300] or type(error).__name__


def _is_normal(ended: SystemExit) -> bool:
    """Whether code ended as it wished to: by `sys.exit()` or `sys.exit(0)`."""
    return ended.code is None or (type(ended.code) in (int, bool) and ended.code == 0)


def _compiled(source: str, filename: str, mode: Literal["exec", "eval"]) -> tuple[types.CodeType, bool]:
    """Return the code of a program or expression, and whether it has a value; raise Refused and what Python's compiler raises."""
    walls = Transformer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        plain = parsed(source, filename, mode)
        walls.awaited = awaited_in(plain)
        walls.shows_value = not (isinstance(plain, ast.Module) and shows_no_value(source, plain))
        tree = walls.visit(plain)
        if walls.problems:
            raise Refused(_refusal(walls.problems))
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if mode == "exec" else 0
        return compile(ast.fix_missing_locations(tree), filename, mode, flags, dont_inherit=True), walls.has_value


def _compiled_expression(source: str) -> types.CodeType:
    """Return the code of an expression for `eval`; raise SyntaxError and NotAllowed."""
    return _compiled_text(source, "eval")


def _compiled_statements(source: str) -> types.CodeType:
    """Return the code of statements for `timeit`; raise SyntaxError and NotAllowed."""
    code = _compiled_text(source, "exec")
    if code.co_flags & inspect.CO_COROUTINE:
        raise SyntaxError("'await' outside function")
    return code


def _compiled_text(source: str, mode: Literal["exec", "eval"]) -> types.CodeType:
    try:
        return _compiled(source, EVALUATED, mode)[0]
    except Refused as refused:
        raise NotAllowed(refused.failure.message, refused.failure.hint or "") from None
    except TOO_DEEP:
        raise SyntaxError("the expression is nested too deeply") from None
    except ValueError as error:  # NUL characters, lone surrogates
        raise SyntaxError(str(error)[:200]) from None


def _refusal(problems: list[transformer.Problem]) -> Failure:
    first = min(problems, key=lambda problem: problem.line or 0)
    others = sorted({f"line {p.line}: {p.message}" for p in problems if p.message != first.message})
    message = first.message + (f" (also {'; '.join(others[:5])})" if others else "")
    return Failure("NotAllowed", message[:2000], first.line, first.hint)


def _name_as_code_does(space: Mapping[str, Any]) -> None:
    """Give functions of this package the names that code has for them, which errors about their arguments show."""
    for name, value in space.items():
        function: Any = value.__func__ if type(value) is types.MethodType else value
        is_own = type(function) is types.FunctionType and function.__module__.partition(".")[0] == _PACKAGE
        if is_own and name.isidentifier() and not name.startswith("_"):
            function.__name__ = function.__qualname__ = name
