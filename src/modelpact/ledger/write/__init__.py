"""Writing: the one way in for events, and the commits that make them durable."""
