"""Verification of events and tables, and what rests on it: exports, archives and imports."""
