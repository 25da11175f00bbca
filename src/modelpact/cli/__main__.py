"""`python -m modelpact.cli` is the command `modelpact`."""

from modelpact.cli.main import main

main()
