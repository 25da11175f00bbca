"""The record of the gateway's requests."""
