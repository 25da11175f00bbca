"""Whether the branches of a union exclude each other, and which field would make them do so."""

from typing import Any

from modelpact.schemas.document import Document
from modelpact.schemas.unions import ALL_TYPES, Leaf, Unions, scalar_values, types_of
from modelpact.schemas.variants import CONVENTIONAL_NAMES, distinct, repeated_literal


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
            len(indices) < 2
            or self._differ([groups[index] for index in indices], kind, if_required)
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
        self.unions.count(
            sum(len(leaf.required) + if_required * len(leaf.optional) for leaf in leaves)
        )
        first = leaves[0]
        common = [
            name
            for name in ([*first.required, *first.optional] if if_required else first.required)
            if all(
                name in leaf.required or (if_required and name in leaf.optional) for leaf in leaves
            )
        ]
        common.sort(key=lambda name: name not in CONVENTIONAL_NAMES)
        return [name for name in common if repeated_literal(groups, name) is None]

    def missing_discriminator(self, branches: list[Any]) -> tuple[str, list[Leaf]] | None:
        """Return a field that would distinguish the branches if it were required.

        Return it with the leaves in which it is optional, or None if a field distinguishes the
        branches already or none could.
        """
        objects = [
            [leaf for leaf in self.unions.leaves(branch) if leaf.kind == "object"]
            for branch in branches
        ]
        groups = [group for group in objects if group]
        if len(groups) < 2 or self._discriminators(groups, if_required=False):
            return None
        names = self._discriminators(groups, if_required=True)
        if not names:
            return None
        return names[0], [leaf for leaf in distinct(groups) if names[0] in leaf.optional]
