"""A database that goes away while a run is on."""

from __future__ import annotations

from typing import Any

import pytest

from byref import Engine, StorageFailure


class Away:
    """A database that can be away."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = False
        for name in ("ask", "read", "write"):
            real = getattr(engine.database, name)

            def asked(*given: Any, real: Any = real, **named: Any) -> Any:
                if self.is_on:
                    raise StorageFailure("the database is away")
                return real(*given, **named)

            monkeypatch.setattr(engine.database, name, asked)
