"""Any Python string and any aware time comes back from every database as it went in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Integer, LargeBinary, MetaData, Table, insert, select
from sqlalchemy.exc import StatementError

from byref.db.column_types import EscapedText, UtcDateTime
from byref.db.database import Database

PROBE = Table(
    "probe",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("words", EscapedText),
    Column("moment", UtcDateTime),
    Column("data", LargeBinary),
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.fixture
def probe(database: Database) -> Iterator[Database]:
    database.write(lambda connection: PROBE.create(connection))
    yield database


def round_trip(database: Database, **values: Any) -> Any:
    def work(connection: Connection) -> Any:
        key = connection.execute(insert(PROBE).values(**values).returning(PROBE.c.id)).scalar_one()
        columns = [PROBE.c[name] for name in values]
        # By its value as well: what is bound in a comparison is escaped alike.
        same = [PROBE.c[name] == value for name, value in values.items()]
        return connection.execute(select(*columns).where(PROBE.c.id == key, *same)).one()

    return database.write(work)


def test_text_survives(probe: Database) -> None:
    @given(ANY_TEXT)
    @example("")
    @example("\0")
    @example("\\")
    @example("\\0 \\u d800 \\\\0")
    @example("\\ud800")
    @example("\ud800\udfff\ud83d\ude00")
    @example("\U0001f600" * 3)
    def check(words: str) -> None:
        assert round_trip(probe, words=words) == (words,)

    check()


@given(ANY_TEXT)
def test_what_is_stored_is_utf8_without_nul(words: str) -> None:
    stored = EscapedText().process_bind_param(words, None)
    assert "\0" not in stored
    assert stored.encode().decode() == stored
    assert (stored == words) == all(c not in "\\\0" and not "\ud800" <= c <= "\udfff" for c in words)


@given(ANY_TEXT)
@example('["x"\\')
@example("\\u12")
def test_damaged_text_is_read(stored: str) -> None:
    found = EscapedText().process_result_value(stored, None)
    assert found is not None and len(found) <= len(stored)


def test_times_come_back_in_utc(probe: Database) -> None:
    zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))

    @given(st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30), timezones=zones))
    def check(moment: datetime) -> None:
        (found,) = round_trip(probe, moment=moment)
        assert found == moment
        assert found.tzinfo is UTC

    check()


def test_times_sort_as_they_passed(probe: Database) -> None:
    first = datetime(2026, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    second = datetime(2026, 2, 28, 23, 0, tzinfo=UTC)
    assert first < second

    def work(connection: Connection) -> list[datetime]:
        connection.execute(insert(PROBE), [{"moment": second}, {"moment": first}])
        return list(connection.scalars(select(PROBE.c.moment).order_by(PROBE.c.moment)))

    assert probe.write(work) == [first, second]


def test_a_naive_time_is_refused(probe: Database) -> None:
    with pytest.raises(StatementError, match="aware datetime was expected"):
        round_trip(probe, moment=datetime(2026, 1, 1))


def test_bytes_survive(probe: Database) -> None:
    data = bytes(range(256)) * 4096
    assert round_trip(probe, data=data) == (data,)


def test_null_is_null(probe: Database) -> None:
    found = probe.write(lambda c: (c.execute(insert(PROBE).values(id=1)), c.execute(select(PROBE)).one())[1])
    assert found == (1, None, None, None)
