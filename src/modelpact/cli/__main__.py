"""`python -m modelpact.cli` is the command `modelpact`."""

from modelpact.cli.root import main

main()
