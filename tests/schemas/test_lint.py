"""The rules of Tier 1 and of the vendors, references, and input that is no schema."""

import json
import time
from typing import Any

import pytest

import modelpact as mp
from modelpact.schemas.lint import lint_schema
from modelpact.schemas.profile import keyword_rules, load_rules
from tests.schemas.examples import closed, holding, spec_example, variant

EVERY = "variants,tier1,openai,anthropic,gemini"
TEXT = {"type": "string"}


def findings(schema: Any, profiles: str = "tier1") -> list[tuple[str, str]]:
    return [(error.rule, error.path) for error in lint_schema(schema, profiles).errors]


def test_a_clean_schema() -> None:
    report = mp.lint_schema(closed({"a": TEXT, "b": {"type": ["integer", "null"]}}), EVERY)
    assert report
    assert report.findings == ()


def test_the_root_is_an_object() -> None:
    """Tier 1: "root is an object"."""
    assert findings({"type": "array", "items": TEXT}) == [("root-object", "")]
    assert ("root-object", "") in findings({"anyOf": [variant("a"), variant("b")]})
    assert findings({"$ref": "#/$defs/A", "$defs": {"A": closed({})}}) == [("root-object", "")]


def test_objects_are_closed_and_all_required() -> None:
    """Tier 1: "`additionalProperties: false` and every property required … on every object"."""
    inner = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["b"]}
    assert findings(holding({"type": "array", "items": inner})) == [
        ("closed-object", "/properties/x/items"),
        ("required-property", "/properties/x/items/properties/a"),
    ]
    assert findings(holding({**closed({}), "additionalProperties": True})) == [("closed-object", "/properties/x")]
    assert findings(holding({"properties": {"a": TEXT}})) == [
        ("closed-object", "/properties/x"),
        ("required-property", "/properties/x/properties/a"),
    ]
    nullable = holding({"type": ["object", "null"], "properties": {}})
    assert findings(nullable) == [("closed-object", "/properties/x")]


FORBIDDEN: dict[str, Any] = {
    "oneOf": [TEXT],
    "allOf": [TEXT],
    "not": {"type": "null"},
    "if": TEXT,
    "then": TEXT,
    "else": TEXT,
    "dependentRequired": {"a": ["b"]},
    "dependencies": {"a": ["b"]},
    "dependentSchemas": {"a": closed({})},
    "patternProperties": {"^a": TEXT},
    "prefixItems": [TEXT],
    "propertyNames": TEXT,
    "minLength": 1,
    "maxLength": 1,
    "pattern": "a",
    "format": "email",
    "minimum": 1,
    "maximum": 1,
    "exclusiveMinimum": 1,
    "exclusiveMaximum": 1,
    "multipleOf": 2,
    "minItems": 1,
    "maxItems": 1,
    "uniqueItems": True,
}


@pytest.mark.parametrize("word", FORBIDDEN)
def test_forbidden_keywords(word: str) -> None:
    """Tier 1: "forbidden: oneOf, allOf, not, if/then/else, dependentRequired, …"."""
    schema = holding({**closed({}), word: FORBIDDEN[word]})
    assert findings(schema) == [(keyword_rules()[word], f"/properties/x/{word}")]


def test_enums_of_scalars() -> None:
    """Tier 1: "enums of scalars"."""
    assert findings(holding({"type": "array", "enum": [[1]]})) == [("enum-scalar", "/properties/x/enum")]
    good = holding({"type": ["string", "null"], "enum": ["a", None]})
    assert findings(good) == []
    assert findings(good, "gemini") == [("enum-scalar", "/properties/x/enum")]


def test_a_const_that_is_no_scalar() -> None:
    """Tier 1: "enums of scalars"; a const is an enum of one value."""
    for value in ({"a": 1}, [1]):
        schema = holding({"const": value})
        assert ("enum-scalar", "/properties/x/const") in findings(schema)
        assert findings(schema, "openai,anthropic")[0] == ("enum-scalar", "/properties/x/const")
    assert findings(holding({"type": "string", "const": "a"})) == []


@pytest.mark.parametrize("profile", ["tier1", "openai", "anthropic", "gemini"])
def test_tuples_as_older_drafts_wrote_them(profile: str) -> None:
    """Tier 1: "forbidden: … prefixItems …": a list of `items` says the same."""
    schema = holding({"type": "array", "items": [TEXT, TEXT]})
    assert findings(schema, profile) == [("tuple", "/properties/x/items")]


def test_references_stay_in_defs() -> None:
    """Tier 1: "local `$defs` references only"."""
    assert findings(holding({"$ref": "https://a.example/b"})) == [("ref-not-local", "/properties/x/$ref")]
    elsewhere = closed({"a": TEXT, "b": {"$ref": "#/properties/a"}})
    assert findings(elsewhere) == [("ref-not-defs", "/properties/b/$ref")]
    old = holding({"$ref": "#/definitions/A"}, definitions={"A": TEXT})
    assert findings(old) == [("ref-not-defs", "/properties/x/$ref")]
    assert findings(old, "anthropic") == []


@pytest.mark.parametrize("profile", ["variants", "tier1", "openai", "anthropic", "gemini"])
def test_dangling_references_are_told_whatever_the_profile(profile: str) -> None:
    for ref in ("#/$defs/Nobody", "#/properties/x/type", "#nobody", "#/$defs/~2"):
        assert ("ref-dangling", "/properties/x/$ref") in findings(holding({"$ref": ref}), profile)


def test_anchors_lead_somewhere() -> None:
    schema = holding({"$ref": "#here"}, **{"$defs": {"A": {"$anchor": "here", **TEXT}}})
    assert findings(schema, "anthropic") == []


def test_a_reference_with_siblings() -> None:
    schema = holding({"$ref": "#/$defs/A", "description": "d"}, **{"$defs": {"A": TEXT}})
    assert findings(schema, "openai,gemini") == [("ref-siblings", "/properties/x")]
    assert findings(schema, "tier1,anthropic") == []
    assert [note.rule for note in lint_schema(schema, "tier1").notes] == ["ref-siblings"]


def test_a_target_in_a_place_of_its_own_is_linted() -> None:
    schema = holding({"$ref": "#/components/A"}, components={"A": {"type": "object"}})
    assert ("closed-object", "/components/A") in findings(schema)


def test_recursion() -> None:
    """Tier 1: "recursion flagged"; OpenAI supports it."""
    node = closed({"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}})
    schema = holding({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": node}})
    path = "/$defs/Node/properties/next/anyOf/0/$ref"
    assert findings(schema, "tier1") == [("recursion", path)]
    assert findings(schema, "anthropic") == [("recursion", path)]
    assert findings(schema, "openai") == []
    assert findings(closed({"self": {"$ref": "#"}})) == [("recursion", "/properties/self/$ref")]


def test_gemini_takes_recursion_through_what_may_be_left_out() -> None:
    """Gemini: "Cyclic references … may only be used within non-required properties"."""
    node = closed({"next": {"$ref": "#/$defs/Node"}})
    schema = holding({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": node}})
    path = "/$defs/Node/properties/next/$ref"
    assert findings(schema, "gemini") == [("recursion-required", path)]
    node["required"] = []
    assert findings(schema, "gemini") == []


def nested(levels: int) -> dict[str, Any]:
    schema = closed({"leaf": TEXT})
    for _ in range(levels - 1):
        schema = holding(schema)
    return schema


def test_depth() -> None:
    """Tier 1: "depth at most 5"."""
    assert findings(nested(5)) == []
    assert findings(nested(6)) == [("depth", "/properties/x" * 5)]
    assert findings(nested(10), "openai") == []
    assert [rule for rule, _ in findings(nested(11), "openai")] == ["depth"]


def test_depth_through_references() -> None:
    chain = {f"D{n}": holding({"$ref": f"#/$defs/D{n + 1}"}) for n in range(5)}
    defs = {**chain, "D5": closed({})}
    assert [rule for rule, _ in findings(holding({"$ref": "#/$defs/D1"}, **{"$defs": defs}))] == ["depth"]
    assert findings(holding({"$ref": "#/$defs/D2"}, **{"$defs": defs})) == []
    assert findings(closed({}, **{"$defs": {"Unused": nested(7)}})) == []


def test_the_number_of_properties() -> None:
    """Tier 1: "at most 100 properties", in all objects together."""
    many = {f"p{n}": TEXT for n in range(50)}
    both = closed({**many, "x": closed(dict(list(many.items())[:49]))})
    assert findings(both) == []
    both["properties"]["x"] = closed(many)
    assert findings(both) == [("properties", "")]
    assert findings(both, "openai") == []


def test_limits_of_openai() -> None:
    enum = [f"{n:060}" for n in range(251)]
    assert findings(holding({"type": "string", "enum": enum}), "openai") == [("enum-text", "/properties/x/enum")]
    many = holding({"type": "integer", "enum": list(range(1001))})
    assert findings(many, "openai") == [("enum-values", "")]
    long = closed({f"{n:0>1000}": TEXT for n in range(121)})
    assert findings(long, "openai") == [("names-text", "")]


def test_limits_of_anthropic() -> None:
    optional = {**closed({f"p{n}": TEXT for n in range(25)}), "required": []}
    assert findings(optional, "anthropic") == [("optionals", "")]
    unions = closed({f"p{n}": {"type": ["string", "null"]} for n in range(17)})
    assert findings(unions, "anthropic") == [("unions", "")]


def test_values_that_vendors_take_in_part() -> None:
    assert findings(holding({**TEXT, "format": "email"}), "openai,anthropic") == []
    uri = lint_schema(holding({**TEXT, "format": "uri"}), "openai,anthropic")
    assert [error.profiles for error in uri.errors] == [("openai",)]
    array = {"type": "array", "items": TEXT}
    assert findings(holding({**array, "minItems": 1}), "openai,anthropic,gemini") == []
    two = lint_schema(holding({**array, "minItems": 2}), "openai,anthropic,gemini")
    assert [error.profiles for error in two.errors] == [("anthropic",)]
    assert findings(holding({**TEXT, "pattern": "^a+$"}), "anthropic") == []
    for pattern in (r"(?=a)", r"\bword", r"(a)\1", "(?<!a)b"):
        assert findings(holding({**TEXT, "pattern": pattern}), "anthropic") != []
    merged = holding({"allOf": [{"$ref": "#/$defs/A"}]}, **{"$defs": {"A": TEXT}})
    assert findings(merged, "anthropic") == [("all-of", "/properties/x/allOf")]


def test_a_schema_that_admits_anything() -> None:
    for anything in ({}, True, {"description": "d"}):
        assert findings(holding(anything)) == [("any-value", "/properties/x")]
        assert lint_schema(holding(anything), "gemini").ok


def test_a_definition_that_admits_anything() -> None:
    schema = holding({"$ref": "#/$defs/T"}, **{"$defs": {"T": True}})
    assert findings(schema) == [("any-value", "/$defs/T")]


def test_an_array_of_anything() -> None:
    for types in ("array", ["array", "null"]):
        assert findings(holding({"type": types})) == [("any-value", "/properties/x")]
    assert findings(holding({"type": "array", "items": TEXT})) == []
    assert lint_schema(holding({"type": "array"}), "anthropic,gemini").ok


def test_findings_carry_the_profiles_that_they_affect() -> None:
    """MP-J5: findings have rule, path, message and profiles."""
    (finding,) = lint_schema(holding({"oneOf": [TEXT]}), EVERY).findings
    assert (finding.rule, finding.path, finding.level) == ("one-of", "/properties/x/oneOf", "error")
    assert finding.profiles == ("variants", "tier1", "openai", "anthropic", "gemini")
    assert finding.rule in load_rules()


def test_pointers_are_escaped() -> None:
    assert findings(closed({"a/b~c": {**TEXT, "minLength": 1}})) == [
        ("string-constraint", "/properties/a~1b~0c/minLength")
    ]


def test_pydantic_models_are_schemas() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", name=(str, ...))
    assert findings(model) == [("closed-object", "")]


def test_the_schema_is_left_alone() -> None:
    schema = spec_example()
    lint_schema(schema, EVERY)
    assert schema == spec_example()


BAD: dict[str, tuple[Any, str]] = {
    "a list": ([], "a JSON Schema is an object, not list"),
    "a boolean": (True, "the schema true describes nothing"),
    "a text": ("{}", "is an object, not str"),
    "None": (None, "is an object, not NoneType"),
    "an unknown type": ({"type": "text"}, "/type: expected one or more of array"),
    "a type that is a number": (holding({"type": 5}), "/properties/x/type: expected one or more"),
    "properties that are a list": ({"properties": []}, "/properties: expected an object"),
    "a property that is a text": (holding("string"), "/properties/x: expected a schema"),
    "required that is a text": ({"required": "a"}, "/required: expected a list of names"),
    "no branches": (holding({"anyOf": []}), "/properties/x/anyOf: expected a list of schemas"),
    "an empty enum": (holding({"enum": []}), "/properties/x/enum: expected a list of values"),
    "a reference that is no text": (holding({"$ref": 1}), "/properties/x/$ref: expected a string"),
    "a reference to itself": (holding({"$ref": "#/properties/x"}), "refers only to itself"),
    "a loop of references": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        "refers only to itself",
    ),
}


@pytest.mark.parametrize(("schema", "message"), BAD.values(), ids=BAD)
def test_what_is_no_schema_gets_a_clear_error(schema: Any, message: str) -> None:
    """MP-L3: input that is not a schema, or is cyclic, gets a clear error."""
    with pytest.raises(mp.InputError) as error:
        lint_schema(schema)
    assert message in str(error.value).replace("'", "")
    assert len(str(error.value)) < 500


def test_an_object_that_contains_itself() -> None:
    schema = holding({})
    schema["properties"]["x"] = schema
    with pytest.raises(mp.InputError, match=r"contains itself, at /properties/x"):
        lint_schema(schema)
    with pytest.raises(mp.InputError, match=r"contains itself"):
        mp.fix_schema(schema)
    sideways: dict[str, Any] = {"anyOf": []}
    sideways["anyOf"] += [sideways, sideways]
    with pytest.raises(mp.InputError, match="contains itself"):
        lint_schema(sideways)


def test_endless_nesting() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(mp.InputError, match="nested more than 200 deep"):
        lint_schema(schema)
    while schema:  # taken apart by hand: to free it at once would overflow the stack
        schema = schema.pop("items")


def test_unknown_profiles() -> None:
    with pytest.raises(mp.InputError, match="unknown profile 'opnai'; did you mean openai"):
        lint_schema({}, "opnai")
    with pytest.raises(mp.InputError, match="expected at least one profile"):
        lint_schema({}, "")


def doubled(levels: int, word: str) -> dict[str, Any]:
    defs = {f"D{n}": {word: [{"$ref": f"#/$defs/D{n + 1}"}, {"$ref": f"#/$defs/D{n + 1}"}]} for n in range(levels)}
    return holding({"$ref": "#/$defs/D0"}, **{"$defs": {**defs, f"D{levels}": variant("a")}})


@pytest.mark.parametrize("word", ["anyOf", "allOf", "oneOf"])
def test_doubled_references_are_read_once(word: str) -> None:
    start = time.process_time()
    lint_schema(doubled(64, word), EVERY)
    mp.fix_schema(doubled(64, word), EVERY)
    assert time.process_time() - start < 2


def test_objects_shared_in_python_end_in_an_error_not_in_endless_work() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(40):
        schema = {"anyOf": [schema, schema]}
    with pytest.raises(mp.InputError, match=r"more than 200,000 subschemas"):
        lint_schema(schema)


def test_long_chains_of_references_and_unions() -> None:
    defs: dict[str, Any] = {f"D{n}": {"$ref": f"#/$defs/D{n + 1}"} for n in range(20_000)}
    chain = holding({"$ref": "#/$defs/D0"}, **{"$defs": {**defs, "D20000": TEXT}})
    assert findings(chain) == []
    many = {f"D{n}": {"anyOf": [variant(f"v{n}"), {"$ref": f"#/$defs/D{n + 1}"}]} for n in range(20_000)}
    with pytest.raises(mp.InputError, match="unions within unions"):
        lint_schema(holding({"$ref": "#/$defs/D0"}, **{"$defs": {**many, "D20000": TEXT}}))


def test_time_is_linear() -> None:
    def seconds(properties: int) -> float:
        schema = json.loads(json.dumps(closed({f"p{n}": TEXT for n in range(properties)})))
        times = []
        for _ in range(5):
            start = time.process_time()
            lint_schema(schema, EVERY)
            times.append(time.process_time() - start)
        return min(times)

    seconds(100)
    assert seconds(8_000) < 24 * seconds(1_000)
