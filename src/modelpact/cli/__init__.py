"""The command line: a thin skin on the Python API. Nothing may import it."""

from modelpact.cli.main import main

__all__ = ["main"]
