"""The branches of unions, through references and nested unions, and their discriminators."""

from typing import Any, Final, Literal

import msgspec

from modelpact.schemas.document import Document, has_other_keywords
from modelpact.vocabulary.errors import InputError

MAX_STEPS: Final = 1_000_000
"""The most branches and literals that are visited; nested unions could have more."""
ALL_TYPES: Final = frozenset(["object", "array", "string", "number", "boolean", "null"])
_ANYTHING: Final[dict[str, Any]] = {}
"""Stands for a boolean schema, or for a reference that leads outside the document."""
_SCALARS: Final = (str, int, float, bool, type(None))

Kind = Literal["null", "plain", "object"]


class Discriminator(msgspec.Struct, frozen=True):
    """A field of a branch that allows one literal: its schema, and how it is written."""

    literal: str
    schema: dict[str, Any]
    form: Literal["enum", "const"]
    typed: bool


class Leaf(msgspec.Struct, frozen=True, eq=False):
    """A branch that is not itself a union."""

    schema: dict[str, Any]
    """The merged keywords of its parts."""
    parts: tuple[dict[str, Any], ...]
    """Its schema, after the schemas whose references lead to it and have keywords of their own."""
    kind: Kind
    types: frozenset[str]
    required: dict[str, Discriminator]
    """The required fields that allow one literal."""
    optional: dict[str, Discriminator]
    """The optional fields that allow one literal."""

    def literal(self, name: str) -> Discriminator | None:
        """Return a field that allows one literal, required or optional."""
        return self.required.get(name) or self.optional.get(name)


class Unions:
    """The unions of a document. Each leaf is made once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._siblings_count = "draft-0" not in str(document.root.get("$schema", ""))
        self._leaves: dict[tuple[int, ...], Leaf] = {}
        self._ends: dict[int, tuple[Any, tuple[dict[str, Any], ...]]] = {}
        self._kinds: dict[int, Kind] = {}
        self._steps = 0

    def count(self, steps: int) -> None:
        """Count work that may grow faster than the size of the schema; raise at the limit."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise InputError(f"unions within unions have more than {MAX_STEPS:,} branches and literals")

    def end(self, schema: Any) -> tuple[Any, tuple[dict[str, Any], ...]]:
        """Return the end of a chain of references, and the schemas on the path with other keywords.

        Before draft 2019-09, keywords beside a reference are ignored.
        """
        passed: list[dict[str, Any]] = []
        end: tuple[Any, tuple[dict[str, Any], ...]] | None = None
        while isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
            end = self._ends.get(id(schema))
            if end is not None:
                break
            passed.append(schema)
            schema = self.document.target(ref)
        if end is None:
            end = (schema, ())
        for reference in reversed(passed):
            if self._siblings_count and has_other_keywords(reference, "$ref"):
                end = (end[0], (reference, *end[1]))
                self.count(len(end[1]))
            self._ends[id(reference)] = end
        return end

    def groups(self, branches: list[Any]) -> list[list[Leaf]]:
        """Return the leaves of each branch, without `null`."""
        groups = []
        for branch in branches:
            leaves = [leaf for leaf in self.leaves(branch) if leaf.kind != "null"]
            if leaves:
                groups.append(leaves)
        return groups

    def leaves(self, branch: Any) -> list[Leaf]:
        """Return the leaves of a branch: itself, or those of the union that it is."""
        leaves: list[Leaf] = []
        stack: list[tuple[Any, tuple[dict[str, Any], ...]]] = [(branch, ())]
        seen: set[tuple[int, ...]] = set()
        while stack:
            inner, above = stack.pop()
            schema, beside = self.end(inner)
            if not isinstance(schema, dict):
                schema = _ANYTHING
            if above:
                known = set(map(id, above))
                beside = (*above, *(other for other in beside if id(other) not in known))
            key = (id(schema), *map(id, beside))
            self.count(len(key))
            if key in seen:
                continue
            seen.add(key)
            if "properties" not in schema and (branches := self._object_branches(schema)):
                stack += [(inner, beside) for inner in reversed(branches)]
            else:
                leaves.append(self._leaf(key, (*beside, schema)))
        return leaves

    def _object_branches(self, schema: dict[str, Any]) -> list[Any]:
        """Return the branches of a union that can be an object, or nothing for other schemas."""
        branches = schema.get("anyOf", schema.get("oneOf"))
        if not isinstance(branches, list):
            return []
        kind = self._kinds.get(id(schema))
        if kind is None:
            kind = self._kinds[id(schema)] = kind_of(schema)
        return branches if kind == "object" else []

    def _leaf(self, key: tuple[int, ...], parts: tuple[dict[str, Any], ...]) -> Leaf:
        leaf = self._leaves.get(key)
        if leaf is None:
            schema = parts[0] if len(parts) == 1 else _merge(parts)
            kind = kind_of(schema)
            required, optional = self._literals(parts) if kind == "object" else ({}, {})
            leaf = Leaf(schema, parts, kind, types_of(schema), required, optional)
            self._leaves[key] = leaf
        return leaf

    def _literals(self, parts: tuple[dict[str, Any], ...]) -> tuple[dict[str, Discriminator], dict[str, Discriminator]]:
        """Return the required and the optional fields that allow one literal."""
        names = {name for part in parts for name in _required_names(part)}
        required: dict[str, Discriminator] = {}
        optional: dict[str, Discriminator] = {}
        for part in parts:
            properties = _properties(part)
            if len(parts) > 1:
                self.count(len(properties))
            for name, schema in properties.items():
                field = self.literal(schema)
                if field is not None:
                    (required if name in names else optional).setdefault(name, field)
        return required, optional

    def literal(self, schema: Any) -> Discriminator | None:
        """Return the one literal that a field allows, by itself or through a reference."""
        field = discriminator(schema) if isinstance(schema, dict) else None
        if field is None and isinstance(target := self.document.follow(schema), dict):
            field = discriminator(target)
        return field

    def is_list_of_objects(self, leaf: Leaf) -> bool:
        """Whether a branch is a list of objects, or of lists of objects."""
        stack, seen = [leaf], set[int]()
        while stack:
            items = stack.pop().schema.get("items")
            if not isinstance(items, dict) or id(items) in seen:
                continue
            seen.add(id(items))
            for inner in self.leaves(items):
                if inner.kind == "object":
                    return True
                stack.append(inner)
        return False


def discriminator(schema: dict[str, Any]) -> Discriminator | None:
    """Return the one literal that the schema of a field allows, or None."""
    values = schema.get("enum")
    typed = schema.get("type") in ("string", ["string"])
    if isinstance(values, list):
        if len(values) == 1 and isinstance(values[0], str) and "const" not in schema:
            return Discriminator(values[0], schema, "enum", typed)
        return None
    value = schema.get("const")
    return Discriminator(value, schema, "const", typed) if isinstance(value, str) else None


def kind_of(schema: dict[str, Any]) -> Kind:
    """Return whether a branch is null, can be an object, or is only a plain value or a list."""
    types = types_of(schema)
    if "object" in types:
        return "object"
    return "null" if types == {"null"} else "plain"


def types_of(schema: dict[str, Any]) -> frozenset[str]:
    """Return the JSON types of a schema or of its listed values; all types if it has neither."""
    stated = schema.get("type")
    if stated is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        return frozenset(map(type_of, values)) if isinstance(values, list) else ALL_TYPES
    names = [stated] if isinstance(stated, str) else stated
    return frozenset("number" if name == "integer" else name for name in names)


def type_of(value: Any) -> str:
    """Return the JSON type of a value."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if value is None:
        return "null"
    return "array" if isinstance(value, (list, tuple)) else "object"


def scalar_values(schema: dict[str, Any]) -> set[tuple[str, Any]] | None:
    """Return the scalar values that a schema lists, with their types, or None."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(values, list) or not all(isinstance(value, _SCALARS) for value in values):
        return None
    return {(type_of(value), value) for value in values}


def _merge(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Merge parts: all fields, and the innermost of other keywords."""
    merged: dict[str, Any] = {}
    for part in parts:
        merged |= {key: part[key] for key in ("type", "enum", "const", "items") if key in part}
    merged["properties"] = {name: schema for part in parts for name, schema in _properties(part).items()}
    merged["required"] = [name for part in parts for name in _required_names(part)]
    return merged


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required_names(schema: dict[str, Any]) -> list[str]:
    names = schema.get("required")
    return names if isinstance(names, list) else []
