"""Tools of frameworks as functions of code: which are chosen, by what names, and how their outputs are read."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pytest

from byref import ConfigurationError
from byref.adapters.common.functions import CodeFunctions, FrameworkTool, FunctionError, as_data, python_name

DAY = datetime.date(2026, 1, 2)


@dataclass
class Order:
    id: int
    day: datetime.date | None


def tool(name: str, **more: Any) -> FrameworkTool:
    return FrameworkTool(name, f"The tool {name}.", more.pop("schema", {}), lambda arguments: arguments, **more)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("search", "search"),
        ("search-web", "search_web"),
        ("files/read.all", "files_read_all"),
        ("2fa", "tool_2fa"),
        ("list", "list_tool"),
        ("class", "class_tool"),
        ("df", "df_tool"),
        ("_hidden", "hidden"),
        ("Zoë", "Zo"),
        ("—", "tool"),
        ("x" * 100, "x" * 64),
    ],
)
def test_a_tool_gets_the_name_of_a_python_function(name: str, expected: str) -> None:
    assert python_name(name) == expected
    assert [one.name for one in CodeFunctions(["*"]).of([tool(name)])] == [expected]


def test_patterns_choose_tools_and_what_fits_none_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    chosen = CodeFunctions(["search_*", "find-?", "nothing"])
    given = [tool("search_a"), tool("search-a"), tool("Search_b"), tool("find-1"), tool("find_1"), tool("refund")]
    for _ in range(2):
        assert [one.name for one in chosen.of(given)] == ["search_a", "find_1"]
    assert caplog.text.count("'nothing' matches none") == 1
    assert [one.name for one in CodeFunctions(["search*"]).of(given)] == ["search_a"]
    assert caplog.text.count("'search-a' is no function") == 1
    assert CodeFunctions().of(given) == () and not CodeFunctions()
    for wrong in ("search_*", [1], [""], 5):
        with pytest.raises(ConfigurationError, match="code_functions"):
            CodeFunctions(wrong)  # type: ignore[arg-type]


def test_a_schema_that_is_none_takes_any_arguments_and_a_tool_that_asks_is_refused() -> None:
    for schema in ({}, {"type": "array"}, {"properties": 5}, None):
        [made] = CodeFunctions(["*"]).of([tool("search", schema=schema)])
        assert made.signature == "search(**arguments)" and made.call(a=1) == {"a": 1}
    [asking] = CodeFunctions(["*"]).of([tool("refund", asks=True)])
    assert asking.summary.startswith("refund(**arguments)  # Needs approval: call the tool itself")
    with pytest.raises(PermissionError, match="call the tool itself"):
        asking.call()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        (" [1]\n", [1]),
        ("42", "42"),  # text: it may be a number of a house
        ("null", "null"),
        ("{broken", "{broken"),
        ("", ""),
        (None, None),
        (7, 7),
        ([{"id": 1}], [{"id": 1}]),
        ([Order(1, DAY), [Order(2, None)]], [{"id": 1, "day": DAY}, [{"id": 2, "day": None}]]),
        (
            {"of": types.TextContent(text="a", type="text")},
            {"of": {"text": "a", "type": "text", "annotations": None, "meta": None}},
        ),
        ([{"type": "text", "text": '[{"id": 1}]'}], [{"id": 1}]),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "[1]"}], ["a", [1]]),
        ([{"text": "bedrock"}, {"json": {"a": 1}}], ["bedrock", {"a": 1}]),
        (types.CallToolResult(content=[types.TextContent(text='{"a":1}')], structured_content={"a": 1}), {"a": 1}),
        (
            types.CallToolResult(content=[types.TextContent(text="It is mild.")], structured_content={"degrees": 21.5}),
            {"degrees": 21.5},
        ),
        ({"content": [{"type": "text", "text": "It is mild."}], "structuredContent": [1, 2]}, [1, 2]),
        ([{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}], b"\x89PNG\r\n\x1a\n"),
    ],
)
def test_an_output_arrives_in_code_as_the_data(output: object, expected: object) -> None:
    assert as_data(output) == expected


def test_an_output_that_is_an_error_is_an_exception_in_code() -> None:
    with pytest.raises(FunctionError, match="no such order"):
        as_data(types.CallToolResult(content=[types.TextContent(text="no such order")], is_error=True))
