"""Documents: the nodes and references of a schema, and the JSON pointers to them."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from modelpact.vocabulary.errors import InputError, brief

MISSING: Final = object()
"""The target of a pointer that has none."""
_OBJECT_KEYWORDS: Final = frozenset(["properties", "required", "additionalProperties", "patternProperties"])

ANNOTATIONS: Final = frozenset(["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"])
"""Keywords that describe a schema without restricting its values."""
DYNAMIC: Final = frozenset(["$dynamicRef", "$recursiveRef"])
"""References whose target depends on the evaluation path; they are not followed."""


class SchemaNode(msgspec.Struct, eq=False):
    """A subschema, with its place in the document."""

    schema: dict[str, Any]
    parent: "SchemaNode | None"
    steps: tuple[str | int, ...]
    """The steps from the parent, or from the root if there is no parent."""
    level: int = 0
    optional: bool = False
    """Whether this is an optional property."""
    inner: bool = True
    """Whether instances of the parent contain or are instances of this; not so for definitions."""
    number: int = -1
    """Its position in the order of reading; a parent comes before its children."""
    depth: int = 0
    """How many objects contain it, itself included, without following references."""
    length: int = 0
    """The approximate length of its pointer."""

    def all_steps(self) -> tuple[str | int, ...]:
        """Return the steps from the root."""
        steps: list[tuple[str | int, ...]] = []
        node: SchemaNode | None = self
        while node is not None:
            steps.append(node.steps)
            node = node.parent
        return tuple(step for part in reversed(steps) for step in part)

    def path(self, *more: str | int) -> str:
        """Return the JSON pointer to this node, or to something inside it."""
        return pointer((*self.all_steps(), *more))


class Document:
    """A schema that was read: its nodes by kind, and its references."""

    __slots__ = (
        "_ends",
        "_targets",
        "anchors",
        "booleans",
        "by_id",
        "nodes",
        "objects",
        "refs",
        "root",
        "tuples",
        "unions",
    )

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.nodes: list[SchemaNode] = []
        self.booleans: list[SchemaNode] = []
        """Nodes that are `true` or `false`."""
        self.objects: list[SchemaNode] = []
        self.refs: list[SchemaNode] = []
        self.unions: list[SchemaNode] = []
        """Nodes with `anyOf` or `oneOf`."""
        self.tuples: list[SchemaNode] = []
        """Nodes whose `items` is a list: the form of tuples before draft 2020-12."""
        self.anchors: dict[str, dict[str, Any]] = {}
        self.by_id: dict[int, SchemaNode] = {}
        self._targets: dict[str, Any] = {}
        self._ends: dict[str, Any] = {}

    def target(self, ref: str) -> Any:
        """Return the target of a reference in this document: an object, a boolean or `MISSING`."""
        target = self._targets.get(ref)
        if target is None:
            target = self._targets[ref] = self._find(ref)
        return target

    def _find(self, ref: str) -> Any:
        if not ref.startswith("#"):
            return MISSING
        steps = fragment_steps(ref[1:])
        if steps is None:
            return self.anchors.get(ref[1:], MISSING)
        target = value_at(self.root, steps)
        return target if isinstance(target, (dict, bool)) else MISSING

    def follow(self, schema: Any) -> Any:
        """Return the schema at the end of a chain of references, or `MISSING`."""
        passed: dict[str, None] = {}
        while isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
            if ref in self._ends:
                schema = self._ends[ref]
                break
            if ref in passed:
                names = " → ".join(brief(name) for name in [*passed][-5:])
                raise InputError(f"the reference {names} refers only to itself and describes nothing")
            passed[ref] = None
            schema = self.target(ref)
        for ref in passed:
            self._ends[ref] = schema
        return schema

    def node_of(self, schema: Any) -> SchemaNode | None:
        """Return the node of a schema object of this document."""
        return self.by_id.get(id(schema))


def is_object(schema: dict[str, Any]) -> bool:
    """Whether a schema describes objects, by its type or by keywords that only objects have."""
    kind = schema.get("type")
    if kind is None:
        return not _OBJECT_KEYWORDS.isdisjoint(schema)
    return kind == "object" or (kind.__class__ is list and "object" in kind)


def has_other_keywords(schema: dict[str, Any], keyword: str) -> bool:
    """Whether a schema has keywords other than this one that restrict its values."""
    return any(
        key != keyword
        and key not in ANNOTATIONS
        and key != "definitions"
        and (not key.startswith("$") or key in DYNAMIC or key == "$ref")
        for key in schema
    )


def pointer(steps: Iterable[str | int]) -> str:
    """Write steps as a JSON pointer."""
    return "".join(
        f"/{step}" if isinstance(step, int) else f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps
    )


def fragment_steps(fragment: str) -> tuple[str, ...] | None:
    """Parse the fragment of a reference, without `#`, as a pointer, or return None."""
    text = unquote(fragment)
    if not text:
        return ()
    if not text.startswith("/"):
        return None
    return parse_pointer(text)


def parse_pointer(text: str) -> tuple[str, ...]:
    """Parse a JSON pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def value_at(value: Any, steps: Iterable[str]) -> Any:
    """Return the value at some steps, or `MISSING`."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            index = int(step) if len(step) < 9 and (step == "0" or step[0] != "0") else len(value)
            value = value[index] if index < len(value) else MISSING
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value
