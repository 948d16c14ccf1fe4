"""Text as servers log it, made alike at each run."""

from __future__ import annotations

import random

WORDS = (
    *("get", "put", "post", "user", "order", "cart", "login"),
    *("search", "cache", "miss", "retry", "worker", "queue"),
)
NEEDLE = "needle in the hay"


def log(megabytes: int) -> str:
    """Lines of a server's log, no two the same; in one of 5,000 is the needle."""
    generator = random.Random(megabytes)
    block = "".join(_line(generator, number) for number in range(100_000))
    size = megabytes * 1_000_000
    return "".join(f"part {number}\n{block}" for number in range(size // len(block) + 1))[:size]


def _line(generator: random.Random, number: int) -> str:
    moment = (
        f"2024-{number % 12 + 1:02}-{number % 28 + 1:02}"
        f"T{number % 24:02}:{number % 60:02}:{number % 59:02}.{number % 1000:03}Z"
    )
    level = generator.choice(("INFO", "WARN", "DEBUG"))
    user = f"{generator.choice(('ann', 'bob', 'cid'))}{generator.randrange(10**6)}"
    words = " ".join(generator.choices(WORDS, k=6))
    needle = f" {NEEDLE}" if number % 5_000 == 4_999 else ""
    return (
        f"{moment} {level} user={user} {words} status={generator.choice((200, 200, 404, 500))} "
        f"took={generator.random():.6f}{needle}\n"
    )
