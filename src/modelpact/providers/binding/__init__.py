"""The HTTP/JSON binding of the provider contract, over mutual TLS.

`HttpCarrier` takes invocations to providers; `Surface` is what providers call; `serve_runtime`
puts both on the network. Described in `docs/provider-binding.md`.
"""

from modelpact.providers.binding.carrier import HttpCarrier
from modelpact.providers.binding.host import RuntimeHost, serve_runtime
from modelpact.providers.binding.surface import Surface

__all__ = ["HttpCarrier", "RuntimeHost", "Surface", "serve_runtime"]
