"""The language runs pandas' own examples; what differs needs files, a database or pyarrow itself."""

from __future__ import annotations

from pandas_docstrings import measure

REASONED = ("pyarrow", "sqlalchemy", "sqlite3", "scipy", "to_parquet", "pandas.eval is not available")


def test_pandas_examples_run_as_in_plain_python() -> None:
    compared, differences = measure()
    assert compared > 900
    assert [d for d in differences if not any(word in d.code + d.reason for word in REASONED)] == []
    assert len(differences) <= 0.015 * compared
