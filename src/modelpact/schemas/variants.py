"""Unions and how their branches are told apart (RFC 0031 §A).

The branches of a union are what `anyOf` leads to, through references and unions in unions, `null`
left out. One branch is a nullable schema, no variant. Branches of which none can be an object are
plain values: §A speaks of shapes, so they are only noted.
"""

import json
from typing import Final

from modelpact.schemas.document import Document, SchemaNode
from modelpact.schemas.report import FindingCollector
from modelpact.schemas.unions import Discriminator, Leaf, Unions
from modelpact.vocabulary.errors import brief

CONVENTIONAL: Final = ("kind", "variant", "type")
_LONG: Final = 60
"""Characters of a literal that a message shows."""


def check_unions(document: Document, report: FindingCollector) -> None:
    """Find the unions whose branches one field does not tell apart."""
    if not report.asked("variant-discriminator"):
        return
    unions = Unions(document)
    told: set[int] = set()
    for node in document.objects:
        _check_types(node, report)
    for node in dict.fromkeys(document.unions):
        for key in ("anyOf", "oneOf"):
            if key in node.schema:
                _check(unions, node, key, report, told)


def _check_types(node: SchemaNode, report: FindingCollector) -> None:
    types = node.schema.get("type")
    if isinstance(types, list) and (others := sorted({*types} - {"object", "null"})):
        report.add(
            "variant-value-shape",
            node.path("type"),
            f"objects and other values ({', '.join(others)}) in one schema are told apart only by "
            "their JSON types; write anyOf with a discriminator in each branch",
        )


def _check(
    unions: Unions, node: SchemaNode, key: str, report: FindingCollector, told: set[int]
) -> None:
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
            "objects and other values in one union are told apart only by their JSON types; "
            "wrap the others in objects with a discriminator",
        )
    else:
        _check_objects(groups, leaves, path, unions, report, told)


def distinct(groups: list[list[Leaf]]) -> list[Leaf]:
    """Return the leaves of all branches, each once."""
    return list(dict.fromkeys(leaf for group in groups for leaf in group))


def _check_plain(
    groups: list[list[Leaf]], path: str, unions: Unions, report: FindingCollector
) -> None:
    """Check a union without objects: values of different JSON types are only noted."""
    owners: dict[str, int] = {}
    for place, group in enumerate(groups):
        for leaf in group:
            if unions.holds_objects(leaf):
                report.add(
                    "variant-value-shape",
                    path,
                    "lists of objects and other values in one union are told apart only by their "
                    "shapes; wrap each in an object with a discriminator",
                )
                return
            for kind in leaf.types - {"null"}:
                if owners.setdefault(kind, place) != place:
                    report.add(
                        "variant-value-shape",
                        path,
                        f"several branches are of the JSON type {kind}, so nothing tells them "
                        "apart; merge them, or wrap each in an object with a discriminator",
                    )
                    return
    report.add(
        "variant-plain-values",
        path,
        "a union of plain values: they are told apart only by their JSON types",
    )


def _check_objects(
    groups: list[list[Leaf]],
    leaves: list[Leaf],
    path: str,
    unions: Unions,
    report: FindingCollector,
    told: set[int],
) -> None:
    document = unions.document
    unions.count(sum(len(leaf.fields) for leaf in leaves))
    common = [name for name in leaves[0].fields if all(name in leaf.fields for leaf in leaves)]
    common.sort(key=lambda name: name not in CONVENTIONAL)
    if not common:
        _check_nothing_common(leaves, path, unions, report)
        return
    twice: Discriminator | None = None
    for name in common:
        again = literal_twice(groups, name)
        if again is None:
            _check_form(name, leaves, path, document, report, told)
            return
        twice = twice or again
    assert twice is not None
    where = document.node_of(twice.schema)
    report.add(
        "variant-literal-twice",
        where.path() if where is not None else path,
        f"{brief(_short(twice.literal))} is the {brief(common[0])} of more than one branch of "
        f"{path}; each branch needs a literal of its own",
    )


def literal_twice(groups: list[list[Leaf]], name: str) -> Discriminator | None:
    """Return a discriminator whose literal another branch has too; all have the field."""
    owners: dict[str, int] = {}
    for place, group in enumerate(groups):
        for leaf in group:
            field = leaf.literal(name)
            if field is not None and owners.setdefault(field.literal, place) != place:
                return field
    return None


def _short(literal: str) -> str:
    return literal if len(literal) <= _LONG else f"{literal[: _LONG - 1]}…"


def _check_form(
    name: str,
    leaves: list[Leaf],
    path: str,
    document: Document,
    report: FindingCollector,
    told: set[int],
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
        if where is None or id(field.schema) in told:
            continue
        told.add(id(field.schema))
        if field.form == "const":
            literal = json.dumps(_short(field.literal), ensure_ascii=False)
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
    leaves: list[Leaf], path: str, unions: Unions, report: FindingCollector
) -> None:
    counts: dict[str, int] = {}
    for leaf in leaves:
        properties = leaf.schema.get("properties") or ()
        unions.count(len(properties))
        for name in properties:
            if name in CONVENTIONAL or leaf.literal(name) is not None:
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
    shown = "; ".join(_lack(leaf, best, unions.document) for leaf in lacking[:3])
    more = f"; and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    report.add(
        "variant-discriminator",
        path,
        f"no field tells the branches apart: {shown}{more}",
    )


def _lack(leaf: Leaf, name: str, document: Document) -> str:
    """Say why a field of a branch is no discriminator."""
    node = document.node_of(leaf.parts[0])
    where = brief(node.path()) if node is not None else "a branch that is not in this document"
    if name not in (leaf.schema.get("properties") or ()):
        return f"{where} has no {brief(name)}"
    if name in leaf.loose:
        return f"{brief(name)} of {where} is not required"
    return f"{brief(name)} of {where} is not a string enum of one value"
