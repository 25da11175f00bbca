"""Clients that people really use, unmodified, each run in an environment of its own."""
