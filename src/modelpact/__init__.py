"""modelpact: a pact between an application and the models it runs on.

An application states what it needs. modelpact knows what each model can do and how it knows it.
Before any token is spent, it answers yes, yes with a label, or no and why.
"""

import typing as _typing

from modelpact._version import __version__
from modelpact.catalog.catalog import Catalog, default_catalog, resolve
from modelpact.catalog.claim import Claim, Claims, Constraint, Evidence
from modelpact.catalog.facts import Price
from modelpact.catalog.resolution import Resolution
from modelpact.needs.need import Need, Needs, need
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.negotiate import Strategies, negotiate
from modelpact.negotiation.parameters import negotiate_parameters
from modelpact.negotiation.search import find_models, suggest
from modelpact.negotiation.verdict import Diagnostic, Finding, Policy, Verdict
from modelpact.vocabulary.capability import CAPABILITIES, Capability, capability
from modelpact.vocabulary.errors import (
    CatalogError,
    ConfigurationError,
    InputError,
    InvalidNeed,
    ModelpactError,
    UnknownCapability,
)
from modelpact.vocabulary.redaction import redact

if _typing.TYPE_CHECKING:
    from modelpact.dispatch.gate import Gate
    from modelpact.emulation.emulator import Emulator, emulator_strategies
    from modelpact.ledger.ledger import Ledger
    from modelpact.schemas.fix import FixedSchema, fix_schema
    from modelpact.schemas.lint import lint_schema
    from modelpact.schemas.report import LintReport, SchemaFinding
    from modelpact.sessions.session import Session

_LAZY_MODULES = {
    "Emulator": "modelpact.emulation.emulator",
    "emulator_strategies": "modelpact.emulation.emulator",
    "Gate": "modelpact.dispatch.gate",
    "Ledger": "modelpact.ledger.ledger",
    "LintReport": "modelpact.schemas.report",
    "SchemaFinding": "modelpact.schemas.report",
    "FixedSchema": "modelpact.schemas.fix",
    "fix_schema": "modelpact.schemas.fix",
    "lint_schema": "modelpact.schemas.lint",
    "Session": "modelpact.sessions.session",
}
"""Where the names come from that are imported on first use, to keep `import modelpact` light."""


def __getattr__(name: str) -> _typing.Any:
    module = _LAZY_MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'modelpact' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return __all__


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
    "Emulator",
    "Evidence",
    "Finding",
    "FixedSchema",
    "Gate",
    "InputError",
    "InvalidNeed",
    "Ledger",
    "LintReport",
    "ModelpactError",
    "Need",
    "Needs",
    "Policy",
    "Price",
    "Resolution",
    "SchemaFinding",
    "Session",
    "Strategies",
    "UnknownCapability",
    "Verdict",
    "__version__",
    "capability",
    "default_catalog",
    "diagnose",
    "emulator_strategies",
    "find_models",
    "fix_schema",
    "lint_schema",
    "need",
    "negotiate",
    "negotiate_parameters",
    "redact",
    "resolve",
    "suggest",
]
