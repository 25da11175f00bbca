"""What rewriting must not touch: references with siblings, dynamic ones, escapes, other types."""

from typing import Any

from modelpact.schemas.fix import fix_schema
from tests.schemas.examples import closed, holding, variant

TEXT = {"type": "string"}
NULL = {"type": "null"}


def optional(schema: Any, **more: Any) -> dict[str, Any]:
    return {**closed({"a": schema}, **more), "required": []}


def test_a_reference_with_siblings_is_not_taken_for_nullable() -> None:
    """A rewrite does not change the meaning."""
    defs = {"N": {"type": ["string", "null"]}}
    beside = {"$ref": "#/$defs/N", "type": "string"}
    result = fix_schema(optional(beside, **{"$defs": defs}))
    assert result.schema["properties"]["a"] == {"anyOf": [beside, NULL]}
    assert "null if it would be absent" in result.changes[0].message
    bare = optional({"$ref": "#/$defs/N", "description": "d"}, **{"$defs": defs})
    assert "could be null before" in fix_schema(bare).changes[0].message
    hidden = {"anyOf": [{"$ref": "#/$defs/N", "not": NULL}, TEXT]}
    result = fix_schema(optional(hidden, **{"$defs": defs}))
    assert result.schema["properties"]["a"]["anyOf"][-1] == NULL


def test_dynamic_references_hold_everything() -> None:
    anchored = {"$dynamicAnchor": "A", "type": "object", "required": ["x"], "properties": {"x": {}}}
    dynamic = {"$dynamicRef": "#A"}
    for schema in (
        holding({"not": dynamic}, **{"$defs": {"A": anchored}}),
        holding({"allOf": [dynamic, {"type": "object"}]}, **{"$defs": {"A": anchored}}),
        optional(dynamic, **{"$defs": {"A": {"$dynamicAnchor": "A", **TEXT}}}),
        closed({"a": {"$ref": "#/definitions/A"}, "b": {"$dynamicRef": "#/definitions/A"}}, definitions={"A": TEXT}),
        closed({"a": {"oneOf": [variant("a"), variant("b")]}, "b": {"$dynamicRef": "#/properties/a/oneOf/0"}}),
    ):
        result = fix_schema(schema)
        assert result.schema == schema
        assert any("dynamic references" in finding.message for finding in result.kept)


def test_references_follow_definitions_however_they_are_written() -> None:
    refs = ["#/definitions/A", "#/%64efinitions/B%20b", "#%2Fdefinitions%2FC", "#/definitions/D~1d"]
    schema = closed(
        {name: {"$ref": ref} for name, ref in zip("abcd", refs, strict=True)},
        definitions=dict.fromkeys(("A", "B b", "C", "D/d"), TEXT),
    )
    result = fix_schema(schema)
    assert result.report.ok
    assert [prop["$ref"] for prop in result.schema["properties"].values()] == [
        "#/$defs/A",
        "#/$defs/B%20b",
        "#/$defs/C",
        "#/$defs/D~1d",
    ]


def test_a_type_that_is_said_is_not_replaced() -> None:
    odd = closed({"kind": {"type": "integer", "enum": ["a"]}})
    schema = holding({"anyOf": [odd, variant("b")]})
    result = fix_schema(schema)
    assert result.schema == schema
    assert [(finding.rule, finding.message) for finding in result.kept] == [
        ("variant-discriminator-type", "its values do not have the type that it states")
    ]
    wide = closed({"kind": {"type": ["string", "null"], "enum": ["a"]}})
    assert fix_schema(holding({"anyOf": [wide, variant("b")]})).report.ok
