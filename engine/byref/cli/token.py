"""The verb `token`: makes, lists and revokes the bearer tokens of clients of the HTTP API."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from datetime import UTC, datetime, timedelta

from byref.cli import opening, output
from byref.cli.failures import Failed
from byref.service import auth


def token(options: Namespace) -> int:
    """Run a verb of `byref token` on the database that the options name."""
    return _VERBS[options.token_verb](options)


def _create(options: Namespace) -> int:
    rights = [right.strip() for right in options.rights.split(",") if right.strip()]
    expires_at = None if options.days is None else datetime.now(UTC) + timedelta(days=min(options.days, 36_500))
    about = {"tenant": str(options.tenant), "name": options.name, "rights": rights, "expires_at": expires_at}
    with opening.engine_to_write(options) as engine:
        made = auth.create(engine.database, **about)
    if options.json:
        output.json({"token": made, **about})
    else:
        output.text(made)
        output.note("this is the only time that it is shown")
    return 0


def _list(options: Namespace) -> int:
    with opening.engine_to_read(options) as engine:
        found = auth.listed(engine.database)
    if options.json:
        output.json([dataclasses.asdict(one) for one in found])
        return 0
    rows = [
        (
            one.id,
            one.tenant,
            one.name,
            ",".join(one.rights),
            f"{one.created_at:%Y-%m-%d %H:%M}",
            f"{one.expires_at:%Y-%m-%d %H:%M}" if one.expires_at else "",
        )
        for one in found
    ]
    output.table(
        ("id", "tenant", "name", "rights", "created", "expires"), rows, right=("id",), spare=("created", "name")
    )
    return 0


def _revoke(options: Namespace) -> int:
    with opening.engine_to_read(options) as engine:
        if not auth.revoke(engine.database, options.id):
            raise Failed(
                f"there is no token {options.id}: `{opening.command(options, 'token', 'list')}` lists those there are"
            )
    return 0


_VERBS = {"create": _create, "list": _list, "revoke": _revoke}
