"""Negotiation: compare needs with claims; verdicts, diagnostics and suggestions.

Pure: nothing here reads files or the network.
"""
