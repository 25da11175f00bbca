"""Decide what may be rewritten in a schema without changing its meaning."""

from typing import Any, Final

from modelpact.schemas.document import DYNAMIC, Document, SchemaNode, has_other_keywords
from modelpact.schemas.unions import types_of
from modelpact.schemas.variants import Exclusion

_INVERTING: Final = frozenset(["not", "if", "contains", "propertyNames"])
"""Keywords inside which a stricter schema makes the outer one looser, or counts differently."""
_WHOLE_VALUE: Final = frozenset(["enum", "const", "uniqueItems"])
"""Keywords that compare whole values, and so depend on which fields are present."""
_COMPOSED: Final = frozenset(["allOf", "then", "else", "dependentSchemas", "dependencies"])
"""Keywords whose schemas apply to a value together with others."""
_IN_PLACE: Final = frozenset(["anyOf", "oneOf", "allOf", "then", "else"])
_OWN_FIELDS: Final = frozenset(["properties", "required", "additionalProperties"])
_PRESENCE: Final = frozenset(
    ["patternProperties", "dependentRequired", "dependentSchemas", "dependencies", "allOf", "if"]
).union(["not", "minProperties", "maxProperties", "unevaluatedProperties", "propertyNames"])
"""Keywords that depend on the presence of properties, or that add properties."""
_NOT_PLAIN: Final = DYNAMIC.union(["anyOf", "oneOf", "allOf", "not", "if", "$ref"])
_PASSES: Final = 8
DYNAMIC_REASON: Final = "there are dynamic references, and their targets depend on the evaluation path"


class Meaning:
    """Decides which objects of a document can be closed, with all properties required."""

    def __init__(self, document: Document, *, requires: bool) -> None:
        """`requires`: whether every property will be required in the end."""
        self.document = document
        self.exclusion = Exclusion(document)
        self.dynamic = any(not DYNAMIC.isdisjoint(node.schema) for node in document.nodes)
        """Whether there are dynamic references: then nothing is rewritten."""
        self._below = _children_and_targets(document)
        self._nulls: dict[int, bool] = {}
        self.pinned = self._pinned()
        """Schemas (by id) that contain the target of a reference, or are one."""
        self.fixed = self._fixed(frozenset())
        """Numbers of the nodes whose objects must not change."""
        self.discriminators: set[tuple[int, str]] = set()
        """Objects (by id) and their fields that would be discriminators if they were required."""
        self.strictly_fixed = self._strictly_fixed(self._pending()) if requires else self.fixed
        """Numbers of the nodes in which not even discriminators may become required."""

    def _pinned(self) -> set[int]:
        pinned: set[int] = set()
        for ref in self.document.refs:
            node = self.document.node_of(self.document.target(ref.schema["$ref"]))
            while node is not None and id(node.schema) not in pinned:
                pinned.add(id(node.schema))
                node = node.parent
        return pinned

    def _pending(self) -> list[tuple[SchemaNode, list[SchemaNode | None]]]:
        """Find the fields that would be discriminators if they were required.

        Return each `oneOf` that would then be exclusive, with the objects that have the field.
        """
        pending = []
        for node in dict.fromkeys(self.document.unions):
            for key in ("anyOf", "oneOf"):
                missing = self.exclusion.missing_discriminator(node.schema.get(key, []))
                if missing is None:
                    continue
                name, leaves = missing
                parts = [part for leaf in leaves for part in leaf.parts if name in part.get("properties", ())]
                self.discriminators |= {(id(part), name) for part in parts}
                if key == "oneOf" and self.exclusion.exclusive(node.schema, if_required=True):
                    pending.append((node, [self.document.node_of(part) for part in parts]))
        return pending

    def _strictly_fixed(self, pending: list[tuple[SchemaNode, list[SchemaNode | None]]]) -> set[int]:
        """Return the fixed nodes without those that are fixed only by a pending `oneOf`.

        A `oneOf` becomes exclusive only if all of its discriminators can become required, which
        other unions may prevent.
        """
        for _ in range(_PASSES):
            fixed = self._fixed(frozenset(id(node.schema) for node, _ in pending))
            possible = [
                (node, parts)
                for node, parts in pending
                if all(part is not None and part.number not in fixed for part in parts)
            ]
            if len(possible) == len(pending):
                return fixed
            pending = possible
        return self.fixed

    def _fixed(self, exclusive: frozenset[int]) -> set[int]:
        if self.dynamic:
            return {node.number for node in self.document.nodes}
        deep: list[int] = []
        shallow: list[int] = []
        for node in self.document.nodes:
            schema, step = node.schema, node.steps[0] if node.steps else ""
            if step in _INVERTING or not _WHOLE_VALUE.isdisjoint(schema) or self._may_overlap(node, step, exclusive):
                deep.append(node.number)
            elif step in _COMPOSED or not _PRESENCE.isdisjoint(schema) or _has_own_fields(schema):
                shallow.append(node.number)
        return self._reach(deep, in_place=False) | self._reach(shallow, in_place=True)

    def _may_overlap(self, node: SchemaNode, step: str | int, exclusive: frozenset[int]) -> bool:
        return (
            step == "oneOf"
            and node.parent is not None
            and id(node.parent.schema) not in exclusive
            and not self.exclusion.exclusive(node.parent.schema)
        )

    def _reach(self, start: list[int], *, in_place: bool) -> set[int]:
        reached, stack = set(start), list(start)
        while stack:
            number = stack.pop()
            for inner in self._below[number]:
                node = self.document.nodes[inner]
                same = node.parent is not self.document.nodes[number] or node.steps[0] in _IN_PLACE
                if in_place and not same:
                    continue
                if inner not in reached:
                    reached.add(inner)
                    stack.append(inner)
        return reached

    def why_fixed(self, node: SchemaNode, *, discriminator: bool = False) -> str:
        """Explain why an object must not change, or return an empty string if it may.

        Fewer objects must keep a `discriminator` optional than other fields.
        """
        if self.dynamic:
            return DYNAMIC_REASON
        if node.number in (self.strictly_fixed if discriminator else self.fixed):
            return "it applies together with other schemas, so the change could alter the meaning"
        return ""

    def allows_null(self, schema: Any) -> bool:
        """Whether null is certainly allowed."""
        end, beside = self.exclusion.unions.end(schema)
        if beside or not isinstance(end, dict):
            return not beside and end is True
        allowed = self._nulls.get(id(end))
        if allowed is None:
            allowed = self._nulls[id(end)] = self._allows_null(end)
        return allowed

    def _allows_null(self, schema: dict[str, Any]) -> bool:
        for _ in range(8):
            if "anyOf" not in schema:
                break
            if has_other_keywords(schema, "anyOf"):
                return False
            if any(self._plainly_allows_null(branch) for branch in schema["anyOf"]):
                return True
            schema, beside = self.exclusion.unions.end(schema["anyOf"][-1])
            if beside or not isinstance(schema, dict):
                return False
        return self._plainly_allows_null(schema)

    def _plainly_allows_null(self, schema: Any) -> bool:
        end, beside = self.exclusion.unions.end(schema)
        if beside or not isinstance(end, dict):
            return not beside and end is True
        if not _NOT_PLAIN.isdisjoint(end):
            return False
        return (
            ("type" not in end or "null" in types_of(end))
            and ("enum" not in end or any(value is None for value in end["enum"]))
            and ("const" not in end or end["const"] is None)
        )


def _children_and_targets(document: Document) -> list[list[int]]:
    """Return, for each node, the numbers of its children and of the targets of its references."""
    below: list[list[int]] = [[] for _ in document.nodes]
    for node in document.nodes:
        if node.parent is not None and node.inner:
            below[node.parent.number].append(node.number)
    for node in document.refs:
        target = document.node_of(document.target(node.schema["$ref"]))
        if target is not None:
            below[node.number].append(target.number)
    return below


def _has_own_fields(schema: dict[str, Any]) -> bool:
    """Whether a schema with a union or a reference also has fields of its own."""
    composed = "anyOf" in schema or "oneOf" in schema or "$ref" in schema
    return composed and not _OWN_FIELDS.isdisjoint(schema)
