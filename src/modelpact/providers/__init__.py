"""Providers: the contract, its runtime and its HTTP binding; the port to models; the mock.

`contract` says what is agreed, `runtime` keeps it, `binding` takes it over a wire, `kit` is for
authors of providers. May import everything beneath it.
"""

from modelpact.providers.mock import MockProvider
from modelpact.providers.port import ModelPort, ProviderError, UnsupportedByProvider

__all__ = ["MockProvider", "ModelPort", "ProviderError", "UnsupportedByProvider"]
