"""Readers of the public catalogs the facts come from.

Each module turns one source, read as it was published, into sorted facts rows.
"""
