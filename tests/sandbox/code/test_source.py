"""A semicolon at the end of code has no value shown, as in notebooks."""

from __future__ import annotations

import pytest

from byref_sandbox import Sandbox

VALUES = {
    "1 + 1": 2,
    "1 + 1;": None,
    "1 + 1 ;  # done": None,
    "(1 +\n2);\n\n# end\n": None,
    "x = 3; x": 3,
    "'é';": None,
    "x = 1;\r\nx;": None,
    "'a;b'": "a;b",
    "[1,\n 2]  # a; b": [1, 2],
    "$y;": None,
    "$y": 4,
}


@pytest.mark.parametrize("code", VALUES)
def test_what_ends_with_a_semicolon_has_no_value(sandbox: Sandbox, code: str) -> None:
    outcome = sandbox.run(code, {"y": 4})
    assert outcome.error is None and outcome.value == VALUES[code]
