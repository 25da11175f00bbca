"""Totals of costs."""
