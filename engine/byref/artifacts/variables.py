"""Variables: Python names bound in a session to an artifact or to a path inside one."""

from __future__ import annotations

import builtins
import json
import keyword
import re
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, union_all, update

from byref.artifacts import store
from byref.artifacts.counted import MOST_COUNTED, Counted
from byref.artifacts.store import Artifact
from byref.db.payloads import Source
from byref.db.tables import ArtifactRow, VariableRow
from byref.describe import paths
from byref.describe.rows import Entries, Rows
from byref.describe.shape import MORE, kind_of
from byref.describe.tables import Table
from byref.errors import ArtifactMissing
from byref_sandbox import Every
from byref_sandbox.values.data import Unusable, at_path
from byref_sandbox.values.gathering import unlike

NAME_CHARS = 64
MAX_PARTS = 32
"""Most variables made of one output's top-level members: an object with more members is a map, to be read by key."""

SANDBOX_NAMES = frozenset(
    "df pd np math statistics json re datetime itertools functools random decimal fractions collections string textwrap "  # noqa: SIM905
    "heapq bisect copy time typing dataclasses enum calendar zoneinfo hashlib base64 uuid operator warnings csv io "
    "Counter defaultdict".split()
)
"""Names that the interpreter itself binds."""
_RESERVED = (
    frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | SANDBOX_NAMES | {"var_step"}
)
_IN_A_ROW = 32
"""Number suffixes of a name that are tried at once."""
_DOUBLINGS = 40
_MOST_GIVEN = 10_000
"""Most names whose last number this process remembers."""
LATEST = 50
"""Newest variables of each origin among which an error looks for similar names, so that it takes only a few milliseconds."""
ALIAS = re.compile(r"var_step_([1-9][0-9]{0,17})\Z", re.ASCII)
"""Matches the name that every step's variable also has: `var_step_7`."""

_LIKE_AN_ID = re.compile(r"art_(?=[a-z]*[2-9])[a-z2-9]{12}\Z", re.ASCII)
"""Matches what could be an artifact's id. Words behind `art_` are no such thing: they have no digits."""

Path = tuple[str | Every, ...]
"""Keys that lead to one value; with `Every` steps, the way to many records, which are one list."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name and the data to which it is bound."""

    name: str
    shape: str
    """The shape in words: `array(500) of object(6 keys)`."""
    path: Path
    """Keys from the artifact's top; empty for the whole artifact. With `Every` steps it is a list of records from many places."""
    step: int
    """The ledger step that bound it; a whole output also has the alias `var_step_N`."""
    origin: str
    """output, run or host"""
    kind: str
    """value, or dataframe: records that code sees as a DataFrame"""
    revision: int
    artifact: Artifact = field(repr=False)

    def value(self) -> object:
        """Return the data; each call reads and parses it anew."""
        try:
            return at_path(self.artifact.parsed, self.path)
        except Unusable as error:  # it was walked when it was bound, and artifacts never change: so the row is damaged
            raise ArtifactMissing(f"the path of the variable {self.name!r} is damaged: {error}") from None


class Named(NamedTuple):
    """A variable as a list shows it."""

    artifact_row: int
    name: str
    shape: str


class Sized(NamedTuple):
    """A variable and how much data has to be read for it."""

    artifact_row: int
    name: str
    origin: str
    size_bytes: int
    """Of the whole artifact."""


@dataclass(frozen=True, slots=True)
class Part:
    """A variable before it is bound: the wanted name, and the path and shape of its value."""

    wanted: str
    path: Path
    shape: str
    kind: Literal["value", "dataframe"] = "value"
    rows: int | None = None
    """The number of records, of a table."""

    @property
    def place(self) -> str:
        """The path as text, as in `written`."""
        return written(self.path)

    @property
    def is_by_column(self) -> bool:
        """Whether its records are made of rows that are arrays, with their columns' names."""
        return any(isinstance(step, Every) and step.cells for step in self.path)

    @property
    def columns(self) -> list[str]:
        """The members that each record gets and that say where it is from."""
        return columns(self.path)


def parts(
    tool: str, value: object, words: Mapping[str, str] | str, renamed: Mapping[str, str] | None = None
) -> list[Part]:
    """Return the parts of a structured value to bind: the whole, named after the tool, and each top-level array or object.

    `words` is the value's shape, `renamed` maps keys to names. With more than `MAX_PARTS` members, only the whole is bound.
    """
    if type(value) is not dict or isinstance(words, str):
        return [Part(identifier(tool), (), words if isinstance(words, str) else kind_of(value))]
    whole = Part(identifier(tool), (), kind_of(value))
    bound = ((key, member) for key, member in value.items() if type(member) in (dict, list, Rows, Entries))
    inner = list(islice(bound, MAX_PARTS + 1))
    if len(inner) > MAX_PARTS:
        return [whole]
    names = renamed or {}
    known = {key: shown for key, shown in words.items() if key != MORE}
    members = [
        Part(identifier(names.get(key, key)), (key,), known.get(key) or kind_of(member)) for key, member in inner
    ]
    return [whole, *members]


def parts_with_tables(
    tool: str,
    value: object,
    words: Mapping[str, str] | str,
    tables: Sequence[Table],
    renamed: Mapping[str, str] | None = None,
) -> list[Part]:
    """Return what `parts` returns and the tables inside the value: the whole, the tables in their order, other members.

    A table that is one array or map is the value at its path; one that is gathered from many places is the list of all its
    records.
    """
    whole, *members = parts(tool, value, words, renamed)
    by_path = {part.path: part for part in (whole, *members)}
    steps = [_steps_of(table) for table in tables]
    names = _names_of(
        [table for table, path in zip(tables, steps, strict=True) if path not in by_path],
        {part.wanted for part in by_path.values()},
        renamed or {},
        whole.wanted,
    )
    first: dict[Path, Part] = {}
    for table, path in zip(tables, steps, strict=True):
        shape = _shape_of(table, len(columns(path)))
        wanted = by_path[path].wanted if path in by_path else names[table.path]
        first[path] = Part(wanted, path, shape, rows=table.rows)
    whole = first.pop((), whole)
    return [whole, *first.values(), *(part for part in members if part.path not in first)]


def _names_of(
    tables: Sequence[Table], taken: Container[str], renamed: Mapping[str, str], whole: str
) -> dict[paths.Path, str]:
    """Return a name for each table that has none: its key, behind a key above it where another table or member is called the same.

    Of the keys above it, that is the nearest one that none of its namesakes has above it.
    """
    keys = {
        table.path: [identifier(renamed.get(step, step)) for step in table.path if isinstance(step, str)] or ["records"]
        for table in tables
    }
    for table in tables:
        if table.cells:  # the array of its rows has the name itself
            *above, rows = [step for step in table.path if isinstance(step, str)] or [whole]
            keys[table.path] = [
                *map(identifier, above),
                identifier(f"{identifier(renamed.get(rows, rows)).rstrip('_')}_table"),
            ]
    names: dict[paths.Path, str] = {}
    for path, (*above, name) in keys.items():
        others = [one[:-1] for other, one in keys.items() if one[-1] == name and other != path]
        if not others and name not in taken:
            names[path] = name
            continue
        own = (key for key in reversed(above) if key != name and not any(key in other for other in others))
        owner = next(own, above[-1] if above else None)
        names[path] = identifier(f"{name}_rows" if owner is None else f"{owner}_{name}")
    return names


def _steps_of(table: Table) -> Path:
    """Return the path to what a table's variable stands for."""
    if table.is_one:
        return tuple(step for step in table.path if isinstance(step, str))
    taken = {*table.node.members, *table.node.rest_keys}
    steps: list[str | Every] = []
    owner = "row"
    for at, step in enumerate(table.path):
        if isinstance(step, str):
            owner = identifier(step).rstrip("_") or owner
            steps.append(step)
            continue
        by, column = table.ids.get(at, ""), ""
        if table.cells:  # there is one array of rows
            is_last = at == len(table.path) - 1
            steps.append(
                Every(step.value, cells=table.cells, skip=int(table.has_header)) if is_last else Every(step.value)
            )
            continue
        if step is paths.KEY:
            column = f"{owner}_key"
        elif at < len(table.path) - 1:
            column = f"{owner}_{identifier(by).rstrip('_') if by else 'index'}"
        column = unlike(column, taken) if column else ""
        taken.add(column)
        steps.append(Every(step.value, column, by))
    return tuple(steps)


def _shape_of(table: Table, added: int) -> str:
    node = table.node
    is_even = node.rest is None and node.required is not None and len(node.required) == len(node.members)
    element = f"object({len(node.members) + added} keys)" if is_even else "object"
    is_map = table.is_one and table.path[-1] is paths.KEY
    return f"{'map' if is_map else 'array'}({table.rows}) of {element.replace('(1 keys)', '(1 key)')}"


def written(path: Path) -> str:
    """Return a path as text: `repos.*.data.pulls[]`."""
    steps = [paths.Each(step.of) if isinstance(step, Every) else step for step in path]
    return paths.written(tuple(steps))


def columns(path: Path) -> list[str]:
    """Return the members that records of many places get, each of which says where a record is from."""
    return [step.column for step in path if isinstance(step, Every) and step.column]


def to_text(path: Path) -> str:
    """Return a path as it is stored: an array of keys, or, with `Every` steps, an object of one member that holds the steps.

    The member's name is the path as text. Releases before 0.4 take it for a key: there is none, so they find nothing there.
    """
    if any(isinstance(step, Every) for step in path):
        return json.dumps({written(path): [step if isinstance(step, str) else step.terse for step in path]})
    return json.dumps(path)


def from_text(text: str) -> Path:
    """Return the path that `to_text` wrote; ValueError if it is damaged."""
    try:
        steps = json.loads(text)
        if isinstance(steps, dict):
            [steps] = steps.values()
        return tuple(step if isinstance(step, str) else Every.of_terse(step) for step in steps)
    except (TypeError, LookupError) as error:
        raise ValueError(f"no path: {error}") from None


def identifier(text: str) -> str:
    """Return a Python identifier similar to a text that hides no builtin, keyword or name of the interpreter, and could be no id."""
    name = unicodedata.normalize("NFKC", text[:256])
    name = "".join(char if ("a" + char).isidentifier() else "_" for char in name)
    name = re.sub(r"__+", "_", name).strip("_")[:NAME_CHARS]
    name = unicodedata.normalize("NFKC", name)
    if not name:
        return "value"
    if not name.isidentifier():
        name = f"v_{name}"
    return f"{name}_" if name in _RESERVED or ALIAS.match(name) or _LIKE_AN_ID.match(name) else name


def is_name(text: str) -> bool:
    """Tell whether a text can be a variable's name; others are not searched for, as a database may not accept them."""
    return len(text) <= 2 * NAME_CHARS and text.isidentifier()


def is_bindable(name: str) -> bool:
    """Tell whether a name that code assigned can be kept: it is short enough, and no alias such as `var_step_3`."""
    return len(name) <= NAME_CHARS and name.isidentifier() and not ALIAS.match(name)


_NAMED = select(VariableRow.name).where(VariableRow.session_id == bindparam("of_session"))
_ANY = _NAMED.where(VariableRow.name.in_(bindparam("names", expanding=True)))
_ORIGINS = _ANY.add_columns(VariableRow.origin)
_FEW = ("name_0", "name_1", "name_2", "name_3")
"""Parameters for one or two names and their numbered ones. They are separate because SQLAlchemy expands a list at each execution."""
ANY_OF_FEW = _NAMED.where(VariableRow.name.in_([bindparam(name) for name in _FEW]))
"""Selects those of `few` names that are bound in a session."""


ARE_BOUND = (
    select(func.count())
    .where(
        VariableRow.session_id == bindparam("session_id"),
        VariableRow.name.in_([bindparam(name) for name in _FEW[:2]]),
    )
    .scalar_subquery()
    == bindparam("names")
).label("are_bound")
"""Column: whether those names of `about_bound` that are not empty are bound in the session `session_id`."""


def about_bound(names: tuple[str, str]) -> dict[str, Any]:
    """Return the parameters of `ARE_BOUND` but for the session."""
    return {"names": len({*names} - {""}), **dict(zip(_FEW, names, strict=False))}


def few(session_row: int, names: Collection[str]) -> dict[str, Any] | None:
    """Return the parameters of `ANY_OF_FEW`; None if there are too many names, or none."""
    if not 0 < len(names) <= len(_FEW):
        return None
    return {"of_session": session_row, **dict(zip_longest(_FEW, names, fillvalue=next(iter(names))))}


def in_use(connection: Connection, session_row: int, names: Collection[str]) -> set[str]:
    """Return those of the names that are bound in the session, also to artifacts that have expired but were not swept."""
    if (about := few(session_row, names)) is not None:
        return set(connection.execute(ANY_OF_FEW, about).scalars())
    return {
        name
        for some in store.batched(set(names))
        for name in connection.execute(_ANY, {"of_session": session_row, "names": some}).scalars()
    }


def origins(connection: Connection, session_row: int, names: Collection[str]) -> dict[str, str]:
    """Return those of the names that are bound in the session, as `in_use` does, each with what bound it: `output` or `run`."""
    return {
        row.name: row.origin
        for some in store.batched(set(names))
        for row in connection.execute(_ORIGINS, {"of_session": session_row, "names": some})
    }


def near(session_row: int, wanted: Collection[str]) -> list[str]:
    """Return the names whose use tells, in most cases, which names are `free`: these, and their probable next numbers."""
    last = {name: _given.get((session_row, name), 1) for name in wanted}
    numbered = [f"{name}_{number}" for name in last for number in (last[name], last[name] + 1) if number > 1]
    return [*last, *numbered]


def free(
    connection: Connection,
    session_row: int,
    wanted: Sequence[str],
    also: Collection[str] = (),
    *,
    known: Collection[str] | None = None,
) -> list[str]:
    """Return the names, each with a free number (`users_2`) if it is taken in the session or is in `also`.

    If the numbers in use have no gaps, it is the first free one, however many there are. `known` are those of the names
    `near` that are bound, if the caller has looked under the session's lock.
    """
    last = {name: _given.get((session_row, name), 1) for name in wanted}
    bound = in_use(connection, session_row, near(session_row, wanted)) if known is None else known
    used, names = {*also, *bound}, []
    for name in wanted:
        chosen = name
        if name in used:
            chosen = _numbered(connection, session_row, name, used, last[name])
        else:
            _remember(session_row, name, 1)
        used.add(chosen)
        names.append(chosen)
    return names


def probable(session_row: int, wanted: str) -> tuple[str, tuple[str, str]]:
    """Return the name that `free` will most probably give, without asking the database.

    It is that name if it is free and, unless they are empty, the two other names that are returned are bound.
    """
    last = _given.get((session_row, wanted), 0)
    if not last:
        return wanted, ("", "")
    return f"{wanted}_{last + 1}", (wanted, f"{wanted}_{last}" if last > 1 else wanted)


def took(session_row: int, wanted: str) -> None:
    """Note that the name which `probable` returned for a wanted one was bound."""
    _remember(session_row, wanted, _given.get((session_row, wanted), 0) + 1)


def _remember(session_row: int, name: str, number: int) -> None:
    _given[session_row, name] = number
    if len(_given) > _MOST_GIVEN:
        _given.popitem(last=False)


_given: OrderedDict[tuple[int, str], int] = OrderedDict()
"""The last number that this process gave to a name of a session, 1 for the name itself; only a hint where to look first."""


# Built once, because building a statement takes longer than running it.
_COLUMNS = (
    VariableRow.id,
    VariableRow.name,
    VariableRow.shape,
    VariableRow.path,
    VariableRow.step,
    VariableRow.origin,
    VariableRow.kind,
    VariableRow.revision,
    VariableRow.artifact_id,
)
_OF_SESSION = select(*_COLUMNS).where(VariableRow.session_id == bindparam("of_session"))
_NAMED_SO = _OF_SESSION.where(VariableRow.name.in_(bindparam("values", expanding=True)))
_BOUND_AT = _OF_SESSION.where(VariableRow.step.in_(bindparam("values", expanding=True)))
_AT = _OF_SESSION.where(VariableRow.id.in_(bindparam("values", expanding=True)))
_INSIDE = select(*_COLUMNS).where(VariableRow.artifact_id.in_(bindparam("values", expanding=True)))
_ALL = _OF_SESSION.where(VariableRow.id > bindparam("behind")).order_by(VariableRow.id)
_BIND = insert(VariableRow)
GIVEN = [column.name for column in VariableRow.__table__.c if column.name not in ("id", "artifact_id", "revision")]
"""The columns that `new_row` gives."""


def _numbered(connection: Connection, session_row: int, name: str, used: set[str], last: int) -> str:
    """Return the name, which is taken, with a free number; `used` tells already whether `last` and the next number are taken."""
    if (last == 1 or f"{name}_{last}" in used) and f"{name}_{last + 1}" not in used:
        number = last + 1
    else:
        number = _gap(connection, session_row, name, used)
    _remember(session_row, name, number)
    return f"{name}_{number}"


def _gap(connection: Connection, session_row: int, name: str, used: set[str]) -> int:
    """Return the number for `_numbered`, found by bisection, because counting up would take long where many are taken."""
    last, numbers = 1, [*range(2, _IN_A_ROW), *(_IN_A_ROW << step for step in range(_DOUBLINGS))]
    while True:
        there = used | in_use(connection, session_row, [f"{name}_{number}" for number in numbers])
        first: int = next(number for number in numbers if f"{name}_{number}" not in there)
        last = max((number for number in numbers if number < first), default=last)
        if first - last == 1:
            return first
        apart = -(-(first - last) // _IN_A_ROW)
        numbers = [*range(last + apart, first, apart), first]


def bind(
    connection: Connection,
    *,
    tenant: str,
    session_row: int,
    artifact_row: int,
    named: Sequence[tuple[str, Part]],
    step: int,
    origin: str,
) -> None:
    """Bind new names."""
    where: Any = {"tenant": tenant, "session_row": session_row, "step": step, "origin": origin}
    rows = [{"artifact_id": artifact_row, **new_row(name, part, **where)} for name, part in named]
    if rows:
        connection.execute(_BIND, rows)


def rename(connection: Connection, session_row: int, name: str, new: str) -> None:
    """Give a variable another name, which is free."""
    mine = VariableRow.session_id == session_row, VariableRow.name == name
    connection.execute(update(VariableRow).where(*mine).values(name=new))


def new_row(name: str, part: Part, *, tenant: str, session_row: int, step: int, origin: str) -> dict[str, Any]:
    """Return the columns of a new variable, without its artifact's id."""
    return {
        "tenant": tenant,
        "session_id": session_row,
        "name": name,
        "path": to_text(part.path),
        "shape": part.shape,
        "origin": origin,
        "kind": part.kind,
        "step": step,
    }


def bound(artifact: Artifact, named: Sequence[tuple[str, Part]], step: int) -> list[Variable]:
    """Return the variables that `bind` made of an output, as a later read would."""
    return [Variable(name, part.shape, part.path, step, "output", part.kind, 1, artifact) for name, part in named]


def rebind(
    connection: Connection, *, session_row: int, artifact_row: int, named: Sequence[tuple[str, Part]], step: int
) -> None:
    """Bind names that code made to parts of another artifact. A name of an output stays as it is."""
    rows = [
        {
            "of_session": session_row,
            "of_name": name,
            "new_artifact": artifact_row,
            "new_path": to_text(part.path),
            "new_shape": part.shape,
            "new_kind": part.kind,
            "new_step": step,
        }
        for name, part in named
    ]
    if rows:
        connection.execute(_REBIND, rows)


_REBIND = (
    update(VariableRow)
    .where(
        VariableRow.session_id == bindparam("of_session"),
        VariableRow.name == bindparam("of_name"),
        VariableRow.origin == "run",
    )
    .values(
        artifact_id=bindparam("new_artifact"),
        path=bindparam("new_path"),
        shape=bindparam("new_shape"),
        kind=bindparam("new_kind"),
        step=bindparam("new_step"),
        revision=VariableRow.revision + 1,
    )
)


def drop(connection: Connection, *, session_row: int, names: Collection[str]) -> None:
    """Delete those of the variables that code made, many in one statement: a run may leave thousands."""
    for some in store.batched(names):
        mine = VariableRow.session_id == session_row, VariableRow.origin == "run"
        connection.execute(delete(VariableRow).where(*mine, VariableRow.name.in_(some)))


def unbind(connection: Connection, *, session_row: int, name: str) -> bool:
    """Delete a variable that code made; False if the name is bound to an output."""
    mine = VariableRow.session_id == session_row, VariableRow.name == name
    connection.execute(delete(VariableRow).where(*mine, VariableRow.origin == "run"))
    return connection.execute(select(VariableRow.id).where(*mine)).first() is None


def find(
    connection: Connection,
    source: Source,
    session_row: int,
    names: Collection[str],
    artifacts: Mapping[int, Artifact] | None = None,
    *,
    without_damaged: bool = False,
) -> dict[str, Variable]:
    """Return the variables of those names that are bound, by the given name: with or without `$`, or an alias `var_step_N`.

    `artifacts` has all artifacts that the variables may need, by row id, if the caller knows them already.

    Raises:
        ArtifactMissing: the path of one of them is damaged, unless such are to be left out.
    """
    bare = {name: bare for name in names if is_name(bare := name.removeprefix("$"))}
    steps = {int(match[1]) for name in bare.values() if (match := ALIAS.match(name))}
    if not bare:
        return {}
    rows = [
        row
        for query, values in ((_NAMED_SO, set(bare.values())), (_BOUND_AT, steps))
        for some in store.batched(values)
        for row in connection.execute(query, {"of_session": session_row, "values": some})
        if is_name(row.name)
    ]
    if artifacts is None:
        artifacts = store.by_row_ids(connection, source, session_row, {row.artifact_id for row in rows})
    rows.sort(key=attrgetter("id"))
    by_name = {row.name: one for row in rows if (one := _variable(row, artifacts)) is not None}
    for row in rows:
        if row.artifact_id in artifacts and row.name not in by_name and not without_damaged:
            blob = artifacts[row.artifact_id].payload.blob_id  # whose call made the variable
            raise ArtifactMissing(f"the path of the variable {row.name!r} is damaged", blob_id=blob)
    # If one step bound several outputs, the alias means the first: it is the largest, and its envelope names the alias.
    wholes = {v.step: v for v in reversed(by_name.values()) if not v.path and v.origin == "output"}
    found = {}
    for given, name in bare.items():
        alias = ALIAS.match(name)
        variable = wholes.get(int(alias[1])) if alias else by_name.get(name)
        if variable is not None:
            found[given] = variable
    return found


def all_of(
    connection: Connection, source: Source, session_row: int, *, after: str | None = None, limit: int | None = None
) -> list[Variable] | None:
    """Return the session's variables after the name `after`, in the order in which they were first bound.

    None if `after` is not bound. A page may have fewer than `limit` if data has expired, but only the last one is empty.
    """
    row_id = 0
    if after is not None:
        name = {"of_session": session_row, "values": [after]}
        found = connection.execute(_NAMED_SO, name).one_or_none() if is_name(after) else None
        if found is None:
            return None
        row_id = found.id
    while True:
        rows = connection.execute(_ALL.limit(limit), {"of_session": session_row, "behind": row_id}).all()
        artifacts = store.by_row_ids(connection, source, session_row, {row.artifact_id for row in rows})
        live = [one for row in rows if (one := _variable(row, artifacts)) is not None]
        if live or limit is None or len(rows) < limit:
            return live
        row_id = rows[-1].id


def inside(connection: Connection, artifact_rows: Collection[int]) -> dict[int, dict[Path, str]]:
    """Return the paths inside artifacts to which variables are bound, with their shapes, by artifact."""
    found: dict[int, dict[Path, str]] = {}
    for some in store.batched(artifact_rows):
        for row in connection.execute(_INSIDE, {"values": some}):
            with suppress(ValueError):
                found.setdefault(row.artifact_id, {})[from_text(row.path)] = row.shape
    return found


_NAMES_OF = (
    select(VariableRow.artifact_id, VariableRow.name)
    .where(VariableRow.artifact_id.in_(bindparam("values", expanding=True)))
    .order_by(VariableRow.id)
)


def names_of(connection: Connection, artifact_rows: Collection[int]) -> dict[int, list[str]]:
    """Return the names of variables by artifact, in the order in which they were first bound."""
    found: dict[int, list[str]] = {}
    for some in store.batched(artifact_rows):
        for row_id, name in connection.execute(_NAMES_OF, {"values": some}):
            if is_name(name):
                found.setdefault(row_id, []).append(name)
    return found


_BESIDE = 10
_BEFORE = _NAMED.where(VariableRow.name < bindparam("name")).order_by(VariableRow.name.desc()).limit(_BESIDE)
_BEHIND = _NAMED.where(VariableRow.name > bindparam("name")).order_by(VariableRow.name).limit(_BESIDE)


def _newest_of(origin: str) -> Any:
    newest = (
        select(
            VariableRow.id,
            VariableRow.artifact_id,
            VariableRow.name,
            VariableRow.shape,
            VariableRow.origin,
            ArtifactRow.size_bytes,
        )
        .join(ArtifactRow, ArtifactRow.id == VariableRow.artifact_id)
        .where(
            VariableRow.session_id == bindparam("of_session"),
            VariableRow.origin == origin,
            store.is_live(bindparam("now")),
        )
        .order_by(VariableRow.artifact_id.desc(), VariableRow.id.desc())
        .limit(bindparam("most"))
    )
    return select(newest.subquery())


_NEWEST = union_all(*map(_newest_of, ("output", "host", "run")))


def _newest(connection: Connection, session_row: int, limit: int) -> list[Any]:
    """Return the rows of the variables of the newest data, at most `limit` of each origin, newest first; not those with damaged names."""
    about = {"of_session": session_row, "now": datetime.now(UTC), "most": limit}
    rows = [row for row in connection.execute(_NEWEST, about) if is_name(row.name)]
    return sorted(rows, key=attrgetter("artifact_id", "id"), reverse=True)


def newest(connection: Connection, session_row: int, limit: int) -> tuple[list[Named], Counted]:
    """Return the variables of the newest data, newest first, and how many there are, without loading artifacts."""
    window = max(limit, MOST_COUNTED)
    rows = _newest(connection, session_row, window)
    is_all = max(Counter(row.origin for row in rows).values(), default=0) < window
    named = [Named(row.artifact_id, row.name, row.shape) for row in rows[:limit]]
    return named, Counted(len(rows), is_all)


def sized(connection: Connection, session_row: int, limit: int) -> list[Sized]:
    """Return the variables of the newest data, at most `limit` of each origin, newest first."""
    rows = _newest(connection, session_row, limit)
    return [Sized(row.artifact_id, row.name, row.origin, row.size_bytes) for row in rows]


def newest_names(connection: Connection, session_row: int, limit: int) -> list[str]:
    """Return the names of the newest data, in the order in which they were first bound."""
    rows = sorted(_newest(connection, session_row, limit), key=attrgetter("id"))
    return [row.name for row in rows[-limit:]]


def beside(connection: Connection, session_row: int, name: str) -> list[str]:
    """Return the names next to one in alphabetical order, which often begin alike, however old they are."""
    if not is_name(name):
        return []
    about = {"of_session": session_row, "name": name}
    rows = (found for query in (_BEFORE, _BEHIND) for found in connection.execute(query, about).scalars())
    return [*filter(is_name, rows)]


def of_tools_first(connection: Connection, session_row: int, limit: int) -> dict[str, bool]:
    """Return names and whether code bound them: first those bound by tools and hosts, then those of code, newest first."""
    rows = sorted(_newest(connection, session_row, limit), key=lambda row: row.origin == "run")  # stable
    return {row.name: row.origin == "run" for row in rows[:limit]}


def latest(connection: Connection, source: Source, session_row: int) -> list[Variable]:
    """Return the variables of the newest data, at most `LATEST` of each origin, in the order in which they were first bound."""
    ids = [row.id for row in _newest(connection, session_row, LATEST)]
    rows = [
        row
        for some in store.batched(ids)
        for row in connection.execute(_AT, {"of_session": session_row, "values": some})
    ]
    rows.sort(key=attrgetter("id"))
    artifacts = store.by_row_ids(connection, source, session_row, {row.artifact_id for row in rows})
    return [one for row in rows if (one := _variable(row, artifacts)) is not None]


def _variable(row: Any, artifacts: Mapping[int, Artifact]) -> Variable | None:
    """The variable; None if its artifact is not there, or its name or path is damaged, of which `byref db verify` tells."""
    if row.artifact_id not in artifacts or not is_name(row.name):
        return None
    try:
        path = from_text(row.path)
    except ValueError:
        return None
    return Variable(
        name=row.name,
        shape=row.shape,
        path=path,
        step=row.step,
        origin=row.origin,
        kind=row.kind,
        revision=row.revision,
        artifact=artifacts[row.artifact_id],
    )
