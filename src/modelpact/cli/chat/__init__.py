"""`modelpact chat`: a session in the terminal."""
