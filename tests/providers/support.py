"""Helpers of the contract tests: certificates, runtimes, and providers in and out of process."""

import asyncio
import functools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec

import msgspec

from modelpact.identity import Authority, Identity, Keyring, Trust, fingerprint
from modelpact.identity.tls import client_context
from modelpact.ledger import Event, Ledger
from modelpact.ledger.canonical import canonical
from modelpact.ledger.event import event_hash
from modelpact.providers.contract import ComplianceProfile, Invocation, Offer, Registration
from modelpact.providers.http import HttpTransport, RuntimeHost, serve_runtime
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.sdk import CapabilityCall, FinalOutput, Provider, ProviderEnvironment
from modelpact.wire import Client
from tests.identity.conftest import der

P = ParamSpec("P")
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Longer than any test takes on a busy machine."""
ECHO = "urn:test:echo"
ANY: dict[str, Any] = {"type": "object"}


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test with a timeout."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE))

    return run


async def until(condition: Callable[[], Any], seconds: float = PATIENCE / 2) -> Any:
    """Wait until a condition is true, and return its value."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError("the condition did not become true in time")
        await asyncio.sleep(0.01)
    return result


class World:
    """An authority, the certificates that it issued, and a store."""

    def __init__(self, folder: Path, authority: Authority, store: str) -> None:
        self.folder = folder
        self.authority = authority
        self.store = store

    def identity(self, name: str, kind: Any = "provider") -> Identity:
        """Return a certificate of that name, issued on first use."""
        path = self.authority.identity_file(name)
        if not path.exists():
            self.authority.issue(name, kind, ["127.0.0.1", "localhost"])
        return Identity(path)

    def fingerprint(self, name: str) -> str:
        return fingerprint(der(self.identity(name).certificate))

    def keyring(self, name: str) -> Keyring:
        folder = self.folder / "keyrings" / name
        return Keyring.open(folder) if folder.exists() else Keyring.init(folder)

    @property
    def trust(self) -> Trust:
        return Trust(self.authority.certificate, crl=self.authority.crl)

    def settings(self, name: str, runtime: str) -> ProviderEnvironment:
        return ProviderEnvironment(
            runtime, self.identity(name).certificate, self.authority.certificate, self.folder / "keyrings" / name
        )

    def registration(self, name: str, base_url: str = "", **more: Any) -> Registration:
        """Return the registration of an echo provider, with identity and signing key."""
        ring = self.keyring(name)
        fields: dict[str, Any] = {
            "category": "tool",
            "offers": (Offer(ECHO, ANY, ANY, ("sync", "async", "streaming")),),
            "units": ("discrete", "time"),
            "identity": self.fingerprint(name),
            "signing_key": ring.public_keys.current.raw.hex(),
            "base_url": base_url,
            **more,
        }
        return Registration(id=name, **fields)

    @asynccontextmanager
    async def hosting(
        self,
        ledger: Ledger,
        *,
        name: str = "main",
        profile: ComplianceProfile | None = None,
        port: int = 0,
        largest: int = 1_000_000,
        **more: Any,
    ) -> AsyncIterator[RuntimeHost]:
        """Run a runtime with the HTTP transport."""
        me = self.identity(name, "runtime")
        carrier = HttpTransport(me, self.trust, max_bytes=largest)
        runtime = Runtime(ledger, name=name, profile=profile, default_transport=carrier, **more)
        try:
            async with serve_runtime(runtime, me, self.trust, port=port, maintenance_s=0.05) as host:
                yield host
        finally:
            runtime.subscriptions.close()
            await carrier.aclose()

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[Client]:
        """Yield a client that presents the certificate of that name."""
        async with Client(tls=client_context(self.identity(name), self.trust)) as client:
            yield client

    @asynccontextmanager
    async def example(self, file: str, name: str, runtime: str, **env: str) -> AsyncIterator["subprocess.Popen[str]"]:
        """Run an example as a process of its own."""
        settings = self.settings(name, runtime)
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "MODELPACT_RUNTIME": settings.runtime,
                "MODELPACT_IDENTITY": str(settings.identity),
                "MODELPACT_AUTHORITIES": str(settings.authorities),
                "MODELPACT_KEYRING": str(settings.keyring),
                **env,
            },
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def echo_provider(name: str = "echo", **more: Any) -> Provider:
    """Return a provider of the SDK with one capability in all three semantics."""
    provider = Provider(name, "tool", units=("discrete",), **more)

    @provider.capability(ECHO, input=ANY, output=ANY, semantics=("sync", "async", "streaming"))
    async def echo(value: dict[str, Any], call: CapabilityCall) -> Any:
        call.spend("discrete", 1)
        yield {"half": 1}
        yield {"half": 2}
        yield FinalOutput(value)

    return provider


async def call(client: Client, method: str, url: str, body: Any = None, headers: Any = ()) -> tuple[int, Any]:
    """Send JSON and return status and JSON."""
    data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    async with await client.request(method, url, headers, data) as response:
        reply = await response.read()
    try:
        return response.status, msgspec.json.decode(reply)
    except msgspec.DecodeError:
        return response.status, reply


def flags(ledger: Ledger) -> list[tuple[str, str]]:
    """Return the flagged providers and their violations, in order."""
    events = [event for event in ledger.events("registry") if event.type == "provider.flagged"]
    return [(event.payload["provider"], event.payload["violation"]) for event in events]


def settling(ledger: Ledger, invocation: Invocation) -> Event:
    """Return the event that ended an invocation."""
    assert invocation.settled_by is not None
    event = ledger.event(invocation.settled_by)
    assert event is not None
    return event


def events_of(ledger: Ledger, invocation: Invocation) -> list[Event]:
    """Return the events of an invocation's envelope that name it."""
    events = ledger.events(invocation.envelope, limit=100_000)
    return [event for event in events if event.payload.get("invocation") == invocation.id]


def assert_whole(ledger: Ledger) -> None:
    """Check every chain, and that every invocation is settled at most once, with one cost."""
    for (envelope,) in ledger.read("SELECT id FROM envelopes"):
        previous = "0" * 64
        for number, event in enumerate(ledger.events(envelope, limit=1_000_000), 1):
            assert (event.sequence, event.previous) == (number, previous), event.id
            body = canonical(event.payload)
            previous = event_hash(
                event.envelope, event.sequence, event.type, event.time, event.cause, body, event.previous
            )
            assert previous == event.hash, event.id
    ends: dict[str, int] = {}
    kinds = ("capability.completed", "capability.failed", "capability.cancelled")
    for (envelope,) in ledger.read("SELECT id FROM envelopes WHERE kind = 'invocations'"):
        for event in ledger.events(envelope, limit=1_000_000):
            if event.type in kinds:
                ends[event.payload["invocation"]] = ends.get(event.payload["invocation"], 0) + 1
                assert event.payload["cost"]["lines"], event.id
    for identity, state in ledger.read("SELECT id, state FROM invocations"):
        assert ends.get(identity, 0) == (0 if state == "open" else 1), (identity, state)
