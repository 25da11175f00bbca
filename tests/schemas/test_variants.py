"""RFC 0031 §A: how the branches of a union are told apart."""

from typing import Any

import pytest

from modelpact.schemas.lint import lint_schema
from tests.schemas.examples import closed, holding, spec_example, variant

NULL = {"type": "null"}


def findings(schema: Any, profiles: str = "variants") -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in lint_schema(schema, profiles).findings]


def rules(schema: Any) -> list[str]:
    return [rule for rule, _ in findings(schema)]


def union(*branches: Any, **more: Any) -> dict[str, Any]:
    return holding({"anyOf": list(branches)}, **more)


def test_the_example_of_the_specification() -> None:
    """S001-A10, MP-L1: the example passes `variants` and has one finding under `tier1`."""
    assert findings(spec_example()) == []
    assert findings(spec_example(), "tier1") == [("required-property", "/properties/reasoning")]


def test_one_of_is_refused_at_any_depth() -> None:
    """Conformance: "MUST NOT contain `oneOf` at any nesting depth"."""
    inner = closed({"list": {"type": "array", "items": {"oneOf": [variant("a"), variant("b")]}}})
    path = "/properties/x/properties/list/items/oneOf"
    assert findings(holding(inner)) == [("one-of", path)]
    unused = closed({}, **{"$defs": {"U": {"oneOf": [{"type": "string"}]}}})
    assert findings(unused) == [("one-of", "/$defs/U/oneOf")]


@pytest.mark.parametrize("name", ["oneOf", "anyOf", "$ref", "allOf", "enum", "properties", "type"])
def test_a_property_may_have_any_name(name: str) -> None:
    """S001-A8: a property that is only *named* `oneOf` is allowed."""
    schema = closed({name: {"type": "string"}})
    assert findings(schema, "variants,tier1,openai,anthropic,gemini") == []


def test_data_is_not_read_as_a_schema() -> None:
    bad = {"oneOf": [{"$ref": "nowhere"}], "properties": 5}
    schema = holding({"type": "string", "default": bad, "examples": [bad], "const": bad})
    schema["properties"]["y"] = {"enum": [bad]}
    schema["required"].append("y")
    assert findings(schema) == []


def test_every_branch_needs_a_required_single_value_string_enum() -> None:
    """§A: "a discriminator property of type `string` with `enum` containing exactly one value"."""
    two = closed({"kind": {"type": "string", "enum": ["b", "c"]}})
    number = closed({"kind": {"type": "integer", "enum": [1]}})
    optional = {**variant("b"), "required": []}
    missing = closed({"name": {"type": "string"}})
    for other in (two, number, optional, missing):
        assert findings(union(variant("a"), other)) == [("variant-discriminator", "/properties/x/anyOf")]
    assert "'kind' of '/properties/x/anyOf/1' is not required" in (
        lint_schema(union(variant("a"), optional), "variants").findings[0].message
    )


def test_the_same_field_in_all_branches() -> None:
    """§A: "identify the active variant by single-field equality check on the discriminator"."""
    assert rules(union(variant("a"), variant("b", "type"))) == ["variant-discriminator"]


def test_no_literal_twice() -> None:
    schema = union(variant("a"), variant("b"), variant("a"))
    assert findings(schema) == [("variant-literal-twice", "/properties/x/anyOf/2/properties/kind")]


def test_a_second_field_may_tell_them_apart() -> None:
    group = {"type": "string", "enum": ["g"]}
    assert rules(union(variant("a", group=group), variant("b", group=group))) == []


def test_field_presence_is_no_discriminator() -> None:
    """§A: "MUST NOT use field-presence-based discrimination"."""
    text = {"type": "string"}
    shapes = union(closed({"url": text}), closed({"path": text}))
    assert rules(shapes) == ["variant-field-presence"]
    presence = closed({"a": text, "b": text}, anyOf=[{"required": ["a"]}, {"required": ["b"]}])
    assert findings(presence) == [("variant-field-presence", "/anyOf")]


@pytest.mark.parametrize(
    "schema",
    [
        union({"type": "string"}, NULL),
        union(closed({"a": {"type": "string"}}), NULL),
        union({"$ref": "#/$defs/D"}, NULL, **{"$defs": {"D": closed({})}}),
        union(NULL, {"const": None}, {"$ref": "#/$defs/D"}, **{"$defs": {"D": closed({})}}),
        union(closed({"a": {"type": "string"}})),
    ],
)
def test_a_nullable_union_is_no_variant(schema: Any) -> None:
    """S001-A1: a nullable union is not a variant."""
    assert findings(schema) == []


def test_two_variants_or_null() -> None:
    assert findings(union(variant("a"), variant("b"), NULL)) == []
    assert rules(union(closed({"a": {"type": "string"}}), closed({}), NULL)) != []


def test_plain_values_are_noted() -> None:
    """§A speaks of "variant shapes": a union of plain values is not one, and is only noted."""
    report = lint_schema(union({"type": "string"}, {"type": "integer"}, NULL), "variants")
    assert report.ok
    assert [(finding.rule, finding.level) for finding in report.findings] == [("variant-plain-values", "note")]


def test_objects_and_other_values_are_told_apart_by_shape() -> None:
    """§A: "MUST NOT depend on field-presence inference or value-shape heuristics"."""
    assert rules(union(variant("a"), {"type": "string"})) == ["variant-value-shape"]
    assert rules(union(variant("a"), {"type": "array", "items": variant("b")})) == ["variant-value-shape"]


@pytest.mark.parametrize(
    "branches",
    [
        [{"type": "array", "items": closed({name: {"type": "string"}})} for name in "ab"],
        [{"type": "string", "enum": [literal]} for literal in "ab"],
        [{"type": "integer"}, {"type": "number"}],
        [{"enum": ["a", 1]}, {"type": "string"}],
        [{"type": "string"}, {"type": "array", "items": {"type": "array", "items": closed({})}}],
    ],
)
def test_what_shares_a_json_type_or_holds_objects(branches: list[Any]) -> None:
    """§A: "MUST NOT depend on … value-shape heuristics"; here not even the JSON type differs."""
    assert findings(union(*branches)) == [("variant-value-shape", "/properties/x/anyOf")]


def test_lists_of_plain_values_are_noted() -> None:
    text = {"type": "string"}
    items = {"type": "array", "items": {"anyOf": [text, NULL]}}
    assert rules(union(text, items)) == ["variant-plain-values"]


def test_objects_and_other_values_in_one_schema() -> None:
    """§A: "express the variants as an `anyOf` composition"."""
    mixed = holding({**closed({}), "type": ["object", "string"]})
    assert findings(mixed) == [("variant-value-shape", "/properties/x/type")]
    assert findings(holding({**closed({}), "type": ["object", "null"]})) == []


def beside(literal: str, **more: Any) -> dict[str, Any]:
    kind = {"type": "string", "enum": [literal]}
    return {"$ref": "#/$defs/Base", "properties": {"kind": kind}, "required": ["kind"], **more}


def test_what_stands_beside_a_reference_counts() -> None:
    """S001-A2: what stands beside a `$ref` counts as well, since draft 2019-09."""
    defs = {"Base": closed({"title": {"type": "string"}})}
    assert findings(union(beside("a"), beside("b"), **{"$defs": defs})) == []
    twice = union(beside("a"), beside("a"), **{"$defs": defs})
    assert findings(twice) == [("variant-literal-twice", "/properties/x/anyOf/1/properties/kind")]
    split = {"Base": closed({"kind": {"type": "string", "enum": ["a"]}})}
    split["Base"]["required"] = []
    requires = {"$ref": "#/$defs/Base", "required": ["kind"]}
    assert findings(union(requires, variant("b"), **{"$defs": split})) == []
    chain = {**defs, "A": beside("a"), "U": {"anyOf": [beside("b"), {"$ref": "#/$defs/A"}]}}
    assert findings(union({"$ref": "#/$defs/U"}, variant("c"), **{"$defs": chain})) == []


def test_what_stands_beside_a_reference_said_nothing_in_older_drafts() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "$defs": {"Base": closed({})}}
    assert rules(union(beside("a"), beside("b"), **old)) == ["variant-field-presence"]


def test_a_field_that_may_be_left_out_is_named() -> None:
    optional = [{**variant(literal, "shape"), "required": []} for literal in "ab"]
    (finding,) = lint_schema(union(*optional), "variants").findings
    assert finding.rule == "variant-discriminator"
    assert "'shape' of '/properties/x/anyOf/0' is not required" in finding.message


@pytest.mark.parametrize("name", ["kind", "variant", "type"])
def test_conventional_names(name: str) -> None:
    assert findings(union(variant("a", name), variant("b", name))) == []


def test_another_name_must_be_documented() -> None:
    """§A: "MAY use other names but MUST document the chosen name": a note."""
    report = lint_schema(union(variant("a", "shape"), variant("b", "shape")), "variants")
    assert report.ok
    assert [note.rule for note in report.notes] == ["variant-discriminator-name"]
    assert "'shape'" in report.notes[0].message


def test_a_const_is_not_an_enum() -> None:
    a = closed({"kind": {"type": "string", "const": "a"}})
    assert findings(union(a, variant("b"))) == [
        ("variant-discriminator-const", "/properties/x/anyOf/0/properties/kind")
    ]


def test_an_enum_without_its_type() -> None:
    a = closed({"kind": {"enum": ["a"]}})
    assert findings(union(a, variant("b"))) == [("variant-discriminator-type", "/properties/x/anyOf/0/properties/kind")]


def test_discriminators_behind_references() -> None:
    """S001-A2, S001-A3: discriminators are found through `$ref` and `$defs`, at any depth."""
    schema = union(
        {"$ref": "#/$defs/A"},
        {"$ref": "#/$defs/More"},
        **{
            "$defs": {
                "A": {"$ref": "#/$defs/A2"},
                "A2": {"$ref": "#/$defs/A3"},
                "A3": closed({"kind": {"$ref": "#/$defs/a~1b%20~0c"}}),
                "a/b ~c": {"type": "string", "enum": ["a"]},
                "More": {"anyOf": [variant("b"), {"$ref": "#/$defs/Most"}]},
                "Most": {"anyOf": [variant("c"), variant("d")]},
            }
        },
    )
    assert findings(schema) == []
    schema["$defs"]["Most"]["anyOf"].append(variant("a"))
    assert rules(schema) == ["variant-literal-twice"]


def test_a_union_within_a_branch_may_have_a_discriminator_of_its_own() -> None:
    def sub(literal: str) -> dict[str, Any]:
        return variant("b", variant={"type": "string", "enum": [literal]})

    nested = {"anyOf": [sub("b1"), sub("b2")]}
    assert findings(union(variant("a"), nested)) == []
    assert rules(union(variant("a"), {"anyOf": [sub("b1"), sub("b1")]})) == ["variant-literal-twice"]


def test_a_branch_out_of_sight_has_no_discriminator() -> None:
    remote = union(variant("a"), {"$ref": "https://schemas.example/b.json"})
    assert rules(remote) == ["variant-discriminator"]
    assert rules(union(variant("a"), True)) == ["variant-discriminator"]


def test_recursive_variants() -> None:
    leaf, tree = variant("leaf"), variant("tree", left={"$ref": "#/$defs/Node"})
    schema = holding({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": {"anyOf": [leaf, tree]}, "L": leaf}})
    assert findings(schema) == []
    itself = union({"$ref": "#/properties/x"}, variant("a"), variant("b"))
    assert rules(itself) == ["variant-literal-twice"]
