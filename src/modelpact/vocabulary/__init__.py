"""The vocabulary: capabilities, the names that dialects have for them, errors and redaction.

Pure values and tables.
"""

from modelpact.vocabulary.capability import (
    CAPABILITIES,
    Capability,
    Kind,
    MinSupport,
    Support,
    capability,
    find_capability,
    satisfies,
)
from modelpact.vocabulary.dialects import DIALECTS, Dialect, dialect
from modelpact.vocabulary.errors import (
    CatalogError,
    ConfigurationError,
    InputError,
    InvalidNeed,
    ModelpactError,
    Problem,
    UnknownCapability,
    UnknownName,
)
from modelpact.vocabulary.redaction import REDACTED, redact, redact_text

__all__ = [
    "CAPABILITIES",
    "DIALECTS",
    "REDACTED",
    "Capability",
    "CatalogError",
    "ConfigurationError",
    "Dialect",
    "InputError",
    "InvalidNeed",
    "Kind",
    "MinSupport",
    "ModelpactError",
    "Problem",
    "Support",
    "UnknownCapability",
    "UnknownName",
    "capability",
    "dialect",
    "find_capability",
    "redact",
    "redact_text",
    "satisfies",
]
