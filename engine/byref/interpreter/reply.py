"""The reply about a run, as the model reads it: printed output, value or error, and the fate of its names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from byref.artifacts.counted import Counted
from byref.artifacts.tombstones import GONE
from byref.artifacts.variables import LATEST, Variable
from byref.conversation.scope import Scope
from byref.describe.jsontext import noted
from byref.describe.truncate import incomplete_json, truncate, truncate_json
from byref.interpreter import files, plots
from byref.interpreter.persistence import Committed
from byref.interpreter.runs import Execution, missing_name, text_of
from byref.jsonscan import LazyJSON
from byref_sandbox import Every
from byref_sandbox.code.analysis import Analysed
from byref_sandbox.contents import LAST
from byref_sandbox.outcome import AS_DATA, NAMES_THERE

NO_OUTPUT = "[no output: nothing was printed, and the last statement is no expression]"
EMPTY_TEXT = "[the value is an empty text]"
_LISTED_NAMES = 30


def reply(execution: Execution, made: Committed, scope: Scope, known: list[Variable]) -> str:
    """Return the text of a run for the model: figures and files, printed output, value or error, and the fate of its names.

    `known` are the latest variables, from which an error about a missing name suggests some.
    """
    about = [plots.text_of(scope, execution.plots, made.plots), files.text_of(scope, execution.files)]
    text = "\n".join(_parts(execution, made, scope, known))
    return "\n".join(filter(None, [*about, text])) or NO_OUTPUT


def _parts(execution: Execution, made: Committed, scope: Scope, known: list[Variable]) -> list[str]:
    outcome, limit = execution.outcome, scope.policy.reply_tokens
    parts: list[str] = []
    if outcome.stdout:
        budget = limit // 2 if outcome.kind != "none" and outcome.json != b'""' else limit * 3 // 4
        printed = truncate(outcome.stdout.rstrip("\n"), budget=budget, measure=scope.count)
        parts.append(printed.text)
        cut = f"{printed.omitted_bytes:,} bytes" if printed.omitted_bytes else ""
        lost = f"{outcome.stdout_dropped:,} characters at its end" if outcome.stdout_dropped else ""
        if left := " and ".join(filter(None, (cut, lost))):
            parts.append(
                f"[INCOMPLETE: {left} of what was printed are left out. Print less: keys, length, a slice, fewer fields.]"
            )
    if outcome.stderr:
        told = truncate(outcome.stderr.rstrip("\n"), budget=limit // 8, measure=scope.count)
        parts.append(f"[stderr: {told.text}]")
    if outcome.error is None:
        parts.extend(_value_parts(execution, made, scope))
    else:
        parts.append(_error_text(execution, known))
    parts += [f"[{name} is what {call} gave]" for name, call in islice(execution.calls.items(), _LISTED_NAMES)]
    if execution.left.rebound:
        parts.append(f"[{', '.join(execution.left.rebound)}: assigned for this run only; the stored data is unchanged]")
    if execution.changed:
        parts.append(f"[{_named(execution.changed, 'too')}: changed for this run only; the stored data is unchanged]")
    listed = {name: shape for name, shape in made.names.items() if name != LAST}
    for name, bound in outcome.bound.items():
        if bound.was and name in listed:
            listed[name] += f", no longer {bound.was}"
    if listed:
        parts.append(f"[kept for later calls: {_listing(listed, 'kept too: use them by name')}]")
    if unkept := {name: why for name, why in {**execution.left.lost, **made.gone}.items() if name != LAST}:
        parts.append(f"[not kept: {_reasons(unkept, 'not kept: put what belongs together in one dict')}]")
    if made.beside:
        of_others = _named(made.beside, "so too")
        parts.append(
            f"[bound by another call meanwhile: {of_others}; what names of this call shared with them is a copy]"
        )
    if made.over:
        of_both = _named(made.over, "so too")
        parts.append(f"[bound by another call meanwhile: {of_both}; what this call did took the place of that]")
    if made.files_over:
        of_both = _named(made.files_over, "so too")
        parts.append(f"[written by another call meanwhile: {of_both}; what this call wrote took the place of that]")
    if made.doubted:
        parts.append(
            f"[another call ended meanwhile: what this call changed inside of {_named(made.doubted, 'so too')}, if anything, is lost]"
        )
    if execution.is_damaged:
        parts.append(
            f"[lost: functions, classes and other names without data, of earlier calls ({GONE}): bind them again]"
        )
    missed = execution.left.missed
    as_data = {name: why.removesuffix(f": {AS_DATA}") for name, why in missed.items() if why.endswith(AS_DATA)}
    if not_there := {name: why for name, why in missed.items() if name not in as_data}:
        parts.append(f"[lost: {_reasons(not_there, 'lost')}]")
    if as_data:
        parts.append(f"[now plain data: {_reasons(as_data, 'plain data')}]")
    return parts


def _value_parts(execution: Execution, made: Committed, scope: Scope) -> list[str]:
    outcome, limit = execution.outcome, scope.policy.reply_tokens
    if outcome.kind == "none":
        return []
    text, sent = text_of(outcome), LazyJSON(outcome.json)
    is_json = outcome.kind == "json" and outcome.json.startswith((b"[", b"{"))
    size = len(outcome.json) - outcome.json.count(b"\n")
    if made.result is None:
        budget = limit * 3 // 4
        whole = truncate(text, budget=budget, measure=scope.count)
        left = f"{whole.omitted_bytes:,} bytes of the value are left out. Select less: a slice, fewer fields."
        if not whole.omitted_bytes:
            return [whole.text or ("" if outcome.stdout else EMPTY_TEXT)]
        if is_json:
            note = f"the value has {size:,} bytes. Select less: a slice, fewer fields."
            return [incomplete_json(sent.glimpse, note, budget=budget, measure=scope.count, size=size)]
        return [whole.text, f"[INCOMPLETE: {left}]"]
    name, shape = made.result
    note = (
        f"the value is too big to show; all of it is now the variable {name}: {shape}. "
        f"Compute on {name} in the next call instead of printing it."
    )
    if is_json:
        shown = truncate_json(sent.glimpse, budget=limit // 4, measure=scope.count, size=size).text
        return [noted(shown, f"INCOMPLETE: {note}")]
    return [truncate(text, budget=limit // 4, measure=scope.count).text, f"[INCOMPLETE: {note}]"]


def _error_text(execution: Execution, known: list[Variable]) -> str:
    error = execution.outcome.error
    assert error is not None
    where = f" at line {error.line}" if error.line is not None else ""
    text = f"{error.kind}{where}: {error.message}"
    lines = Analysed.of(execution.code).plain.splitlines()
    if error.kind != "SyntaxError" and error.line is not None and 0 < error.line <= len(lines):
        text += f"\n    {lines[error.line - 1].strip()[:200]}"
    if error.kind != "NameError":
        return text + (f"\n{error.hint}" if error.hint else "")
    left = [variable for variable in known if variable.origin == "run"]
    names = {one.name: one.shape for one in (*(one for one in known if one.origin != "run"), *reversed(left))}
    missing = missing_name(execution.outcome)
    close = (error.hint or "").partition(NAMES_THERE)[0].strip(" ;")
    if execution.gone is not None:
        text += f"\n{execution.gone}"
    elif missing and (owner := _with_column(missing, known)) and " is a " not in close:
        text += f"\n{missing!r} is a key of the records of {owner}: row[{missing!r}], or df({owner})[{missing!r}]"
    elif close:
        text += f"\n{close[0].upper()}{close[1:]}"
    elif missing and (near := difflib.get_close_matches(missing, [*names, *execution.callables], 1)):
        text += f"\nDid you mean {near[0]}?"
    if execution.callables:
        text += f"\nFunctions and classes: {_named(execution.callables, 'defined')}"
    if not names:
        return text + "\nNo variable with data is bound yet."
    is_all = max(len(left), len(known) - len(left)) < LATEST
    note = _listing(names, "bound: the results that made them name them", is_all=is_all)
    return f"{text}\nVariables with data: {note}"


def _with_column(name: str, known: Sequence[Variable]) -> str | None:
    """Return the newest variable whose records have a key of this name; None if there is none."""
    for variable in reversed(known[-_LISTED_NAMES:]):
        schema: Any = variable.artifact.schema
        if any(isinstance(step, Every) and name in step.cells for step in variable.path):
            return variable.name
        for step in variable.path:
            schema = _below(schema, step) if isinstance(schema, dict) else None
        gathers = any(isinstance(step, Every) for step in variable.path)
        records = schema if gathers else schema.get("items") if isinstance(schema, dict) else None
        if isinstance(records, dict) and name in records.get("properties", {}):
            return variable.name
    return None


def _below(schema: dict[str, Any], step: str | Every) -> Any:
    """Return the schema one step down; of a map without one for all its values, that of the first."""
    if isinstance(step, str):
        return schema.get("properties", {}).get(step)
    if step.of == "[]":
        return schema.get("items")
    return schema.get("additionalProperties") or next(iter(schema.get("properties", {}).values()), None)


def _named(names: Sequence[str], further: str) -> str:
    more = len(names) - _LISTED_NAMES
    return ", ".join(names[:_LISTED_NAMES]) + (f". INCOMPLETE: {more:,} more are {further}" if more > 0 else "")


def _reasons(lost: Mapping[str, str], further: str) -> str:
    """Return a list of the names in words, grouped by their reason."""
    together: dict[str, list[str]] = {}
    for name, reason in list(lost.items())[:_LISTED_NAMES]:
        together.setdefault(reason, []).append(name)
    more = len(lost) - _LISTED_NAMES
    shown = ", ".join(f"{', '.join(names)} ({reason})" for reason, names in together.items())
    return shown + (f". INCOMPLETE: {more:,} more are {further}" if more > 0 else "")


def _listing(names: Mapping[str, str], further: str, *, is_all: bool = True) -> str:
    shown = [f"{name} ({about})" for name, about in list(names.items())[:_LISTED_NAMES]]
    more = Counted(len(names), is_all).beside(len(shown))
    return ", ".join(shown) + (f". INCOMPLETE: {more} more are {further}" if more else "")
