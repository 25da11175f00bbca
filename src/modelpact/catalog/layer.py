"""Layers: what one source says of a model, and how far it is trusted."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.claim import Evidence
from modelpact.catalog.facts import ModelFacts
from modelpact.catalog.statement import Stated
from modelpact.vocabulary.capability import CAPABILITIES

Trust = Literal["known", "assumed", "model"]

_OF_THE_MODEL: Final = frozenset(
    {"tool-calling", "reasoning"}
    | {one.id for one in CAPABILITIES.values() if one.group == "modality"}
)
"""What a model takes along to whoever passes it on; the rest belongs to the provider's API."""


class Layer(msgspec.Struct, frozen=True, gc=False):
    """One layer of a resolution: a statement, or a record of facts, and how far it is trusted."""

    evidence: Evidence
    fields: Mapping[str, Any] = {}
    cells: Mapping[str, Stated] = {}
    record: ModelFacts | None = None
    trust: Trust = "known"

    def stated(self, name: str) -> Stated | None:
        """Return what this layer says of a capability, or None where it is silent."""
        return self.cells.get(name) if self.record is None else self.record.stated(name)

    def only_assumed(self, name: str) -> bool:
        """Tell whether what the layer says of this capability may only be assumed."""
        if self.trust == "known":
            return False
        return self.trust == "assumed" or name not in _OF_THE_MODEL
