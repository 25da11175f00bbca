"""Rewriting: what is done, what is left, and that the meaning stays."""

import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modelpact as mp
from modelpact.schemas.fix import fix_schema
from modelpact.schemas.lint import lint_schema
from tests.schemas.examples import closed, holding, spec_example, variant

TEXT = {"type": "string"}


def fixed(schema: Any, profiles: str = "tier1") -> Any:
    return fix_schema(schema, profiles).schema


def why_kept(schema: Any, profiles: str = "tier1") -> list[tuple[str, str]]:
    return [(finding.rule, finding.message) for finding in fix_schema(schema, profiles).kept]


def test_the_example_of_the_specification() -> None:
    result = mp.fix_schema(spec_example())
    assert result.report.ok
    assert result.schema["required"] == ["reasoning", "steps"]
    assert [change.rule for change in result.changes] == ["required-property"]
    assert "'reasoning' is now required; it could be null before" in result.changes[0].message


def test_one_of_with_literals_becomes_any_of() -> None:
    """`oneOf` with literals becomes `anyOf`, `const` becomes `enum`."""

    def branch(literal: str) -> dict[str, Any]:
        return closed({"kind": {"const": literal}})

    schema = holding({"description": "d", "oneOf": [branch("a"), branch("b")], "title": "t"})
    expected = {"description": "d", "anyOf": [variant("a"), variant("b")], "title": "t"}
    assert fixed(schema, "variants")["properties"]["x"] == expected
    assert list(fixed(schema, "variants")["properties"]["x"]) == ["description", "anyOf", "title"]


@pytest.mark.parametrize(
    "branches",
    [
        [TEXT, {"type": "null"}],
        [{"const": "a"}, {"const": "b"}, {"enum": [1, 2]}, {"const": True}],
        [{"type": "array"}, variant("a"), variant("b")],
        [variant("a"), {"anyOf": [variant("b"), variant("c")]}],
    ],
)
def test_branches_that_exclude_each_other(branches: list[Any]) -> None:
    assert "anyOf" in fixed(holding({"oneOf": branches}), "variants")["properties"]["x"]


@pytest.mark.parametrize(
    "branches",
    [
        [TEXT, {"type": "string", "maxLength": 3}],
        [{"type": "integer"}, {"type": "number"}],
        [{"const": 1}, {"const": 1.0}],
        [{}, variant("a")],
        [closed({"a": TEXT}), closed({"b": TEXT})],
        [{"properties": {"kind": {"const": k}}, "required": ["kind"]} for k in ("a", "b")],
        [variant("a"), {"anyOf": [variant("b"), variant("a")]}],
    ],
)
def test_branches_that_may_overlap_stay(branches: list[Any]) -> None:
    schema = holding({"oneOf": branches})
    assert fixed(schema, "openai")["properties"]["x"].keys() >= {"oneOf"}
    assert ("one-of", "a value could match several branches: no literal tells them apart") in (
        why_kept(schema, "openai")
    )


def test_const_becomes_enum() -> None:
    assert fixed(holding({"type": "integer", "const": 5}), "gemini") == holding({"type": "integer", "enum": [5]})
    assert why_kept(holding({"const": {"a": 1}}), "gemini") == [("const", "its value is not a scalar but {'a': 1}")]


def test_optional_becomes_nullable() -> None:
    """Tier 1: "optional is `["T","null"]`"."""
    properties = {
        "plain": {**TEXT, "description": "d"},
        "several": {"type": ["string", "integer"]},
        "listed": {"type": "string", "enum": ["a"], "title": "t"},
        "ref": {"$ref": "#/$defs/D", "description": "d"},
        "union": {"anyOf": [variant("a"), variant("b")]},
        "already": {"anyOf": [{"type": "null"}, TEXT]},
    }
    schema = {**closed(properties), "required": [], "$defs": {"D": closed({})}}
    null = {"type": "null"}
    assert fixed(schema)["properties"] == {
        "plain": {"type": ["string", "null"], "description": "d"},
        "several": {"type": ["string", "integer", "null"]},
        "listed": {"title": "t", "anyOf": [{"type": "string", "enum": ["a"]}, null]},
        "ref": {"description": "d", "anyOf": [{"$ref": "#/$defs/D"}, null]},
        "union": {"anyOf": [variant("a"), variant("b"), null]},
        "already": {"anyOf": [null, TEXT]},
    }
    assert fixed(schema)["required"] == list(properties)


def test_anthropic_keeps_optional_fields() -> None:
    schema = {**closed({"a": TEXT}), "required": []}
    assert fix_schema(schema, "anthropic").changes == ()


def test_objects_are_closed_where_they_name_their_fields() -> None:
    """The linter rewrites what it can and reports the rest."""
    assert fixed({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}) == {
        "type": "object",
        "properties": {"a": TEXT},
        "required": ["a"],
        "additionalProperties": False,
    }
    free = holding({"type": "object"})
    assert why_kept(free) == [("closed-object", "it names no fields: if it were closed, it could only be empty")]
    opened = {**closed({"a": TEXT}), "additionalProperties": TEXT}
    assert why_kept(opened) == [("closed-object", "it describes other fields")]
    assert fixed(opened) == opened


def test_parts_of_a_composition_stay() -> None:
    base = {"type": "object", "properties": {"a": TEXT}}
    more = {"type": "object", "properties": {"b": TEXT}, "required": ["b"]}
    schema = holding({"allOf": [{"$ref": "#/$defs/B"}, more]}, **{"$defs": {"B": base}})
    assert fixed(schema) == schema
    negated = holding({"not": {"type": "object", "properties": {"a": TEXT}}})
    assert fixed(negated) == negated


def test_what_a_reference_leads_to_stays() -> None:
    schema = {**closed({"a": TEXT, "b": {"$ref": "#/properties/a"}}), "required": ["b"]}
    assert fixed(schema, "openai") == schema
    assert why_kept(schema, "openai") == [("required-property", "a reference leads to it")]


def test_definitions_become_defs() -> None:
    schema = holding({"$ref": "#/definitions/A"}, definitions={"A": TEXT})
    assert fixed(schema) == holding({"$ref": "#/$defs/A"}, **{"$defs": {"A": TEXT}})


def test_what_cannot_be_said_otherwise_is_still_found() -> None:
    schema = holding({"type": "string", "minLength": 1})
    result = fix_schema(schema)
    assert result.schema == schema
    assert [finding.rule for finding in result.report.findings] == ["string-constraint"]


def test_the_input_is_left_alone_and_shared_objects_are_taken_apart() -> None:
    shared = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    schema = {**closed({"one": shared, "two": shared}), "required": ["one"]}
    before = copy.deepcopy(schema)
    result = fixed(schema)
    assert schema == before
    assert result["properties"]["one"]["type"] == "object"
    assert result["properties"]["two"]["type"] == ["object", "null"]


def test_what_is_not_json() -> None:
    with pytest.raises(mp.InputError, match="cannot be written as JSON"):
        fix_schema({"type": "string", "default": float("nan")})
    with pytest.raises(mp.InputError, match="cannot be written as JSON"):
        fix_schema({"type": "string", "default": {1, 2}})


NAMES = ("a", "b", "c")
DEFS = ("D", "E")
SCALARS: tuple[Any, ...] = ("p", "q", 1, 2, True, None)
EXTRAS: tuple[dict[str, Any], ...] = (
    {"minProperties": 1},
    {"maxProperties": 1},
    {"patternProperties": {"^a": {"type": "string"}}},
    {"dependentRequired": {"a": ["b"]}},
    {"additionalProperties": False},
    {"enum": [{}, {"a": 1}]},
)
"""What an object has now and then, and what rewriting has to respect."""
REFS = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in DEFS])
LEAVES = st.one_of(
    st.sampled_from(["string", "integer", "number", "boolean", "null"]).map(lambda kind: {"type": kind}),
    st.sampled_from(SCALARS).map(lambda value: {"const": value}),
    st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values}),
    st.just({"type": ["string", "null"]}),
    REFS,
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any], literal: str = "") -> dict[str, Any]:
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    if literal:
        forms: list[dict[str, Any]] = [{"const": literal}, {"type": "string", "enum": [literal]}]
        properties["kind"] = dict(draw(st.sampled_from(forms)))
        if draw(st.booleans()):
            required.append("kind")
    made: dict[str, Any] = {"properties": properties}
    if draw(st.integers(0, 9)):
        made["type"] = "object"
    if required:
        made["required"] = required
    extra = draw(st.integers(0, 30))
    if extra < len(EXTRAS):
        made |= EXTRAS[extra]
    return made


def unions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    word = st.sampled_from(["oneOf", "anyOf"])
    discriminated = st.tuples(objects(inner, "k1"), objects(inner, "k2")).map(list)
    free = st.lists(inner, min_size=1, max_size=3)
    return st.builds(lambda key, branches: {key: branches}, word, discriminated | free)


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.builds(
        lambda items, unique: {"type": "array", "items": items, **unique},
        inner,
        st.sampled_from([{}, {}, {}, {"uniqueItems": True}]),
    )
    composed = st.builds(
        lambda word, first, second: {word: [first, second] if word == "allOf" else first},
        st.sampled_from(["allOf", "not"]),
        inner,
        inner,
    )
    conditional = st.builds(
        lambda first, second, third: {"if": first, "then": second, "else": third}, inner, inner, inner
    )
    return st.one_of(objects(inner), objects(inner), unions(inner), unions(inner), arrays, composed, conditional)


INNER = st.recursive(LEAVES, nest, max_leaves=6)


@st.composite
def roots(draw: st.DrawFn) -> dict[str, Any]:
    root = draw(objects(INNER))
    root["type"] = "object"
    # Definitions refer to no others, so that no chain of references leads back to itself.
    plain = st.recursive(LEAVES.filter(lambda schema: "$ref" not in schema), nest, max_leaves=4).filter(
        lambda schema: '"$ref"' not in json.dumps(schema)
    )
    return {**root, "$defs": {name: draw(plain) for name in DEFS}}


def values() -> st.SearchStrategy[Any]:
    named = st.sampled_from([*NAMES, "kind"])
    scalars = st.sampled_from((*SCALARS, "k1", "k2"))
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(named, inner, max_size=4)),
        max_leaves=6,
    )


def instances(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Make values that a schema is likely to admit."""
    if not isinstance(schema, dict) or depth > 5:
        return values()
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return instances(root["$defs"][name], root, depth + 1)
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return st.one_of([instances(inner, root, depth + 1) for inner in schema[word]])
    if "properties" in schema:
        made = {name: instances(prop, root, depth + 1) for name, prop in schema["properties"].items()}
        required = schema.get("required", [])
        return st.fixed_dictionaries(
            {name: made[name] for name in required if name in made},
            optional={name: inner for name, inner in made.items() if name not in required},
        )
    if schema.get("type") == "array":
        return st.lists(instances(schema.get("items", {}), root, depth + 1), max_size=2)
    return values()


def candidates(schema: Any, value: Any, root: Any, fill: bool) -> Iterator[Any]:
    """Yield a value with fields left out put in (`fill`), or with nulls for such taken out."""
    yield value
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        yield from candidates(target, value, root, fill)
    for word in ("anyOf", "oneOf"):
        for branch in schema.get(word, ()):
            yield from candidates(branch, value, root, fill)
    if isinstance(value, list) and "items" in schema:
        parts = [list(_few(candidates(schema["items"], item, root, fill))) for item in value]
        yield from _few(map(list, itertools.product(*parts)))
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        required = schema.get("required", [])
        if fill:
            put = {name: only_value(properties.get(name), root) for name in required}
            changed = {**put, **value}
        else:
            gone = [n for n in properties if n not in required and value.get(n, 0) is None]
            changed = {name: item for name, item in value.items() if name not in gone}
        names = list(changed)
        choices = [list(_few(candidates(properties.get(name), changed[name], root, fill))) for name in names]
        for chosen in _few(itertools.product(*choices)):
            yield dict(zip(names, chosen, strict=True))


def only_value(schema: Any, root: Any) -> Any:
    """Return the one literal of a field that tells branches apart, or null."""
    if isinstance(schema, dict) and "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    values = schema.get("enum", [schema.get("const")]) if isinstance(schema, dict) else [None]
    return values[0] if len(values) == 1 else None


def _few(values: Iterator[Any]) -> Iterator[Any]:
    """Yield the first few that differ: the same one again must not take another's place."""
    seen: set[str] = set()
    for value in values:
        written = json.dumps(value, sort_keys=True)
        if written not in seen:
            seen.add(written)
            yield value
        if len(seen) == 40:
            return


def accepts(schema: Any, value: Any) -> bool:
    return bool(jsonschema_rs.validator_for(schema).is_valid(value))


def related(first: Any, other: Any, value: Any, fill: bool) -> bool:
    guide = other if fill else first
    validator = jsonschema_rs.validator_for(first if not fill else other)
    return any(validator.is_valid(made) for made in candidates(guide, value, guide, fill))


def names_only_known_fields(schema: Any, value: Any) -> bool:
    """Tell whether a value has no field that its object does not name."""
    shut = json.loads(json.dumps(schema))
    stack = [shut]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack += part
        elif isinstance(part, dict):
            stack += part.values()
            if isinstance(part.get("properties"), dict) and "additionalProperties" not in part:
                part["additionalProperties"] = False
    return accepts(shut, value)


@given(roots(), st.data())
def test_exact_rewrites_admit_exactly_the_same(schema: Any, data: st.DataObject) -> None:
    """A rewrite does not change the meaning."""
    after = fix_schema(schema, "variants,gemini").schema
    for _ in range(4):
        value = data.draw(st.one_of(values(), instances(schema, schema)))
        assert accepts(schema, value) == accepts(after, value)


@given(roots(), st.data())
def test_what_was_valid_stays_valid_with_null_or_the_literal_for_what_was_left_out(
    schema: Any, data: st.DataObject
) -> None:
    after = fix_schema(schema, "tier1").schema
    for _ in range(4):
        value = data.draw(instances(schema, schema))
        if accepts(schema, value) and names_only_known_fields(schema, value):
            assert related(schema, after, value, fill=True)


def test_what_was_left_out_beside_many_branches_is_looked_for_as_well() -> None:
    kinds = [{"properties": {"kind": {"const": name}}, "minProperties": 1} for name in ("x", "y")]
    many = {"a": {"const": "p"}, "b": {"oneOf": kinds}, "c": {"allOf": [{"type": "string"}] * 2}}
    shut = {"additionalProperties": False}
    first = {"properties": {"a": {"const": "p"}, "c": {"type": "string"}}, "required": ["a"]}
    schema = {"type": "object", "properties": {"a": first | shut, "b": {"properties": many} | shut}}
    after = fix_schema(schema, "tier1").schema
    assert related(schema, after, {"a": {"a": "p"}, "b": {}}, fill=True)


@given(roots(), st.data())
def test_what_is_valid_now_was_valid_with_nulls_left_out(schema: Any, data: st.DataObject) -> None:
    after = fix_schema(schema, "tier1").schema
    for _ in range(4):
        value = data.draw(st.one_of(values(), instances(after, after)))
        if accepts(after, value):
            assert related(schema, after, value, fill=False)


@given(roots(), st.sampled_from(["variants", "tier1", "openai", "anthropic", "gemini"]))
def test_rewriting_twice_changes_nothing_more(schema: Any, profile: str) -> None:
    once = fix_schema(schema, profile)
    again = fix_schema(once.schema, profile)
    assert again.schema == once.schema
    assert again.changes == ()
    assert once.report == lint_schema(once.schema, profile)
    assert len(once.report.errors) <= len(lint_schema(schema, profile).errors) or once.changes
