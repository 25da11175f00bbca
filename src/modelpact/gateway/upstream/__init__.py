"""Sending a planned request to its provider, as it is or translated."""
