"""JSON Schemas for structured output: check them against vendors' rules, and rewrite them.

Pure: nothing here reads files except its own profiles.
"""

from modelpact.schemas.fix import FixedSchema, fix_schema
from modelpact.schemas.lint import lint_schema
from modelpact.schemas.profile import PROFILES, VendorProfile, load_profile
from modelpact.schemas.report import LintReport, SchemaFinding

__all__ = [
    "PROFILES",
    "FixedSchema",
    "LintReport",
    "SchemaFinding",
    "VendorProfile",
    "fix_schema",
    "lint_schema",
    "load_profile",
]
