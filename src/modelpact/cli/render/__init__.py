"""Output for people, for programs and for CI systems."""
