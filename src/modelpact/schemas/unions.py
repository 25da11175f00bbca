"""The branches of unions, through references and unions in unions, and what tells each apart."""

from typing import Any, Final, Literal

import msgspec

from modelpact.schemas.document import Document, says_more
from modelpact.vocabulary.errors import InputError

MOST_STEPS: Final = 1_000_000
"""Branches and literals that are looked at in all; unions in unions could ask for more."""
ALL_TYPES: Final = frozenset(["object", "array", "string", "number", "boolean", "null"])
_ANYTHING: Final[dict[str, Any]] = {}
"""What stands for a boolean, or for a reference that leads out of sight."""
_SCALARS: Final = (str, int, float, bool, type(None))

Kind = Literal["null", "plain", "object"]


class Discriminator(msgspec.Struct, frozen=True):
    """A field of a branch with one literal: where it is said, and how."""

    literal: str
    schema: dict[str, Any]
    form: Literal["enum", "const"]
    typed: bool


class Leaf(msgspec.Struct, frozen=True, eq=False):
    """A branch that is no union itself."""

    schema: dict[str, Any]
    """What it says, with what stands beside the references to it."""
    parts: tuple[dict[str, Any], ...]
    """Where that is said: beside references, the outermost first, and at their end."""
    kind: Kind
    types: frozenset[str]
    fields: dict[str, Discriminator]
    """The fields with one literal that are required."""
    loose: dict[str, Discriminator]
    """The fields with one literal that may be left out."""

    def literal(self, name: str) -> Discriminator | None:
        """Return a field with one literal, required or not."""
        return self.fields.get(name) or self.loose.get(name)


class Unions:
    """The unions of a document. Leaves are made once each."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._beside_counts = "draft-0" not in str(document.root.get("$schema", ""))
        self._leaves: dict[tuple[int, ...], Leaf] = {}
        self._ends: dict[int, tuple[Any, tuple[dict[str, Any], ...]]] = {}
        self._kinds: dict[int, Kind] = {}
        self._steps = 0

    def count(self, steps: int) -> None:
        """Count work that grows with more than the size of the schema, up to a limit."""
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise InputError(
                f"unions within unions have more than {MOST_STEPS:,} branches and literals"
            )

    def end(self, schema: Any) -> tuple[Any, tuple[dict[str, Any], ...]]:
        """Return the end of a chain of references, and those on the way that say more.

        Before draft 2019-09, what stood beside a reference said nothing.
        """
        passed: list[dict[str, Any]] = []
        found: tuple[Any, tuple[dict[str, Any], ...]] | None = None
        while isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
            found = self._ends.get(id(schema))
            if found is not None:
                break
            passed.append(schema)
            schema = self.document.target(ref)
        if found is None:
            found = (schema, ())
        for one in reversed(passed):
            if self._beside_counts and says_more(one, "$ref"):
                found = (found[0], (one, *found[1]))
                self.count(len(found[1]))
            self._ends[id(one)] = found
        return found

    def groups(self, branches: list[Any]) -> list[list[Leaf]]:
        """Return the leaves of each branch, `null` left out."""
        found = []
        for branch in branches:
            leaves = [leaf for leaf in self.leaves(branch) if leaf.kind != "null"]
            if leaves:
                found.append(leaves)
        return found

    def leaves(self, branch: Any) -> list[Leaf]:
        """Return the branches that a branch leads to, itself where it is no union."""
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
                beside = (*above, *(one for one in beside if id(one) not in known))
            key = (id(schema), *map(id, beside))
            self.count(len(key))
            if key in seen:
                continue
            seen.add(key)
            if "properties" not in schema and (inside := self._inside(schema)):
                stack += [(one, beside) for one in reversed(inside)]
            else:
                leaves.append(self._leaf(key, (*beside, schema)))
        return leaves

    def _inside(self, schema: dict[str, Any]) -> list[Any]:
        """Return the branches of a union that can be an object; others are plain values."""
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
            schema = parts[0] if len(parts) == 1 else _merged(parts)
            kind = kind_of(schema)
            fields, loose = self._literals(parts) if kind == "object" else ({}, {})
            leaf = Leaf(schema, parts, kind, types_of(schema), fields, loose)
            self._leaves[key] = leaf
        return leaf

    def _literals(
        self, parts: tuple[dict[str, Any], ...]
    ) -> tuple[dict[str, Discriminator], dict[str, Discriminator]]:
        required = {name for part in parts for name in _listed(part)}
        fields: dict[str, Discriminator] = {}
        loose: dict[str, Discriminator] = {}
        for part in parts:
            properties = _properties(part)
            if len(parts) > 1:
                self.count(len(properties))
            for name, one in properties.items():
                made = self.literal(one)
                if made is not None:
                    (fields if name in required else loose).setdefault(name, made)
        return fields, loose

    def literal(self, schema: Any) -> Discriminator | None:
        """Return the one literal that a field admits, said by itself or by what it refers to."""
        found = discriminator(schema) if isinstance(schema, dict) else None
        if found is None and isinstance(target := self.document.follow(schema), dict):
            found = discriminator(target)
        return found

    def holds_objects(self, leaf: Leaf) -> bool:
        """Tell whether a branch is a list of objects, or of such lists."""
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


def _merged(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return what parts say together: all fields, and of other words the innermost."""
    made: dict[str, Any] = {}
    for part in parts:
        made |= {key: part[key] for key in ("type", "enum", "const", "items") if key in part}
    made["properties"] = {name: one for part in parts for name, one in _properties(part).items()}
    made["required"] = [name for part in parts for name in _listed(part)]
    return made


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _listed(schema: dict[str, Any]) -> list[str]:
    found = schema.get("required")
    return found if isinstance(found, list) else []


def discriminator(schema: dict[str, Any]) -> Discriminator | None:
    """Return the one literal that a field's schema admits, or None."""
    values = schema.get("enum")
    typed = schema.get("type") in ("string", ["string"])
    if isinstance(values, list):
        if len(values) == 1 and isinstance(values[0], str) and "const" not in schema:
            return Discriminator(values[0], schema, "enum", typed)
        return None
    value = schema.get("const")
    return Discriminator(value, schema, "const", typed) if isinstance(value, str) else None


def kind_of(schema: dict[str, Any]) -> Kind:
    """Tell whether a branch is null, can only be a plain value or a list, or can be an object."""
    types = types_of(schema)
    if "object" in types:
        return "object"
    return "null" if types == {"null"} else "plain"


def types_of(schema: dict[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema says, or its values have; all where it says none."""
    said = schema.get("type")
    if said is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        return frozenset(map(type_of, values)) if isinstance(values, list) else ALL_TYPES
    listed = [said] if isinstance(said, str) else said
    return frozenset("number" if one == "integer" else one for one in listed)


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


def plain_values(schema: dict[str, Any]) -> set[tuple[str, Any]] | None:
    """Return the plain values that a schema lists, with their types; None where it lists none."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(values, list) or not all(isinstance(one, _SCALARS) for one in values):
        return None
    return {(type_of(one), one) for one in values}
