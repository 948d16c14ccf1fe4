"""byref modules: what Python packages reach, and whether code may be allowed to import them."""

from __future__ import annotations

from argparse import Namespace

from byref.cli import output
from byref.cli.failures import FAILED
from byref_sandbox.code.checking import check


def modules(options: Namespace) -> int:
    """Print a report for each name; return exit code 1 if one of them may not be allowed."""
    with output.working("reading"):
        found = [check(name) for name in dict.fromkeys(options.names)]
    if options.json:
        output.json(
            [
                {
                    "name": one.name,
                    "allowed": not one.refused,
                    "reasons": one.refused,
                    "names": one.allowed,
                    "left_out": dict(one.left_out),
                    "imports": one.modules,
                    "libraries": one.libraries,
                }
                for one in found
            ]
        )
    else:
        output.text("\n".join(one.report() for one in found))
    return FAILED if any(one.refused for one in found) else 0
