"""Needs: what work requires of a model, read from text, from dialects and from requests."""
