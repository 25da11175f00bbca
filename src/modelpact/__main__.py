"""`python -m modelpact` is the command `modelpact`."""

from modelpact.cli.main import main

main()
