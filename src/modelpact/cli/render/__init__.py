"""Output for people and for CI systems."""
