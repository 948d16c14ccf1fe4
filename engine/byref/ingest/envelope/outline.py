"""The builders of the default form: the whole shape, the values that code needs, and one complete record.

The tokens of an envelope go first to its fixed parts, then to the shape, then to the example; what one of them leaves over goes to
the other. Names of variables, values and `omitted` have a share of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from byref.artifacts import variables
from byref.content import Block
from byref.describe.cuts import plain
from byref.describe.example import Example, Examples
from byref.describe.jsontext import compact, encodable
from byref.describe.tables import tables
from byref.describe.values import Fact, beside, listed
from byref.ingest.envelope.base import (
    ROUNDS,
    Brief,
    Builder,
    Reference,
    Rendered,
    access_hints,
    located,
    nested,
    read_there,
    repeated,
)
from byref.policy import INTERPRETER
from byref.policy.routes import Route
from byref_sandbox.values.data import at_path

_SCHEMA_SHARE: Final = 0.6
"""The schema's share of the tokens that the fixed parts leave, if schema and example need more than these."""
_LISTING_SHARE: Final = 0.1
"""Share of the budget for the names of variables; further variables are only counted."""
_VALUES_SHARE: Final = 0.18
"""Maximum share of the tokens that the fixed parts leave for what is said of values."""
_MOST_OF_VALUES: Final = 120
"""Maximum tokens of what is said of values: what says most comes first, and soon the rest says little."""
_AIM: Final = 0.55
"""Share of the budget that an envelope exceeds only for the shape, for the most telling values, and for a short example of each
place: strings are cut shorter, and less is said of values, before it does."""
_LEAST_OF_VALUES: Final = 36
"""Tokens of what is said of values in an envelope that exceeds its aim."""
_MOST_FACTS: Final = 60
"""Facts of values that are considered."""
_NEARLY: Final = 0.6
"""What a fact is worth at least of a longer one that has no room, to be stated in its place."""
_AT_ONCE: Final = 8
"""Facts of values that are tried together."""
_SHORTEST: Final = 6
"""Tokens of the shortest fact."""
_OMITTED: Final = 16
"""Tokens reserved for `omitted`."""
_LEAST_BUDGET: Final = 300
"""Minimum of the budget that follows from the policy's `preview_tokens`."""
_LEAST: Final = 16
"""Minimum tokens of an example."""
_SHORT_BELOW: Final = 300
"""Below this budget, the instruction has no example; below half of it, it does not say how to hand data on."""


class _OutlineBuilder(Builder):
    """Fits the shape and an example of a structured block beside the fixed parts."""

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief, brief.bounded_budget)
        if brief.policy.envelope_tokens is None:
            self.budget = min(self.budget, max(brief.policy.preview_tokens, _LEAST_BUDGET) // brief.share)
        [measured] = brief.blocks
        assert isinstance(measured.piece.block, Block) and measured.schema is not None
        self._value: Any = measured.piece.block.outline
        self._measured = measured
        self._schema = measured.schema
        self._is_json_schema = brief.policy.schema_form == "json-schema"
        self._most_shown = brief.policy.preview_tokens
        self._outline = measured.schema.outline
        self._examples = Examples(self._value, self._outline)
        self._shape: object = None
        self._example: Example | None = None
        self._values: dict[str, Any] = {}
        self._is_fitted = False

    def _fit(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        if self._is_fitted:
            rendered = self._rendered(names, step, kept)
            if rendered.tokens <= self.budget:
                return rendered
        self._is_fitted, self._shape, self._example, self._values = True, "", None, {}
        rendered = self._rendered(names, step, kept)
        if rendered.tokens > self.budget - _OMITTED and self.repeats is not None:
            self.repeats = None
            rendered = self._rendered(names, step, kept)
        room = self.budget - rendered.tokens - _OMITTED
        for _ in range(ROUNDS):
            self._share(room)
            rendered = self._rendered(names, step, kept)
            over = rendered.tokens - self.budget
            if over <= 0:
                break
            room -= over + 4
        else:  # the fixed parts alone: an id is more tokens than another, and the shortest shape has some
            self._shape, self._example, self._values = "", None, {}
            rendered = self._rendered(names, step, kept)
        return rendered

    def _share(self, room: int) -> None:
        """Divide a room in tokens between the values, the shape and the example."""
        aim = room - int(self.budget * (1 - _AIM))
        most = min(int(room * _VALUES_SHARE), _MOST_OF_VALUES)
        least = min(most, _LEAST_OF_VALUES)
        _, reserved = self._said(self._facts, least)
        room -= reserved
        aim -= reserved
        self._shape, used, is_whole = self._shaped(max(int(room * _SCHEMA_SHARE), 4))
        self._example = self._exampled(room - used, aim - used)
        shown = 0 if self._example is None else self._example.tokens
        left = room - used - shown
        if not is_whole and left > room // 16:
            self._shape, used, _ = self._shaped(used + left)
            left = room - used - shown
        values = max(reserved, min(most, reserved + min(left, aim - used - shown)))
        value = None if self._example is None else self._example.value
        self._values, _ = self._said(beside(self._facts, value), values)

    def _said(self, facts: Sequence[Fact], budget: int) -> tuple[dict[str, Any], int]:
        """Return what is said of values in at most this many tokens, and its tokens."""
        taken: list[Fact] = []
        shown: dict[str, Any] = {}
        tokens = 0
        # Most of the first facts fit, so they are tried together; one that is too long is left out for shorter ones that tell
        # nearly as much.
        step, at = _AT_ONCE, 0
        while at < len(facts) and budget - tokens > _SHORTEST:
            more = plain(listed([*taken, *facts[at : at + step]]))
            counted = self.count(compact({"values": more}))
            if counted <= budget:
                taken += facts[at : at + step]
                shown, tokens = more, counted
                at += step
            elif step == 1:
                least = _NEARLY * facts[at].worth
                facts = [*facts[:at], *(fact for fact in facts[at + 1 :] if fact.worth >= least)]
            else:
                step //= 2
        return shown, tokens

    @cached_property
    def _facts(self) -> Sequence[Fact]:
        """What can be said of values, the most telling first: as much as any budget may hold."""
        return self._schema.values(self._measured.size, is_table=self._table is not None)[:_MOST_FACTS]

    def _shaped(self, budget: int) -> tuple[object, int, bool]:
        """Return the shape in at most this many tokens, its tokens, and whether it is whole."""
        if self._is_json_schema:
            with suppress(ValueError):
                schema = self._schema.fitted(budget, self.count, is_terse=True)
                return schema, self.count(compact(schema)), False
            return {}, 1, False
        outlined = self._outline.fitted(budget, lambda text: self.count(compact(text)))
        return ("", 1, False) if outlined is None else (outlined.text, outlined.tokens, outlined.is_whole)

    def _exampled(self, budget: int, aim: int) -> Example | None:
        if budget < _LEAST:
            return None
        return self._examples.fitted(min(budget, self._most_shown), self.count, aim=aim)

    def _parts(self) -> dict[str, Any]:
        """Return the members of the envelope that describe the data."""
        shown = self._example
        omitted: dict[str, Any] | None = None
        if shown is None or not shown.is_whole:
            omitted = {"tokens": max(self._measured.tokens - (0 if shown is None else shown.tokens), 1)}
        if self._schema.cut_at is not None:
            omitted = {**(omitted or {}), "deeper": nested(self._schema.cut_at, tiny=self.budget < _SHORT_BELOW // 2)}
        return {
            "schema": self._shape,
            **({"values": self._values} if self._values else {}),
            "preview": None if shown is None else shown.value,
            "omitted": omitted,
        }

    def _read_as(self, kept: Sequence[Reference]) -> dict[str, str]:
        """Return in which way a text was taken for tables, or whose tables these are."""
        document = f"; the document is {kept[1].id}" if len(kept) > 1 else ""
        return {"read_as": encodable(self._table) + document} if self._table else {}

    @property
    def _table(self) -> str | None:
        block = self._measured.piece.block
        return block.read_as if isinstance(block, Block) else None

    @property
    def _is_incomplete(self) -> bool:
        return self._example is None or not self._example.is_whole or self._schema.cut_at is not None

    def _rendered(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        envelope = self._envelope(names, step, kept)
        return Rendered(compact(envelope), self.count, envelope)

    @abstractmethod
    def _envelope(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> dict[str, Any]:
        """Return the envelope with the shape, the values and the example that were fitted last."""


class OutlineVariablesBuilder(_OutlineBuilder):
    """Describes structured data that is bound to variables of the code interpreter."""

    route = Route.VARIABLES

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief)
        tool, policy = brief.prepared.tool, brief.policy
        schema = self._schema
        found = tables(self._value, schema.node, grids=schema.grids, is_partial=schema.is_partial)
        self._is_whole_first = bool(found) and len(found[0].path) == 1
        """Whether the whole is a table, and the one that matters most."""
        self.parts = variables.parts_with_tables(
            tool, self._value, self._measured.shape, found, policy.tool(tool).names
        )
        """The variables: one for the whole, one for each table, and one for each other top-level array or object."""

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the names. Shape and example are fitted the first time, and again only if the names have become too long."""
        return self._fit(names, step, kept)

    def _envelope(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> dict[str, Any]:
        alias = f"var_step_{step}"
        listing = self._listing(names, alias)
        again = repeated(step, self.repeats)
        return {
            "variables": listing,
            **self.source,
            **(located(kept[0]) if kept else {}),
            **self._read_as(kept),
            **self._parts(),
            "instruction": f"{again} {self._instruction(names, listing, alias)}".lstrip(),
        }

    def _listing(self, names: Sequence[str], alias: str) -> dict[str, str]:
        """Return as many names as a share of the budget holds, and count the rest. A long name of the whole becomes its alias.

        The tables stand before a whole that has one member: its name says less than theirs.
        """
        room = self.budget * _LISTING_SHARE
        listing: dict[str, str] = {}
        named = list(zip(names, self.parts, strict=True))
        if type(self._value) is dict and len(self._value) == 1:
            named.sort(key=lambda one: one[1].rows is None)  # stable: the whole stays before other members
        for name, part in named:
            about = part.shape
            if len(part.path) > 1 and not part.is_by_column:
                about = about.partition(" of ")[0]  # the schema says more of it, at its place
            if part.path not in ((), (name,)):
                about += f", at {part.place}"
            if part.columns:
                about += f", with {' and '.join(part.columns)}"
            room -= self.count(name + about) + 4
            if listing and room < 0:
                more = len(names) - len(listing)
                listing["…"] = f"{more:,} more {'variable' if more == 1 else 'variables'}"
                break
            if room < 0:
                name, about = alias, self.parts[0].shape
            listing[name] = about
        return listing

    def _worth(self, names: Sequence[str], name: str) -> tuple[bool, int]:
        """Return the rank of a variable as an example: the first table, else the largest part."""
        if name not in names:
            return False, -2
        at = names.index(name)
        part = self.parts[at]
        if part.rows is not None:
            return True, -at if at or self._is_whole_first else -len(names)
        return False, len(at_path(self._value, part.path)) if part.path else -1  # type: ignore[arg-type]

    def _instruction(self, names: Sequence[str], listing: dict[str, str], alias: str) -> str:
        best = max(listing, key=lambda name: self._worth(names, name), default=alias)
        state = "INCOMPLETE: do not infer the rest" if self._is_incomplete else "preview is all of it"
        text = f"{state};"
        if INTERPRETER in self.tools:
            text += f" compute with {INTERPRETER}"
            text += f", e.g. len({best})." if self.budget >= _SHORT_BELOW else "."
        elif readers := list(access_hints(self.tools, structured=True)):
            text += f" {', '.join(readers)} take{'s' if len(readers) == 1 else ''} a variable's name."
        else:
            text += " the variables hold all of it."
        return f'{text} "${best}" hands it to another tool.' if self.budget >= _SHORT_BELOW // 2 else text


class OutlineArtifactBuilder(_OutlineBuilder):
    """Describes structured data that the session's readers can follow by an artifact's id."""

    route = Route.ARTIFACT

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id; shape and example get the tokens that the fixed parts leave."""
        return self._fit(names, step, kept)

    def _envelope(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> dict[str, Any]:
        reference = kept[0] if kept else Reference("")
        block = self._measured.piece.block
        assert isinstance(block, Block)
        hints = access_hints(
            self.tools, structured=True, name=names[0] if names else None, tiny=self.budget < _SHORT_BELOW // 2
        )
        if not hints and (there := read_there(reference)):
            hints = {"location": there}
        again = repeated(step, self.repeats)
        state = "INCOMPLETE: do not infer the rest." if self._is_incomplete else "preview is all of it."
        return {
            "artifact_id": reference.id,
            **self.source,
            **located(reference),
            "size_bytes": self._measured.size,
            "line_count": block.line_count,
            **self._read_as(kept),
            **self._parts(),
            "how_to_access": hints,
            "note": f"{again} {state}".lstrip(),
        }
