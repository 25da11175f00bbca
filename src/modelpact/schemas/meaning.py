"""What may be rewritten in a schema without changing what it means."""

from typing import Any, Final

from modelpact.schemas.document import DYNAMIC, Document, SchemaNode, says_more
from modelpact.schemas.exclusion import Exclusion
from modelpact.schemas.unions import types_of

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
_NOT_PLAIN: Final = DYNAMIC.union(["anyOf", "oneOf", "allOf", "not", "if", "$ref"])
_PASSES: Final = 8
DYNAMIC_REASON: Final = "there are dynamic references, and where they lead depends on the way"


class Meaning:
    """Which objects of a document can be closed and made all-required, and what is exclusive."""

    def __init__(self, document: Document, *, requires: bool) -> None:
        """`requires` tells whether every property is to be required in the end."""
        self.document = document
        self.exclusion = Exclusion(document)
        self.dynamic = any(not DYNAMIC.isdisjoint(node.schema) for node in document.nodes)
        """Whether references lead to places that depend on the way there: all stays as it is."""
        self._below = _below(document)
        self._nulls: dict[int, bool] = {}
        self.pinned = self._pinned()
        """Schemas that a reference leads to or into, without going through definitions."""
        self.fixed = self._fixed(frozenset())
        """Numbers of the nodes whose objects stay as they are."""
        self.telling: set[tuple[int, str]] = set()
        """Objects (by id) and their fields that would tell branches apart if they were required."""
        self.held = self._held(self._waiting()) if requires else self.fixed
        """Numbers of the nodes in which not even such fields are required."""

    def _pinned(self) -> set[int]:
        found: set[int] = set()
        for ref in self.document.refs:
            node = self.document.node_of(self.document.target(ref.schema["$ref"]))
            while node is not None and id(node.schema) not in found:
                found.add(id(node.schema))
                node = node.parent
        return found

    def _waiting(self) -> list[tuple[SchemaNode, list[SchemaNode | None]]]:
        """Find the fields that would tell branches apart.

        Return each `oneOf` that then excludes overlaps, and the objects that it waits for.
        """
        waiting = []
        for node in dict.fromkeys(self.document.unions):
            for key in ("anyOf", "oneOf"):
                found = self.exclusion.would_tell(node.schema.get(key, []))
                if found is None:
                    continue
                name, leaves = found
                parts = [
                    part
                    for leaf in leaves
                    for part in leaf.parts
                    if name in part.get("properties", ())
                ]
                self.telling |= {(id(part), name) for part in parts}
                if key == "oneOf" and self.exclusion.exclusive(node.schema, loose=True):
                    waiting.append((node, [self.document.node_of(part) for part in parts]))
        return waiting

    def _held(self, waiting: list[tuple[SchemaNode, list[SchemaNode | None]]]) -> set[int]:
        """Spare what is held only by a `oneOf` that is exclusive once its fields are required.

        That is so only where all of them can be, which other unions may prevent.
        """
        for _ in range(_PASSES):
            held = self._fixed(frozenset(id(node.schema) for node, _ in waiting))
            able = [
                (node, parts)
                for node, parts in waiting
                if all(part is not None and part.number not in held for part in parts)
            ]
            if len(able) == len(waiting):
                return held
            waiting = able
        return self.fixed

    def _fixed(self, spared: frozenset[int]) -> set[int]:
        if self.dynamic:
            return {node.number for node in self.document.nodes}
        deep: list[int] = []
        shallow: list[int] = []
        for node in self.document.nodes:
            schema, step = node.schema, node.steps[0] if node.steps else ""
            if (
                step in _TURNED
                or not _WHOLE.isdisjoint(schema)
                or self._may_overlap(node, step, spared)
            ):
                deep.append(node.number)
            elif step in _COMPOSED or not _PRESENCE.isdisjoint(schema) or _has_more(schema):
                shallow.append(node.number)
        found = self._reach(deep, in_place=False)
        return found | self._reach(shallow, in_place=True)

    def _may_overlap(self, node: SchemaNode, step: str | int, spared: frozenset[int]) -> bool:
        return (
            step == "oneOf"
            and node.parent is not None
            and id(node.parent.schema) not in spared
            and not self.exclusion.exclusive(node.parent.schema)
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

    def why_fixed(self, node: SchemaNode, *, telling: bool = False) -> str:
        """Say why an object, or a field that tells branches apart, stays; empty where it need not.

        Not so much keeps such a field from being required.
        """
        if self.dynamic:
            return DYNAMIC_REASON
        if node.number in (self.held if telling else self.fixed):
            return "it holds together with other schemas, or where that would change the meaning"
        return ""

    def admits_null(self, schema: Any) -> bool:
        """Tell whether null is surely admitted."""
        end, beside = self.exclusion.unions.end(schema)
        if beside or not isinstance(end, dict):
            return not beside and end is True
        found = self._nulls.get(id(end))
        if found is None:
            found = self._nulls[id(end)] = self._finds_null(end)
        return found

    def _finds_null(self, schema: dict[str, Any]) -> bool:
        for _ in range(8):
            if "anyOf" not in schema:
                break
            if says_more(schema, "anyOf"):
                return False
            if any(self._plain_null(one) for one in schema["anyOf"]):
                return True
            schema, beside = self.exclusion.unions.end(schema["anyOf"][-1])
            if beside or not isinstance(schema, dict):
                return False
        return self._plain_null(schema)

    def _plain_null(self, schema: Any) -> bool:
        end, beside = self.exclusion.unions.end(schema)
        if beside or not isinstance(end, dict):
            return not beside and end is True
        if not _NOT_PLAIN.isdisjoint(end):
            return False
        return (
            ("type" not in end or "null" in types_of(end))
            and ("enum" not in end or any(one is None for one in end["enum"]))
            and ("const" not in end or end["const"] is None)
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
