"""Schemas for strict outputs: what vendors take, what they refuse, and how to rewrite it. Pure.

It reads no files but its own profiles.
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
