"""Rewrite a schema so that profiles accept it, without changing its meaning; report the rest.

Three rewrites change which values are allowed, because strict outputs require it: an object becomes
closed to fields that it does not name, an optional field becomes nullable, and a discriminator
becomes required.
"""

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

import msgspec

from modelpact.schemas.document import (
    ANNOTATIONS,
    DYNAMIC,
    Document,
    SchemaNode,
    fragment_steps,
    parse_pointer,
    pointer,
    value_at,
)
from modelpact.schemas.lint import lint_document
from modelpact.schemas.meaning import DYNAMIC_REASON, Meaning
from modelpact.schemas.profile import DEFAULT_PROFILES, compile_profiles, read_profiles
from modelpact.schemas.reading import read_document, schema_of
from modelpact.schemas.report import LintReport, SchemaFinding
from modelpact.vocabulary.errors import InputError, brief

_ROUNDS: Final = 8
_MAY_REFUSE_NULL: Final = DYNAMIC.union(["enum", "const", "$ref", "anyOf", "oneOf", "allOf"]).union(["not", "if"])
"""Keywords that may refuse a null that the type allows."""
_TYPE_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


class SchemaChange(msgspec.Struct, frozen=True):
    """A rewrite, or one that was not made: the rule, the place, and what was done or why not."""

    rule: str
    path: str
    message: str


class FixedSchema(msgspec.Struct, frozen=True):
    """A rewritten schema: what was changed, what was kept and why, and the remaining findings."""

    schema: dict[str, Any]
    changes: tuple[SchemaChange, ...]
    kept: tuple[SchemaChange, ...]
    report: LintReport


class _NotRewritten(Exception):
    """A finding is not rewritten; the message says why."""


def fix_schema(schema: Any, profiles: str | Iterable[str] = DEFAULT_PROFILES) -> FixedSchema:
    """Rewrite what profiles find in a schema, if its meaning allows it; return a new schema."""
    ruleset = compile_profiles(read_profiles(profiles))
    source = schema_of(schema)
    read_document(source)
    current = _copy(source)
    changes: dict[SchemaChange, None] = {}
    for _ in range(_ROUNDS):
        document = read_document(current)
        report = lint_document(document, ruleset)
        rewritten, kept = _rewrite(document, report, requires="required-property" in ruleset.requirements)
        changes |= dict.fromkeys(rewritten)
        if not rewritten:
            break
    return FixedSchema(current, tuple(changes), tuple(kept), report)


def _copy(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy through JSON, so that no object occurs in two places."""
    try:
        copied: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except RecursionError:
        raise InputError("the schema is nested too deeply to be rewritten") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"the schema cannot be written as JSON: {error}") from None
    return copied


def _rewrite(
    document: Document, report: LintReport, *, requires: bool
) -> tuple[list[SchemaChange], list[SchemaChange]]:
    """Rewrite once, the innermost places first, so that the pointers of the others stay valid."""
    rewritten: list[SchemaChange] = []
    kept: list[SchemaChange] = []
    fixable = [finding for finding in report.findings if finding.rule in _FIXERS]
    if not fixable:
        return rewritten, kept
    if report.findings[-1].rule == "findings":  # some rewrites are correct only together
        message = "there are too many findings to rewrite any of them"
        return rewritten, [SchemaChange("findings", "", message)]
    editor = _Editor(document, requires=requires)
    for _, level in groupby(sorted(fixable, key=_innermost_first), key=_innermost_first):
        for finding in level:
            try:
                message = _FIXERS[finding.rule](editor, finding)
            except _NotRewritten as reason:
                kept.append(SchemaChange(finding.rule, finding.path, str(reason)))
            else:
                if message:
                    rewritten.append(SchemaChange(finding.rule, finding.path, message))
        editor.write_required()
    return rewritten, kept


def _innermost_first(finding: SchemaFinding) -> int:
    return -finding.path.count("/")


class _Editor:
    """A document that is being rewritten. Pointers refer to it as it was at the start."""

    def __init__(self, document: Document, *, requires: bool) -> None:
        self.root = document.root
        self.document = document
        self.meaning = Meaning(document, requires=requires)
        self._required: dict[int, tuple[dict[str, Any], set[str]]] = {}

    def at(self, path: str) -> dict[str, Any]:
        """Return the schema at a pointer."""
        schema = value_at(self.root, parse_pointer(path))
        if not isinstance(schema, dict):
            raise _NotRewritten("its schema is not an object")
        return schema

    def node(self, schema: dict[str, Any]) -> SchemaNode:
        """Return the node of a schema of the original document."""
        node = self.document.node_of(schema)
        if node is None:
            raise _NotRewritten("it has just been rewritten")
        return node

    def require(self, schema: dict[str, Any], name: str) -> None:
        """Remember a property that becomes required; `write_required` writes all of them."""
        self._required.setdefault(id(schema), (schema, set()))[1].add(name)

    def write_required(self) -> None:
        """Write the properties that become required, in the order of the properties."""
        for schema, names in self._required.values():
            original = schema.get("required")
            required = original if isinstance(original, list) else []
            names.update(required)
            properties = schema["properties"]
            schema["required"] = [name for name in properties if name in names] + [
                name for name in required if name not in properties
            ]
        self._required.clear()


def _owner(path: str) -> str:
    return path.rpartition("/")[0]


def _fix_one_of(editor: _Editor, finding: SchemaFinding) -> str:
    schema = editor.at(_owner(finding.path))
    if "anyOf" in schema:
        raise _NotRewritten("it has an anyOf too")
    if editor.meaning.dynamic:
        raise _NotRewritten(DYNAMIC_REASON)
    if not editor.meaning.exclusion.exclusive(schema):
        raise _NotRewritten("a value could match several branches: no literal tells them apart")
    if any(id(branch) in editor.meaning.pinned for branch in schema["oneOf"]):
        raise _NotRewritten("a reference leads into it")
    _rename(schema, "oneOf", "anyOf")
    return "oneOf is now anyOf: its branches exclude each other by their literals or types"


def _rename(schema: dict[str, Any], old: str, new: str) -> None:
    items = [(new if key == old else key, value) for key, value in schema.items()]
    schema.clear()
    schema.update(items)


def _fix_const(editor: _Editor, finding: SchemaFinding) -> str:
    path = finding.path if finding.rule == "variant-discriminator-const" else _owner(finding.path)
    schema = editor.at(path)
    if "const" not in schema:
        return ""
    value = schema["const"]
    if "enum" in schema:
        raise _NotRewritten("it has an enum too")
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise _NotRewritten(f"its value is not a scalar but {brief(value)}")
    _rename(schema, "const", "enum")
    schema["enum"] = [value]
    return f"const is now enum: {json.dumps([value], ensure_ascii=False)}"


def _fix_enum_type(editor: _Editor, finding: SchemaFinding) -> str:
    schema = editor.at(finding.path)
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = {_TYPE_NAMES.get(type(value), "null" if value is None else "") for value in values}
    if "" in kinds or not kinds:
        raise _NotRewritten("its values are not scalars")
    if {"integer", "number"} <= kinds:
        kinds.discard("integer")
    names = sorted(kinds, key=lambda kind: (kind == "null", kind))
    stated = schema.get("type")
    if stated is not None and not kinds.issubset(stated if isinstance(stated, list) else [stated]):
        raise _NotRewritten("its values do not have the type that it states")
    kind = names[0] if len(names) == 1 else names
    if stated == kind:
        return ""
    schema["type"] = kind
    return f"the type of its values is now stated: {', '.join(names)}"


def _fix_open_object(editor: _Editor, finding: SchemaFinding) -> str:
    schema = editor.at(finding.path)
    if "additionalProperties" in schema:
        raise _NotRewritten("it describes other fields")
    if not schema.get("properties"):
        raise _NotRewritten("it names no fields: if it were closed, it could only be empty")
    if set(schema.get("required") or ()) - schema["properties"].keys():
        raise _NotRewritten("it requires fields that it does not name")
    if why := editor.meaning.why_fixed(editor.node(schema)):
        raise _NotRewritten(why)
    schema["additionalProperties"] = False
    return "additionalProperties is now false: fields that are not named are refused"


def _fix_optional_property(editor: _Editor, finding: SchemaFinding) -> str:
    owner, _, _ = finding.path.rpartition("/properties/")
    name = parse_pointer(finding.path)[-1]
    schema = editor.at(owner)
    discriminator = (id(schema), name) in editor.meaning.discriminators
    if why := editor.meaning.why_fixed(editor.node(schema), discriminator=discriminator):
        raise _NotRewritten(why)
    if discriminator:
        editor.require(schema, name)
        return f"{brief(name)} is now required, without null: it tells branches apart"
    value = schema["properties"][name]
    nullable = editor.meaning.allows_null(value)
    if value is False or not nullable:
        if id(value) in editor.meaning.pinned:
            raise _NotRewritten("a reference leads to it")
        schema["properties"][name] = _make_nullable(value)
    editor.require(schema, name)
    return (
        f"{brief(name)} is now required; it could be null before"
        if nullable
        else f"{brief(name)} is now required, and null if it would be absent"
    )


def _make_nullable(schema: Any) -> dict[str, Any]:
    """Return a schema that also allows null."""
    if schema is False:
        return {"type": "null"}
    if "type" in schema and _MAY_REFUSE_NULL.isdisjoint(schema):
        types = schema["type"]
        return {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]}
    annotations = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if rest.keys() == {"anyOf"}:
        return {**annotations, "anyOf": [*rest["anyOf"], {"type": "null"}]}
    return {**annotations, "anyOf": [rest, {"type": "null"}]}


def _fix_definitions(editor: _Editor, finding: SchemaFinding) -> str:
    ref = editor.at(_owner(finding.path)).get("$ref", "")
    steps = _local_steps(ref)
    if len(steps) != 2 or steps[0] != "definitions":
        if ref.startswith("#/$defs/"):
            return ""
        raise _NotRewritten("its target would have to be moved to $defs")
    if "$defs" in editor.root:
        raise _NotRewritten("the schema has both definitions and $defs")
    if editor.meaning.dynamic:
        raise _NotRewritten(DYNAMIC_REASON)
    _rename(editor.root, "definitions", "$defs")
    for node in editor.document.refs:
        ref = node.schema["$ref"]
        steps = _local_steps(ref)
        if ref.startswith("#/definitions/"):
            node.schema["$ref"] = "#/$defs/" + ref.removeprefix("#/definitions/")
        elif steps[:1] == ("definitions",):
            node.schema["$ref"] = "#" + quote(pointer(("$defs", *steps[1:])), safe="/~$")
    return "definitions are now $defs, and references to them are adapted"


def _local_steps(ref: str) -> tuple[str, ...]:
    """Return the unescaped steps of a local reference, or () for any other."""
    return fragment_steps(ref[1:]) or () if ref.startswith("#") else ()


_FIXERS: Final[dict[str, Callable[[_Editor, SchemaFinding], str]]] = {
    "one-of": _fix_one_of,
    "const": _fix_const,
    "variant-discriminator-const": _fix_const,
    "variant-discriminator-type": _fix_enum_type,
    "enum-type": _fix_enum_type,
    "closed-object": _fix_open_object,
    "required-property": _fix_optional_property,
    "ref-not-defs": _fix_definitions,
}
FIXABLE: Final = frozenset(_FIXERS)
"""The rules whose findings may be rewritten."""
