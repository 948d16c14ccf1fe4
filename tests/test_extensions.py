"""A module in C that is of another version than the Python code is not used, and that is said once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import c_modules
import pytest

from byref.extensions import load

NEEDED = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
import c_modules
for name in ("byref.describe._columns", "byref.jsonscan._marks"):
    last = name.rpartition(".")[2]
    sys.modules[name] = c_modules.loaded(last, Path(sys.argv[1], last + ".abi3.so"))
from byref.content import values
from byref.describe import columns
from byref.jsonscan import groups, parsing
print([module.compiled for module in (values, columns, groups, parsing)], groups.available)
print(parsing.parse(values.written({"a": [{"b": 1}]})[1]))
"""


def test_what_was_not_compiled_is_not_missed() -> None:
    assert load("byref.describe._uncompiled", 1) is None


def test_what_is_of_another_version_is_not_used(tmp_path: Path) -> None:
    for module in c_modules.build_script().MODULES:
        source = (c_modules.ROOT / "engine" / f"{module}.c").read_text()
        assert source.count('"VERSION", ') == 1
        name = tmp_path / Path(module).name
        name.with_suffix(".c").write_text(source.replace('"VERSION", ', '"VERSION", 99'))
        c_modules.compiled(str(name), tmp_path)
    paths = [str(Path(c_modules.__file__).parent)]
    ran = subprocess.run([sys.executable, "-c", NEEDED, tmp_path, *paths], capture_output=True, text=True, check=True)
    assert ran.stdout == "[None, None, None, None] False\n{'a': [{'b': 1}]}\n"
    assert ran.stderr.count("RuntimeWarning") == 1
    assert "compiled part is of another version" in ran.stderr
    assert "pip install" in ran.stderr


def test_what_is_installed_is_used() -> None:
    for module in c_modules.build_script().MODULES:
        if not list((c_modules.ROOT / "engine").glob(f"{module}.*.so")):
            pytest.skip("byref was installed without a compiler")
    from byref.describe import columns
    from byref.jsonscan import marks

    assert columns.compiled is not None
    assert marks.compiled is not None
