"""An OpenWOP v1 host for the slice of seed 001: discovery, runs, events, the node catalog.

May import `dispatch` and everything beneath it.
"""
