"""JSON with comments and trailing commas means what the same JSON without them means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref import ConfigurationError
from byref.gateway import jsonc
from byref.gateway.config import read_config


def test_comments_and_last_commas_are_passed_over(tmp_path: Path) -> None:
    text = """\ufeff// mine
    {"servers": {"s": {"command": "x", /* not "y", */ "args": ["http://a", "/* , */", "\\\\", "\\"//,]",],},},}
    """
    path = tmp_path / "mcp.json"
    path.write_text(text)
    (server,) = read_config(path).servers
    assert server.command == ("x", "http://a", "/* , */", "\\", '"//,]')
    path.write_text("// one\n{\n  nothing: 1}")
    with pytest.raises(ConfigurationError, match=r"not JSON.*line 3 column 3"):
        read_config(path)


@pytest.mark.slow
@given(
    st.recursive(
        st.text(st.characters(codec="utf-8")) | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
        max_leaves=10,
    )
)
def test_json_with_comments_says_what_json_says(value: Any) -> None:
    text = json.dumps({"v": value}, indent=1, ensure_ascii=False).replace("\n", " // , ]\n /* } */ ")
    assert jsonc.loads(text.encode()) == {"v": value}
