"""Schemas that the tests share."""

from typing import Any


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make an object as strict outputs want it."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
        **more,
    }


def variant(literal: str, field: str = "kind", **more: Any) -> dict[str, Any]:
    """Make a branch with its discriminator."""
    return closed({field: {"type": "string", "enum": [literal]}, **more})


def holding(schema: Any, **more: Any) -> dict[str, Any]:
    """Make an object with one property."""
    return closed({"x": schema}, **more)


def spec_example() -> dict[str, Any]:
    """Return the example of RFC 0031 §A, its elided branches written out."""
    title = {"type": "string"}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["steps"],
        "properties": {
            "reasoning": {"type": ["string", "null"]},
            "steps": {
                "type": "array",
                "items": {
                    "anyOf": [
                        {"$ref": "#/$defs/DesignTask"},
                        {"$ref": "#/$defs/PlanningTask"},
                        {"$ref": "#/$defs/ActionTask"},
                    ]
                },
            },
        },
        "$defs": {
            "DesignTask": variant("design", title=title),
            "PlanningTask": variant("planning", title=title),
            "ActionTask": variant("action", title=title),
        },
    }
