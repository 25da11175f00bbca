"""Unions and how their branches are told apart (RFC 0031 §A).

The branches of a union are what `anyOf` leads to, through references and unions in unions, `null`
left out. One branch is a nullable schema, no variant. Branches of which none can be an object are
plain values: §A speaks of shapes, so they are only noted.
"""

import json
from typing import Any, Final, Literal

import msgspec

from modelpact.schemas.document import Document, Node
from modelpact.schemas.report import Report
from modelpact.vocabulary.errors import InputError, brief

CONVENTIONAL: Final = ("kind", "variant", "type")
MOST_STEPS: Final = 400_000
"""How many branches are looked at in all; unions in unions in unions could ask for more."""
_PLAIN: Final = frozenset(["string", "number", "integer", "boolean", "array"])


class Discriminator(msgspec.Struct, frozen=True):
    """A required field of a branch with one literal: where it is said, and how."""

    literal: str
    schema: dict[str, Any]
    form: Literal["enum", "const"]
    typed: bool


class Leaf(msgspec.Struct, frozen=True):
    """A branch that is no union itself."""

    schema: dict[str, Any]
    kind: Literal["null", "plain", "object"]
    fields: dict[str, Discriminator]


class Unions:
    """The unions of a document. Leaves are made once each."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._leaves: dict[int, Leaf] = {}
        self._steps = 0

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
        stack, seen = [branch], set[int]()
        while stack:
            schema = self.document.follow(stack.pop())
            if not isinstance(schema, dict):
                schema = {}  # a boolean, or a reference that leads out of sight: anything
            elif id(schema) in seen:
                continue
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise InputError(f"unions within unions have more than {MOST_STEPS:,} branches")
            seen.add(id(schema))
            if "properties" not in schema and _union(schema) and kind_of(schema) == "object":
                stack += reversed(_union(schema))
            else:
                leaves.append(self.leaf(schema))
        return leaves

    def leaf(self, schema: dict[str, Any]) -> Leaf:
        """Return what tells a branch apart."""
        leaf = self._leaves.get(id(schema))
        if leaf is None:
            kind = kind_of(schema)
            fields = self._fields(schema) if kind == "object" else {}
            leaf = Leaf(schema, kind, fields)
            self._leaves[id(schema)] = leaf
        return leaf

    def _fields(self, schema: dict[str, Any]) -> dict[str, Discriminator]:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return {}
        found = {}
        for name in required:
            one = self.document.follow(properties.get(name))
            if isinstance(one, dict) and (made := discriminator(one)) is not None:
                found[name] = made
        return found


def _union(schema: dict[str, Any]) -> list[Any]:
    branches = schema.get("anyOf", schema.get("oneOf"))
    return branches if isinstance(branches, list) else []


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


def kind_of(schema: dict[str, Any]) -> Literal["null", "plain", "object"]:
    """Tell whether a branch is null, can only be a plain value or a list, or can be an object."""
    types = schema.get("type")
    if types is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if not isinstance(values, list) or any(isinstance(one, dict) for one in values):
            return "object"
        return "null" if all(one is None for one in values) else "plain"
    kinds = {types} if isinstance(types, str) else set(types)
    if kinds == {"null"}:
        return "null"
    return "plain" if kinds - {"null"} <= _PLAIN else "object"


def check_unions(document: Document, report: Report) -> None:
    """Find the unions whose branches one field does not tell apart."""
    if not report.asked("variant-discriminator"):
        return
    unions = Unions(document)
    for node in dict.fromkeys(document.unions):
        for key in ("anyOf", "oneOf"):
            if key in node.schema:
                _check(unions, node, key, report)


def _check(unions: Unions, node: Node, key: str, report: Report) -> None:
    groups = unions.groups(node.schema[key])
    if len(groups) < 2:
        return
    leaves = [leaf for group in groups for leaf in group]
    objects = [leaf for leaf in leaves if leaf.kind == "object"]
    path = node.path(key)
    if not objects:
        report.add(
            "variant-plain-values",
            path,
            "a union of plain values: they are told apart only by their JSON types",
        )
    elif len(objects) < len(leaves):
        report.add(
            "variant-value-shape",
            path,
            "objects and other values in one union are told apart only by their JSON types; "
            "wrap the others in objects with a discriminator",
        )
    else:
        _check_objects(groups, node, path, unions.document, report)


def _check_objects(
    groups: list[list[Leaf]], node: Node, path: str, document: Document, report: Report
) -> None:
    leaves = [leaf for group in groups for leaf in group]
    common = [name for name in leaves[0].fields if all(name in leaf.fields for leaf in leaves)]
    common.sort(key=lambda name: name not in CONVENTIONAL)
    if not common:
        _check_nothing_common(leaves, path, document, report)
        return
    twice: Discriminator | None = None
    for name in common:
        again = literal_twice(groups, name)
        if again is None:
            _check_form(name, leaves, path, document, report)
            return
        twice = twice or again
    assert twice is not None
    where = document.node_of(twice.schema) or node
    report.add(
        "variant-literal-twice",
        where.path(),
        f"{brief(twice.literal)} is the {common[0]!r} of more than one branch of {path}; "
        "each branch needs a literal of its own",
    )


def literal_twice(groups: list[list[Leaf]], name: str) -> Discriminator | None:
    """Return a discriminator whose literal another branch has too."""
    owners: dict[str, int] = {}
    for place, group in enumerate(groups):
        for leaf in group:
            field = leaf.fields[name]
            if owners.setdefault(field.literal, place) != place:
                return field
    return None


def _check_form(
    name: str, leaves: list[Leaf], path: str, document: Document, report: Report
) -> None:
    if name not in CONVENTIONAL:
        report.add(
            "variant-discriminator-name",
            path,
            f"the discriminator is {brief(name)}, not kind, variant or type: document it",
        )
    for leaf in leaves:
        field = leaf.fields[name]
        where = document.node_of(field.schema)
        if where is None:
            continue
        literal = json.dumps(field.literal, ensure_ascii=False)
        if field.form == "const":
            report.add(
                "variant-discriminator-const",
                where.path(),
                f'the discriminator is a const; write type: "string", enum: [{literal}]',
            )
        elif not field.typed:
            report.add(
                "variant-discriminator-type",
                where.path(),
                'the discriminator does not say type: "string"',
            )


def _check_nothing_common(
    leaves: list[Leaf], path: str, document: Document, report: Report
) -> None:
    counts: dict[str, int] = {}
    for leaf in leaves:
        for name in leaf.schema.get("properties") or ():
            if name in leaf.fields or name in CONVENTIONAL:
                counts[name] = counts.get(name, 0) + 1
    if not counts:
        report.add(
            "variant-field-presence",
            path,
            "the branches are told apart only by which fields they have; give each a required "
            '"kind" of type string with an enum of one value',
        )
        return
    best = max(counts, key=lambda name: (counts[name], name in CONVENTIONAL))
    lacking = [leaf for leaf in leaves if best not in leaf.fields]
    shown = "; ".join(_lack(leaf, best, document) for leaf in lacking[:3])
    more = f"; and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    report.add(
        "variant-discriminator",
        path,
        f"no field tells the branches apart: {shown}{more}",
    )


def _lack(leaf: Leaf, name: str, document: Document) -> str:
    """Say why a field of a branch is no discriminator."""
    node = document.node_of(leaf.schema)
    where = brief(node.path()) if node is not None else "a branch that is not in this document"
    properties, required = leaf.schema.get("properties") or {}, leaf.schema.get("required")
    field = document.follow(properties.get(name))
    if name not in properties:
        return f"{where} has no {brief(name)}"
    if isinstance(field, dict) and discriminator(field) is not None:
        missing = not isinstance(required, list) or name not in required
        return f"{brief(name)} of {where} is {'not required' if missing else 'no discriminator'}"
    return f"{brief(name)} of {where} is not a string enum of one value"
