"""A sandbox whose processes a test may break."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from process_table import descendants, root_pid, until

from byref_sandbox import Sandbox


@pytest.fixture
def own(breakable: Sandbox) -> Iterator[Sandbox]:
    """Without sessions or runs of the tests before."""
    with breakable._lock:
        breakable._forget_sessions()
    assert until(lambda: not descendants(root_pid(breakable)))
    memory_bytes = breakable._memory_bytes
    yield breakable
    breakable._memory_bytes = memory_bytes
