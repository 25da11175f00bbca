"""Whether the branches of a union exclude each other, and which field could make them."""

from typing import Any

from modelpact.schemas.document import Document
from modelpact.schemas.unions import ALL_TYPES, Leaf, Unions, plain_values, types_of
from modelpact.schemas.variants import CONVENTIONAL, distinct, literal_twice


class Exclusion:
    """What tells the branches of a document's unions apart."""

    def __init__(self, document: Document) -> None:
        self.unions = Unions(document)
        self._exclusive: dict[tuple[int, bool], bool] = {}

    def exclusive(self, owner: dict[str, Any], *, loose: bool = False) -> bool:
        """Tell whether no value can match two branches of a `oneOf`.

        `loose` is for when every field with one literal were required.
        """
        found = self._exclusive.get((id(owner), loose))
        if found is None:
            found = self._exclusive[id(owner), loose] = self._find(owner, loose)
        return found

    def _find(self, owner: dict[str, Any], loose: bool) -> bool:
        within = types_of(owner) if "type" in owner else ALL_TYPES
        groups = [self.unions.leaves(branch) for branch in owner["oneOf"]]
        owners: dict[str, list[int]] = {}
        for place, group in enumerate(groups):
            for kind in {kind for leaf in group for kind in leaf.types & within}:
                owners.setdefault(kind, []).append(place)
        return all(
            len(places) < 2 or self._apart([groups[place] for place in places], kind, loose)
            for kind, places in owners.items()
        )

    def _apart(self, groups: list[list[Leaf]], kind: str, loose: bool) -> bool:
        """Tell whether branches that admit one type are told apart by their literals."""
        having = [[leaf for leaf in group if kind in leaf.types] for group in groups]
        if kind == "object":
            return self._names(having, loose=False) != [] or (
                loose and self._names(having, loose=True) != []
            )
        seen: dict[tuple[str, Any], int] = {}
        for place, group in enumerate(having):
            for leaf in group:
                values = self._values(leaf)
                if values is None:
                    return False
                for value in values:
                    if value[0] == kind and seen.setdefault(value, place) != place:
                        return False
        return True

    def _values(self, leaf: Leaf) -> set[tuple[str, Any]] | None:
        self.unions.count(len(leaf.schema.get("enum", ())))
        return plain_values(leaf.schema)

    def _names(self, groups: list[list[Leaf]], *, loose: bool) -> list[str]:
        """Return the fields that tell branches apart, those with a usual name first."""
        leaves = distinct(groups)
        self.unions.count(sum(len(leaf.fields) + loose * len(leaf.loose) for leaf in leaves))
        first = leaves[0]
        common = [
            name
            for name in ([*first.fields, *first.loose] if loose else first.fields)
            if all(name in leaf.fields or (loose and name in leaf.loose) for leaf in leaves)
        ]
        common.sort(key=lambda name: name not in CONVENTIONAL)
        return [name for name in common if literal_twice(groups, name) is None]

    def would_tell(self, branches: list[Any]) -> tuple[str, list[Leaf]] | None:
        """Return the field that only has to be required to tell branches apart, and where it isn't.

        None where a field tells them apart already, or none could.
        """
        found = [[one for one in self.unions.leaves(b) if one.kind == "object"] for b in branches]
        groups = [group for group in found if group]
        if len(groups) < 2 or self._names(groups, loose=False):
            return None
        names = self._names(groups, loose=True)
        if not names:
            return None
        return names[0], [leaf for leaf in distinct(groups) if names[0] in leaf.loose]
