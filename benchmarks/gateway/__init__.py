"""The bench of a gateway: a fake upstream, a bare pass-through, and a load, each in a process."""
