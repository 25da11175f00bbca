"""Check that one field, the discriminator, tells the branches of each union apart.

The rules are those of section A of the openwop specification (S001-A1 to S001-A9). The branches of
a union are the targets of `anyOf`, through references and nested unions, without `null`. A single
branch is a nullable schema and not a variant. Section A is about objects: a union of plain values
is only a note.
"""

import json
from typing import Any, Final

from modelpact.schemas.document import Document, SchemaNode
from modelpact.schemas.report import FindingCollector
from modelpact.schemas.unions import ALL_TYPES, Discriminator, Leaf, Unions, scalar_values, types_of
from modelpact.vocabulary.errors import brief

CONVENTIONAL_NAMES: Final = ("kind", "variant", "type")
_MAX_LITERAL: Final = 60
"""The most characters of a literal in a message."""


class Exclusion:
    """Decides whether the branches of a document's unions exclude each other."""

    def __init__(self, document: Document) -> None:
        self.unions = Unions(document)
        self._exclusive: dict[tuple[int, bool], bool] = {}

    def exclusive(self, owner: dict[str, Any], *, if_required: bool = False) -> bool:
        """Whether no value can match two branches of a `oneOf`.

        With `if_required`, optional fields that allow one literal count as required.
        """
        key = (id(owner), if_required)
        exclusive = self._exclusive.get(key)
        if exclusive is None:
            exclusive = self._exclusive[key] = self._find(owner, if_required)
        return exclusive

    def _find(self, owner: dict[str, Any], if_required: bool) -> bool:
        allowed = types_of(owner) if "type" in owner else ALL_TYPES
        groups = [self.unions.leaves(branch) for branch in owner["oneOf"]]
        owners: dict[str, list[int]] = {}
        for index, group in enumerate(groups):
            for kind in {kind for leaf in group for kind in leaf.types & allowed}:
                owners.setdefault(kind, []).append(index)
        return all(
            len(indices) < 2 or self._differ([groups[index] for index in indices], kind, if_required)
            for kind, indices in owners.items()
        )

    def _differ(self, groups: list[list[Leaf]], kind: str, if_required: bool) -> bool:
        """Whether literals distinguish branches that allow the same type."""
        matching = [[leaf for leaf in group if kind in leaf.types] for group in groups]
        if kind == "object":
            return self._discriminators(matching, if_required=False) != [] or (
                if_required and self._discriminators(matching, if_required=True) != []
            )
        seen: dict[tuple[str, Any], int] = {}
        for index, group in enumerate(matching):
            for leaf in group:
                values = self._values(leaf)
                if values is None:
                    return False
                for value in values:
                    if value[0] == kind and seen.setdefault(value, index) != index:
                        return False
        return True

    def _values(self, leaf: Leaf) -> set[tuple[str, Any]] | None:
        self.unions.count(len(leaf.schema.get("enum", ())))
        return scalar_values(leaf.schema)

    def _discriminators(self, groups: list[list[Leaf]], *, if_required: bool) -> list[str]:
        """Return the fields that distinguish branches, those with a conventional name first."""
        leaves = distinct(groups)
        self.unions.count(sum(len(leaf.required) + if_required * len(leaf.optional) for leaf in leaves))
        first = leaves[0]
        common = [
            name
            for name in ([*first.required, *first.optional] if if_required else first.required)
            if all(name in leaf.required or (if_required and name in leaf.optional) for leaf in leaves)
        ]
        common.sort(key=lambda name: name not in CONVENTIONAL_NAMES)
        return [name for name in common if repeated_literal(groups, name) is None]

    def missing_discriminator(self, branches: list[Any]) -> tuple[str, list[Leaf]] | None:
        """Return a field that would distinguish the branches if it were required.

        Return it with the leaves in which it is optional, or None if a field distinguishes the
        branches already or none could.
        """
        objects = [[leaf for leaf in self.unions.leaves(branch) if leaf.kind == "object"] for branch in branches]
        groups = [group for group in objects if group]
        if len(groups) < 2 or self._discriminators(groups, if_required=False):
            return None
        names = self._discriminators(groups, if_required=True)
        if not names:
            return None
        return names[0], [leaf for leaf in distinct(groups) if names[0] in leaf.optional]


def check_unions(document: Document, report: FindingCollector) -> None:
    """Find the unions without a discriminator."""
    if not report.requires("variant-discriminator"):
        return
    unions = Unions(document)
    reported: set[int] = set()
    for node in document.objects:
        _check_types(node, report)
    for node in dict.fromkeys(document.unions):
        for key in ("anyOf", "oneOf"):
            if key in node.schema:
                _check(unions, node, key, report, reported)


def distinct(groups: list[list[Leaf]]) -> list[Leaf]:
    """Return the leaves of all branches without duplicates."""
    return list(dict.fromkeys(leaf for group in groups for leaf in group))


def repeated_literal(groups: list[list[Leaf]], name: str) -> Discriminator | None:
    """Return a field whose literal another branch has too; all branches have the field."""
    owners: dict[str, int] = {}
    for index, group in enumerate(groups):
        for leaf in group:
            field = leaf.literal(name)
            if field is not None and owners.setdefault(field.literal, index) != index:
                return field
    return None


def _check_types(node: SchemaNode, report: FindingCollector) -> None:
    types = node.schema.get("type")
    if isinstance(types, list) and (others := sorted({*types} - {"object", "null"})):
        report.add(
            "variant-value-shape",
            node.path("type"),
            f"objects and other values ({', '.join(others)}) in one schema differ only by "
            "their JSON types; write anyOf with a discriminator in each branch",
        )


def _check(unions: Unions, node: SchemaNode, key: str, report: FindingCollector, reported: set[int]) -> None:
    groups = unions.groups(node.schema[key])
    if len(groups) < 2:
        return
    leaves = distinct(groups)
    objects = [leaf for leaf in leaves if leaf.kind == "object"]
    path = node.path(key)
    if not objects:
        _check_plain(groups, path, unions, report)
    elif len(objects) < len(leaves):
        report.add(
            "variant-value-shape",
            path,
            "objects and other values in one union differ only by their JSON types; "
            "wrap the others in objects with a discriminator",
        )
    else:
        _check_objects(groups, leaves, path, unions, report, reported)


def _check_plain(groups: list[list[Leaf]], path: str, unions: Unions, report: FindingCollector) -> None:
    """Check a union without objects; values of different JSON types are only a note."""
    owners: dict[str, int] = {}
    for index, group in enumerate(groups):
        for leaf in group:
            if unions.is_list_of_objects(leaf):
                report.add(
                    "variant-value-shape",
                    path,
                    "lists of objects and other values in one union differ only by their "
                    "shapes; wrap each in an object with a discriminator",
                )
                return
            for kind in leaf.types - {"null"}:
                if owners.setdefault(kind, index) != index:
                    report.add(
                        "variant-value-shape",
                        path,
                        f"several branches have the JSON type {kind}, so nothing tells them "
                        "apart; merge them, or wrap each in an object with a discriminator",
                    )
                    return
    report.add("variant-plain-values", path, "a union of plain values: they differ only by their JSON types")


def _check_objects(
    groups: list[list[Leaf]],
    leaves: list[Leaf],
    path: str,
    unions: Unions,
    report: FindingCollector,
    reported: set[int],
) -> None:
    document = unions.document
    unions.count(sum(len(leaf.required) for leaf in leaves))
    common = [name for name in leaves[0].required if all(name in leaf.required for leaf in leaves)]
    common.sort(key=lambda name: name not in CONVENTIONAL_NAMES)
    if not common:
        _report_no_discriminator(leaves, path, unions, report)
        return
    repeated: Discriminator | None = None
    for name in common:
        field = repeated_literal(groups, name)
        if field is None:
            _check_form(name, leaves, path, document, report, reported)
            return
        repeated = repeated or field
    assert repeated is not None
    node = document.node_of(repeated.schema)
    report.add(
        "variant-literal-twice",
        node.path() if node is not None else path,
        f"{brief(_short(repeated.literal))} is the {brief(common[0])} of more than one branch of "
        f"{path}; each branch needs its own literal",
    )


def _short(literal: str) -> str:
    return literal if len(literal) <= _MAX_LITERAL else f"{literal[: _MAX_LITERAL - 1]}…"


def _check_form(
    name: str, leaves: list[Leaf], path: str, document: Document, report: FindingCollector, reported: set[int]
) -> None:
    if name not in CONVENTIONAL_NAMES:
        report.add(
            "variant-discriminator-name",
            path,
            f"the discriminator is {brief(name)}, not kind, variant or type: document it",
        )
    for leaf in leaves:
        field = leaf.required[name]
        node = document.node_of(field.schema)
        if node is None or id(field.schema) in reported:
            continue
        reported.add(id(field.schema))
        if field.form == "const":
            literal = json.dumps(_short(field.literal), ensure_ascii=False)
            report.add(
                "variant-discriminator-const",
                node.path(),
                f'the discriminator is a const; write type: "string", enum: [{literal}]',
            )
        elif not field.typed:
            report.add("variant-discriminator-type", node.path(), 'the discriminator has no type: "string"')


def _report_no_discriminator(leaves: list[Leaf], path: str, unions: Unions, report: FindingCollector) -> None:
    counts: dict[str, int] = {}
    for leaf in leaves:
        properties = leaf.schema.get("properties") or ()
        unions.count(len(properties))
        for name in properties:
            if name in CONVENTIONAL_NAMES or leaf.literal(name) is not None:
                counts[name] = counts.get(name, 0) + 1
    if not counts:
        report.add(
            "variant-field-presence",
            path,
            "the branches differ only by the fields that they have; give each a required "
            '"kind" of type string with an enum of one value',
        )
        return
    best = max(counts, key=lambda name: (counts[name], name in CONVENTIONAL_NAMES))
    lacking = [leaf for leaf in leaves if best not in leaf.required]
    reasons = "; ".join(_reason(leaf, best, unions.document) for leaf in lacking[:3])
    more = f"; and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    report.add("variant-discriminator", path, f"no field tells the branches apart: {reasons}{more}")


def _reason(leaf: Leaf, name: str, document: Document) -> str:
    """Explain why a field of a branch is not a discriminator."""
    node = document.node_of(leaf.parts[0])
    where = brief(node.path()) if node is not None else "a branch that is not in this document"
    if name not in (leaf.schema.get("properties") or ()):
        return f"{where} has no {brief(name)}"
    if name in leaf.optional:
        return f"{brief(name)} of {where} is not required"
    return f"{brief(name)} of {where} is not a string enum of one value"
