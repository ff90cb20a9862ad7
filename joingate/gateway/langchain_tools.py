"""LangChain's tools, which LangGraph runs too, as gated ones. Loaded only where such a tool is gated."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from joingate.gateway.adapters import Row, told_of


def gated_tool(tool: BaseTool, ask: Callable[[Mapping[str, Any]], Row], hidden: frozenset[str]) -> BaseTool:
    """A tool with the name and the arguments of `tool`, but those that are hidden, which asks instead of acting."""

    def asking(**given: Any) -> Row:
        return ask(given)

    form: Any = tool.tool_call_schema  # a model of pydantic, old or new, or a schema already
    return StructuredTool.from_function(
        func=asking,
        name=tool.name,
        description=told_of(tool.description),
        args_schema=_without(form if isinstance(form, dict) else form.model_json_schema(), hidden),
        infer_schema=False,
    )


def _without(schema: dict[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    properties = {name: one for name, one in schema.get("properties", {}).items() if name not in hidden}
    required = [name for name in schema.get("required", ()) if name not in hidden]
    return {**schema, "properties": properties, "required": required}
