"""Values that code needs to know before it is written: a few distinct values with their counts, ranges, formats, keys, joins.

The values of one place are read together, as a column. First a sample of every column is read, to learn what there is to say; then
all values of those columns of which most can be said. The work is bounded by the size of the text: a fact that is still of a sample
says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from math import isfinite, log10
from typing import Any, Final

from byref.describe.formats import epoch, first_words, format_of
from byref.describe.grids import Grid
from byref.describe.joins import Keys, joins
from byref.describe.jsontext import encodable
from byref.describe.nodes import BOOLEAN, INTEGER, STRING, Node
from byref.describe.nodes import places as places_of
from byref.describe.paths import ITEM, KEY, Cell, Each, Path, written
from byref.describe.rows import MAPS, Rows, Summary
from byref.describe.samples import Place, Sample, Work, places

_LEAST_WORK: Final = 1_300_000
"""Nanoseconds of work for even the smallest value."""
_MOST_WORK: Final = 60_000_000
"""Nanoseconds of work for even the largest value."""
_SHARE: Final = 0.3
"""How much of the time that `orjson.loads` takes for the text all work may take."""
_SHARE_OF_A_TABLE: Final = 3.0
"""The same for what was read as a table: reading it takes longer by more than that."""
_LOADED: Final = 80
"""Nanoseconds that `orjson.loads` takes at least for an object, and for a member of one: up to twice as long where the data is larger than the processor's cache."""
_LOADED_BYTE: Final = 0.25
"""Nanoseconds that it takes at least for a byte of a long string."""
_MATCHED_BYTE: Final = 1.7
"""The same for a byte of text of which not all values were counted: it takes 3 to 20 for most text."""
_COUNTED: Final = 400
"""Places whose objects are counted for this; further ones make an output no larger."""
_SAMPLING: Final = 0.55
"""Share of the work that samples may take."""
_SAID: Final = 10_000
"""Work for each column of which something is said, however few its values are."""
_SEEN: Final = 65
"""Work for each value of a column of which something is said."""
_SEEN_BOOL: Final = 25
"""The same for a boolean."""
_SEEN_MANY: Final = 200
"""The same where most values differ: they are put into a set."""
_SEEN_FORMAT: Final = 420
"""The same for strings with a format: their digits are replaced."""
_LOOKED_UP: Final = 50
"""Work for each value that is looked up in a set, or put into one."""
_FEWEST: Final = 3
"""A column with fewer values is shown by any preview."""
_STATED: Final = 64
"""Facts that are made exact, at most; a budget of tokens holds fewer."""
_FEW: Final = 16
"""Maximum distinct values that are listed."""
_MANY: Final = 500
"""Maximum distinct values that are counted, to say which are the most frequent."""
_MOST_FREQUENT: Final = 4
"""Values that are listed if there are too many for a list of all."""
_FEW_NUMBERS: Final = 6
"""Maximum distinct numbers that are listed; of more, the range is stated."""
_LISTED: Final = 120
"""Maximum characters of a list of values."""
_CHARS: Final = 40
"""Maximum characters of a value that is stated; a longer one is cut."""
_WORD: Final = 36
"""Strings of which one has more characters are rather ids or URLs than words."""
_LONG: Final = 40
"""Characters of an id or digest. If strings have more, all that are looked at, they are URLs or prose: nothing is said of them."""
_PROSE: Final = 120
"""Strings of more characters, on the average of some, are prose: they are not counted."""
_LARGEST: Final = 10**18
"""Numbers of a greater amount are ids, or hostile; their range is not stated."""
_UNSEEN: Final = 2.2
"""How much more a fact is worth if no value is shown that it is about."""
_AGAIN: Final = 0.6
"""What a fact is worth if there is a better one of the same name at another place."""
_MANY_SAMPLED: Final = 64
"""A smaller sample says little of the rest."""
_SAME: Final = 2
"""Places whose keys are said to be those of one map; of more, each would say the same."""
_FIELDS: Final = 4
"""Minimum keys of records that are compared with the keys of maps."""
_MOST_KEYS: Final = 50_000
"""Maximum keys of maps that are looked at."""
_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "bool",
    int: "num",
    float: "num",
    str: "str",
    list: "list",
    Rows: "list",
    dict: "object",
}
_TYPE_OF: Final[Mapping[int, frozenset[type]]] = {
    BOOLEAN: frozenset({bool}),
    INTEGER: frozenset({int}),
    STRING: frozenset({str}),
}
"""The type of all values of some places, by the kinds that their node knows."""
_PLAIN: Final = re.compile(r"[^\W\d](?:[^\s,'\"\\\x00-\x1f]| (?![\d\s]|\Z))*")
"""A value that is stated without quotes: it cannot be taken for two values, or for a count."""
_RESERVED: Final = {"null", "true", "false", "unique", "empty"}
_KEY_NAMES: Final = re.compile(
    r"(?:^|_|\W)(?:id|_id|key|number|code|slug|sha|uuid|guid|login|email|sku|name|isbn|iban|cca[23])$|[a-z](?:Id|ID|Key|Code)$",
    re.IGNORECASE,
)
"""Names of columns by which records are found."""

# What facts are worth. Of those at the top, code that does not know them is wrong, or has to look first. That types are mixed
# is seen in the schema, too.
_NO_VALUES: Final = 3
"""Different words in a column of numbers or times in text that stand for no value."""
_FORMATS: Final[Mapping[str, float]] = {"number": 9.0, "digits": 6.0, "time": 5.0}
_FEW_WORDS: Final = 8.0
_EPOCH: Final = 8.0
_JOIN: Final = 8.0
_KEYS: Final = 7.0
_FIRST_WORDS: Final = 7.0
_UNIQUE: Final = 5.0
_BLANKS: Final = 4.0
_MANY_WORDS: Final = 4.0
_MIXED: Final = 4.0
_RANGE: Final = 4.0
_LENGTHS: Final = 3.0
_BOOLEANS: Final = 3.0
_CONSTANT: Final = 3.0
_NULLS: Final = 2.0

Stated = str | list[int | float]
"""What is shown of a fact: a short text, or a range as a pair of numbers."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is true of all values at a place, or of a sample of them."""

    path: Path
    stated: Stated
    worth: float
    """How telling it is; more is better."""
    count: float = 0.0
    """The values, or keys, that it is about; estimated if it is of a sample."""
    of_keys: bool = False
    """Whether it is about the keys of the maps at the path, not about values."""
    sample: Sample | None = None
    """The sample that it is true of; None if it is true of all values."""

    @property
    def table(self) -> Path:
        """The path to the records that it is about; empty if there are none."""
        last = next((at for at in range(len(self.path) - 2, -1, -1) if isinstance(self.path[at], Each)), -1)
        return self.path[: last + 1]


def values(
    value: object, node: Node, *, size: int, is_table: bool = False, grids: Mapping[int, Grid] | None = None
) -> list[Fact]:
    """Return facts about the values in a parsed JSON value, of which `Rows` and `Entries` may stand for parts; the most telling come first.

    `node` is the value's schema; `size`, the bytes of its text, bounds the work, less so if it was read as a table. The value has JSON's own types only. Every fact is
    exact, or names the sample that it is of. Strings in it are cut to 40 characters.
    """
    reading = _Reading(node, size, _SHARE_OF_A_TABLE if is_table else _SHARE)
    reading.read(value, node, grids or {})
    return reading.facts()


def beside(facts: Iterable[Fact], shown: object) -> list[Fact]:
    """Return the facts in the order in which they tell most beside a part of the value that is shown.

    A fact tells more of values of which none is shown, or only null and empty ones.
    """
    return sorted(facts, key=lambda fact: -fact.worth * (1.0 if _is_shown(shown, fact.path) else _UNSEEN))


def _is_shown(shown: Any, path: Path) -> bool:
    """Tell whether one of the values at a path is shown, and is neither null nor empty."""
    if not path:
        return shown is not None and shown not in ("", [], {})
    step, below = path[0], path[1:]
    if type(shown) is list and isinstance(step, Cell):
        return step.at < len(shown) and _is_shown(shown[step.at], below)
    if type(shown) is list:
        return step is ITEM and any(_is_shown(one, below) for one in shown if not below or type(one) in (dict, list))
    if type(shown) is not dict or step is ITEM:
        return False
    return any(_is_shown(one, below) for one in shown.values()) if step is KEY else _is_shown(shown.get(step), below)


def listed(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return the facts as they are shown: by path, those of one table together, with the size of their sample if it is one."""
    groups: dict[tuple[Path, Sample | None], list[Fact]] = {}
    for fact in facts:
        groups.setdefault((fact.table, fact.sample), []).append(fact)
    shown: dict[str, Any] = {}
    for (table, sample), group in groups.items():
        of = f", of a sample of {sample.count:,}" if sample is not None else ""
        if table and len(group) > 1:
            shown[f"{written(table)}{of}"] = {_name(fact, len(table)): fact.stated for fact in group}
        else:
            shown |= {_name(fact, 0): _text(fact.stated) + of if of else fact.stated for fact in group}
    return shown


def _name(fact: Fact, above: int) -> str:
    """Return the path as it is written below a table, whose path has so many steps."""
    path = fact.path[above:]
    if above and len(path) == 1 and isinstance(path[0], str) and path[0].isprintable() and len(path[0]) <= _CHARS:
        # Alone, a key needs no quotes of its own, unless it could be taken for a path or for words about one.
        name = str(path[0]) if not set(path[0]) & set('."[*$') and not path[0].startswith("keys of ") else written(path)
    else:
        name = written(path).removeprefix("$") if above else written(path)
    return f"keys of {name}" if fact.of_keys else name


def _text(stated: Stated) -> str:
    return stated if isinstance(stated, str) else " to ".join(map(repr, stated))


@dataclass(slots=True, eq=False)
class _Column:
    """The values of a place, and what is said of them."""

    place: Place
    values: Sequence[Any]
    sample: Sample | None
    stated: Stated | None = None
    worth: float = 0.0
    more: list[str] = field(default_factory=list)
    """What is said behind `stated`, before the numbers of empty strings and of nulls."""
    rest: list[str] = field(default_factory=list)
    present: Sequence[Any] = ()
    """Its strings or integers, without nulls and empty strings, if they may be keys or refer to some."""
    may_be_unique: bool = False
    """Whether no two of the values are equal, and none is null or empty."""
    each: int = _SEEN
    """Work for each further value."""
    is_range_of_keys: bool = False
    """Whether `stated` is the range of numbers that are far apart: it says nothing about numbers that are unique."""

    def say(self, stated: Stated, worth: float) -> None:
        """State the main thing about the column."""
        self.stated, self.worth = stated, worth

    def fact(self) -> Fact | None:
        """Return what is said; None if that is nothing."""
        stated, more = self.stated, [*self.more, *self.rest]
        if self.is_range_of_keys and self.more:
            stated = None
        if more:
            stated = ", ".join([*([_text(stated)] if stated is not None else []), *more])
        return (
            None if stated is None else Fact(self.place.path, stated, self.worth, self.place.total, sample=self.sample)
        )


class _Reading:
    """Reads a value as far as its work allows."""

    def __init__(self, node: Node, size: int, share: float) -> None:
        self._work = Work(min(max(_LEAST_WORK, share * _loading(node, size)), _MOST_WORK))
        self._columns: dict[Path, _Column] = {}
        self._keys: dict[Path, tuple[Keys, Fact | None]] = {}
        """The keys of the maps at a place, and what is said of them."""
        self._fields: list[Keys] = []
        """The keys of records with many members."""

    def read(self, value: object, node: Node, grids: Mapping[int, Grid]) -> None:
        """Read samples of all columns, then all values of the most telling."""
        kept = self._work.left * (1 - _SAMPLING)
        self._work.left -= kept
        for place in places(value, node, self._work, grids):
            summary = place.summary
            said = None if summary is None else _said_of_all(place, summary)
            if (said is None or said.stated is None) and len(place.values) >= _FEWEST:
                some = _said(
                    place, place.values, place.sample
                )  # how texts are written tells more than that some are null
                said = some if said is None or (some is not None and some.stated is not None) else said
            if said is not None:
                self._columns[place.path] = said
                self._work.left -= _SAID
            if place.node.rest is not None and len(place.node.members) < len(place.node.rest_keys):
                self._see_keys(place)
            elif place.node.required is not None and len(place.node.required) == len(place.node.members) >= _FIELDS:
                # Every object has exactly these keys. They are worth mentioning only if a map has the same.
                fields = place.node.required
                self._fields.append(Keys(place.path, list(fields), fields, place.path, is_of_maps=True, maps=[]))
        self._work.left = max(self._work.left, 0) + kept
        unique = self._unique()
        ranked = sorted(self._columns.values(), key=lambda column: -column.worth * _weight(column.place.path))
        for column in [column for column in ranked if column.worth][:_STATED]:
            self._complete(column)
        self._join(unique)

    def facts(self) -> list[Fact]:
        """Return the facts, the most telling first."""
        facts = [fact for _, fact in self._keys.values() if fact is not None]
        facts += (fact for column in self._columns.values() if (fact := column.fact()) is not None)
        facts = sorted((replace(fact, worth=_rank(fact)) for fact in facts), key=lambda fact: -fact.worth)
        # What stands at several places under one name is mostly the same.
        seen: Counter[Path] = Counter()
        for at, fact in enumerate(facts):
            facts[at] = replace(fact, worth=fact.worth * _AGAIN ** seen[fact.path[-2:]])
            seen[fact.path[-2:]] += 1
        return sorted(facts, key=lambda fact: -fact.worth)

    def _complete(self, column: _Column) -> _Column:
        """Return the column with all of its values that are in memory, or as it is if they take too much work."""
        place = column.place
        cost = place.cost + column.each * place.total
        if column.sample is None or cost > self._work.left:
            return column
        known, sample = place.all()
        if len(known) <= len(column.values):
            return column
        self._work.left -= cost
        fuller = _said(place, known, sample) or _Column(place, known, sample)
        self._columns[place.path] = fuller
        return fuller

    def _see_keys(self, place: Place) -> None:
        maps, sample = [one for one in place.values if type(one) in MAPS], place.sample
        cost: float = _LOOKED_UP * sum(map(len, maps))
        if cost > self._work.left and len(maps) > _FEWEST:
            step = min(len(maps) // _FEWEST, int(cost / max(self._work.left, 1)) + 1)
            maps, cost = maps[::step], cost / step
            sample = Sample(place.path, len(maps))
        self._work.left -= cost
        known: dict[str, None] = {}
        for one in maps:
            known |= dict.fromkeys(one.keys())
            if len(known) > _MOST_KEYS:
                return
        keys = list(known)
        if len(keys) < _FEWEST:
            return
        is_whole = sample is None
        # If maps differ in their keys, a value among these is none of a certain map.
        is_one = all(len(one) == len(known) for one in maps)
        distinct = known.keys() if is_whole and is_one else None
        found = Keys(place.path, keys, distinct, place.path, True, maps if is_whole else None)
        form = format_of(keys) if "" not in known else None
        stated = None if form is None else form.stated.removeprefix("text of ")
        if stated is None and len(keys) <= 2 * _FEW and len(text := ", ".join(map(_word, keys))) <= _LISTED:
            stated = text
        worth = _KEYS if is_one else _KEYS / 2
        fact = (
            None
            if stated is None
            else Fact(place.path, stated, worth, sum(map(len, maps)), of_keys=True, sample=sample)
        )
        self._keys[place.path] = found, fact

    def _unique(self) -> list[_Column]:
        """Find the columns by which records are found, at most two of each table: of more it would say nothing new."""
        tables: dict[Path, list[_Column]] = {}
        for column in self._columns.values():
            if column.may_be_unique and isinstance(column.place.step, str):
                tables.setdefault(column.place.path[:-1], []).append(column)
        found: list[_Column] = []
        for table, columns in tables.items():
            if not table or not isinstance(table[-1], Each):
                continue
            named = [column for column in columns if may_be_key(str(column.place.step))]
            parent = columns[0].place.parent
            first = next(iter(parent.node.members), None) if parent is not None else None
            count = 0
            for column in named[:4] or [
                column for column in columns if column.place.step == first and not column.worth
            ]:
                exact = self._complete(column)
                if exact.sample is None and exact.may_be_unique:
                    exact.more.append("unique")
                    exact.worth = max(exact.worth, _UNIQUE if named else _UNIQUE / 2)
                    found.append(exact)
                    count += 1
                if count == 2:
                    break
        return found

    def _join(self, unique: Sequence[_Column]) -> None:
        keys = [keys for keys, _ in self._keys.values()]
        for column in self._columns.values():
            if column.present:
                distinct = frozenset(column.present) if column in unique else None
                keys.append(Keys(column.place.path, column.present, distinct, column.place.path[:-1]))
        said: Counter[Path] = Counter()
        for one in self._fields:
            same = next((keys for keys, _ in self._keys.values() if keys.distinct == one.distinct), None)
            if same is not None and said[same.path] < _SAME:
                said[same.path] += 1
                stated = f"= keys of {written(same.path)}"
                self._keys[one.path] = one, Fact(one.path, stated, _JOIN, len(one.values), of_keys=True)
        for join in joins(keys):
            target = written(join.target.path)
            if join.target.is_of_maps:
                target = f"keys of {target}"
            path = join.source.path
            if join.source.is_of_maps:
                said[join.target.path] += 1
                if said[join.target.path] > _SAME:
                    continue
                stated = f"= {target}" if join.is_equal else f"in {target}"
                sample = self._columns[path].sample if path in self._columns else None
                self._keys[path] = (
                    join.source,
                    Fact(path, stated, _JOIN, len(join.source.values), of_keys=True, sample=sample),
                )
                continue
            column = self._complete(self._columns[path])
            if set(column.present) <= (join.target.distinct or set()):  # all of its values may have been read only now
                column.more.append(f"in {target}")
                column.worth = max(column.worth, _JOIN)


def may_be_key(name: str) -> bool:
    """Tell whether records are found by a column of this name."""
    return _KEY_NAMES.search(name) is not None


def _loading(node: Node, size: int) -> float:
    """Return about how many nanoseconds `orjson.loads` takes at least for text of so many bytes; `node` is its schema."""
    counted = list(islice(places_of(node), _COUNTED))
    if any(one.is_sampled for one in counted):
        return _MATCHED_BYTE * size
    objects = sum(one.objects for one in counted)
    members = sum(one.objects * len(one.members) if one.counts is None else sum(one.counts.values()) for one in counted)
    return _LOADED_BYTE * size + _LOADED * (objects + members)


def _said(place: Place, values: Sequence[Any], sample: Sample | None) -> _Column | None:
    """Return what there is to say of a column; None if that is nothing."""
    column = _Column(place, values, sample)
    # Beside a map's entries, the values of fields are among these; the node tells of the entries alone.
    types = set((() if place.is_mixed else _TYPE_OF.get(place.node.kinds)) or map(type, values))
    present = values if type(None) not in types else [one for one in values if one is not None]
    nulls = len(values) - len(present)
    types.discard(type(None))
    words = {_TYPES[type_] for type_ in types}
    if len(words) > 1:
        # In rows without names, each column has a type of its own, as has each field; that they differ is no news.
        if place.path[-2:] != (ITEM, ITEM) and not place.has_names:
            counts: Counter[str] = Counter()
            for type_, count in Counter(map(type, present)).items():
                counts[_TYPES[type_]] += count
            column.say(_counts(dict(counts.most_common())), _MIXED)
    elif str in types:
        _say_texts(column, present)
    elif bool in types:
        column.each = _SEEN_BOOL
        _say_truths(column, present.count(True), len(present))
    elif "num" in words:
        _say_numbers(column, present, has_floats=float in types)
    elif list in types:
        _say_lengths(column, [len(one) for one in present])
    if types:
        _say_nulls(column, nulls, len(values))
    return column if column.worth or column.present else None


def _say_truths(column: _Column, true: int, total: int) -> None:
    few = sorted((("true", true), ("false", total - true)), key=lambda one: -one[1])
    column.say(_counts(dict(few)) if 0 < true < total else f"always {few[0][0]}", _BOOLEANS)


def _say_nulls(column: _Column, nulls: int, total: int) -> None:
    if nulls:
        has_more = column.stated is not None or column.rest
        column.rest.append(f"null {nulls:,}" if has_more else f"null {nulls:,} of {total:,}")
        column.worth = max(column.worth, _NULLS)


def _said_of_all(place: Place, summary: Summary) -> _Column | None:
    """Return what there is to say of a column of which not all values are in memory, but what they are is known; None if that is nothing."""
    column = _Column(place, (), None)
    counts, present = summary.counts, summary.count - summary.nulls
    if not present:
        return None
    if counts is not None and place.node.kinds & BOOLEAN:
        _say_truths(column, counts.get(True, 0), present)
    elif summary.range is not None and type(summary.range[0]) is str:
        if (form := format_of(summary.range)) is not None:
            column.say(form.stated, _FORMATS[form.kind])
    elif summary.range is not None:
        few = counts if counts is not None and 2 * len(counts) <= present else None
        _say_range(column, *summary.range, few)
    elif counts is not None and 2 * len(counts) <= present:
        _say_words(column, Counter(counts))
    _say_nulls(column, summary.nulls, summary.count)
    column.may_be_unique = summary.is_unique
    return column if column.worth or column.may_be_unique else None


def _say_lengths(column: _Column, lengths: Sequence[int]) -> None:
    least, greatest = min(lengths), max(lengths)
    if least < greatest:
        column.say(f"{least:,} to {greatest:,} items", _LENGTHS)
        if (empty := lengths.count(0)) > 1:
            column.rest.append(f"empty {empty:,}")


def _say_texts(column: _Column, texts: Sequence[str]) -> None:
    counts = None if _are_prose(_some(texts)) else _few(texts)
    blank = texts.count("") if counts is None else counts.pop("", 0)
    if blank:
        texts = [text for text in texts if text]
        counts = counts if counts is not None and 2 * len(counts) <= len(texts) else None
    if not texts:
        column.say("always ''", _CONSTANT)
        return
    column.each = _SEEN if counts is not None else _SEEN_MANY
    first = _some(texts)
    if min(map(len, first)) <= _LONG and not _are_prose(first):
        form = format_of(texts, words=_NO_VALUES) if counts is None or len(counts) > _FEW_NUMBERS else None
        if form is not None:
            column.say(form.stated, _FORMATS[form.kind])
            column.rest += [f"{_word(word)} {count:,}" for word, count in form.words.items()]
            column.each = _SEEN_FORMAT
        elif counts is not None:
            _say_words(column, counts)
        elif words := first_words(texts, _FEW // 2):
            column.say(f"first words: {_counts(words)}", _FIRST_WORDS)
        column.present = texts if counts is None else list(counts)
        column.may_be_unique = counts is None and not blank and len(texts) == len(column.values) and _are_unique(texts)
    if blank:
        column.rest.append(f"'' {blank:,}")
        column.worth = max(column.worth, _BLANKS)


def _some(texts: Sequence[str]) -> Sequence[str]:
    return texts[:: -(-len(texts) // 8)]


def _are_prose(texts: Sequence[str]) -> bool:
    return sum(map(len, texts)) > _PROSE * len(texts)


def _say_words(column: _Column, counts: Counter[str]) -> None:
    are_ids = max(map(len, counts)) > _WORD  # or URLs: of these, code needs no list
    if len(counts) == 1:
        [(value, _)] = counts.items()
        column.say(f"always {_word(value)}", _CONSTANT / 3 if are_ids else _CONSTANT)
        return
    words = {_word(value): count for value, count in counts.most_common(_FEW)}
    if len(words) == len(counts) and len(text := _counts(words)) <= _LISTED:
        column.say(text, _FEW_WORDS / 3 if are_ids else _FEW_WORDS)
        return
    if are_ids:
        return
    most = dict(list(words.items())[:_MOST_FREQUENT])
    if len(most) == _MOST_FREQUENT and len(text := _counts(most)) <= _LISTED // 2:
        column.say(f"{len(counts):,} values: {text}, …", _FEW_WORDS if len(counts) <= _FEW else _MANY_WORDS)


def _say_numbers(column: _Column, numbers: Sequence[Any], *, has_floats: bool) -> None:
    if has_floats and not _is_finite(numbers):
        finite = [number for number in numbers if type(number) is int or isfinite(number)]
        column.rest.append(f"not finite {len(numbers) - len(finite):,}")
        column.worth = _EPOCH
        numbers = finite
    if not numbers:
        return
    if not has_floats:
        column.present = numbers
        column.may_be_unique = len(numbers) == len(column.values) and _are_unique(numbers)
        column.each = _SEEN_MANY if column.may_be_unique else _SEEN
    least, greatest = min(numbers), max(numbers)
    counts = _few(numbers) if len(set(numbers[: 4 * _FEW_NUMBERS])) <= _FEW_NUMBERS else None
    is_epoch = _say_range(column, least, greatest, counts)
    column.is_range_of_keys = not is_epoch and column.may_be_unique and greatest - least > 100 * len(numbers)


def _say_range(column: _Column, least: float, greatest: float, counts: Mapping[float, int] | None) -> bool:
    """State the few numbers that there are, or the least and the greatest; return whether they are times."""
    if not -_LARGEST < least <= greatest < _LARGEST:
        return False
    name = next((step for step in reversed(column.place.path) if isinstance(step, str)), "")
    if (days := epoch(name, least, greatest)) is not None:
        column.say(days, _EPOCH)
    elif least == greatest:
        column.say(f"always {least!r}", _CONSTANT)
    elif counts is not None and len(counts) <= _FEW_NUMBERS and all(_number(number)[0] != "~" for number in counts):
        column.say(_counts({_number(number): count for number, count in Counter(counts).most_common()}), _RANGE)
    elif all(len(repr(number)) <= 9 for number in (least, greatest)):
        column.say([least, greatest], _RANGE)
    else:
        column.say(f"{_number(least)} to {_number(greatest)}", _RANGE)
    return days is not None


def _few(values: Sequence[Any]) -> Counter[Any] | None:
    """Return how often each value occurs; None if there are many distinct ones."""
    counts: Counter[Any] = Counter()
    end = 0
    while end < len(values):
        start, end = end, min(len(values), 2 * end + 64)
        counts.update(values[start:end])
        if len(counts) > (_MANY if end < 256 or 4 * len(counts) <= end else _FEW):
            return None
    return counts if 2 * len(counts) <= len(values) else None


def _are_unique(values: Sequence[Any]) -> bool:
    first = values[:64]
    return len(set(first)) == len(first) and len(set(values)) == len(values)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{word} {count:,}" for word, count in counts.items())


def _word(value: str) -> str:
    """Return a string as it is stated: cut, and in quotes if it could be taken for something else."""
    if len(value) > _CHARS:
        return repr(encodable(value[:_CHARS]))[:-1] + "…'"
    return value if _PLAIN.fullmatch(value) and value not in _RESERVED else repr(encodable(value))


def _number(number: float) -> str:
    """Return a number in at most about 9 characters; a float that has more is rounded, and marked as such."""
    text = repr(number)
    return text if type(number) is int or len(text) <= 9 else f"~{number:.4g}"


def _is_finite(numbers: Sequence[float]) -> bool:
    try:
        return isfinite(sum(numbers))
    except OverflowError:  # a huge integer
        return False


def _rank(fact: Fact) -> float:
    """Return how much a fact tells for its length."""
    length = len(fact.stated) if isinstance(fact.stated, str) else 16
    weight = 0.75 ** (len(fact.path) - 1) if fact.of_keys else _weight(fact.path)
    # Of a few values, a preview shows about as much.
    weight *= min(0.4 + 0.2 * log10(max(fact.count, 1.0)), 1.0)
    if fact.sample is not None:
        weight *= 0.8 if fact.sample.count >= _MANY_SAMPLED else 0.5
    return fact.worth * weight / (1 + length / _LISTED)


def _weight(path: Path) -> float:
    """Return how much is asked for what stands at a path: less, the deeper it stands below its table, and the table itself."""
    last = next((at for at in range(len(path) - 2, -1, -1) if isinstance(path[at], Each)), -1)
    nested = sum(before is ITEM and step is ITEM for before, step in pairwise(path))
    tables = sum(isinstance(step, Each) for step in path[: last + 1])
    below = len(path) - last - 2 - (path[-1:] == (ITEM,))
    return 0.75 ** max(below, 0) * 0.5**nested * 0.8 ** max(tables - 1, 0)
