"""The environment of a provider: the address of its runtime, its keys, and where it listens."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from modelpact.identity import Identity, Keyring, Trust
from modelpact.identity.tls import client_context, server_context
from modelpact.vocabulary.errors import InputError, brief

if TYPE_CHECKING:
    import ssl


class ProviderEnvironment(msgspec.Struct, frozen=True):
    """The settings of a provider. `runtime` is the URL of the runtime.

    `identity` is the file with the certificate and the key of the provider, `authorities` the file
    with the certificates that may sign the runtime's. `keyring` is the folder of the signing key;
    it is created if it does not exist. With `runtime_pin` the runtime must have that key. Without,
    its certificate must be that of a runtime, for the host in `runtime`.
    """

    runtime: str
    identity: Path
    authorities: Path
    keyring: Path
    runtime_pin: str = ""
    crl: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    public_url: str = ""
    """The URL at which the runtime reaches this provider; by default `https://host:port`."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "ProviderEnvironment":
        """Read `MODELPACT_RUNTIME` and the other variables; an error names the missing one."""

        def get(name: str, default: str | None = None) -> str:
            value = environment.get(f"MODELPACT_{name}", default)
            if value is None:
                raise InputError(f"MODELPACT_{name} is not set: see docs/provider-binding.md")
            return value

        port = get("PORT", "0")
        if not port.isdecimal() or int(port) > 65_535:
            raise InputError(f"MODELPACT_PORT: expected 0 to 65535, not {port:.20}")
        crl, runtime = get("CRL", ""), get("RUNTIME").rstrip("/")
        if not runtime.startswith("https://"):
            raise InputError(
                f"MODELPACT_RUNTIME: expected https://HOST:PORT, not {brief(runtime)}: a runtime "
                "is reached only with TLS"
            )
        return cls(
            runtime,
            Path(get("IDENTITY")),
            Path(get("AUTHORITIES")),
            Path(get("KEYRING")),
            get("RUNTIME_PIN", ""),
            Path(crl) if crl else None,
            get("HOST", "127.0.0.1"),
            int(port),
            get("PUBLIC_URL", ""),
        )

    def signer(self) -> Keyring:
        """Open the keyring, or create it."""
        if (self.keyring / "keys.json").exists():
            return Keyring.open(self.keyring)
        return Keyring.init(self.keyring)

    def fingerprint(self) -> str:
        """Return the fingerprint of the key of the certificate, which is registered as identity."""
        import ssl

        from modelpact.identity import fingerprint
        from modelpact.identity.files import read_private

        text = read_private(self.identity).decode("ascii", "replace")
        start = text.find("-----BEGIN CERTIFICATE-----")
        if start < 0:
            raise InputError(f"{self.identity} contains no certificate in PEM")
        end = "-----END CERTIFICATE-----"
        first = text[start : text.find(end, start) + len(end)]
        return fingerprint(ssl.PEM_cert_to_DER_cert(first))

    def server_tls(self) -> "ssl.SSLContext":
        """Return the TLS context of the server, which accepts only a verified runtime."""
        return server_context(Identity(self.identity), self._trust())

    def client_tls(self) -> "ssl.SSLContext":
        """Return the TLS context for requests to the runtime."""
        check = "fingerprint" if self.runtime_pin else "hostname"
        return client_context(Identity(self.identity), self._trust(), check=check)  # type: ignore[arg-type]

    def _trust(self) -> Trust:
        if self.runtime_pin:
            return Trust(self.authorities, frozenset([self.runtime_pin]), crl=self.crl)
        return Trust(self.authorities, peer="modelpact:runtime", crl=self.crl)
