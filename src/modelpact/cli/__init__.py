"""The command line: a thin skin on the Python API. Nothing may import it."""

from modelpact.cli.root import main

__all__ = ["main"]
