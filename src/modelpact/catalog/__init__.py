"""The catalog: what provider + model can do, and how we know.

Facts are TOML and JSON lines in `data/`, built into one snapshot. May import `vocabulary` only.
"""

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog, resolve
from modelpact.catalog.claim import Claim, Claims, ClaimSource, Constraint, Evidence, Vote
from modelpact.catalog.facts import Lineage, Price
from modelpact.catalog.provider import Provider
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
    "Provider",
    "Resolution",
    "Vote",
    "default_catalog",
    "resolve",
]
