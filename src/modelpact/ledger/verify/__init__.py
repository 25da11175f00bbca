"""Verification: exports, audits, archives and imports."""
