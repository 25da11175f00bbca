"""Stores: SQLite and PostgreSQL behind one interface."""
