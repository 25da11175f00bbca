"""The runtime of the provider contract: registry, invocations, settlement."""
