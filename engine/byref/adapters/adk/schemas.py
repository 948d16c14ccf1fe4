"""Tool declarations in Google ADK: their argument schemas, and the declarations that a model is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref.adapters.common.extras import missing
from byref.adapters.common.schemas import with_references

try:
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types
except ImportError as error:
    raise missing("byref.adapters.adk", "google-adk", "adk") from error


def shown(tool: Any, own: Mapping[str, str]) -> Any:
    """Return a request's tool with declarations in which each argument may also be a reference; other kinds of tools unchanged.

    `own` are byref's own tools by name, each with the description that is shown.
    """
    declared = tool.function_declarations if isinstance(tool, types.Tool) else None
    if not declared:
        return tool
    made = [
        one.model_copy(update={"description": own[one.name]}) if one.name and one.name in own else _with_references(one)
        for one in declared
    ]
    return tool.model_copy(update={"function_declarations": made})


def _with_references(declared: types.FunctionDeclaration) -> types.FunctionDeclaration:
    written = declared.parameters_json_schema
    if isinstance(written, Mapping):
        schema = with_references(written)
        return declared if schema is None else declared.model_copy(update={"parameters_json_schema": schema})
    if declared.parameters is None:
        return declared
    schema = with_references(declared.parameters.model_dump(mode="json", by_alias=True, exclude_none=True))
    if schema is None:
        return declared
    return declared.model_copy(update={"parameters": types.Schema.model_validate(schema)})


def schema_of(tool: BaseTool) -> Mapping[str, Any] | None:
    """Return the JSON Schema of a tool's arguments as it declares them; None if it declares none."""
    declaration = tool._get_declaration()
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        schema: Mapping[str, Any] = declaration.parameters_json_schema
        return schema
    if declaration.parameters is None:
        return None
    return declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True)
