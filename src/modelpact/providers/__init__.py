"""Providers: the port through which a model is called, and the scripted mock.

May import everything beneath it; nothing above `dispatch` calls a model past this port.
"""

from modelpact.providers.mock import MockProvider
from modelpact.providers.port import ModelPort, ProviderError, UnsupportedByProvider

__all__ = ["MockProvider", "ModelPort", "ProviderError", "UnsupportedByProvider"]
