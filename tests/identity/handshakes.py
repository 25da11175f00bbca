"""One connection over loopback, and what each side came to."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modelpact.identity import Authority, Identity, Trust, UntrustedPeer
from modelpact.identity.tls import client_context, server_context


class Outcome:
    """The result of each side of a connection: the bytes that it read, or its error."""

    server: bytes | Exception
    client: bytes | Exception

    @property
    def connected(self) -> bool:
        return (self.server, self.client) == (b"ping", b"pong")


def meet(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> Outcome:
    """Connect once over loopback and exchange some bytes."""
    outcome = Outcome()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def serve() -> None:
            plain, _ = listener.accept()
            plain.settimeout(5)
            with contextlib.closing(plain):
                try:
                    with server.wrap_socket(plain, server_side=True) as secure:
                        outcome.server = secure.recv(4)
                        secure.sendall(b"pong")
                except OSError as error:
                    outcome.server = error

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=5) as plain,
                client.wrap_socket(plain, server_hostname=host) as secure,
            ):
                secure.sendall(b"ping")
                outcome.client = secure.recv(4)
        except OSError as error:
            outcome.client = error
        thread.join()
    return outcome


def refused(error: bytes | Exception) -> str:
    assert isinstance(error, UntrustedPeer), error
    assert issubclass(type(error), ssl.SSLError)  # as asyncio and HTTP libraries expect
    return error.reason


def openssl_said(error: bytes | Exception) -> str:
    assert isinstance(error, ssl.SSLCertVerificationError), error
    return error.verify_message


class Pair:
    """A provider and a runtime of one authority."""

    def __init__(self, folder: Path, clock: Callable[[], Any] | None = None) -> None:
        self.authority = Authority.init(folder)
        if clock is not None:
            self.authority = Authority.open(folder, clock=clock)
        self.provider = self.authority.issue("acme", hosts=["localhost"], days=30).record
        self.runtime = self.authority.issue("run", "runtime", days=30).record

    def identity(self, name: str) -> Identity:
        return Identity(self.authority.identity_file(name))

    def trust(self, **more: Any) -> Trust:
        return Trust(self.authority.certificate, crl=self.authority.crl, **more)

    def server(self, trust: Trust | None = None, **more: Any) -> ssl.SSLContext:
        return server_context(self.identity("acme"), trust or self.trust(), **more)

    def client(self, trust: Trust | None = None, **more: Any) -> ssl.SSLContext:
        return client_context(self.identity("run"), trust or self.trust(), **more)
