"""Schemas for strict outputs: what vendors take, what they refuse, and how to rewrite it. Pure.

May import `vocabulary`; nothing here reads files but its own profiles.
"""

from modelpact.schemas.finding import LintReport, SchemaFinding
from modelpact.schemas.fix import FixedSchema, fix_schema
from modelpact.schemas.lint import lint_schema
from modelpact.schemas.profile import PROFILES, Profile, load_profile

__all__ = [
    "PROFILES",
    "FixedSchema",
    "LintReport",
    "Profile",
    "SchemaFinding",
    "fix_schema",
    "lint_schema",
    "load_profile",
]
