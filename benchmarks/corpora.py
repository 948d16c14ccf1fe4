"""The outputs that are measured: records as tools return them, made alike at each run, and real data."""

from __future__ import annotations

import random
import uuid
from typing import Any

import orjson


def record(random_: random.Random, number: int) -> dict[str, Any]:
    """A user, of six members."""
    return {
        "id": number,
        "name": f"user {number}",
        "score": random_.random() * 100,
        "tags": ["a", "b"],
        "active": number % 2 == 0,
        "email": f"u{number}@example.com",
    }


def records(size: int) -> bytes:
    """A list of users as JSON of about `size` bytes."""
    random_ = random.Random(1)
    block = [record(random_, number) for number in range(100)]
    count = max(1, size * len(block) // len(orjson.dumps(block)))
    return orjson.dumps([record(random_, number) for number in range(count)])


def fresh(raw: bytes) -> bytes:
    """The list with one record more, that no list had before: the same bytes are never given twice."""
    return raw[:-1] + b',{"id":"%s"}]' % uuid.uuid4().hex.encode()
