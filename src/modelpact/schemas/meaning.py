"""What may be rewritten in a schema without changing what it means."""

from typing import Any, Final

from modelpact.schemas.document import Document, Node
from modelpact.schemas.lint import ANNOTATIONS
from modelpact.schemas.pointer import MISSING
from modelpact.schemas.variants import Leaf, Unions, literal_twice

_TURNED: Final = frozenset(["not", "if", "contains", "propertyNames"])
"""Where admitting less elsewhere means admitting more, or counting otherwise."""
_WHOLE: Final = frozenset(["enum", "const", "uniqueItems"])
"""Words that look at a value as a whole, and so at fields that are there or not."""
_COMPOSED: Final = frozenset(["allOf", "then", "else", "dependentSchemas", "dependencies"])
"""Where a schema holds together with others for the same value."""
_IN_PLACE: Final = frozenset(["anyOf", "oneOf", "allOf", "then", "else"])
_OWN_FIELDS: Final = frozenset(["properties", "required", "additionalProperties"])
_PRESENCE: Final = frozenset(
    ["patternProperties", "dependentRequired", "dependentSchemas", "dependencies", "allOf", "if"]
).union(["not", "minProperties", "maxProperties", "unevaluatedProperties", "propertyNames"])
"""Words by which it matters whether a property is there, or that bring properties of their own."""
_SCALARS: Final = (str, int, float, bool, type(None))
_ALL: Final = frozenset(["object", "array", "string", "number", "boolean", "null"])


class Meaning:
    """Which objects of a document can be closed and made all-required, and what is exclusive."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.unions = Unions(document)
        self._below = _below(document)
        self._exclusive: dict[int, bool] = {}
        self.pinned = self._pinned()
        """Schemas that a reference leads to or into, without going through definitions."""
        self.fixed = self._fixed()
        """Numbers of the nodes whose objects stay as they are."""

    def _pinned(self) -> set[int]:
        found: set[int] = set()
        for ref in self.document.refs:
            node = self.document.node_of(self.document.target(ref.schema["$ref"]))
            while node is not None and id(node.schema) not in found:
                found.add(id(node.schema))
                node = node.parent
        return found

    def _fixed(self) -> set[int]:
        deep: list[int] = []
        shallow: list[int] = []
        for node in self.document.nodes:
            schema, step = node.schema, node.steps[0] if node.steps else ""
            if step in _TURNED or not _WHOLE.isdisjoint(schema) or self._may_overlap(node, step):
                deep.append(node.number)
            elif step in _COMPOSED or not _PRESENCE.isdisjoint(schema) or _has_more(schema):
                shallow.append(node.number)
        found = self._reach(deep, in_place=False)
        return found | self._reach(shallow, in_place=True)

    def _may_overlap(self, node: Node, step: str | int) -> bool:
        return (
            step == "oneOf" and node.parent is not None and not self.exclusive(node.parent.schema)
        )

    def _reach(self, start: list[int], *, in_place: bool) -> set[int]:
        found, stack = set(start), list(start)
        while stack:
            number = stack.pop()
            for inner in self._below[number]:
                node = self.document.nodes[inner]
                same = node.parent is not self.document.nodes[number] or node.steps[0] in _IN_PLACE
                if in_place and not same:
                    continue
                if inner not in found:
                    found.add(inner)
                    stack.append(inner)
        return found

    def why_fixed(self, node: Node) -> str:
        """Say why an object stays as it is; empty where it need not."""
        if node.number in self.fixed:
            return "it holds together with other schemas, or where that would change the meaning"
        return ""

    def exclusive(self, owner: dict[str, Any]) -> bool:
        """Tell whether no value can match two branches of a `oneOf`."""
        found = self._exclusive.get(id(owner))
        if found is None:
            found = self._exclusive[id(owner)] = self._find_exclusive(owner)
        return found

    def _find_exclusive(self, owner: dict[str, Any]) -> bool:
        within = _types(owner) if "type" in owner else _ALL
        groups = [self.unions.leaves(branch) for branch in owner["oneOf"]]
        owners: dict[str, list[int]] = {}
        for place, group in enumerate(groups):
            for kind in {kind for leaf in group for kind in _types(leaf.schema) & within}:
                owners.setdefault(kind, []).append(place)
        return all(
            len(places) < 2 or _apart([groups[place] for place in places], kind)
            for kind, places in owners.items()
        )

    def admits_null(self, schema: Any) -> bool:
        """Tell whether null is surely admitted."""
        for _ in range(8):
            schema = self.document.follow(schema)
            if schema is True:
                return True
            if not isinstance(schema, dict) or schema is MISSING:
                return False
            if "anyOf" not in schema:
                break
            if not _bare(schema, "anyOf"):
                return False
            nulls = [one for one in schema["anyOf"] if self._plain_null(one)]
            if nulls:
                return True
            schema = schema["anyOf"][-1]
        return isinstance(schema, dict) and self._plain_null(schema)

    def _plain_null(self, schema: Any) -> bool:
        schema = self.document.follow(schema)
        if not isinstance(schema, dict):
            return schema is True
        if not frozenset(schema).isdisjoint(["anyOf", "oneOf", "allOf", "not", "if", "$ref"]):
            return False
        return (
            ("type" not in schema or "null" in _types(schema))
            and ("enum" not in schema or any(one is None for one in schema["enum"]))
            and ("const" not in schema or schema["const"] is None)
        )


def _below(document: Document) -> list[list[int]]:
    """Return, for each node, the numbers of those in it and of what it refers to."""
    below: list[list[int]] = [[] for _ in document.nodes]
    for node in document.nodes:
        if node.parent is not None and node.inner:
            below[node.parent.number].append(node.number)
    for node in document.refs:
        target = document.node_of(document.target(node.schema["$ref"]))
        if target is not None:
            below[node.number].append(target.number)
    return below


def _has_more(schema: dict[str, Any]) -> bool:
    """Tell whether a schema has fields of its own beside a union's or a reference's."""
    beside = "anyOf" in schema or "oneOf" in schema or "$ref" in schema
    return beside and not _OWN_FIELDS.isdisjoint(schema)


def _bare(schema: dict[str, Any], word: str = "$ref") -> bool:
    """Tell whether a schema is one word and annotations."""
    return all(key == word or key in ANNOTATIONS or key.startswith("$") for key in schema)


def _types(schema: dict[str, Any]) -> frozenset[str]:
    said = schema.get("type")
    if said is None:
        values = _values(schema)
        return _ALL if values is None else frozenset(kind for kind, _ in values)
    listed = [said] if isinstance(said, str) else said
    return frozenset("number" if one == "integer" else one for one in listed)


def _values(schema: dict[str, Any]) -> set[tuple[str, Any]] | None:
    """Return the plain values that a schema lists, with their types; None where it lists none."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(values, list) or not all(isinstance(one, _SCALARS) for one in values):
        return None
    return {(_kind(one), one) for one in values}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _apart(groups: list[list[Leaf]], kind: str) -> bool:
    """Tell whether branches that admit one type are told apart by their literals."""
    having = [[leaf for leaf in group if kind in _types(leaf.schema)] for group in groups]
    if kind == "object":
        first = having[0][0].fields if having[0] else {}
        return any(
            all(name in leaf.fields for group in having for leaf in group)
            and literal_twice(having, name) is None
            for name in first
        )
    seen: dict[tuple[str, Any], int] = {}
    for place, group in enumerate(having):
        for leaf in group:
            values = _values(leaf.schema)
            if values is None:
                return False
            for value in values:
                if value[0] == kind and seen.setdefault(value, place) != place:
                    return False
    return True
