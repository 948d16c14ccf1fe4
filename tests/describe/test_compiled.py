"""The compiled form of inference gives the nodes that the Python form gives, and byref goes on without compiled forms."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import c_modules
import pytest
from hypothesis import given
from json_values import EVERYDAY, VALUES, nested

from byref.describe import columns
from byref.describe.columns import Inference, NotPlain, TooDeep, _node
from byref.describe.nodes import Node
from byref.describe.schema import infer

ROOT = Path(__file__).parents[2]
MODULE = "byref/describe/_columns"


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    module = c_modules.compiled(MODULE, tmp_path_factory.mktemp("compiled"))
    installed, columns.compiled = columns.compiled, module  # type: ignore[assignment]
    yield module
    columns.compiled = installed


@pytest.mark.parametrize("path", sorted(ROOT.glob("engine/byref/**/_*.c")), ids=lambda path: path.stem)
def test_what_a_newer_python_compiles_runs_on_older_ones(path: Path) -> None:
    """Headers from 3.13 on give formats with `#` another function, in which older Pythons see an error."""
    source = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    assert "PyArg_Parse" in source
    assert not re.findall(r'"[^"\n]*#[^"\n]*"', re.sub(r"^#.*", "", source, flags=re.MULTILINE))


def form(node: Node | None) -> Any:
    """All that a node says, in the order in which it says it."""
    if node is None:
        return None
    said = [
        getattr(node, name)
        for name in Node.__slots__
        if name not in ("as_map", "items", "members", "rest", "rest_keys")
    ]
    members = [(key, form(member)) for key, member in node.members.items()]
    return (*said, list(node.rest_keys), members, form(node.items), form(node.rest))


def read(value: object, *, plain: bool, fold: bool) -> Any:
    inference = Inference(fold=fold, plain=plain)
    try:
        node = inference.read(value)
    except (NotPlain, TooDeep) as error:
        return str(error)
    return form(node), bool(inference.folded), bool(inference.is_cut)


def assert_both_agree(value: object) -> None:
    for plain in (False, True):
        for fold in (False, True):
            found, module = read(value, plain=plain, fold=fold), columns.compiled
            columns.compiled = None  # type: ignore[assignment]
            try:
                expected = read(value, plain=plain, fold=fold)
            finally:
                columns.compiled = module
            assert found == expected


def described(value: object, *, outlined: bool) -> Iterator[object]:
    """What is said of a value, by each form. The compiled one's equal places share a node, and that must not show."""
    module = columns.compiled
    try:
        for columns.compiled in (module, None):  # type: ignore[assignment]
            schema = infer(value, plain=True)
            rows = [(grid.path, grid.rows, grid.names) for grid in schema.grids.values()]
            outline = schema.outline.fitted(500, len) if outlined else None
            yield rows, schema.fitted(1_000, len), schema.values(10_000), outline
    finally:
        columns.compiled = module


@pytest.mark.parametrize("level", range(6))
def test_equal_places_have_lengths_and_columns_of_their_own(level: int) -> None:
    grids = {"rows": [["x", "y"], ["c", 3], ["d", 4]], "cells": [["u", "v"], ["e", 5]]}
    value: Any = {"long": [1, 2, 3], "short": [4], **grids}
    for _ in range(level):
        value = {"one": value, "other": {"long": [5], **value}, "further": {**value, "short": [6, 7]}}
    compiled, python = described(value, outlined=True)
    assert compiled == python


@pytest.mark.parametrize("seed", range(8))
def test_both_forms_are_described_alike(seed: int) -> None:
    random = Random(seed)
    value = {"a": made(random, 300), "b": maps(random)[:3], "c": made(random, 300)}
    compiled, python = described(value, outlined=False)
    assert compiled == python


@given(VALUES)
def test_both_forms_read_the_same(value: object) -> None:
    assert_both_agree(value)


LARGE = "compatibility"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == LARGE else ()) for name in EVERYDAY]
)
def test_both_forms_read_everyday_values_the_same(name: str) -> None:
    assert_both_agree(EVERYDAY[name])


def made(random: Random, left: int) -> Any:
    """A value of some `left` parts, with maps, arrays of several chunks, and objects that lack members."""
    if left < 2:
        return random.choice((None, True, 1, 2.5, "text", [], {}, math.inf if random.random() < 0.02 else 3))
    count = min(left, random.choice((1, 2, 3, 5, 40, 60, 600, 1_200)))
    if random.random() < 0.5:
        return [made(random, left // count) for _ in range(count)]
    keys = [f"id{random.randrange(2 * count + 3)}" for _ in range(count)]
    shape = made(random, left // count)
    return {key: shape if random.random() < 0.8 else made(random, left // count) for key in keys}


def maps(random: Random) -> list[dict[str, Any]]:
    """Several objects with keys that are data, of few and of many members."""
    return [
        {
            f"u{random.randrange(200)}": {key: made(random, 2) for key in random.sample("abcdef", random.randrange(7))}
            for _ in range(random.choice((3, 20, 33, 50, 90)))
        }
        for _ in range(random.choice((1, 2, 5, 30)))
    ]


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 500), marks=pytest.mark.slow)], ids=["some", "many"])
def test_both_forms_fold_the_same(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        assert_both_agree(made(random, 3_000))
        assert_both_agree({"x": maps(random), "y": [maps(random)]})


@pytest.mark.parametrize("keys", [900, 1_001])
def test_both_forms_fold_the_same_of_what_has_many_keys(keys: int) -> None:
    """Revisions of one map have the same keys: of many keys they are data, of more objects they are columns."""
    for value in (1, {"a": 1}, [{"b": 2}]):
        for count in (2, 4, 5, 20):
            objects = [{f"k{n}": value for n in range(keys)} for _ in range(count)]
            assert_both_agree(objects)
            assert bool(infer(objects).folded) is (keys > 1_000 and count < 5)
            assert_both_agree([{"pages": objects[:2]}, {"pages": objects[2:]}, {"pages": [*objects, {"other": 1}]}])


def test_what_is_not_plain_is_left_to_python(compiled: Any) -> None:
    def left(value: object, *, plain: bool = False) -> bool:
        return compiled.read(value, _node, {}, plain, True, 250, 32, 1_000, 4, 512) is None

    circle: list[Any] = []
    circle.append(circle)
    for value in ((1,), {1: 2}, [{"a": {"b": object()}}], [math.nan], {"a": [1e308, -math.inf]}, nested(300), circle):
        assert left(value)
        assert_both_agree(value) if value is not circle else None
    assert not left([math.nan], plain=True)
    assert not left(nested(300), plain=True)
    with pytest.raises(NotPlain):
        Inference(fold=True, plain=False).read([math.nan])
    with pytest.raises(TooDeep):
        Inference(fold=True, plain=False).read(circle)


def test_others_may_change_the_value_meanwhile() -> None:
    """They get their turn while it is read: nothing is read that is gone."""
    value: list[Any] = [{"a": [[number, {"b": [number]}]], "c": {"d": "x"}} for number in range(60_000)]
    done = threading.Event()

    def empty() -> None:
        while not done.is_set() and value:
            one = value.pop()
            one["a"].clear()
            one.clear()

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        node = Inference(fold=True, plain=True).read(value)
    finally:
        done.set()
        thread.join()
    assert node.items is None or set(node.items.members) <= {"a", "c"}


def test_without_a_compiler_it_is_said_and_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = c_modules.build_script()
    said: list[str] = []
    hook = object.__new__(script.BuildHook)
    monkeypatch.setattr(
        script.BuildHook, "app", type("App", (), {"display_warning": staticmethod(said.append)})(), raising=False
    )
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    hook.finalize("standard", data, "")
    assert data == {"force_include": {}}
    [message] = said
    assert "optional" in message


SANITIZED = """
import json
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from random import Random
import c_modules
import test_compiled as tests
import test_groups as groups
import test_lines_of_values as lines
from byref.content import values
from byref.describe import columns
from byref.jsonscan import parsing
folder = Path(sys.argv[1])
columns.compiled = c_modules.loaded("_columns", folder / "_columns.abi3.so")
values.compiled = parsing.compiled = c_modules.loaded("_marks", folder / "_marks.abi3.so")
for seed in range(200):
    tests.assert_both_agree(tests.made(Random(seed), 3_000))
    tests.assert_both_agree({"x": tests.maps(Random(seed))})
for seed in range(20):
    lines.assert_both_agree({"x": tests.made(Random(seed), 3_000)})
    lines.test_any_bytes_are_read_and_kept(values.compiled, seed)
    text = json.dumps([tests.made(Random(seed), 30_000)] * 3).encode()
    assert repr(parsing.parse_chunked(text)) == repr(json.loads(text))
for seed in range(20):
    groups.test_any_bytes_are_read(parsing.compiled, seed)
tests.test_what_is_not_plain_is_left_to_python(columns.compiled)
tests.test_others_may_change_the_value_meanwhile()
print("clean")
"""


@pytest.mark.slow
def test_the_sanitizers_find_nothing(tmp_path: Path) -> None:
    script = c_modules.build_script()
    try:
        for module in script.MODULES:
            script.compile_(module, tmp_path, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"nothing is compiled with sanitizers here: {error}")
    library = subprocess.run(
        [os.environ.get("CC", "cc"), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    path = [str(ROOT / "tests" / name) for name in ("describe", "content", "jsonscan", "support")]
    ran = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(tmp_path), *path],
        capture_output=True,
        text=True,
        env=os.environ
        | {"LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
        timeout=1_200,
    )
    assert (ran.returncode, ran.stdout) == (0, "clean\n"), ran.stderr[-4_000:]
