"""`python -m modelpact` is the command `modelpact`."""

from modelpact.cli.root import main

main()
