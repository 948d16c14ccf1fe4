"""The table is whole, agrees with the marked tests, and docs/statements.md agrees with both."""

from __future__ import annotations

from statements.__main__ import PAGE, render, shown_by
from statements.table import COUNTS, TABLE


def test_every_statement_is_in_the_table() -> None:
    assert list(TABLE) == [f"{system}-{i}" for system, count in COUNTS.items() for i in range(1, count + 1)]


def test_every_mark_means_a_statement() -> None:
    assert shown_by().keys() <= TABLE.keys()


def test_every_statement_has_a_test_or_a_reason() -> None:
    tests = shown_by()
    assert [key for key, statement in TABLE.items() if statement.status != "not yet" and key not in tests] == []
    assert [key for key, statement in TABLE.items() if (statement.status == "shown") == bool(statement.reason)] == []


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), "run `make statements`"
