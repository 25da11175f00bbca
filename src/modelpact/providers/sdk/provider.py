"""The provider: its settings, its capabilities and signals, and running it as a program."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from modelpact.identity import Identity, Keyring, Trust, fingerprint
from modelpact.identity.files import read_private
from modelpact.identity.tls import client_context, server_context
from modelpact.ledger.costs import CostLine, Unit
from modelpact.providers.contract import Category, Offer, Rate, Registration, Semantics
from modelpact.providers.sdk.runtime_client import Deregistered, RegistrationStatus, RuntimeClient
from modelpact.providers.sdk.server import CapabilityFunction, ProviderServer
from modelpact.vocabulary.errors import InputError, ModelpactError, brief
from modelpact.wire import Client, serve

FunctionT = TypeVar("FunctionT", bound=CapabilityFunction)
DeregistrationHook = Callable[[Deregistered], Awaitable[None]]
BackgroundTask = Callable[[], Awaitable[None]]
_LOG: Final = logging.getLogger("modelpact.sdk")
_EXIT_DEREGISTERED: Final = 3
"""The exit code of a provider that the runtime has deregistered."""


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
        text = read_private(self.identity).decode("ascii", "replace")
        start = text.find("-----BEGIN CERTIFICATE-----")
        if start < 0:
            raise InputError(f"{self.identity} contains no certificate in PEM")
        end = "-----END CERTIFICATE-----"
        first = text[start : text.find(end, start) + len(end)]
        return fingerprint(ssl.PEM_cert_to_DER_cert(first))

    def server_tls(self) -> ssl.SSLContext:
        """Return the TLS context of the server, which accepts only a verified runtime."""
        return server_context(Identity(self.identity), self._trust())

    def client_tls(self) -> ssl.SSLContext:
        """Return the TLS context for requests to the runtime."""
        check = "fingerprint" if self.runtime_pin else "hostname"
        return client_context(Identity(self.identity), self._trust(), check=check)  # type: ignore[arg-type]

    def _trust(self) -> Trust:
        if self.runtime_pin:
            return Trust(self.authorities, frozenset([self.runtime_pin]), crl=self.crl)
        return Trust(self.authorities, peer="modelpact:runtime", crl=self.crl)


class Provider:
    """A provider of capabilities, a source of signals, or both.

    Register capabilities with the decorator `capability`, then call `run`.
    """

    def __init__(
        self,
        id: str,
        category: Category,
        *,
        units: Sequence[Unit] = ("time",),
        currency: str = "",
        name: str = "",
        max_latency_ms: int | None = None,
    ) -> None:
        self._registration = Registration(id, category, (), tuple(units), currency, name, max_latency_ms=max_latency_ms)
        self._offers: list[Offer] = []
        self._functions: dict[str, CapabilityFunction] = {}
        self._tasks: list[BackgroundTask] = []
        self._hooks: list[DeregistrationHook] = []
        self._runtime: RuntimeClient | None = None
        self._event = ""
        self._deregistration: asyncio.Task[Deregistered] | None = None

    def capability(
        self,
        kind: str,
        *,
        input: dict[str, Any],
        output: dict[str, Any],
        semantics: Semantics | Sequence[Semantics] = "sync",
        rates: dict[Unit, int] | None = None,
        description: str = "",
    ) -> Callable[[FunctionT], FunctionT]:
        """Offer a function as a capability. It is called with the input and a `CapabilityCall`.

        Plain and async functions return the output. Async generators yield partials,
        then `FinalOutput`. `rates` maps units to pico-units of the currency; if there are rates,
        the SDK computes the money.
        """
        offered = (semantics,) if isinstance(semantics, str) else tuple(semantics)
        prices = tuple(Rate(unit, pico) for unit, pico in (rates or {}).items())
        self._offers.append(Offer(kind, input, output, offered, prices, description))

        def register(function: FunctionT) -> FunctionT:
            self._functions[kind] = function
            return function

        return register

    def task(self, function: BackgroundTask) -> BackgroundTask:
        """Run a function in the background while the provider is registered, to emit signals."""
        self._tasks.append(function)
        return function

    def on_deregistered(self, function: DeregistrationHook) -> DeregistrationHook:
        """Call a function after the runtime deregistered this provider and open invocations ended.

        The provider accepts no new invocations then and does not register again by itself.
        """
        self._hooks.append(function)
        return function

    async def emit(self, type: str, content: Any, *, cost: Sequence[CostLine] = (), id: str | None = None) -> Any:
        """Emit a signal; return when the runtime has stored it. Repeating an id has no effect."""
        lines = list(cost) or [CostLine("discrete", 1)]
        signal_id = id or f"sig_{secrets.token_urlsafe(12)}"
        return await self._connected().emit(self._registration.id, type, content, lines, signal_id)

    async def correct_cost(
        self, invocation_id: str, cost: Sequence[CostLine], *, partials: int = 0, reason: str = ""
    ) -> str:
        """Correct an estimated cost; `partials` is the number of partials that were sent."""
        sequence = partials + 2  # after the partials, which count from 1, and the response
        return await self._connected().correct_cost(invocation_id, list(cost), sequence, reason)

    def _connected(self) -> RuntimeClient:
        if self._runtime is None:
            raise InputError(f"{self._registration.id} is not running")
        return self._runtime

    @asynccontextmanager
    async def running(self, environment: ProviderEnvironment) -> AsyncIterator[Registration]:
        """Listen over mutual TLS and be registered until the block ends."""
        signer = environment.signer()
        async with Client(tls=environment.client_tls()) as client:
            runtime = self._runtime = RuntimeClient(environment.runtime, client, signer)
            registration = msgspec.structs.replace(
                self._registration,
                offers=tuple(self._offers),
                identity=environment.fingerprint(),
                signing_key=signer.public_keys.current.raw.hex(),
            )
            status = RegistrationStatus(registration.id, runtime)
            handler = ProviderServer(registration, self._functions, signer, runtime, status)
            tls = environment.server_tls()
            async with await serve(handler, environment.host, environment.port, tls=tls) as server:
                host = f"[{environment.host}]" if ":" in environment.host else environment.host
                url = environment.public_url or f"https://{host}:{server.port}"
                registration = msgspec.structs.replace(registration, base_url=url)
                self._event = await runtime.register(registration)
                status.registered(self._event)
                deregistration = self._deregistration = asyncio.create_task(
                    self._wait_until_deregistered(status, handler)
                )
                _LOG.info("%s is registered and listens at %s", registration.id, url)
                tasks = [asyncio.ensure_future(task()) for task in self._tasks]
                try:
                    yield registration
                finally:
                    for task in (*tasks, deregistration):
                        task.cancel()
                    await asyncio.gather(*tasks, deregistration, return_exceptions=True)
                    await handler.close()

    async def _wait_until_deregistered(self, status: RegistrationStatus, handler: ProviderServer) -> Deregistered:
        """Return when the provider is deregistered, invocations have ended and hooks have run."""
        deregistered = await status.wait_until_ended()
        await handler.finish()
        for hook in self._hooks:
            try:
                await hook(deregistered)
            except Exception:  # the other hooks still run
                _LOG.exception("a deregistration hook failed")
        return deregistered

    async def serve(self, environment: ProviderEnvironment | None = None) -> None:
        """Run until SIGTERM or SIGINT, then deregister.

        If the runtime deregisters the provider first, raise `Deregistered` as soon as the open
        invocations have ended.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        this_task, registered = asyncio.current_task(), False

        def on_signal() -> None:
            stop.set()
            if not registered and this_task is not None:
                this_task.cancel()  # it still waits for a runtime that may never answer

        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows has no such handlers
                loop.add_signal_handler(number, on_signal)
        try:
            async with self.running(environment or ProviderEnvironment.from_environment()):
                registered = True
                stopping, deregistration = asyncio.create_task(stop.wait()), self._deregistration
                assert deregistration is not None
                await asyncio.wait([stopping, deregistration], return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                if deregistration.done():
                    raise deregistration.result()
                await self._connected().deregister(self._registration.id, self._event)
        except asyncio.CancelledError:
            if registered or not stop.is_set():
                raise

    def run(self, environment: ProviderEnvironment | None = None) -> None:
        """Run as a program. An error that the operator can fix is one line and exit code 2.

        A provider that the runtime deregistered exits with code 3; starting it again registers it
        again.
        """
        logging.basicConfig(level=logging.INFO)
        try:
            asyncio.run(self.serve(environment))
        except Deregistered as error:
            print(f"{self._registration.id}: {error}", file=sys.stderr)
            raise SystemExit(_EXIT_DEREGISTERED) from None
        except (ModelpactError, OSError) as error:
            print(f"{self._registration.id}: {error}", file=sys.stderr)
            raise SystemExit(2) from None
