"""Rewriting: what can be said in another way without changing its meaning; the rest is told.

Three rewrites change what is admitted, as strict outputs ask, and only so: an object is closed to
fields that it does not name, a field that could be left out is null instead, and one that tells
the branches of a union apart is there.
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
    pointer,
    step_into,
    steps_of,
)
from modelpact.schemas.lint import lint_document
from modelpact.schemas.meaning import DYNAMIC_REASON, Meaning
from modelpact.schemas.profile import DEFAULT_PROFILES, compile_profiles, read_profiles
from modelpact.schemas.reading import read_document, schema_of
from modelpact.schemas.report import LintReport, SchemaFinding
from modelpact.vocabulary.errors import InputError, brief

_ROUNDS: Final = 8
_NOT_BY_TYPE: Final = DYNAMIC.union(["enum", "const", "$ref", "anyOf", "oneOf", "allOf"]).union(
    ["not", "if"]
)
"""Words that may refuse a null that the type admits."""
_TYPE_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


class SchemaChange(msgspec.Struct, frozen=True):
    """One rewrite, or one that was not made: the finding's rule and place, and what or why not."""

    rule: str
    path: str
    message: str


class FixedSchema(msgspec.Struct, frozen=True):
    """A rewritten schema, what was done, what could not be done and why, and what is left."""

    schema: dict[str, Any]
    changes: tuple[SchemaChange, ...]
    kept: tuple[SchemaChange, ...]
    report: LintReport


class _Keep(Exception):
    """Why something is not rewritten."""


def fix_schema(schema: Any, profiles: str | Iterable[str] = DEFAULT_PROFILES) -> FixedSchema:
    """Rewrite what profiles find in a schema where its meaning allows; the input is not changed."""
    ruleset = compile_profiles(read_profiles(profiles))
    source = schema_of(schema)
    read_document(source)
    current = _copy(source)
    changes: dict[SchemaChange, None] = {}
    for _ in range(_ROUNDS):
        document = read_document(current)
        report = lint_document(document, ruleset)
        made, kept = _round(document, report, requires="required-property" in ruleset.asks)
        changes |= dict.fromkeys(made)
        if not made:
            break
    return FixedSchema(current, tuple(changes), tuple(kept), report)


def _copy(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy through JSON, so that no two places share an object."""
    try:
        copied: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except RecursionError:
        raise InputError("the schema is nested too deeply to be rewritten") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"the schema cannot be written as JSON: {error}") from None
    return copied


def _round(
    document: Document, report: LintReport, *, requires: bool
) -> tuple[list[SchemaChange], list[SchemaChange]]:
    """Rewrite once, the innermost places first, so that the others keep their pointers."""
    made: list[SchemaChange] = []
    kept: list[SchemaChange] = []
    fixable = [one for one in report.findings if one.rule in _FIXERS]
    if not fixable:
        return made, kept
    if report.findings[-1].rule == "findings":  # some rewrites are right only all together
        return made, [SchemaChange("findings", "", "there are too many findings to rewrite any")]
    editor = _Editor(document, requires=requires)
    for _, level in groupby(sorted(fixable, key=_outwards), key=_outwards):
        for finding in level:
            try:
                done = _FIXERS[finding.rule](editor, finding)
            except _Keep as reason:
                kept.append(SchemaChange(finding.rule, finding.path, str(reason)))
            else:
                if done:
                    made.append(SchemaChange(finding.rule, finding.path, done))
        editor.write_required()
    return made, kept


def _outwards(finding: SchemaFinding) -> int:
    return -finding.path.count("/")


class _Editor:
    """A document under way: places are looked up in what it was when the round began."""

    def __init__(self, document: Document, *, requires: bool) -> None:
        self.root = document.root
        self.document = document
        self.meaning = Meaning(document, requires=requires)
        self._required: dict[int, tuple[dict[str, Any], set[str]]] = {}

    def at(self, path: str) -> dict[str, Any]:
        """Return the schema at a pointer."""
        found = step_into(self.root, steps_of(path))
        if not isinstance(found, dict):
            raise _Keep("what stands there is no object")
        return found

    def node(self, schema: dict[str, Any]) -> SchemaNode:
        """Return the node of a schema that was there when the round began."""
        node = self.document.node_of(schema)
        if node is None:
            raise _Keep("it was rewritten just before")
        return node

    def require(self, schema: dict[str, Any], name: str) -> None:
        """Have a property listed as required, together with others of its object."""
        self._required.setdefault(id(schema), (schema, set()))[1].add(name)

    def write_required(self) -> None:
        """List what was to be required, in the order of the properties."""
        for schema, names in self._required.values():
            before = schema.get("required")
            listed = before if isinstance(before, list) else []
            names.update(listed)
            properties = schema["properties"]
            schema["required"] = [one for one in properties if one in names] + [
                one for one in listed if one not in properties
            ]
        self._required.clear()


def _owner(path: str) -> str:
    return path.rpartition("/")[0]


def _one_of(editor: _Editor, finding: SchemaFinding) -> str:
    schema = editor.at(_owner(finding.path))
    if "anyOf" in schema:
        raise _Keep("there is an anyOf beside it")
    if editor.meaning.dynamic:
        raise _Keep(DYNAMIC_REASON)
    if not editor.meaning.exclusion.exclusive(schema):
        raise _Keep("a value could match several branches: no literal tells them apart")
    if any(id(branch) in editor.meaning.pinned for branch in schema["oneOf"]):
        raise _Keep("a reference leads into it")
    _rename(schema, "oneOf", "anyOf")
    return "oneOf is now anyOf: its branches exclude each other by their literals or types"


def _rename(schema: dict[str, Any], old: str, new: str) -> None:
    items = [(new if key == old else key, value) for key, value in schema.items()]
    schema.clear()
    schema.update(items)


def _const(editor: _Editor, finding: SchemaFinding) -> str:
    path = finding.path if finding.rule == "variant-discriminator-const" else _owner(finding.path)
    schema = editor.at(path)
    if "const" not in schema:
        return ""
    value = schema["const"]
    if "enum" in schema:
        raise _Keep("there is an enum beside it")
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise _Keep(f"its value is no plain one but {brief(value)}")
    _rename(schema, "const", "enum")
    schema["enum"] = [value]
    return f"const is now enum: {json.dumps([value], ensure_ascii=False)}"


def _enum_type(editor: _Editor, finding: SchemaFinding) -> str:
    schema = editor.at(finding.path)
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = {_TYPE_NAMES.get(type(one), "null" if one is None else "") for one in values}
    if "" in kinds or not kinds:
        raise _Keep("its values are not plain")
    if {"integer", "number"} <= kinds:
        kinds.discard("integer")
    listed = sorted(kinds, key=lambda kind: (kind == "null", kind))
    said = schema.get("type")
    if said is not None and not kinds.issubset(said if isinstance(said, list) else [said]):
        raise _Keep("it says a type that its values are not of")
    type_ = listed[0] if len(listed) == 1 else listed
    if said == type_:
        return ""
    schema["type"] = type_
    return f"the type of its values is said: {', '.join(listed)}"


def _closed(editor: _Editor, finding: SchemaFinding) -> str:
    schema = editor.at(finding.path)
    if "additionalProperties" in schema:
        raise _Keep("it says which other fields it takes")
    if not schema.get("properties"):
        raise _Keep("it names no fields: closed, it could only be empty")
    if set(schema.get("required") or ()) - schema["properties"].keys():
        raise _Keep("it requires fields that it does not name")
    if why := editor.meaning.why_fixed(editor.node(schema)):
        raise _Keep(why)
    schema["additionalProperties"] = False
    return "additionalProperties is now false: fields that are not named are refused"


def _required(editor: _Editor, finding: SchemaFinding) -> str:
    above, _, _ = finding.path.rpartition("/properties/")
    name = steps_of(finding.path)[-1]
    schema = editor.at(above)
    telling = (id(schema), name) in editor.meaning.telling
    if why := editor.meaning.why_fixed(editor.node(schema), telling=telling):
        raise _Keep(why)
    if telling:
        editor.require(schema, name)
        return f"{brief(name)} is now required, without null: it tells branches apart"
    value = schema["properties"][name]
    nullable = editor.meaning.admits_null(value)
    if value is False or not nullable:
        if id(value) in editor.meaning.pinned:
            raise _Keep("a reference leads to it")
        schema["properties"][name] = _nullable(value)
    editor.require(schema, name)
    return (
        f"{brief(name)} is now required; it could be null before"
        if nullable
        else f"{brief(name)} is now required, and null where it was left out"
    )


def _nullable(schema: Any) -> dict[str, Any]:
    """Return a schema that also admits null."""
    if schema is False:
        return {"type": "null"}
    if "type" in schema and _NOT_BY_TYPE.isdisjoint(schema):
        said = schema["type"]
        return {**schema, "type": [*([said] if isinstance(said, str) else said), "null"]}
    about = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if rest.keys() == {"anyOf"}:
        return {**about, "anyOf": [*rest["anyOf"], {"type": "null"}]}
    return {**about, "anyOf": [rest, {"type": "null"}]}


def _definitions(editor: _Editor, finding: SchemaFinding) -> str:
    ref = editor.at(_owner(finding.path)).get("$ref", "")
    steps = _local_steps(ref)
    if len(steps) != 2 or steps[0] != "definitions":
        if ref.startswith("#/$defs/"):
            return ""
        raise _Keep("what it leads to would have to be moved to $defs")
    if "$defs" in editor.root:
        raise _Keep("there are definitions and $defs")
    if editor.meaning.dynamic:
        raise _Keep(DYNAMIC_REASON)
    _rename(editor.root, "definitions", "$defs")
    for node in editor.document.refs:
        ref = node.schema["$ref"]
        steps = _local_steps(ref)
        if ref.startswith("#/definitions/"):
            node.schema["$ref"] = "#/$defs/" + ref.removeprefix("#/definitions/")
        elif steps[:1] == ("definitions",):
            node.schema["$ref"] = "#" + quote(pointer(("$defs", *steps[1:])), safe="/~$")
    return "definitions are now $defs, and what refers to them follows"


def _local_steps(ref: str) -> tuple[str, ...]:
    """Return where a reference leads in the document, its escapes read; () where it does not."""
    return fragment_steps(ref[1:]) or () if ref.startswith("#") else ()


_FIXERS: Final[dict[str, Callable[[_Editor, SchemaFinding], str]]] = {
    "one-of": _one_of,
    "const": _const,
    "variant-discriminator-const": _const,
    "variant-discriminator-type": _enum_type,
    "enum-type": _enum_type,
    "closed-object": _closed,
    "required-property": _required,
    "ref-not-defs": _definitions,
}
FIXABLE: Final = frozenset(_FIXERS)
"""The rules that may be rewritten."""
