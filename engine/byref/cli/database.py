"""byref db: the tables' revisions."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Callable

from sqlalchemy import make_url

from byref import db as revisions
from byref.cli import output
from byref.cli.failures import FAILED, Failed
from byref.cli.opening import blobs_to_read, database_url, missing_file
from byref.db.failures import safe


def db(options: Namespace) -> int:
    """Run one of the verbs on the database that the options name."""
    return _VERBS[options.db_verb](options)


def _upgrade(options: Namespace) -> int:
    with output.working("migrating"):
        revisions.upgrade(database_url(options), options.revision, schema=options.schema)
    return _current(options)


def _downgrade(options: Namespace) -> int:
    url = database_url(options)
    if (missing := missing_file(url)) is not None:
        raise Failed(f"there is no database {str(missing)!r} to downgrade")
    with output.working("migrating"):
        revisions.downgrade(url, options.revision, schema=options.schema)
    return _current(options)


def _current(options: Namespace) -> int:
    found, head = revisions.current(database_url(options), schema=options.schema), revisions.head()
    if options.json:
        output.json({"revision": found, "head": head})
    else:
        output.text("none" if found is None else f"{found} (head)" if found == head else found)
    return 0


def _check(options: Namespace) -> int:
    url = database_url(options)
    revisions.check(url, schema=options.schema)
    if options.json:
        output.json({"revision": revisions.head(), "head": revisions.head()})
    else:
        output.text(f"{safe(make_url(url))} is at {revisions.head()} (head)")
    return 0


def _history(options: Namespace) -> int:
    history = revisions.history()
    if options.json:
        output.json([dataclasses.asdict(revision) for revision in history])
    else:
        output.table(("revision", "after", "message"), [(r.revision, r.down_revision, r.message) for r in history])
    return 0


def _verify(options: Namespace) -> int:
    from byref.db.integrity import examine

    url = database_url(options)
    if (missing := missing_file(url)) is not None:
        raise Failed(f"there is no database {str(missing)!r} to verify")
    with output.working("verifying"):
        report = examine(url, deep=options.deep, schema=options.schema, blobs=blobs_to_read(options))
    if options.json:
        problems = [dataclasses.asdict(problem) for problem in report.problems]
        output.json({"problems": problems, "figures": dict(report.figures)})
    else:
        output.table(("figure", "value"), list(report.figures.items()), right=("value",))
        for problem in report.problems:
            output.text(f"problem: {problem}")
        output.note(f"{len(report.problems):,} problems" if report.problems else "every invariant holds")
    return FAILED if report.problems else 0


_VERBS: dict[str, Callable[[Namespace], int]] = {
    "upgrade": _upgrade,
    "downgrade": _downgrade,
    "current": _current,
    "check": _check,
    "verify": _verify,
    "history": _history,
}
