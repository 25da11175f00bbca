"""JSON pointers, and the references that hold them in a fragment."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from modelpact.vocabulary.errors import InputError, brief

MISSING: Final = object()
"""What a pointer leads to when it leads nowhere."""


def pointer(steps: Iterable[str | int]) -> str:
    """Write steps as a JSON pointer."""
    return "".join(
        f"/{step}" if isinstance(step, int) else f"/{step.replace('~', '~0').replace('/', '~1')}"
        for step in steps
    )


def fragment_steps(fragment: str) -> tuple[str, ...] | None:
    """Read the fragment of a reference, without `#`, as a pointer; None where it is none."""
    text = unquote(fragment)
    if not text:
        return ()
    if not text.startswith("/"):
        return None
    return steps_of(text)


def steps_of(text: str) -> tuple[str, ...]:
    """Read a JSON pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def step_into(value: Any, steps: Iterable[str]) -> Any:
    """Return what stands at a place, or `MISSING`."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            place = int(step) if len(step) < 9 and (step == "0" or step[0] != "0") else len(value)
            value = value[place] if place < len(value) else MISSING
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


_OBJECT_WORDS: Final = frozenset(
    ["properties", "required", "additionalProperties", "patternProperties"]
)

ANNOTATIONS: Final = frozenset(
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"]
)
"""Words about a schema that admit or refuse nothing."""
DYNAMIC: Final = frozenset(["$dynamicRef", "$recursiveRef"])
"""References whose target depends on the way there; they are not followed."""


class SchemaNode(msgspec.Struct, eq=False):
    """A schema within the schema: where it stands, and in what."""

    schema: dict[str, Any]
    parent: "SchemaNode | None"
    steps: tuple[str | int, ...]
    """The steps from the parent, or from the root where there is no parent."""
    level: int = 0
    optional: bool = False
    """Whether this is a property that may be left out."""
    inner: bool = True
    """Whether an instance of the parent holds or is one of this; not so for definitions."""
    number: int = -1
    """Its place in the order of reading; a parent comes before what is in it."""
    depth: int = 0
    """How many objects it is in, itself included, references left aside."""
    length: int = 0
    """About the characters of its pointer."""

    def place(self) -> tuple[str | int, ...]:
        """Return the steps from the root."""
        steps: list[tuple[str | int, ...]] = []
        node: SchemaNode | None = self
        while node is not None:
            steps.append(node.steps)
            node = node.parent
        return tuple(step for part in reversed(steps) for step in part)

    def path(self, *more: str | int) -> str:
        """Return the JSON pointer to this, or to something in it."""
        return pointer((*self.place(), *more))


class Document:
    """A schema that was read: its nodes, its boolean schemas and its references."""

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
        """Places where `true` or `false` stands for a schema."""
        self.objects: list[SchemaNode] = []
        self.refs: list[SchemaNode] = []
        self.unions: list[SchemaNode] = []
        """Nodes with `anyOf` or `oneOf`."""
        self.tuples: list[SchemaNode] = []
        """Nodes whose `items` is a list, as drafts before 2020-12 wrote a tuple."""
        self.anchors: dict[str, dict[str, Any]] = {}
        self.by_id: dict[int, SchemaNode] = {}
        self._targets: dict[str, Any] = {}
        self._ends: dict[str, Any] = {}

    def target(self, ref: str) -> Any:
        """Return what a reference leads to in this document: an object, a boolean or `MISSING`."""
        found = self._targets.get(ref)
        if found is None:
            found = self._targets[ref] = self._find(ref)
        return found

    def _find(self, ref: str) -> Any:
        if not ref.startswith("#"):
            return MISSING
        steps = fragment_steps(ref[1:])
        if steps is None:
            return self.anchors.get(ref[1:], MISSING)
        found = step_into(self.root, steps)
        return found if isinstance(found, (dict, bool)) else MISSING

    def follow(self, schema: Any) -> Any:
        """Return the schema at the end of a chain of references, or `MISSING`."""
        passed: dict[str, None] = {}
        while isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
            if ref in self._ends:
                schema = self._ends[ref]
                break
            if ref in passed:
                names = " → ".join(brief(one) for one in [*passed][-5:])
                raise InputError(
                    f"the reference {names} leads only back to itself and describes nothing"
                )
            passed[ref] = None
            schema = self.target(ref)
        for ref in passed:
            self._ends[ref] = schema
        return schema

    def node_of(self, schema: Any) -> SchemaNode | None:
        """Return the node of a schema object of this document."""
        return self.by_id.get(id(schema))


def is_object(schema: dict[str, Any]) -> bool:
    """Tell whether a schema describes objects: it says so, or has words that only objects have."""
    kind = schema.get("type")
    if kind is None:
        return not _OBJECT_WORDS.isdisjoint(schema)
    return kind == "object" or (kind.__class__ is list and "object" in kind)


def says_more(schema: dict[str, Any], word: str) -> bool:
    """Tell whether a schema says more than one word: annotations and names say nothing."""
    return any(
        key != word
        and key not in ANNOTATIONS
        and key != "definitions"
        and (not key.startswith("$") or key in DYNAMIC or key == "$ref")
        for key in schema
    )
