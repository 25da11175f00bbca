"""The command line: a thin layer over the Python API. Nothing else imports it."""

from modelpact.cli.main import main

__all__ = ["main"]
