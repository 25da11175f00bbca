"""Where a provider finds its runtime and its keys: from the environment, or as values."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from modelpact.identity import Identity, Keyring, Trust, client_context, server_context
from modelpact.vocabulary.errors import InputError, brief

if TYPE_CHECKING:
    import ssl


class ProviderEnvironment(msgspec.Struct, frozen=True):
    """What a provider needs to know. `runtime` is the URL at which the runtime listens.

    `identity` is the file with the provider's certificate and key, `authorities` the certificates
    that may sign the runtime's. `keyring` is the folder of the signing key; it is made if missing.
    With `runtime_pin` the runtime must have that key; else its certificate must say that it is
    a runtime, and be for the host that is called.
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
    """Where the runtime reaches this provider; by default `https://host:port`."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "ProviderEnvironment":
        """Read `MODELPACT_RUNTIME`, `MODELPACT_IDENTITY` and so on; errors name what is missing."""

        def get(name: str, default: str | None = None) -> str:
            found = environment.get(f"MODELPACT_{name}", default)
            if found is None:
                raise InputError(f"MODELPACT_{name} is not set: see docs/provider-binding.md")
            return found

        port = get("PORT", "0")
        if not port.isdecimal() or int(port) > 65_535:
            raise InputError(f"MODELPACT_PORT: expected 0 to 65535, not {port:.20}")
        crl, runtime = get("CRL", ""), get("RUNTIME").rstrip("/")
        if not runtime.startswith("https://"):
            raise InputError(
                f"MODELPACT_RUNTIME: expected https://HOST:PORT, not {brief(runtime)}: a runtime "
                "is reached with TLS only"
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
        """Open the keyring, or make it."""
        if (self.keyring / "keys.json").exists():
            return Keyring.open(self.keyring)
        return Keyring.init(self.keyring)

    def fingerprint(self) -> str:
        """Return the identity to register with: the fingerprint of the certificate's key."""
        import ssl

        from modelpact.identity import fingerprint
        from modelpact.identity.files import read_private

        text = read_private(self.identity).decode("ascii", "replace")
        at = text.find("-----BEGIN CERTIFICATE-----")
        if at < 0:
            raise InputError(f"{self.identity} holds no certificate in PEM")
        end = "-----END CERTIFICATE-----"
        first = text[at : text.find(end, at) + len(end)]
        return fingerprint(ssl.PEM_cert_to_DER_cert(first))

    def server_tls(self) -> "ssl.SSLContext":
        """Return the context of the provider's server: only a verified runtime gets in."""
        return server_context(Identity(self.identity), self._trust())

    def client_tls(self) -> "ssl.SSLContext":
        """Return the context for calls to the runtime."""
        check = "fingerprint" if self.runtime_pin else "hostname"
        return client_context(Identity(self.identity), self._trust(), check=check)  # type: ignore[arg-type]

    def _trust(self) -> Trust:
        if self.runtime_pin:
            return Trust(self.authorities, frozenset([self.runtime_pin]), crl=self.crl)
        return Trust(self.authorities, peer="modelpact:runtime", crl=self.crl)
