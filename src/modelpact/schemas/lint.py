"""The linter: a schema against the rules of profiles. Pure; the schema is never changed."""

from collections.abc import Iterable
from typing import Any, Final

from modelpact.schemas.document import Document, SchemaNode
from modelpact.schemas.limits import check_limits
from modelpact.schemas.profile import DEFAULT_PROFILES, Ruleset, compile_profiles, read_profiles
from modelpact.schemas.reading import read_document
from modelpact.schemas.report import FindingCollector, LintReport, TooMany
from modelpact.schemas.rules import ADVICE, KEYWORDS
from modelpact.schemas.unions import type_of
from modelpact.schemas.variants import check_unions
from modelpact.vocabulary.errors import brief

_SAYING: Final = frozenset(
    ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "properties"]
).union(["items", "prefixItems", "required", "$dynamicRef", "$recursiveRef"])
"""Words that say what a schema admits."""
_ITEMS: Final = frozenset(
    ["items", "prefixItems", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef"]
).union(["anyOf", "oneOf", "allOf"])
"""Words that say, or may say, what an array holds."""


def lint_schema(schema: Any, profiles: str | Iterable[str] = DEFAULT_PROFILES) -> LintReport:
    """Return what profiles find in a JSON Schema: a dict, or a Pydantic model.

    Raises `InputError` where it is no schema, is too deep or too large, or contains itself.
    """
    ruleset = compile_profiles(read_profiles(profiles))
    return lint_document(read_document(schema), ruleset)


def lint_document(document: Document, ruleset: Ruleset) -> LintReport:
    """Return what a ruleset finds in a schema that was read."""
    report = FindingCollector(ruleset)
    try:
        _check(document, report)
    except TooMany:
        report.cut()
    return report.done()


def _check(document: Document, report: FindingCollector) -> None:
    _check_root(document, report)
    watched = report.ruleset.watched
    types = report.asked("any-value")
    for node in document.nodes:
        schema = node.schema
        if not watched.isdisjoint(schema):
            _check_words(node, report)
        if types and ((said := schema.get("type")) is None or "array" in said):
            _check_type(node, report)
    if report.asked("closed-object") or report.asked("required-property"):
        for node in document.objects:
            _check_object(node, report)
    for node in document.booleans:
        report.add("any-value", node.path(), "a boolean for a schema; say what is admitted")
    for node in document.tuples:
        _check_tuple(node, report)
    for node in document.refs:
        _check_ref(document, node, report)
    check_unions(document, report)
    check_limits(document, report)


def _check_root(document: Document, report: FindingCollector) -> None:
    root = document.root
    if root.get("type") != "object":
        report.add("root-object", "", 'the root must say type: "object"')
    for key in ("anyOf", "oneOf"):
        if key in root:
            report.add("root-any-of", "", f"the root must be an object, not {key}; wrap it in one")


def _check_words(node: SchemaNode, report: FindingCollector) -> None:
    ruleset, schema = report.ruleset, node.schema
    for key in schema:
        ask = ruleset.refused.get(key)
        if ask is not None:
            report.add(KEYWORDS[key], node.path(key), _refusal(key, ask.level), ask)
        ask = ruleset.refused_with_ref.get(key)
        if ask is not None and any("$ref" in one for one in schema[key] if isinstance(one, dict)):
            report.add(KEYWORDS[key], node.path(key), f"{key} with a $ref is not supported", ask)
    _check_values(node, report)
    if "enum" in schema:
        _check_enum(node, report)
    if isinstance(schema.get("const"), (dict, list)):
        _check_const(node, report)


def _refusal(key: str, level: str) -> str:
    if key == "oneOf":
        return "oneOf is not supported by any vendor; write anyOf with a discriminator"
    verb = "is not supported" if level == "error" else "is not supported everywhere"
    return f"{key} {verb}: {ADVICE[KEYWORDS[key]]}"


def _check_values(node: SchemaNode, report: FindingCollector) -> None:
    """Check the values of keywords that a profile supports in part."""
    ruleset, schema = report.ruleset, node.schema
    form = schema.get("format")
    if isinstance(form, str):
        for known, ask in ruleset.formats:
            if form not in known:
                message = f"the format {brief(form)} is not supported"
                report.add("string-constraint", node.path("format"), message, ask)
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        for refused, ask in ruleset.patterns:
            if refused.search(pattern):
                message = "the pattern looks around, back or at word boundaries: not supported"
                report.add("string-constraint", node.path("pattern"), message, ask)
    least = schema.get("minItems")
    if least is not None:
        for numbers, ask in ruleset.min_items:
            if least not in numbers:
                listed = " or ".join(map(str, sorted(numbers)))
                message = f"minItems {brief(least)} is not supported, only {listed}"
                report.add("array-constraint", node.path("minItems"), message, ask)


def _check_object(node: SchemaNode, report: FindingCollector) -> None:
    schema = node.schema
    if schema.get("additionalProperties") is not False:
        said = "additionalProperties" in schema
        message = "additionalProperties must be false" if said else "no additionalProperties: false"
        report.add("closed-object", node.path(), f"the object is open: {message}")
    properties = schema.get("properties") or {}
    listed = schema.get("required")
    required = set(listed) if isinstance(listed, list) else set()
    if len(required) == len(properties) and required == properties.keys():
        return
    for name in properties:
        if name not in required:
            report.add(
                "required-property",
                node.path("properties", name),
                f'{brief(name)} is not required; list it, and admit "null" where it is optional',
            )
    for name in listed if isinstance(listed, list) else ():
        if name not in properties:
            message = f"{brief(name)} is required and is no property"
            report.add("required-unknown", node.path("required"), message)


def _check_enum(node: SchemaNode, report: FindingCollector) -> None:
    values = node.schema["enum"]
    kinds = {type_of(value) for value in values}
    for allowed, ask in report.ruleset.enums:
        for kind in sorted(kinds - allowed):
            message = f"an enum with {'an' if kind[0] in 'ao' else 'a'} {kind} is not supported"
            report.add("enum-scalar", node.path("enum"), message, ask)


def _check_const(node: SchemaNode, report: FindingCollector) -> None:
    """Check a const that is a list or an object: no enum could say it instead."""
    kind = type_of(node.schema["const"])
    for allowed, ask in report.ruleset.enums:
        if kind not in allowed:
            message = f"a const that is an {kind} is not supported"
            report.add("enum-scalar", node.path("const"), message, ask)


def _check_tuple(node: SchemaNode, report: FindingCollector) -> None:
    ask = report.ruleset.refused.get("additionalItems")  # the other half of the old form
    if ask is not None:
        message = f"a list of items is not supported: {ADVICE['tuple']}"
        report.add("tuple", node.path("items"), message, ask)


def _check_type(node: SchemaNode, report: FindingCollector) -> None:
    schema = node.schema
    if "type" in schema:
        if _ITEMS.isdisjoint(schema):
            report.add("any-value", node.path(), "the array says nothing of its items; give them")
    elif _SAYING.isdisjoint(schema):
        message = "the schema says nothing of what it admits, so it admits anything; give its type"
        report.add("any-value", node.path(), message)
    elif "enum" in schema or ("const" in schema and not _const_is_told(report)):
        report.add("enum-type", node.path(), "the values are listed, but not their type")


def _const_is_told(report: FindingCollector) -> bool:
    """Tell whether a const is a finding already, so that a note on its type would be one more."""
    ask = report.ruleset.asks.get("enum-type")
    return "const" in report.ruleset.refused and ask is not None and ask.level == "note"


def _entry_of_defs(ref: str) -> bool:
    return ref.startswith("#/$defs/") and ref.count("/") == 2


def _check_ref(document: Document, node: SchemaNode, report: FindingCollector) -> None:
    schema = node.schema
    ref = schema["$ref"]
    if len(schema) == 1 and _entry_of_defs(ref) and isinstance(document.target(ref), dict):
        return
    path = node.path("$ref")
    if not ref.startswith("#"):
        report.add("ref-not-local", path, f"{brief(ref)} leads out of the schema; move it to $defs")
    elif not isinstance(document.target(ref), (dict, bool)):
        report.add("ref-dangling", path, f"{brief(ref)} leads nowhere")
    elif ref != "#" and not _entry_of_defs(ref):
        report.add("ref-not-defs", path, f"{brief(ref)} does not lead to an entry of $defs")
    beside = [key for key in schema if not key.startswith("$") and key != "definitions"]
    if beside:
        shown = ", ".join(map(brief, beside[:3])) + (", …" if len(beside) > 3 else "")
        report.add("ref-siblings", node.path(), f"$ref must stand alone, not with {shown}")
