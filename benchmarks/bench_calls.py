"""What it costs that code calls functions of the host: each call, many at once, a large result; and what it spares the context.

A call goes from the jail to the host, into the journal, to the function, into the journal and back. Beside it stands the same call made
by a model: `Session.process` of the same result. The tokens are those of a task of twenty calls over 2 MB: by one program, and by plain
calls whose results the model reads whole.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.databases import KINDS, database
from benchmarks.results import Figure, median, percentile
from byref import Engine, Function, Policy, Session
from byref_sandbox import Data, Sandbox

CALLS, SHORT_CALLS = 300, 20
RUNS, SHORT_RUNS = 5, 1
GATHERED, SHORT_GATHERED = 1_000, 50
RECORDS, SHORT_RECORDS = 1_000_000, 10_000
"""Of about a hundred bytes."""
TASK_CALLS = 20
TASK_ROWS = 1_100
"""Of each of the calls of the task: 100 kB."""
ONE_BY_ONE = """
import time
times = []
for n in range({calls}):
    began = time.perf_counter()
    echo(n)
    times.append(time.perf_counter() - began)
times
"""
AT_ONCE = "import asyncio\nlen(await asyncio.gather(*[echo(n) for n in range({calls})]))"
TASK = f"""
import asyncio
pages = await asyncio.gather(*[get_orders(page) for page in range({TASK_CALLS})])
orders = df([order for page in pages for order in page])
orders.groupby('country').total.sum().to_dict()
"""


def main(short: bool = False) -> Iterator[Figure]:
    """Calls one by one and at once on each database; a large result; the tokens of a task."""
    with Sandbox() as sandbox:
        for kind in KINDS:
            with database(kind) as url, Engine(url, create=True, interpreter=sandbox) as engine:
                yield from _calls(engine, kind, short)
        with tempfile.TemporaryDirectory() as folder:
            policy = Policy(max_session_bytes=1 << 40, max_tenant_bytes=1 << 40, run_memory_bytes=4 << 30)
            url = f"sqlite:///{Path(folder, 'large.db')}"
            with Engine(url, interpreter=sandbox, policy=policy) as engine:
                yield _large(engine, sandbox, short)
                yield _task(engine)


def _calls(engine: Engine, kind: str, short: bool) -> Iterator[Figure]:
    calls, runs = (SHORT_CALLS, SHORT_RUNS) if short else (CALLS, RUNS)
    many = SHORT_GATHERED if short else GATHERED
    session = engine.session("calls", functions=[Function("echo", lambda value: value, _of("value"))])
    session.run("echo(0)")
    times: list[float] = []
    for _ in range(runs):
        times += _value(session, ONE_BY_ONE.format(calls=calls))
    plain = [_timed(lambda n=n: session.process(n, tool="echo")) for n in range(calls)]  # type: ignore[misc]
    yield Figure(
        step=f"{kind}: one call of a function, p50",
        value=median(times) * 1000,
        unit="ms",
        baseline="process",
        ratio=median(times) / median(plain),
        note=f"p95 {percentile(times, 95) * 1000:.2f} ms; plain: {median(plain) * 1000:.2f} ms",
        target="<= 1.5 ms" if kind == "SQLite" else "",
    )
    gathered = [_timed(lambda: _value(session, AT_ONCE.format(calls=many))) for _ in range(runs)]
    yield Figure(
        step=f"{kind}: {many:,} calls gathered",
        value=median(gathered),
        unit="s",
        baseline="one by one",
        ratio=median(gathered) / (median(times) * many),
        target="<= 1.2 s",
    )


def _large(engine: Engine, sandbox: Sandbox, short: bool) -> Figure:
    rows = SHORT_RECORDS if short else RECORDS
    records = [
        {"id": n, "name": f"customer number {n}", "mail": f"customer{n}@example.com", "total": n * 1.5}
        for n in range(rows)
    ]
    payload = json.dumps(records).encode()
    session = engine.session("large", functions=[Function("get_all", lambda: records)])
    runs = 1 if short else 3
    called = [_timed(lambda: _value(session, "len(get_all())")) for _ in range(runs)]
    bound = [_timed(lambda: sandbox.run("len(rows)", {"rows": Data("all", lambda: payload)})) for _ in range(runs)]
    return Figure(
        step=f"a result of {len(payload) / 1e6:,.0f} MB",
        value=median(called),
        unit="s",
        baseline="bound",
        ratio=median(called) / median(bound),
        note="encoded, stored as an artifact, journaled and decoded; bound: the stored bytes, decoded",
    )


def _task(engine: Engine) -> Figure:
    pages = [
        [{"id": page * TASK_ROWS + n, "country": ("DE", "FR", "US")[n % 3], "status": "shipped", "note": f"order {n} of page {page}", "total": n % 500} for n in range(TASK_ROWS)]
        for page in range(TASK_CALLS)
    ]  # fmt: skip
    program = engine.session("program", functions=[Function("get_orders", lambda page: pages[page], _of("page"))])
    reply = program.call("code_interpreter", {"code": TASK}, call_id="task")
    spent = reply.tokens + _tokens(program, json.dumps({"code": TASK}))
    whole = sum(
        _tokens(program, json.dumps(page)) + _tokens(program, json.dumps({"page": n})) for n, page in enumerate(pages)
    )
    size = sum(len(json.dumps(page)) for page in pages)
    return Figure(
        step=f"tokens of a task of {TASK_CALLS} calls over {size / 1e6:.1f} MB",
        value=spent,
        unit="tokens",
        baseline="plain calls",
        ratio=spent / whole,
        note=f"plain calls: {whole:,} tokens",
        target="<= 0.05x",
    )


def _tokens(session: Session, text: str) -> int:
    """Tokens of a text as the session counts them."""
    return session._scope.count(text)


def _of(name: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}


def _value(session: Session, code: str) -> list[float]:
    outcome = session.run(code)
    if outcome.error is not None:
        raise RuntimeError(str(outcome.error))
    return outcome.value  # type: ignore[return-value]


def _timed(work: object) -> float:
    began = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - began
