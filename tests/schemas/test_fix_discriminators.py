"""Rewriting unions whose discriminator may be left out, as Pydantic writes a default."""

from typing import Any

import pytest

from modelpact.schemas.fix import fix_schema
from tests.schemas.examples import closed, holding

TEXT = {"type": "string"}


def defaulted(literal: str, field: str = "kind", **more: Any) -> dict[str, Any]:
    """Make a branch as Pydantic does for `kind: Literal["a"] = "a"`."""
    kind = {"type": "string", "const": literal, "default": literal}
    return {"type": "object", "properties": {field: kind, **more}}


def kind(literal: str) -> dict[str, Any]:
    return {"type": "string", "enum": [literal], "default": literal}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize("profile", ["tier1", "openai"])
def test_a_discriminator_becomes_required_without_null(word: str, profile: str) -> None:
    """§A: "Includes the discriminator property in `required`" and one literal, no null."""
    defs = {"A": defaulted("a", name=TEXT), "B": defaulted("b")}
    refs = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]
    result = fix_schema(holding({word: refs}, **{"$defs": defs}), profile)
    assert result.report.ok
    assert result.kept == ()
    assert result.schema["properties"]["x"] == {"anyOf": refs}
    first = result.schema["$defs"]["A"]
    assert first["required"] == ["kind", "name"]
    assert first["properties"]["name"] == {"type": ["string", "null"]}
    assert "null" not in str(first["properties"]["kind"])
    assert any(
        change.message == "'kind' is now required, without null: it tells branches apart" for change in result.changes
    )


def test_pydantic_models_with_defaults() -> None:
    pydantic = pytest.importorskip("pydantic")
    from typing import Annotated, Literal

    cat = pydantic.create_model("Cat", kind=(Literal["cat"], "cat"), name=(str | None, None))
    dog = pydantic.create_model("Dog", kind=(Literal["dog"], "dog"))
    union: Any = Annotated[cat | dog, pydantic.Field(discriminator="kind")]
    owner = pydantic.create_model("Owner", pet=(union, ...))
    result = fix_schema(owner)
    assert result.report.ok
    assert result.schema["$defs"]["Cat"]["required"] == ["kind", "name"]
    assert result.schema["$defs"]["Cat"]["properties"]["kind"]["enum"] == ["cat"]


def test_unions_in_unions() -> None:
    inner = {"oneOf": [defaulted("c", "type"), defaulted("d", "type")]}
    schema = holding({"oneOf": [defaulted("a", x=inner), defaulted("b")]})
    result = fix_schema(schema)
    assert result.report.ok
    outer = result.schema["properties"]["x"]["anyOf"]
    assert outer[0]["properties"]["kind"] == kind("a")
    assert outer[0]["required"] == ["kind", "x"]


def test_a_field_beside_a_discriminator_is_null_where_it_was_left_out() -> None:
    def branch(literal: str) -> dict[str, Any]:
        label = {"type": "string", "enum": [literal]}
        return {**closed({"kind": label, "label": label}), "required": ["kind"]}

    result = fix_schema(holding({"anyOf": [branch("a"), branch("b")]}))
    assert result.report.ok
    first = result.schema["properties"]["x"]["anyOf"][0]
    assert first["properties"]["label"]["anyOf"][1] == {"type": "null"}


def test_one_that_cannot_be_required_stays_as_it_is() -> None:
    """`{}` matches both, so it is refused; with one `kind` required it would be admitted."""
    held = {**defaulted("b"), "minProperties": 0}
    schema = holding({"oneOf": [defaulted("a"), held]})
    result = fix_schema(schema)
    for place in (0, 1):
        branch = result.schema["properties"]["x"]["oneOf"][place]
        assert "required" not in branch
        assert branch["properties"]["kind"]["enum"]
    assert not result.report.ok


def test_another_union_may_hold_a_branch() -> None:
    """Were `kind` of A required, `{}` would match C alone in `y`."""
    defs = {"A": defaulted("a"), "B": defaulted("b"), "C": defaulted("a")}
    properties = {
        "x": {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]},
        "y": {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/C"}]},
    }
    result = fix_schema(closed(properties, **{"$defs": defs}))
    assert all("required" not in result.schema["$defs"][name] for name in "ABC")
    assert "oneOf" in result.schema["properties"]["x"]


def test_profiles_that_leave_fields_optional_leave_discriminators_too() -> None:
    schema = holding({"oneOf": [defaulted("a"), defaulted("b")]})
    after = fix_schema(schema, "anthropic").schema["properties"]["x"]["oneOf"]
    assert all("required" not in branch for branch in after)
    assert all("additionalProperties" not in branch for branch in after)
