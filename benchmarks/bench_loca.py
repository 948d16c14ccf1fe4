"""Tasks of LOCA-bench at 256K tokens, by programs that call the tools of its mock servers through the gateway; its own judge decides.

Each task has some scripted programs: the first ones look at the data, the last one does the work. The context is the instruction, the
programs and their replies, without the definitions of tools, which a note gives. Plain calls are the same calls, had a model made them one by
one and read the results whole; as this counts no call that only looks, it is less than a model would use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks import loca
from benchmarks.results import Figure


def main(short: bool = False) -> Iterator[Figure]:
    """Solve the first state of each task that is scripted; of the first one in the short form."""
    if why := loca.missing():
        print(f"  SKIPPED: {why}", file=sys.stderr)
        return
    for task, programs in list(loca.tasks().items())[: 1 if short else None]:
        solved = loca.solve(task, programs)
        yield Figure(
            step=f"{task.removesuffix('S2LEnv')}: tokens of the context",
            value=solved.context,
            unit="tokens",
            baseline="plain calls",
            ratio=solved.context / solved.plain,
            target="<= 4000 tokens",
            met=solved.is_solved and solved.context <= 4_000,
            note=f"{'solved' if solved.is_solved else f'NOT SOLVED: {solved.why[:200]}'}; {len(programs)} programs, {solved.calls:,} "
            f"calls; plain calls: {solved.plain:,}; LOCA-bench's programmatic strategy: {solved.programmatic:,} for the same programs; "
            f"definitions of tools: {solved.definitions:,}, of all tools of the servers, which the other two send: {solved.plain_definitions:,}",
        )
