"""The HTTP binding of the provider contract, over mutual TLS: the side of the runtime.

`HttpTransport` sends invocations to providers, `serve_runtime` listens for them. The binding is
described in `docs/provider-binding.md`.
"""

from modelpact.providers.http.client import HttpTransport
from modelpact.providers.http.runtime_server import RuntimeHost, RuntimeRoutes, serve_runtime

__all__ = ["HttpTransport", "RuntimeHost", "RuntimeRoutes", "serve_runtime"]
