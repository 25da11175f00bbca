"""Metrics and telemetry."""
