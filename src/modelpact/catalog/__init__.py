"""The catalog: what the model of a provider can do, and how that is known.

Facts are TOML and JSON lines in `data/`, which are built into one snapshot.
"""
