"""The HTTP/JSON binding of the provider contract, over mutual TLS.

`HttpTransport` takes invocations to providers; `RuntimeRoutes` is what providers call;
`serve_runtime` puts both on the network. Described in `docs/provider-binding.md`.
"""

from modelpact.providers.http.client import HttpTransport
from modelpact.providers.http.server import RuntimeHost, RuntimeRoutes, serve_runtime

__all__ = ["HttpTransport", "RuntimeHost", "RuntimeRoutes", "serve_runtime"]
