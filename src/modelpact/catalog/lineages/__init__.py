"""Readers of the public catalogs (lineages) that the facts come from.

Each module reads one source as it was published and returns sorted rows of facts.
"""
