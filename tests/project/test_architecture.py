"""The page of the architecture is that of the code: its map, and each file that it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
HOUSES = {"byref": ROOT / "engine/byref", "byref_sandbox": ROOT / "sandbox/byref_sandbox"}


def floors(package: str) -> list[set[str]]:
    """The rooms of each floor, from the top, as the page draws them."""
    drawings = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    drawn = drawings[list(HOUSES).index(package)]
    return [set(re.split(r" {2,}", line.strip())[:-1]) for line in drawn.splitlines()]


def rooms(package: str) -> set[str]:
    """Packages and modules directly in a package, but for its faces, which only hand names on, and what only tests import."""
    found = {path.stem for path in HOUSES[package].iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return found - {"__init__", "gates", "models", "testing"}


@pytest.mark.parametrize("package", HOUSES)
def test_the_map_shows_each_room_once_on_the_floor_that_the_linter_holds(package: str) -> None:
    layers = next(c["layers"] for c in CONTRACTS if c["type"] == "layers" and c["layers"][-1].startswith(f"{package}."))
    held = [{name.strip().removeprefix(f"{package}.") for name in layer.split("|")} - {"testing"} for layer in layers]
    drawn = floors(package)
    assert drawn == [floor for floor in held if floor]
    assert sorted(room for floor in drawn for room in floor) == sorted(rooms(package))


def test_each_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"`([a-z_]+/(?:[a-z_]+/)*(?:[a-z_]+\.py)?)`", PAGE))
    assert len(named) > 25
    places = (*HOUSES.values(), ROOT)
    assert not {name for name in named if not any((place / name).exists() for place in places)}


def test_each_module_that_is_named_is_there() -> None:
    named = set(re.findall(r"`(byref(?:_sandbox)?(?:\.[a-z_]+)+)`", PAGE))
    assert named
    for name in named:
        package, *parts = name.split(".")
        assert "/".join(parts) in {
            path.relative_to(HOUSES[package]).with_suffix("").as_posix() for path in HOUSES[package].rglob("*")
        }
