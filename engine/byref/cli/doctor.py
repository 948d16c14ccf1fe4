"""byref doctor: what is installed, what can be reached, which walls are in force, and what a run costs on this machine."""

from __future__ import annotations

import dataclasses
import platform
import re
import sqlite3
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version

from byref import db as revisions
from byref.cli import output
from byref.cli.failures import FAILED, Failed
from byref.cli.opening import blobs_to_read, database_url, missing_file
from byref.cli.parser import package_version
from byref.db.connections import parsed
from byref.db.failures import safe
from byref.errors import ByrefError
from byref.stores.guarded import Guarded
from byref.stores.objects import shown_place
from byref_sandbox import NO_BOUNDARY, Sandbox, SandboxUnavailable, probe
from byref_sandbox.code import sqltext

try:
    from packaging.requirements import Requirement
except ImportError:  # most environments have it, and byref needs it for nothing else
    Requirement = None  # type: ignore[assignment,misc]

WARM_RUNS = 5
"""Runs of which the fastest is reported."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    part: str
    """python, package, extra, database, blobs, wall or sandbox"""
    name: str
    state: str
    """ok, missing or optional (missing, but only some uses need it)"""
    detail: str
    cost: str = ""
    """For a wall: the time it adds to a sandbox's start and to each run."""


def doctor(options: Namespace) -> int:
    """Print the report; return exit code 1 if something that byref needs is missing."""
    with output.working("looking"):
        findings = [*_python(), *_packages(), _database(options), *_blobs(options), *_sandbox(options)]
    healthy = all(finding.state != "missing" for finding in findings)
    if options.json:
        output.json({"healthy": healthy, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        columns = tuple(field.name for field in dataclasses.fields(Finding))
        output.table(columns, [dataclasses.astuple(finding) for finding in findings])
    return 0 if healthy else FAILED


def _python() -> Iterator[Finding]:
    yield Finding("python", "byref", "ok", package_version())
    system = (
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.release()}"
    )
    yield Finding("python", "python", "ok", f"{system}, {platform.machine()}")
    yield Finding("python", "sqlite", "ok", sqlite3.sqlite_version)


def _packages() -> Iterator[Finding]:
    """Report each package in byref's metadata once: first those byref always needs, then those that only its extras need."""
    core: dict[str, str] = {}
    extras: dict[str, list[str]] = {}
    bounds: dict[str, str] = {}
    for requirement in _requirements("byref"):
        if not (extra := _extra(requirement)):
            core[_name(requirement)] = requirement
            continue
        brought = [_name(requirement), *_brought(requirement)]
        for name in brought:
            extras.setdefault(name, []).append(extra)
        bounds.setdefault(_name(requirement), requirement)
    for name, requirement in core.items():
        found = _version(name)
        state, detail = ("ok", found) if found else ("missing", f"not installed: pip install '{requirement}'")
        if found and (wanted := _not_met(requirement, found)):
            state, detail = "missing", f"{found}, which is not {wanted}: pip install '{requirement}'"
        yield Finding("package", name, state, detail)
    for name, of in extras.items():
        if name in core:
            continue
        of = list(dict.fromkeys(of))
        cure = " or ".join(f"'byref[{extra}]'" for extra in of)
        found = _version(name)
        if not found:
            yield Finding("extra", name, "optional", f"not installed: pip install {cure}")
        elif name in bounds and (wanted := _not_met(bounds[name], found)):
            yield Finding("extra", name, "optional", f"{found}, which is not {wanted}: pip install {cure}")
        else:
            yield Finding("extra", name, "ok", f"{found}, of {', '.join(of)}")


def _brought(requirement: str) -> Iterator[str]:
    """Yield the packages that a requirement's extras add, as in `sqlalchemy[asyncio]`, without the package itself."""
    asked = re.match(r"[\w.-]+\[([\w,. -]+)\]", requirement)
    for each in asked[1].split(",") if asked else ():
        yield from (_name(one) for one in _requirements(_name(requirement)) if _extra(one) == each.strip())


def _requirements(package: str) -> list[str]:
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _extra(requirement: str) -> str | None:
    found = re.search(r"extra == ['\"]([\w.-]+)['\"]", requirement)
    return found[1] if found else None


def _not_met(requirement: str, found: str) -> str | None:
    """Return the versions that a requirement wants, if this is none of them."""
    wanted = None if Requirement is None else Requirement(requirement).specifier
    return None if wanted is None or wanted.contains(found, prereleases=True) else str(wanted)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _database(options: Namespace) -> Finding:
    url = database_url(options)
    if (file := missing_file(url)) is not None:
        return Finding("database", str(file), "ok", "not there yet: made by the first output")
    try:
        found = revisions.current(url, schema=options.schema)
        revisions.check(url, schema=options.schema)
    except ByrefError as error:
        return Finding("database", _safe(url), "missing", str(error))
    position = "head" if found == revisions.head() else f"newer than {revisions.head()}, which works with it"
    return Finding("database", _safe(url), "ok", f"reachable, at revision {found} ({position})")


def _blobs(options: Namespace) -> Iterator[Finding]:
    """Check the object store, if the options name one, by listing it."""
    if options.blobs is None:
        return
    try:
        store = blobs_to_read(options)
        assert store is not None
        next(iter(Guarded(store).keys(older_than=datetime.fromtimestamp(0, UTC))), None)
    except (ByrefError, Failed) as error:
        yield Finding("blobs", shown_place(options.blobs), "missing", str(error))
    else:
        yield Finding("blobs", shown_place(options.blobs), "ok", f"reachable, as the store {store.name!r}")


def _sandbox(options: Namespace) -> Iterator[Finding]:
    layers = probe(jail=options.jail)
    for layer in layers:
        state = "ok" if layer.in_force else "missing" if layer.mandatory else "optional"
        yield Finding("wall", layer.name, state, layer.detail, _took(layer.startup_ms, layer.run_us))
    once, each = sum(layer.startup_ms for layer in layers), sum(layer.run_us for layer in layers)
    yield Finding("sandbox", "walls", "ok", "what all that are in force cost together", _took(once, each))
    sql = ", artifact_sql" if sqltext.is_available() else ""
    tools = f"code_interpreter, artifact_jq{sql} and jq in references"
    if any(layer.mandatory and not layer.in_force for layer in layers):
        cure = f"run on Linux with seccomp; {NO_BOUNDARY}"
        yield Finding("sandbox", "tools", "missing", f"not offered: {tools}; {cure}")
        return
    try:
        yield Finding("sandbox", "cost", "ok", _cost(options.jail))
    except SandboxUnavailable as error:
        yield Finding("sandbox", "tools", "missing", f"not offered: {tools}; {error}")
        return
    walls = "behind both walls" if options.jail == "full" else "behind the language ALONE"
    yield Finding("sandbox", "tools", "ok", f"offered {walls}: {tools}")
    if options.jail != "full":
        yield Finding("sandbox", "boundary", "optional", NO_BOUNDARY)


def _took(startup_ms: float, run_us: float) -> str:
    return f"{startup_ms:.1f} ms once, {run_us:.0f} µs a run"


def _cost(jail: str) -> str:
    """Measure the cost of a run on this machine: the start, paid once in a process, and a warm `1+1`."""
    with Sandbox(jail="full" if jail == "full" else "language-only") as sandbox:
        began = time.perf_counter()
        sandbox.start()
        started = time.perf_counter() - began
        sandbox.run("1+1", session="doctor")
        runs = []
        for _ in range(WARM_RUNS):
            began = time.perf_counter()
            outcome = sandbox.run("1+1", session="doctor")
            runs.append(time.perf_counter() - began)
            if outcome.value != 2:
                raise SandboxUnavailable(f"1+1 is {outcome.value!r} here: {outcome.error}")
    return f"start {started:.1f} s, once a process; then {min(runs) * 1000:.0f} ms for 1+1"


def _safe(url: str) -> str:
    try:
        return safe(parsed(url))
    except Exception:  # noqa: BLE001  a string that is not a URL may have a password anywhere, so it is not quoted
        return "--db"
