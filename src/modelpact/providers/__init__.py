"""Providers of capabilities.

`contract` has the types of the provider contract and `runtime` enforces it. `http` is the binding
over mutual TLS, `sdk` is for authors of providers, `models` has the adapters to model APIs.
"""

from modelpact.providers.port import MockProvider, ModelPort, ProviderError, UnsupportedByProvider

__all__ = ["MockProvider", "ModelPort", "ProviderError", "UnsupportedByProvider"]
