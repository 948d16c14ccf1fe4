"""Thousands of small outputs at once, from threads and from an event loop, in one conversation and in many.

Each gets a step of its own, in one unbroken row; the same output under the same call id gets one step however often and at
what moment it is given; the context is the sum of what the model reads, to the token.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import kit
from report import Report

from byref import AsyncEngine, CharCounter, Engine, Policy

WORKERS = 24
BATCH = 120
"""Outputs given at once, each a second time under the same call id."""
POLICY = Policy(headroom_percentage=1.0, ttl=None)


def many_small_outputs(folder: Path, seconds: float, seed: int) -> Report:
    """On SQLite and PostgreSQL, from threads and from tasks, to one session and to a dozen."""
    report, slices = Report("many_small_outputs"), seconds / 8
    with kit.databases(folder) as urls:
        for (kind, url), by, sessions in product(urls.items(), (_by_threads, _by_tasks), (1, 12)):
            who = f"{kind} {by.__name__.removeprefix('_by_')} {sessions}"
            names = [f"{who} {number}" for number in range(sessions)]
            took: list[float] = []
            began = time.monotonic()
            given = by(url, names, slices, took, f"{seed}")
            spent = time.monotonic() - began
            with Engine(url, counter=CharCounter()) as engine:
                for name in names:
                    report.failures += _look(engine, name, given[name])
            outputs = sum(len(answers) for answers in given.values())
            report.figures[f"{who}: outputs"] = outputs
            report.figures[f"{who}: a second"] = round(outputs / spent)
            report.figures[f"{who}: p50 ms"] = round(kit.quantile(took, 0.5) * 1000, 1)
            report.figures[f"{who}: p99 ms"] = round(kit.quantile(took, 0.99) * 1000, 1)
        for url in urls.values():
            kit.verify(url, report.failures)
    return report


Answers = list[tuple[str, int, int]]
"""Call id, step and tokens of what was answered."""


def _by_threads(url: str, names: list[str], seconds: float, took: list[float], mark: str) -> dict[str, Answers]:
    given: dict[str, Answers] = {name: [] for name in names}
    with Engine(url, policy=POLICY, counter=CharCounter()) as engine, ThreadPoolExecutor(WORKERS) as pool:
        sessions = {name: engine.session(name, context_window=10**9) for name in names}

        def give(name: str, call: str) -> tuple[str, str, int, int]:
            began = time.perf_counter()
            result = sessions[name].process(_output(call), tool="small", call_id=call)
            took.append(time.perf_counter() - began)
            return name, call, result.step or 0, result.tokens

        until, batch = time.monotonic() + seconds, 0
        while not batch or time.monotonic() < until:
            for name, *answer in list(pool.map(give, *zip(*_calls(names, batch, mark), strict=True))):
                given[name].append(tuple(answer))  # type: ignore[arg-type]
            batch += 1
    return given


def _by_tasks(url: str, names: list[str], seconds: float, took: list[float], mark: str) -> dict[str, Answers]:
    given: dict[str, Answers] = {name: [] for name in names}

    async def main() -> None:
        async with AsyncEngine(url, policy=POLICY, counter=CharCounter()) as engine:
            sessions: dict[str, Any] = {name: await engine.session(name, context_window=10**9) for name in names}

            async def give(name: str, call: str) -> None:
                began = time.perf_counter()
                result = await sessions[name].process(_output(call), tool="small", call_id=call)
                took.append(time.perf_counter() - began)
                given[name].append((call, result.step or 0, result.tokens))

            until, batch = time.monotonic() + seconds, 0
            while not batch or time.monotonic() < until:
                await asyncio.gather(*(give(name, call) for name, call in _calls(names, batch, mark)))
                batch += 1

    asyncio.run(main())
    return given


def _calls(names: list[str], batch: int, mark: str) -> list[tuple[str, str]]:
    """Session and call id of a batch, the twins beside each other."""
    calls = [(names[number % len(names)], f"{mark} {batch} {number}") for number in range(BATCH)]
    return [call for call in calls for _ in range(2)]


def _output(call: str) -> str:
    return f"output of {call}: " + "x" * (len(call) * 37 % 300)


def _look(engine: Engine, name: str, answers: Answers) -> list[str]:
    session = engine.session(name)
    entries = session.ledger()
    steps = {call: step for call, step, _ in answers}
    tokens = {step: tokens for _, step, tokens in answers}
    failures = []
    if [entry.step for entry in entries] != list(range(1, len(entries) + 1)):
        failures.append(f"{name}: the steps are no unbroken row")
    if len(steps) != len(set(steps.values())) or {(call, steps[call]) for call, _, _ in answers} != {
        (call, step) for call, step, _ in answers
    }:
        failures.append(f"{name}: one call id, one step: {len(steps)} calls, {len(set(steps.values()))} steps")
    if len(entries) != len(steps):
        failures.append(f"{name}: {len(steps)} outputs were acknowledged, {len(entries)} are there")
    if {entry.step: entry.tokens for entry in entries} != tokens:
        failures.append(f"{name}: tokens of the ledger are not those that were answered")
    if (context := session.context_tokens()) != sum(tokens.values()):
        failures.append(f"{name}: the context is {context} tokens, and {sum(tokens.values())} were answered")
    return failures
