"""The linter: check a schema against the rules of profiles."""

from collections.abc import Iterable
from typing import Any, Final

from modelpact.schemas.document import Document, SchemaNode
from modelpact.schemas.limits import check_limits
from modelpact.schemas.profile import (
    DEFAULT_PROFILES,
    Ruleset,
    compile_profiles,
    keyword_rules,
    load_rules,
    read_profiles,
)
from modelpact.schemas.reading import read_document
from modelpact.schemas.report import FindingCollector, LintReport, TooManyFindings
from modelpact.schemas.unions import type_of
from modelpact.schemas.variants import check_unions
from modelpact.vocabulary.errors import brief

_RESTRICTING: Final = frozenset(
    ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "properties"]
).union(["items", "prefixItems", "required", "$dynamicRef", "$recursiveRef"])
"""Keywords that restrict the values of a schema."""
_ITEM_KEYWORDS: Final = frozenset(
    ["items", "prefixItems", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef"]
).union(["anyOf", "oneOf", "allOf"])
"""Keywords that restrict, or may restrict, the items of an array."""


def lint_schema(schema: Any, profiles: str | Iterable[str] = DEFAULT_PROFILES) -> LintReport:
    """Check a JSON Schema, which is a dict or a Pydantic model, against profiles.

    Raise `InputError` if it is not a schema, is too deep or too large, or contains itself.
    """
    ruleset = compile_profiles(read_profiles(profiles))
    return lint_document(read_document(schema), ruleset)


def lint_document(document: Document, ruleset: Ruleset) -> LintReport:
    """Check a document against a ruleset."""
    report = FindingCollector(ruleset)
    try:
        _check(document, report)
    except TooManyFindings:
        report.add_truncation()
    return report.report()


def _check(document: Document, report: FindingCollector) -> None:
    _check_root(document, report)
    watched = report.ruleset.watched
    check_types = report.requires("any-value")
    for node in document.nodes:
        schema = node.schema
        if not watched.isdisjoint(schema):
            _check_keywords(node, report)
        if check_types and ((kind := schema.get("type")) is None or "array" in kind):
            _check_type(node, report)
    if report.requires("closed-object") or report.requires("required-property"):
        for node in document.objects:
            _check_object(node, report)
    for node in document.booleans:
        report.add("any-value", node.path(), "a boolean in place of a schema; describe the allowed values")
    for node in document.tuples:
        _check_tuple(node, report)
    for node in document.refs:
        _check_ref(document, node, report)
    check_unions(document, report)
    check_limits(document, report)


def _check_root(document: Document, report: FindingCollector) -> None:
    root = document.root
    if root.get("type") != "object":
        report.add("root-object", "", 'the root must have type: "object"')
    for key in ("anyOf", "oneOf"):
        if key in root:
            report.add("root-any-of", "", f"the root must be an object, not {key}; wrap it in one")


def _check_keywords(node: SchemaNode, report: FindingCollector) -> None:
    ruleset, schema, rules = report.ruleset, node.schema, keyword_rules()
    for key in schema:
        requirement = ruleset.refused.get(key)
        if requirement is not None:
            report.add(rules[key], node.path(key), _refusal(key, requirement.level), requirement)
        requirement = ruleset.refused_with_ref.get(key)
        if requirement is not None and any("$ref" in inner for inner in schema[key] if isinstance(inner, dict)):
            report.add(rules[key], node.path(key), f"{key} with a $ref is not supported", requirement)
    _check_values(node, report)
    if "enum" in schema:
        _check_enum(node, report)
    if isinstance(schema.get("const"), (dict, list)):
        _check_const(node, report)


def _refusal(key: str, level: str) -> str:
    if key == "oneOf":
        return "oneOf is not supported by any vendor; write anyOf with a discriminator"
    verb = "is not supported" if level == "error" else "is not supported everywhere"
    return f"{key} {verb}: {load_rules()[keyword_rules()[key]].advice}"


def _check_values(node: SchemaNode, report: FindingCollector) -> None:
    """Check the values of keywords that a profile supports in part."""
    ruleset, schema = report.ruleset, node.schema
    form = schema.get("format")
    if isinstance(form, str):
        for known, requirement in ruleset.formats:
            if form not in known:
                message = f"the format {brief(form)} is not supported"
                report.add("string-constraint", node.path("format"), message, requirement)
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        for refused, requirement in ruleset.patterns:
            if refused.search(pattern):
                message = "the pattern uses lookaround, backreferences or word boundaries: not supported"
                report.add("string-constraint", node.path("pattern"), message, requirement)
    minimum = schema.get("minItems")
    if minimum is not None:
        for numbers, requirement in ruleset.min_items:
            if minimum not in numbers:
                supported = " or ".join(map(str, sorted(numbers)))
                message = f"minItems {brief(minimum)} is not supported, only {supported}"
                report.add("array-constraint", node.path("minItems"), message, requirement)


def _check_object(node: SchemaNode, report: FindingCollector) -> None:
    schema = node.schema
    if schema.get("additionalProperties") is not False:
        has_keyword = "additionalProperties" in schema
        message = "additionalProperties must be false" if has_keyword else "no additionalProperties: false"
        report.add("closed-object", node.path(), f"the object is open: {message}")
    properties = schema.get("properties") or {}
    names = schema.get("required")
    required = set(names) if isinstance(names, list) else set()
    if len(required) == len(properties) and required == properties.keys():
        return
    for name in properties:
        if name not in required:
            report.add(
                "required-property",
                node.path("properties", name),
                f'{brief(name)} is not required; list it, and allow "null" if it is optional',
            )
    for name in names if isinstance(names, list) else ():
        if name not in properties:
            message = f"{brief(name)} is required but is not a property"
            report.add("required-unknown", node.path("required"), message)


def _check_enum(node: SchemaNode, report: FindingCollector) -> None:
    values = node.schema["enum"]
    kinds = {type_of(value) for value in values}
    for allowed, requirement in report.ruleset.enums:
        for kind in sorted(kinds - allowed):
            message = f"an enum with {'an' if kind[0] in 'ao' else 'a'} {kind} is not supported"
            report.add("enum-scalar", node.path("enum"), message, requirement)


def _check_const(node: SchemaNode, report: FindingCollector) -> None:
    """Check a const that is a list or an object, for which no enum could be used instead."""
    kind = type_of(node.schema["const"])
    for allowed, requirement in report.ruleset.enums:
        if kind not in allowed:
            message = f"a const that is an {kind} is not supported"
            report.add("enum-scalar", node.path("const"), message, requirement)


def _check_tuple(node: SchemaNode, report: FindingCollector) -> None:
    requirement = report.ruleset.refused.get("additionalItems")  # the other keyword of tuples in old drafts
    if requirement is not None:
        message = f"a list of items is not supported: {load_rules()['tuple'].advice}"
        report.add("tuple", node.path("items"), message, requirement)


def _check_type(node: SchemaNode, report: FindingCollector) -> None:
    schema = node.schema
    if "type" in schema:
        if _ITEM_KEYWORDS.isdisjoint(schema):
            report.add("any-value", node.path(), "the array does not describe its items; add items")
    elif _RESTRICTING.isdisjoint(schema):
        message = "the schema does not restrict its values, so it allows anything; add a type"
        report.add("any-value", node.path(), message)
    elif "enum" in schema or ("const" in schema and not _const_is_reported(report)):
        report.add("enum-type", node.path(), "the values are listed, but not their type")


def _const_is_reported(report: FindingCollector) -> bool:
    """Whether every const is a finding already, so that a note about its type is not needed."""
    requirement = report.ruleset.requirements.get("enum-type")
    return "const" in report.ruleset.refused and requirement is not None and requirement.level == "note"


def _is_definition(ref: str) -> bool:
    return ref.startswith("#/$defs/") and ref.count("/") == 2


def _check_ref(document: Document, node: SchemaNode, report: FindingCollector) -> None:
    schema = node.schema
    ref = schema["$ref"]
    if len(schema) == 1 and _is_definition(ref) and isinstance(document.target(ref), dict):
        return
    path = node.path("$ref")
    if not ref.startswith("#"):
        report.add("ref-not-local", path, f"{brief(ref)} leads outside the schema; move its target to $defs")
    elif not isinstance(document.target(ref), (dict, bool)):
        report.add("ref-dangling", path, f"{brief(ref)} has no target")
    elif ref != "#" and not _is_definition(ref):
        report.add("ref-not-defs", path, f"{brief(ref)} does not lead to an entry of $defs")
    siblings = [key for key in schema if not key.startswith("$") and key != "definitions"]
    if siblings:
        names = ", ".join(map(brief, siblings[:3])) + (", …" if len(siblings) > 3 else "")
        report.add("ref-siblings", node.path(), f"$ref must stand alone, not with {names}")
