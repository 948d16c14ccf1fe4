"""What a package of Python's source reaches: files, code made of text, sockets, processes, the interpreter's inside.

The allow-lists of libraries are made with it (`make allowed`), and the host's own modules are checked with it. Nothing is imported or
run: sources are parsed, and each function is followed through the names that it uses, as far as names say where they lead. Methods of
objects whose class the text does not tell are judged by their names alone, and compiled modules are not looked into. So a survey finds
what a library does in the open. It is no proof, and the jail is behind it.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from byref_sandbox.code.source import UNPARSED, parsed
from byref_sandbox.code.words import words

REACHES: Final[Mapping[str, str]] = {
    "files": """builtins.open io.open io.FileIO os pathlib.Path pathlib.PosixPath tempfile shutil glob fileinput zipfile.ZipFile tarfile
        gzip.open gzip.GzipFile bz2.open bz2.BZ2File lzma.open lzma.LZMAFile mmap sqlite3 dbm shelve linecache numpy.load numpy.save
        numpy.savez numpy.savez_compressed numpy.savetxt numpy.loadtxt numpy.genfromtxt numpy.fromfile numpy.memmap numpy.DataSource
        numpy.lib.format pandas.read_csv pandas.read_table pandas.read_fwf pandas.read_excel pandas.read_json pandas.read_html
        pandas.read_stata pandas.read_parquet pandas.read_pickle pandas.read_sql pandas.read_hdf pandas.ExcelWriter pandas.HDFStore
        joblib.dump joblib.load joblib.Memory PIL.Image.open matplotlib.image.imread fcntl logging.FileHandler importlib.resources
        xml.dom xml.sax""",
    "code made of text": """builtins.eval builtins.exec builtins.compile builtins.__import__ importlib pkgutil runpy code codeop imp
        types.FunctionType types.CodeType types.ModuleType ctypes cffi _ctypes pickle cPickle marshal dill cloudpickle copyreg numba
        numpy.ctypeslib numpy.f2py distutils setuptools Cython""",
    "the network": "socket ssl urllib.request urllib.urlopen http.client http.server requests ftplib smtplib webbrowser pooch aiohttp",
    "threads or processes": """subprocess multiprocessing threading.Thread threading.Timer concurrent asyncio signal _thread
        joblib.externals dask distributed pty""",
    "the interpreter's inside": """sys.modules sys._getframe sys.path sys.meta_path sys.settrace sys.setprofile sys.stdin sys.exit
        inspect.currentframe inspect.stack inspect.getouterframes inspect.getsource inspect.getmodule gc traceback.extract_stack
        builtins.input builtins.breakpoint builtins.globals atexit weakref.finalize""",
}
"""By what is reached, the names that do it; a name stands for all that is in it."""
_HARMLESS: Final = words("""os.path.basename os.path.dirname os.path.join os.path.split os.path.splitext os.path.normpath os.path.sep
    os.path.commonprefix os.path.isabs os.environ os.getenv os.linesep os.sep os.name os.cpu_count os.PathLike os.fspath os.getpid
    os.pathsep os.extsep os.altsep importlib.metadata.version importlib.import_module.__name__""")
"""Parts of those that reach nothing: texts, and an environment that is empty."""
METHODS: Final = words("""tofile to_csv to_excel to_pickle to_parquet to_sql to_hdf to_feather to_stata write_text write_bytes read_text
    read_bytes urlopen set_trace""")
"""Methods that reach files of whatever object: its class is not known."""
_KINDS: Final = {name: kind for kind, names in REACHES.items() for name in names.split()}
_BUILTINS: Final = frozenset(dir(builtins))
_MAX_SOURCE: Final = 4 << 20
_MAX_STARS: Final = 5
"""Modules that hand names on by a star, one to the next."""
_MAX_STEPS: Final = 20
"""Steps of a dotted name that is followed: names of names can grow without end."""


@dataclass(slots=True)
class Scope:
    """A function, with those inside it, or a class."""

    module: str
    name: str
    line: int
    uses: set[str] = field(default_factory=set)
    """Dotted names; `self.x` is a method of the same class."""
    bases: list[str] = field(default_factory=list)
    is_class: bool = False

    @property
    def place(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a survey says of a package."""

    reached: Mapping[str, str]
    """By function, class and method (`module:Class.method`): what it reaches, and through what."""
    imported: frozenset[str]
    """Modules that functions import when they are called: a run can import nothing, so they are loaded before."""
    modules: frozenset[str]
    """Modules of the package that were read."""


class Survey:
    """A survey of packages. `fine` are functions, as `module:name`, that were looked at and are harmless as they are used."""

    def __init__(self, packages: Iterable[str], fine: Iterable[str] = (), left_out: Iterable[str] = ()) -> None:
        self._fine = frozenset(fine)
        self._scopes: dict[str, Scope] = {}
        self._names: dict[str, dict[str, str]] = {}
        """By module, what its names stand for."""
        self._stars: dict[str, list[str]] = {}
        """By module, those of which it imports everything."""
        self._imported: set[str] = set()
        self._places: dict[str, str | None] = {}
        for package in packages:
            for module, file in _files_of(package, frozenset(left_out)):
                self._read(module, file)
        self._hand_on_all()

    def result(self) -> Surveyed:
        """What was found."""
        return Surveyed(self._follow(), frozenset(self._imported), frozenset(self._names))

    # Reading -------------------------------------------------------------------------------------------------------------------

    def _read(self, module: str, file: Path) -> None:
        try:
            text = file.read_bytes()
            tree = parsed(text.decode()) if len(text) < _MAX_SOURCE else None
        except (*UNPARSED, OSError):
            tree = None
        names = self._names.setdefault(module, {})
        if tree is None:
            return
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        for node in _statements(tree.body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names.update(imports_of(node, package))
                if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                    self._stars.setdefault(module, []).append(origin_of(node, package))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names[node.name] = f"{module}.{node.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        names.setdefault(target.id, dotted_name(node.value) or "")
        for node in _statements(tree.body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._add(node, module, node.name, package)
            elif isinstance(node, ast.ClassDef):
                self._add_class(node, module, package)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        names[target.id] = f"{module}.{target.id}"
                        self._add(node.value, module, target.id, package)

    def _add_class(self, node: ast.ClassDef, module: str, package: str) -> None:
        scope = self._scopes[f"{module}:{node.name}"] = Scope(module, node.name, node.lineno, is_class=True)
        scope.bases = [found for base in node.bases if (found := self._meant(dotted_name(base), module))]
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                self._add(part, module, f"{node.name}.{part.name}", package)

    def _add(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, module: str, name: str, package: str
    ) -> None:
        scope = Scope(module, name, node.lineno)
        own: dict[str, str] = {}
        local = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        for part in ast.walk(node):
            if isinstance(part, ast.Import | ast.ImportFrom):
                own.update(imports_of(part, package))
                self._imported.update(modules_of(part, package))
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                local.add(part.id)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        decorators = getattr(node, "decorator_list", [])
        for part in (p for each in (*body, *defaults, *decorators) for p in ast.walk(each)):
            if isinstance(part, ast.Attribute) and part.attr in METHODS:
                scope.uses.add(f".{part.attr}")
            if isinstance(part, ast.Name | ast.Attribute) and (dotted := dotted_name(part)):
                first, _, rest = dotted.partition(".")
                if first in ("self", "cls") and "." in name:
                    if rest:
                        scope.uses.add(f"self.{rest.partition('.')[0]}")
                elif first in own:
                    scope.uses.add(f"{own[first]}.{rest}" if rest else own[first])
                elif first not in local and (meant := self._meant(dotted, module)):
                    scope.uses.add(meant)
        self._scopes[scope.place] = scope

    def _meant(self, dotted: str | None, module: str) -> str:
        if not dotted:
            return ""
        first, _, rest = dotted.partition(".")
        names = self._names[module]
        if first in names:
            return f"{names[first]}.{rest}" if rest else names[first]
        if first in _BUILTINS:
            return f"builtins.{dotted}"
        return f"{module}.{dotted}" if module in self._stars else ""

    def _hand_on_all(self) -> None:
        """Enter what modules import by a star: the public names of the other module, which may have them from a third."""
        for _ in range(_MAX_STARS):
            for module, origins in self._stars.items():
                names = self._names[module]
                for origin in origins:
                    for name in self._names.get(origin, ()):
                        if not name.startswith(("_", "*")):
                            names.setdefault(name, f"{origin}.{name}")

    # Following -----------------------------------------------------------------------------------------------------------------

    def _place_of(self, dotted: str) -> str | None:
        """The function or class that a dotted name leads to, through modules that hand it on."""
        if dotted not in self._places:
            self._places[dotted] = self._find(dotted, set())
        return self._places[dotted]

    def _find(self, dotted: str, seen: set[str]) -> str | None:
        if dotted in seen or dotted.count(".") > _MAX_STEPS:
            return None
        seen.add(dotted)
        parts = dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module, rest = ".".join(parts[:cut]), parts[cut:]
            if module not in self._names:
                continue
            place = f"{module}:{'.'.join(rest[:2])}"
            for known in (place, f"{module}:{rest[0]}"):
                if known in self._scopes:
                    return known
            handed_on = self._names[module].get(rest[0])
            return self._find(".".join([handed_on, *rest[1:]]), seen) if handed_on else None
        return None

    def _method(self, scope: Scope, name: str, seen: frozenset[str] = frozenset()) -> str | None:
        """The method that `self.name` is, in the class of a scope or in what it inherits from."""
        owner = scope.name.partition(".")[0]
        place = f"{scope.module}:{owner}"
        if f"{place}.{name}" in self._scopes:
            return f"{place}.{name}"
        for base in self._scopes[place].bases if place in self._scopes else ():
            found = self._place_of(base)
            if found and found not in seen and (method := self._method(self._scopes[found], name, seen | {found})):
                return method
        return None

    def _follow(self) -> dict[str, str]:
        """What is reached, by function and class: from those that reach something themselves back to all that use them."""
        users: dict[str, list[str]] = {}
        reached: dict[str, str] = {}
        for place, scope in self._scopes.items():
            if place in self._fine:
                continue
            found = next((why for use in sorted(scope.uses) if (why := self._reason(use, scope))), None)
            if found is not None:
                reached[place] = found
            for step in self._steps(scope):
                users.setdefault(step, []).append(place)
        last = [*reached]
        while last:
            new: dict[str, str] = {}
            for place in last:
                why = reached[place] if " by " in reached[place] else f"{reached[place]} by {place}"
                new |= {user: why for user in users.get(place, ()) if user not in reached}
            reached |= new
            last = [*new]
        return reached

    def _reason(self, use: str, scope: Scope) -> str | None:
        """What a name reaches by itself, and which name it is; None where it reaches nothing."""
        kind = _kind_of(use)
        return None if kind is None else f"{kind}: {use}"

    def _steps(self, scope: Scope) -> Iterator[str]:
        if scope.is_class:
            for name in ("__init__", "__new__", "__call__", "__enter__", "__init_subclass__"):
                if method := self._method(scope, name):
                    yield method
        for use in sorted(scope.uses):
            step = self._method(scope, use[5:]) if use.startswith("self.") else self._place_of(use)
            if step is not None and step != scope.place:
                yield step


def _kind_of(name: str) -> str | None:
    if name.startswith("."):
        return "files" if name[1:] in METHODS else None
    if name in _HARMLESS or any(name.startswith(f"{harmless}.") for harmless in _HARMLESS):
        return None
    if name == "os.path" or name == "os":
        return None  # the module itself; what is used of it stands beside it
    parts = name.split(".")
    return next((kind for cut in range(len(parts), 0, -1) if (kind := _KINDS.get(".".join(parts[:cut])))), None)


def _files_of(package: str, left_out: frozenset[str]) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        if origin.suffix == ".py":
            yield package, origin
        return
    for file in sorted(origin.parent.rglob("*.py")):
        steps = [*file.relative_to(origin.parent).with_suffix("").parts]
        if steps[-1] == "__init__":
            steps.pop()
        name = ".".join([package, *steps])
        if not any(name == out or name.startswith(f"{out}.") for out in left_out) and not _TESTS & {*steps}:
            yield name, file


_TESTS: Final = words("tests test testing conftest setup benchmarks _build_utils externals")


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under `if` and `try` among them."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [statement for handler in getattr(node, "handlers", []) for statement in handler.body]
            yield from _statements(inner)


def dotted_name(node: ast.expr) -> str | None:
    steps: list[str] = []
    while isinstance(node, ast.Attribute):
        steps.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(steps)]) if isinstance(node, ast.Name) else None


def origin_of(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def imports_of(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
            for alias in node.names
        }
    origin = origin_of(node, package)
    return {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names}


def modules_of(node: ast.Import | ast.ImportFrom, package: str) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    origin = origin_of(node, package)
    return {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
