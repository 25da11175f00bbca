"""Validation: schemas that are none, references that are never fetched, findings for a model."""

import socket
from typing import Any

import pytest

from modelpact.emulation.validation import Schema
from modelpact.vocabulary.errors import InputError

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "document",
    [
        [],
        "{}",
        None,
        5,
        {"type": "nothing"},
        {"type": 5},
        {"properties": []},
        {"required": "city"},
        {"pattern": "("},
        {"minimum": "low"},
        {"$ref": "#/$defs/none"},
        {"$schema": "https://example.com/none"},
        {"const": "\ud800"},
        {"enum": {1, 2}},
    ],
    ids=repr,
)
def test_a_schema_that_is_not_a_schema(document: Any) -> None:
    """MP-E8: a schema that is not one; the error names the place."""
    with pytest.raises(InputError, match=r"^here: "):
        Schema(document, "here")


@pytest.mark.parametrize("nest", [lambda inner: {"not": inner}, lambda inner: {"items": inner}])
def test_a_schema_that_is_nested_too_deeply(nest: Any) -> None:
    document: dict[str, Any] = {}
    for _ in range(50_000):
        document = nest(document)
    with pytest.raises(InputError):
        Schema(document, "here")


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/s.json", "https://example.com/s", "file:///etc/passwd", "s.json", "urn:x"]
)
def test_references_to_other_documents_are_never_fetched(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(InputError, match=r"not followed|not a JSON Schema"):
        Schema({"properties": {"a": {"$ref": reference}}}, "here")


def test_findings_say_where_and_what() -> None:
    findings = Schema(CITY, "here").findings({"people": -1, "x": 2})
    assert "/people: -1 is less than the minimum of 0" in findings
    assert any("city" in finding and "required" in finding for finding in findings)
    assert any("'x'" in finding for finding in findings)
    assert all("\n" not in finding and len(finding) < 400 for finding in findings)


def test_findings_of_the_value_itself() -> None:
    assert Schema(CITY, "here").findings([]) == ['the value itself: [] is not of type "object"']


def test_no_findings_when_valid() -> None:
    schema = Schema(CITY, "here")
    assert schema.findings({"city": "Rome"}) == []
    assert schema.accepts({"city": "Rome"})
    assert not schema.accepts({})


def test_findings_are_bounded() -> None:
    findings = Schema({"items": {"type": "string"}}, "here").findings(list(range(1_000)))
    assert len(findings) == 11
    assert findings[-1] == "and more"
    assert all(len(finding) < 400 for finding in Schema({"type": "null"}, "x").findings("y" * 100_000))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"$ref": "#"}}, "type": "object"},
    ],
    ids=str,
)
def test_references_that_turn_in_circles_end(schema: dict[str, Any]) -> None:
    assert Schema(schema, "here").findings({"a": {"a": {}}}) == []


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a+)+(?!c)$", r"^(\w+\s?)*$"])
def test_patterns_that_would_take_forever_end(pattern: str) -> None:
    assert Schema({"pattern": pattern}, "here").findings("a" * 40 + "!") != []


@pytest.mark.parametrize("value", [{1: 2}, {1, 2}, object(), float("nan"), {"a": b"x"}])
def test_a_value_that_is_not_json_is_a_finding(value: Any) -> None:
    schema = Schema({"type": "string"}, "here")
    assert schema.findings(value) != []
    assert not schema.accepts(value)


def test_large_numbers_are_compared_as_they_are() -> None:
    schema = Schema({"type": "integer", "maximum": 2**70}, "here")
    assert schema.findings(2**70) == []
    assert schema.findings(2**70 + 1) != []
