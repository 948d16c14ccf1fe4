"""The body of a SQL run: one query on DuckDB over the tables that it names. Its result is a DataFrame."""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
import re
import resource
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

import pandas as pd

from byref_sandbox import wire
from byref_sandbox.code import sqltext
from byref_sandbox.outcome import Failure
from byref_sandbox.run import bodies
from byref_sandbox.run.worker import Body, Captured, Expired, disarm, error_frame, failure_of, out_of_memory
from byref_sandbox.values import exact, sqltables, values
from byref_sandbox.values.bindings import frame_of
from byref_sandbox.values.data import Exact, Unusable
from byref_sandbox.values.loaded import Loaded

_KIND: Final = "SqlError"
_SETTINGS: Final = {
    "temp_directory": "''",
    "home_directory": "''",
    "secret_directory": "''",
    "extension_directories": "[]",
    "allow_persistent_secrets": "false",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "enable_external_file_cache": "false",
    # Last: once it is off, DuckDB refuses each setting that names a path.
    "enable_external_access": "false",
}
_TABLE_FUNCTIONS: Final = frozenset(
    "generate_series range unnest repeat json_each json_tree histogram histogram_values summary".split()  # noqa: SIM905
)
"""Table functions that read nothing but their arguments and the tables of the query. All others are refused, new ones too."""
_SCALARS_REFUSED: Final = frozenset(
    "getenv current_setting set_config write_log which_secret parse_duckdb_log_message".split()  # noqa: SIM905
)
_WARMED: Final = (
    "SELECT g, sum(a) AS s, count(*) AS n, avg(a) AS m, max(d) AS d FROM warm GROUP BY 1 HAVING sum(a) > 0 ORDER BY 2 DESC LIMIT 5",
    "WITH w AS (SELECT *, row_number() OVER (PARTITION BY g ORDER BY a) AS r FROM warm) SELECT * FROM w JOIN warm USING (a)",
    "SELECT strftime(d, '%Y-%m'), date_trunc('month', d), regexp_matches(g, 'x'), n.k, n.l[1], unnest(n.l), j->>'$.k' FROM warm",
    "PIVOT warm ON g USING sum(a)",
    "SUMMARIZE warm",
    "SELECT interval 1 day, time '10:00', map {'a': 1}, 1.5, sum(a), timestamptz '2024-01-01 00:00:00+00', '{}'::JSON FROM warm",
    "SELECT nothing FROM warm",
)
_CATALOGS: Final = ("duckdb_", "pg_", "sqlite_")
_MEMORY_SHARE: Final = 0.8
"""The part of a run's memory that the database may use; the rest is for the result on its way out."""
_INTERRUPTED: Final = "Query interrupted"
_HINT: Final = "filter or aggregate earlier, join on equal keys, or select fewer columns"
_MAX_REASONS: Final = 20


@functools.cache
def connection() -> Any:
    """Return the connection of this process and of all that it forks. The root zygote calls it first, while it has one thread.

    Each run makes the last setting, how much memory it may use, and then locks all settings.
    """
    import duckdb

    made = duckdb.connect(":memory:", config={"threads": "1", "async_threads": "0"})
    for name, value in _SETTINGS.items():
        made.execute(f"SET {name} = {value}")
    return made


@functools.cache
def _refused_functions() -> frozenset[str]:
    """Return the functions that look outside, or at the database itself: all table functions that are not known to be harmless."""
    found = connection().execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro')"
    )
    return frozenset(name for (name,) in found.fetchall()) - _TABLE_FUNCTIONS | _SCALARS_REFUSED


@functools.cache
def _keywords() -> frozenset[str]:
    """Return the words that are names only in quotes."""
    found = connection().execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'")
    return frozenset(name for (name,) in found.fetchall())


def warm() -> None:
    """Run everyday queries once, in the root zygote: libraries import something on first use, and a run can import nothing."""
    frame = pd.DataFrame(
        {
            "a": [1, 2, 3],
            "g": ["x", "y", "x"],
            "d": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-05"]),
            "n": pd.Series([{"k": 1, "l": [1, 2]}] * 3, dtype=object),
            "j": pd.Series([{"k": 1}, [1], 2], dtype=object),
        }
    )
    connection().register("warm", sqltables.Stream(sqltables.arrow_of(frame)))
    for query in _WARMED:
        try:
            sqltables.frame_of(connection().sql(query).to_arrow_table())
        except Exception as error:  # noqa: BLE001
            _failure(error, {}, ("warm",))
    connection().unregister("warm")
    _refused_functions()
    _keywords()


class Tables:
    """The tables that one query names, and for each that cannot be made the reason."""

    def __init__(self, request: wire.Request, loaded: Mapping[int, Loaded]) -> None:
        self.reasons: dict[str, str] = {}
        """Why a table could not be made, by its name in lower case."""
        self.zones: set[str] = set()
        """The zones that columns are in."""
        self._identifiers = sqltext.identifiers(request.source)
        self._sources: list[tuple[sqltext.Reference, Loaded, bytes]] = []
        for variable in request.variables:
            name, *path = json.loads(variable.name)
            self._sources.append((sqltext.Reference(name, tuple(path)), loaded[variable.payload], variable.path))

    def columns(self) -> set[str]:
        """Return the names of columns, in lower case, of tables that were built before the run."""
        frames = [entry.frames[path] for _, entry, path in self._sources if path in entry.frames]
        return {str(name).lower() for frame in frames for name in frame.columns}

    def names(self) -> frozenset[str]:
        """Return the last names of the tables, in lower case."""
        return frozenset((reference.name, *reference.path)[-1].lower() for reference, _, _ in self._sources)

    def bind(self, database: Any) -> None:
        """Register each table. Call it inside the jail: values that an earlier run wrote are read here. Raises _Refused."""
        bound: dict[str, str] = {}
        for number, (reference, entry, path) in enumerate(self._sources):
            name = ".".join((reference.name, *reference.path))
            if (other := bound.setdefault(name.lower(), name)) != name:
                raise _Refused(
                    f"{other} and {name} differ in case alone, which SQL does not see",
                    "give one of them another name in code",
                )
            try:
                table = _table(entry, path)
                if not table.num_columns:
                    raise ValueError("no columns")
            except (ValueError, TypeError, LookupError) as error:
                self.reasons[name.lower()] = _why(reference, entry, path, error)
                continue
            self._check_case(name, table)
            self.zones.update(sqltables.zones(table))
            self._register(database, reference, number, sqltables.Stream(table))

    def _check_case(self, name: str, table: Any) -> None:
        """Raise _Refused if the query names a column that it cannot mean: the first of those that differ in case alone is found."""
        first = {column.lower(): column for column in reversed(table.column_names)}
        for own, other in sqltables.renamed(table).items():
            column = first.get(own.lower(), own)
            if any(each.lower() == own.lower() and each != column for each in self._identifiers):
                raise _Refused(
                    f"{column} and {own} of {name} differ in case alone, which SQL does not see",
                    f"write {column} for the first, and {_quoted(other)} for {own}",
                )

    def _register(self, database: Any, reference: sqltext.Reference, number: int, stream: sqltables.Stream) -> None:
        if not reference.path:
            database.register(reference.name, stream)
            return
        schema, view = _quoted(".".join((reference.name, *reference.path[:-1]))), _quoted(reference.path[-1])
        database.register(f"byref {number}", stream)
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        database.execute(f'CREATE VIEW {schema}.{view} AS FROM "byref {number}"')


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(entry: Loaded, path: bytes) -> Any:
    if path in entry.tables:
        return entry.tables[path]
    value = entry.value
    if (frame := entry.frames.get(path)) is None:
        frame = frame_of(exact.decode(value.data) if isinstance(value, Exact) else entry.at(path))
    return sqltables.arrow_of(frame, is_data=not isinstance(value, Exact))


def _why(reference: sqltext.Reference, entry: Loaded, path: bytes, error: Exception) -> str:
    named = ".".join((reference.name, *reference.path))
    try:
        value = entry.at(path)
    except Unusable:
        return (
            f"there is no {reference.path[-1]!r} in {'.'.join((reference.name, *reference.path[:-1]))}"
            if reference.path
            else str(error)
        )
    if isinstance(value, list) and not value:
        return f"{named} is an empty list, without columns"
    if isinstance(value, dict) and (lists := [key for key, member in value.items() if isinstance(member, list)]):
        ways = ", ".join(
            f"${named}.{key}" if key.isidentifier() else f'${named}."{key}"' for key in lists[:_MAX_REASONS]
        )
        return f"{named} is an object, no table; there is one in it, or more: {ways}"
    return f"{named} is no table: {type(value).__name__}, where a list of objects is needed"


def sql_body(request: wire.Request, loaded: Mapping[int, Loaded]) -> Body:
    """Return the body that runs the one query in `request.source`. Its result is the value, and is bound to `request.keep` if given."""
    database = connection()
    database.execute(f"SET memory_limit = '{int(request.terms.memory_bytes * _MEMORY_SHARE)}B'")
    tables = Tables(request, loaded)
    names = tuple(request.names)

    def body(_stdout: Captured) -> list[wire.Frame]:
        began = time.monotonic()
        try:
            query = _single(database, request.source, tables.names())
            tables.bind(database)
            _take_zone(database, tables.zones)
            database.execute("SET lock_configuration = true")
            result = sqltables.frame_of(database.sql(query).to_arrow_table())
            room = request.terms.result_bytes
            if not request.keep:
                return bodies.reply(result, lambda _room: [], room)
            return bodies.reply(result, lambda room: [_kept(request.keep, result, room)], room, lambda _value: True)
        except BaseException as error:  # noqa: BLE001  (whatever a hostile query makes the database raise)
            disarm()
            if isinstance(error, Expired):
                return [error_frame(Failure(error.failure.kind, error.failure.message, hint=_HINT))]
            if str(error).startswith(_INTERRUPTED):
                return [error_frame(_expired(request.terms, time.monotonic() - began))]
            if _lacked_memory(error):
                failure = failure_of(MemoryError(), request.terms)
                return [error_frame(Failure(failure.kind, failure.message, hint=_HINT))]
            failure = _failure(error, tables.reasons, names)
            if "syntax error" in failure.message:
                reserved = sorted(sqltext.words(request.source) & _keywords() & tables.columns())
                hint = (
                    f"names that are words of SQL go in quotes: {', '.join(map(_quoted, reserved))}"
                    if reserved
                    else None
                )
                failure = Failure(failure.kind, failure.message, hint=hint)
            return [error_frame(failure)]

    return body


def _take_zone(database: Any, zones: Collection[str]) -> None:
    """Have days and hours be those of the only zone that columns are in; those of several zones are told in UTC."""
    [zone] = zones if len(zones) == 1 else [None]
    if zone is not None and (name := sqltables.zone_name(zone)) is not None:
        with contextlib.suppress(Exception):  # a zone that the database does not know
            database.execute(f"SET TimeZone = '{name}'")


def _kept(name: str, table: pd.DataFrame, room: int) -> wire.Frame:
    kept = values.keep(table)
    size = len(kept.data) + len(kept.exact)
    if size > room:
        return wire.Lost(name, f"too big: {size:,} bytes, {room:,} left of what a run may send")
    return wire.Kept(name, kept.kind, kept.data, exact=kept.exact, shape=kept.shape)


def _single(database: Any, source: str, own: frozenset[str]) -> str:
    """Return the one query of a source over tables with these names, ready to run; raise _Refused, or what the parser raises."""
    import duckdb

    query = sqltext.as_sql(source)
    statements = [statement for statement in database.extract_statements(query) if statement.query.strip(" \t\r\n;")]
    if not statements:
        raise _Refused("there is no query", "write one SELECT")
    if len(statements) > 1:
        raise _Refused(
            f"{len(statements)} statements; one query is run at a time", "make them one with WITH, or call again"
        )
    kind = statements[0].type
    kinds = duckdb.StatementType
    if kind not in (kinds.SELECT, kinds.MULTI) or (kind is kinds.MULTI and not _PIVOT.search(query)):
        raise _Refused(
            f"{kind.name} is not available: only queries are run, which read",
            "results become variables; use WITH for steps in between",
        )
    refused = sorted(sqltext.functions(source) & _refused_functions())
    refused += sorted(name for name in sqltext.tables(source) - own if name.startswith(_CATALOGS))
    schemas = {
        each.name.lower() for each in sqltext.references(source) if each.path and each.path[-1].lower() not in own
    }
    if _LISTING.match(query) or "information_schema" in schemas or not _LISTS.isdisjoint(refused):
        raise _Refused(
            "there is no list of tables here",
            "each variable and each artifact is a table under its name; DESCRIBE name shows its columns",
        )
    if refused:
        raise _Refused(f"{refused[0]} is not available: there are no files, no network and no settings here", None)
    return query.strip().rstrip(";")


_PIVOT: Final = re.compile(r"\bpivot", re.IGNORECASE)
_LISTING: Final = re.compile(r"\s*show\s+(?:all\s+)?(?:tables|databases|schemas)\b", re.IGNORECASE)
_LISTS: Final = frozenset("duckdb_tables duckdb_columns pg_tables pg_class sqlite_master sqlite_schema".split())  # noqa: SIM905
"""Only tables that a query names are made, so a list would be empty; so are those of `information_schema`."""


class _Refused(Exception):
    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.hint = hint


def _lacked_memory(error: BaseException) -> bool:
    return out_of_memory(error) or bool(_MEMORY.search(f"{type(error).__name__}: {str(error)[:500]}"))


_MEMORY: Final = re.compile(
    r"OutOfMemoryException|bad_alloc|bad allocation|Out of Memory Error|Allocation failure|Failed to allocate"
)


def _expired(terms: wire.Terms, elapsed: float) -> Failure:
    """Return the failure of a run that was stopped. DuckDB says that a timer went off, but not which: the clocks tell."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    if elapsed + 0.1 < terms.wall_seconds and used.ru_utime + used.ru_stime + 0.1 >= terms.cpu_seconds:
        return Failure("CpuLimit", f"stopped after {terms.cpu_seconds:g} s of processor time", hint=_HINT)
    return Failure("TimeLimit", f"stopped after {terms.wall_seconds:g} s", hint=_HINT)


_SETTING: Final = re.compile(r",? or SET\b[^\n]*|[.!]?\s*(?:Use|use|You can) [^.\n]*\bSET\b[^\n]*")


def _failure(error: BaseException, reasons: Mapping[str, str], names: tuple[str, ...]) -> Failure:
    """Return the failure for an error of the database, without advice that cannot be followed here and without its stack traces."""
    if isinstance(error, _Refused):
        return Failure("NotAllowed", str(error), hint=error.hint)
    message = re.split(r"\n+Stack Trace:|\nThis error signals", str(error))[0].strip()
    message = _SETTING.sub("", message)
    if type(error).__name__ in ("InternalException", "FatalException"):
        return Failure(_KIND, "the database failed on this query", hint="write it in another way")
    if "system operations are disabled" in message or "has been disabled by configuration" in message:
        return Failure("NotAllowed", "there are no files, no network, no extensions and no settings here")
    if message.startswith("IO Error"):  # a name that looks like a file's, and is no table
        return Failure("ValueError", next(iter(reasons.values()), "there is no such table, and SQL reads no files"))
    if missing := re.search(r"Table with name (\"[^\"]+\"|\S+) does not exist", message):
        name = missing[1].strip('"')
        if name.lower() in reasons:
            return Failure("ValueError", reasons[name.lower()])
        near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], 1)
        hint = f"did you mean {near[0]}?" if near else None
        if near == [name.lower()]:
            hint = f"write {name} alone: it is in no schema and no database"
        return Failure("NameError", f"there is no table with the name '{name}'", hint=hint)
    if type(error).__name__ == "ParserException" and not message.startswith("Parser"):
        message = f"Parser Error: {message}"
    return Failure(_KIND, message)
