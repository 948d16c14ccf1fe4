"""The effects of a run on the session's names, for people who look at it later: recorded with the run, never read by another."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from byref.interpreter.persistence import Committed, Left
from byref_sandbox.contents import LAST

MAX_CHARS = 10_000
"""Characters of all names together, and of what is said of them."""
MAX_NAME_CHARS, MAX_WORDS_CHARS = 100, 200


class Effects(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run found and did. Where there are too many names, `left_out` counts the others."""

    made: Mapping[str, str] = {}
    """Names that were not there before, each with its shape or type."""
    changed: Mapping[str, str] = {}
    """Names that were there and have another value now, each with its shape or type."""
    dropped: Collection[str] = ()
    """Names that were there and are not there any more."""
    lost: Mapping[str, str] = {}
    """Names whose new values are not kept, each with the reason."""
    for_this_run: Collection[str] = ()
    """Names of stored data that the code assigned or changed for itself alone."""
    used: Collection[str] = ()
    """Names of stored data that the code was given."""
    before: Collection[str] | None = None
    """Names that earlier runs had left; None: it was SQL, which sees none but those that it names."""
    left_out: Mapping[str, int] = {}
    """How many more names there are, by the field's name."""


def effects(
    left: Left,
    made: Committed,
    *,
    before: Collection[str] | None,
    used: Collection[str],
    for_this_run: Collection[str],
) -> bytes:
    """Return the effects of a run as JSON; the arguments beside what it left and what was made of that are as in `Effects`."""
    there = set(before or ())
    bound = dict([*made.names.items(), *([made.result] if made.result is not None else [])])
    others = {name for name in bound if name in there or (name in made.names and name not in made.fresh)}
    room = _Room()
    return msgspec.json.encode(
        Effects(
            made=room.described("made", {name: what for name, what in bound.items() if name not in others}),
            changed=room.described("changed", {name: what for name, what in bound.items() if name in others}),
            dropped=room.listed("dropped", there & (left.dropped | made.gone.keys())),
            lost=room.described("lost", {**left.lost, **made.gone}),
            for_this_run=room.listed("for_this_run", {*left.rebound, *for_this_run}),
            used=room.listed("used", used),
            before=None if before is None else room.listed("before", before),
            left_out=room.left_out,
        )
    )


class _Room:
    """The characters that are left for further names."""

    def __init__(self) -> None:
        self._chars = MAX_CHARS
        self.left_out: dict[str, int] = {}

    def listed(self, field: str, names: Collection[str]) -> list[str]:
        return list(self.described(field, dict.fromkeys(sorted(names), "")))

    def described(self, field: str, names: Mapping[str, str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, words in names.items():
            if name == LAST:
                continue
            shown, said = (_encodable(one) for one in (name[:MAX_NAME_CHARS], words[:MAX_WORDS_CHARS]))
            self._chars -= len(shown) + len(said)
            if self._chars >= 0 and shown not in found:
                found[shown] = said
            else:
                self.left_out[field] = self.left_out.get(field, 0) + 1
        return found


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
