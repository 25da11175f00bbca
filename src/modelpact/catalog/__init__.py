"""The catalog: what the model of a provider can do, and how that is known.

Facts are TOML and JSON lines in `data/`, which are built into one snapshot.
"""

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog, resolve
from modelpact.catalog.claim import Claim, Claims, ClaimSource, Constraint, Evidence, Vote
from modelpact.catalog.facts import Lineage, Price
from modelpact.catalog.provider import ProviderEntry
from modelpact.catalog.resolution import ModelCapabilities, Resolution

__all__ = [
    "Catalog",
    "Claim",
    "ClaimSource",
    "Claims",
    "Constraint",
    "Evidence",
    "Lineage",
    "ModelCapabilities",
    "Overlay",
    "Price",
    "ProviderEntry",
    "Resolution",
    "Vote",
    "default_catalog",
    "resolve",
]
