"""Layers: what one source says about a model, and how far it is trusted."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.claim import Evidence
from modelpact.catalog.facts import ModelFacts
from modelpact.catalog.statement import Stated
from modelpact.vocabulary.capability import CAPABILITIES

Trust = Literal["known", "assumed", "model"]

_MODEL_PROPERTIES: Final = frozenset(
    {"tool-calling", "reasoning"}
    | {entry.id for entry in CAPABILITIES.values() if entry.group == "modality"}
)
"""Capabilities that a model keeps at any provider; the others depend on the provider's API."""


class Layer(msgspec.Struct, frozen=True, gc=False):
    """One layer of a resolution: a statement or a record of facts.

    `trust` says what is known from it: everything (`known`), nothing (`assumed`), or only what a
    model keeps at any provider (`model`).
    """

    evidence: Evidence
    fields: Mapping[str, Any] = {}
    cells: Mapping[str, Stated] = {}
    record: ModelFacts | None = None
    trust: Trust = "known"

    def stated(self, name: str) -> Stated | None:
        """Return what this layer states about a capability, or None if it states nothing."""
        return self.cells.get(name) if self.record is None else self.record.stated(name)

    def is_assumption(self, name: str) -> bool:
        """Whether the statement of this layer about a capability is only an assumption."""
        if self.trust == "known":
            return False
        return self.trust == "assumed" or name not in _MODEL_PROPERTIES
