"""The declarations of tools in Google ADK: as a tool has them, and as the model is shown them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref.adapters.common.extras import missing
from byref.adapters.common.schemas import REFERENCE, with_references

try:
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types
except ImportError as error:
    raise missing("byref.adapters.adk", "google-adk", "adk") from error


def shown(tool: Any) -> Any:
    """Return the declarations of a request with each argument as it was, or a reference; what is no function as it is."""
    declared = tool.function_declarations if isinstance(tool, types.Tool) else None
    if not declared:
        return tool
    return tool.model_copy(update={"function_declarations": [_with_references(one) for one in declared]})


def _with_references(declared: types.FunctionDeclaration) -> types.FunctionDeclaration:
    written = declared.parameters_json_schema
    if isinstance(written, Mapping):
        schema = with_references(written)
        return declared if schema is None else declared.model_copy(update={"parameters_json_schema": schema})
    parameters = declared.parameters
    if parameters is None or not parameters.properties:
        return declared
    members = {name: _or_reference(member) for name, member in parameters.properties.items()}
    return declared.model_copy(update={"parameters": parameters.model_copy(update={"properties": members})})


def _or_reference(schema: types.Schema) -> types.Schema:
    reference = types.Schema(type=types.Type.STRING, description=REFERENCE["description"])
    if schema.enum or schema.type == types.Type.STRING or not (schema.type or schema.any_of):
        return schema
    if not schema.any_of:
        return types.Schema(any_of=[schema, reference])
    if any(one.type == types.Type.STRING for one in schema.any_of):
        return schema
    return schema.model_copy(update={"any_of": [*schema.any_of, reference]})


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
