"""modelpact: a pact between an application and the models it runs on.

The application says what it needs; modelpact knows what each model can do and how it knows it;
before any token is spent it answers yes, yes with a label, or no and why.
"""

from modelpact._version import __version__
from modelpact.catalog import (
    Catalog,
    Claim,
    Claims,
    Constraint,
    Evidence,
    Price,
    Resolution,
    default_catalog,
    resolve,
)
from modelpact.needs import Need, Needs, need
from modelpact.negotiation import (
    Diagnostic,
    Finding,
    Policy,
    Strategies,
    Verdict,
    diagnose,
    find_models,
    negotiate,
    negotiate_parameters,
    suggest,
)
from modelpact.vocabulary import (
    CAPABILITIES,
    Capability,
    CatalogError,
    ConfigurationError,
    InputError,
    InvalidNeed,
    ModelpactError,
    UnknownCapability,
    capability,
    redact,
)

__all__ = [
    "CAPABILITIES",
    "Capability",
    "Catalog",
    "CatalogError",
    "Claim",
    "Claims",
    "ConfigurationError",
    "Constraint",
    "Diagnostic",
    "Evidence",
    "Finding",
    "InputError",
    "InvalidNeed",
    "ModelpactError",
    "Need",
    "Needs",
    "Policy",
    "Price",
    "Resolution",
    "Strategies",
    "UnknownCapability",
    "Verdict",
    "__version__",
    "capability",
    "default_catalog",
    "diagnose",
    "find_models",
    "need",
    "negotiate",
    "negotiate_parameters",
    "redact",
    "resolve",
    "suggest",
]
