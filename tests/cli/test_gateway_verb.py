"""`byref gateway` as a command: its command line, its database, and sessions across starts."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest
from forking import FORKS
from gateway_kit import SHOP, Place, text_of


@pytest.mark.slow
def test_a_session_is_kept_across_starts_if_it_has_a_name(place: Place) -> None:
    config = place.write({"north": place.shop("north")})

    async def first() -> None:
        async with place.client("--config", config, "--session", "mine") as client:
            await client.call_tool("list_users", {"count": 5000})

    async def second(*words: str) -> str:
        async with place.client("--config", config, *words) as client:
            return text_of(await client.call_tool("sum_ids", {"ids": {"$var": "users", "jq": "map(.id)"}}))

    asyncio.run(first())
    assert asyncio.run(second("--session", "mine")).startswith("5000 ids")
    assert "users" in asyncio.run(second())


def test_one_command_is_a_gateway(place: Place) -> None:
    async def work() -> None:
        async with place.client("--", *FORKS.command(SHOP, "alone")) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert "whoami" in names
            assert text_of(await client.call_tool("whoami", {})) == "alone"

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "expected --config FILE"),
        (["--config", "no.json"], "cannot read 'no.json'"),
        (["--config", "mcp.json", "--", "true"], "expected --config FILE"),
    ],
)
def test_a_wrong_command_line_is_told_in_a_line(place: Place, words: list[str], told: str) -> None:
    ended = subprocess.run(
        place.command(*words),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=place.folder,
    )
    assert ended.returncode in (1, 2) and told in ended.stderr and len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_database_is_a_file_of_the_users_own(place: Place) -> None:
    config = place.write({"north": place.shop("north")})
    command = [word for word in place.command("--config", config) if word != "--db" and not word.endswith("gateway.db")]
    env = {**os.environ, "XDG_STATE_HOME": str(place.folder / "state")}
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=place.folder,
        env=env,
    )
    assert ended.returncode == 0
    assert (place.folder / "state" / "byref" / "gateway.db").exists()
    assert not (place.folder / "byref.db").exists()
