"""The provider: its capabilities, its registration and its life as a process."""

import asyncio
import contextlib
import logging
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec

from modelpact.ledger.costs import CostLine, Unit
from modelpact.providers.contract import (
    Category,
    Offer,
    Rate,
    Registration,
    Semantics,
)
from modelpact.providers.sdk.runtime_client import Deregistered, RegistrationStatus, RuntimeClient
from modelpact.providers.sdk.server import Function, ProviderServer
from modelpact.providers.sdk.settings import ProviderEnvironment
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire import Client, serve

F = TypeVar("F", bound=Callable[..., Any])
Hook = Callable[[Deregistered], Awaitable[None]]
_LOG: Final = logging.getLogger("modelpact.kit")
_DEREGISTERED: Final = 3
"""The exit code of a provider that the runtime has deregistered."""


class Provider:
    """A provider of capabilities, a source of signals, or both.

    `rates` are pico-units of the currency for one of each unit; money is then worked out.
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
        self._bare = Registration(
            id,
            category,
            (),
            tuple(units),
            currency,
            name,
            max_latency_ms=max_latency_ms,
        )
        self._offers: list[Offer] = []
        self._functions: dict[str, Function] = {}
        self._tasks: list[Callable[[], Awaitable[None]]] = []
        self._hooks: list[Hook] = []
        self._line: RuntimeClient | None = None
        self._event = ""
        self._ending: asyncio.Task[Deregistered] | None = None

    def capability(
        self,
        kind: str,
        *,
        input: dict[str, Any],
        output: dict[str, Any],
        semantics: Semantics | Sequence[Semantics] = "sync",
        rates: dict[Unit, int] | None = None,
        description: str = "",
    ) -> Callable[[F], F]:
        """Offer a function as a capability; it is called with the input and the `Call`.

        Plain and async functions return the output; async generators yield pieces, then `Final`.
        """
        ways = (semantics,) if isinstance(semantics, str) else tuple(semantics)
        prices = tuple(Rate(unit, pico) for unit, pico in (rates or {}).items())
        self._offers.append(Offer(kind, input, output, ways, prices, description))

        def keep(function: F) -> F:
            self._functions[kind] = function
            return function

        return keep

    def task(self, function: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Run a function beside the server, once registered: the place to emit signals from."""
        self._tasks.append(function)
        return function

    def on_deregistered(self, function: Hook) -> Hook:
        """Call a function when the runtime has deregistered this provider, once what is open ends.

        Nothing new is taken from then on, and the provider does not register again by itself.
        """
        self._hooks.append(function)
        return function

    async def emit(
        self, type: str, content: Any, *, cost: Sequence[CostLine] = (), id: str | None = None
    ) -> Any:
        """Emit a signal; returns when the runtime has it for good. The same id counts once."""
        lines = list(cost) or [CostLine("discrete", 1)]
        name = id or f"sig_{secrets.token_urlsafe(12)}"
        return await self._connected().emit(self._bare.id, type, content, lines, name)

    async def correct_cost(
        self,
        invocation_id: str,
        cost: Sequence[CostLine],
        *,
        partials: int = 0,
        reason: str = "",
    ) -> str:
        """Correct a cost that was an estimate; `partials` is how many pieces there were."""
        lines = list(cost)
        return await self._connected().correct(invocation_id, lines, partials + 2, reason)

    def _connected(self) -> RuntimeClient:
        if self._line is None:
            raise InputError(f"{self._bare.id} is not running")
        return self._line

    @asynccontextmanager
    async def running(self, settings: ProviderEnvironment) -> AsyncIterator[Registration]:
        """Serve over mutual TLS and be registered, until the block is left."""
        signer = settings.signer()
        async with Client(tls=settings.client_tls()) as client:
            line = self._line = RuntimeClient(settings.runtime, client, signer)
            registration = msgspec.structs.replace(
                self._bare,
                offers=tuple(self._offers),
                identity=settings.fingerprint(),
                signing_key=signer.public_keys.current.raw.hex(),
            )
            standing = RegistrationStatus(registration.id, line)
            workshop = ProviderServer(registration, self._functions, signer, line, standing)
            tls = settings.server_tls()
            async with await serve(workshop, settings.host, settings.port, tls=tls) as server:
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                url = settings.public_url or f"https://{host}:{server.port}"
                registration = msgspec.structs.replace(registration, base_url=url)
                self._event = await line.register(registration)
                standing.registered(self._event)
                ending = self._ending = asyncio.create_task(self._ended(standing, workshop))
                _LOG.info("%s is registered and listens at %s", registration.id, url)
                tasks = [asyncio.ensure_future(one()) for one in self._tasks]
                try:
                    yield registration
                finally:
                    for task in (*tasks, ending):
                        task.cancel()
                    await asyncio.gather(*tasks, ending, return_exceptions=True)
                    await workshop.close()

    async def _ended(self, standing: RegistrationStatus, workshop: ProviderServer) -> Deregistered:
        """Return when the provider is deregistered, what was open has ended, and hooks were run."""
        gone = await standing.ended()
        await workshop.finish()
        for hook in self._hooks:
            try:
                await hook(gone)
            except Exception:  # the others hear of it all the same
                _LOG.exception("a hook failed that was told of the deregistration")
        return gone

    async def serve(self, settings: ProviderEnvironment | None = None) -> None:
        """Run until told to stop, then deregister.

        Raises `Deregistered` where the runtime did that before, as soon as what was open has ended.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        me, registered = asyncio.current_task(), False

        def end() -> None:
            stop.set()
            if not registered and me is not None:
                me.cancel()  # it still waits for a runtime that may never come

        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows has no such handlers
                loop.add_signal_handler(number, end)
        try:
            async with self.running(settings or ProviderEnvironment.from_environment()):
                registered = True
                stopping, ending = asyncio.create_task(stop.wait()), self._ending
                assert ending is not None
                await asyncio.wait([stopping, ending], return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                if ending.done():
                    raise ending.result()
                await self._connected().deregister(self._bare.id, self._event)
        except asyncio.CancelledError:
            if registered or not stop.is_set():
                raise

    def run(self, settings: ProviderEnvironment | None = None) -> None:
        """Run as a program; what its operator can mend is told in a line, with exit code 2.

        The exit code of one that the runtime has deregistered is 3: who starts it again, as
        supervisors do, registers it again.
        """
        logging.basicConfig(level=logging.INFO)
        try:
            asyncio.run(self.serve(settings))
        except Deregistered as gone:
            print(f"{self._bare.id}: {gone}", file=sys.stderr)
            raise SystemExit(_DEREGISTERED) from None
        except (ModelpactError, OSError) as error:
            print(f"{self._bare.id}: {error}", file=sys.stderr)
            raise SystemExit(2) from None
