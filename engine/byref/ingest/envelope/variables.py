"""The builder for structured data that is bound to variables of the interpreter: names of variables, a schema, a preview."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from byref.artifacts import variables
from byref.artifacts.variables import Part
from byref.content import Block
from byref.describe.jsontext import compact
from byref.describe.preview import Preview, preview
from byref.ingest.envelope.base import (
    ROUNDS,
    Brief,
    Builder,
    Reference,
    Rendered,
    access_hints,
    completeness,
    located,
    nested,
    repeated,
)
from byref.policy import INTERPRETER
from byref.policy.routes import Route

_SCHEMA_SHARE = 0.4
"""The schema's share of the tokens that the fixed parts leave; the preview gets the rest."""
_LISTING_SHARE = 0.25
"""Share of the budget for the names of variables; further variables are only counted."""
_SEAMS = 16
"""A whole text may take this many tokens more than the sum of its parts, counted one by one."""
_KEY_CHARS = 60
"""Maximum characters of a key that is shown because the variable's name differs from it."""
_SHORT_BELOW = 450
"""Below this budget, the instruction is one sentence; below half of it, the sentence is shorter still."""


class VariablesBuilder(Builder):
    """Shows structured data that is bound to variables of the code interpreter."""

    route = Route.VARIABLES

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief, brief.bounded_budget)
        [measured] = brief.blocks
        assert isinstance(measured.piece.block, Block) and measured.schema is not None
        self._value: Any = measured.piece.block.outline
        self._schema = measured.schema
        self._total, self._size = measured.tokens, measured.size
        self._preview_tokens = brief.preview_tokens
        tool, policy = brief.prepared.tool, brief.policy
        self.parts = variables.parts(tool, self._value, measured.shape, policy.tool(tool).names)
        """The variables: one for the whole, and one for each top-level array or object."""
        self._sizes = [_size_at(self._value, part) for part in self.parts]
        self._fitted: dict[str, Any] | None = None
        self._preview: Preview | None = None
        self._location: dict[str, str] = {}

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the names. Schema and preview are fitted the first time, and again only if the names have become too long."""
        self._location = located(kept[0]) if kept else {}
        if self._fitted is not None:
            rendered = self._rendered(names, step)
            if rendered.tokens <= self.budget:
                return rendered
        return self._fit(names, step)

    def _fit(self, names: Sequence[str], step: int) -> Rendered:
        self._fitted, self._preview = {}, None
        rendered = self._rendered(names, step)
        bare, share = rendered.tokens, _SCHEMA_SHARE
        room = self.budget - bare
        for _ in range(ROUNDS):
            self._fitted, self._preview = {}, None
            # A host's own token counter may count so many tokens per character that not even the smallest schema fits.
            with suppress(ValueError):
                self._fitted = self._schema.fitted(max(4, int(room * share)), self.count)
            schema = self.count(compact(self._fitted))
            with suppress(ValueError):
                self._preview = preview(
                    self._value,
                    budget=max(8, min(room - schema, self._preview_tokens)),
                    measure=self.count,
                    total=self._total,
                    size=self._size,
                )
            rendered, shown = self._rendered(names, step), self._preview
            apart = bare + schema + (0 if shown is None else shown.tokens + self.count(compact(shown.omitted)))
            if apart + _SEAMS <= self.budget:
                break
            over = rendered.tokens - self.budget
            if over <= 0:
                break
            room -= over + 4
            if room < 60:
                share = 0.1
        return rendered

    def _rendered(self, names: Sequence[str], step: int) -> Rendered:
        envelope = self._envelope(names, step)
        text = compact(envelope)
        return Rendered(text, self.count, envelope)

    def _envelope(self, names: Sequence[str], step: int) -> dict[str, Any]:
        shown = self._preview
        omitted = shown.omitted if shown else None
        if self._schema.cut_at is not None:
            omitted = {**(omitted or {}), "deeper": nested(self._schema.cut_at)}
        short = min(self.budget, 3 * self._preview_tokens) < _SHORT_BELOW
        state = "INCOMPLETE: no preview fits." if shown is None else completeness(complete=omitted is None, short=short)
        alias = f"var_step_{step}"
        listing = self._listing(names, alias)
        sizes = dict(zip(names, self._sizes, strict=True))
        example = max((name for name in names if name in listing), key=sizes.__getitem__, default=alias)
        return {
            "variables": listing,
            **self.source,
            **self._location,
            "schema": self._fitted,
            "preview": shown.value if shown else None,
            "omitted": omitted,
            "instruction": " ".join(
                filter(
                    None,
                    [
                        repeated(step, self.repeats),
                        _instruction(
                            example, step, self.tools, state, short=short, tiny=self.budget < _SHORT_BELOW // 2
                        ),
                    ],
                )
            ),
        }

    def _listing(self, names: Sequence[str], alias: str) -> dict[str, str]:
        """Return as many names as a share of the budget holds, and count the rest. A long name of the whole becomes its alias."""
        room = self.budget * _LISTING_SHARE
        listing: dict[str, str] = {}
        for name, part in zip(names, self.parts, strict=True):
            about = part.shape if part.path in ((), (name,)) else f"{part.shape}, at {_at(part.path)}"
            room -= self.count(name + about) + 4
            if listing and room < 0:
                more = len(names) - len(listing)
                listing["…"] = f"{more:,} more {'variable' if more == 1 else 'variables'}"
                break
            listing[name if room >= 0 else alias] = about
        return listing


def _instruction(example: str, step: int, tools: Sequence[str], state: str, *, short: bool, tiny: bool) -> str:
    hand_on = "" if tiny else f'; give "${example}" to hand it to another tool'
    if short:
        where = (
            f"{INTERPRETER} has all of the data in these variables"
            if INTERPRETER in tools
            else "The variables hold it all"
        )
        return f"{state} {where}{hand_on}."
    text = f"{state} The variables hold all of the data"
    if INTERPRETER in tools:
        text += f", as Python objects in {INTERPRETER}, e.g. len({example})"
    text += f"; the whole is also var_step_{step}."
    if names := list(access_hints(tools, structured=True)):
        text += f" {', '.join(names)} take{'s' if len(names) == 1 else ''} a variable's name."
    return text + f' To hand data to another tool, give "${example}" as its argument.'


def _size_at(value: Any, part: Part) -> int:
    """Return the number of elements at a part; the largest part makes the best example."""
    return len(value[part.path[0]]) if part.path else -1


def _at(path: variables.Path) -> str:
    """Return a path in the notation of code, with long keys cut and special characters escaped."""
    return "".join(f"[{str(key)[:_KEY_CHARS]!r}]" for key in path)
