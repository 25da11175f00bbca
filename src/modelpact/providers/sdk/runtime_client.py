"""The line to the runtime: registration, late answers, corrections and signals, until they land."""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from modelpact.identity import Signer
from modelpact.ledger.costs import CostLine
from modelpact.providers.contract import Registration
from modelpact.providers.http.messages import (
    ACKNOWLEDGED,
    JSON,
    CorrectionMessage,
    DeregisteredMessage,
    PartialMessage,
    SignalMessage,
    encode,
    registering,
    signed_headers,
)
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import Client, ConnectionLost, Timeouts, WireError
from modelpact.wire.headers import HeaderPairs

_LOG: Final = logging.getLogger("modelpact.kit")
_TIMEOUTS: Final = Timeouts(connect=5.0, first_byte=30.0, total=60.0)
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 5.0


def _not_accepted(error: WireError) -> bool:
    """Tell whether the runtime's certificate was not accepted: that does not change by itself."""
    return isinstance(error.__cause__, ssl.SSLCertVerificationError)


def _explained(error: WireError) -> str:
    """Say what may be behind a connection that ends without a word."""
    if isinstance(error, ConnectionLost) and error.phase == "first byte":
        return f"{error}: the runtime may have refused this certificate, which its log tells"
    return str(error)


class RefusedByRuntime(ModelpactError):
    """The runtime refused something; trying again would not help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(f"the runtime refused with {status} {code}: {message}")


class RuntimeClient:
    """Talks to the runtime and keeps trying while it is away."""

    def __init__(self, url: str, client: Client, signer: Signer) -> None:
        self._url = url
        self._client = client
        self._signer = signer
        self.refused: Callable[[RefusedByRuntime], None] = lambda refusal: None  # noqa: ARG005
        """Called with every refusal."""
        self._emitting = asyncio.Lock()
        self._last_signal: int | None = None

    async def _once(
        self, method: str, path: str, headers: HeaderPairs = (JSON,), body: bytes = b""
    ) -> Any:
        answer = await self._client.request(
            method, f"{self._url}{path}", headers, body, timeouts=_TIMEOUTS
        )
        said = await answer.read(1_048_576)
        if answer.status >= 500:
            raise WireError("head", f"the runtime answered {answer.status}")
        try:
            content = msgspec.json.decode(said)
        except msgspec.DecodeError:
            content = {}
        if answer.status >= 400:
            error = content.get("error", {}) if isinstance(content, dict) else {}
            message = error.get("message", said[:200].decode("utf-8", "replace"))
            refusal = RefusedByRuntime(answer.status, error.get("code", ""), message)
            self.refused(refusal)
            raise refusal
        return content

    async def _until_taken(
        self,
        method: str,
        path: str,
        headers: Callable[[], HeaderPairs] = lambda: (JSON,),
        body: bytes = b"",
        settled: Callable[[WireError], bool] = lambda error: False,  # noqa: ARG005
    ) -> Any:
        """Ask again until there is an answer; only for what may safely be asked twice.

        Headers are made anew each time: a signature holds for minutes. What `settled` says of is
        raised at once.
        """
        wait = _FIRST_WAIT
        while True:
            try:
                return await self._once(method, path, headers(), body)
            except WireError as error:
                if settled(error):
                    raise
                _LOG.warning("%s %s: %s; trying again", method, path, _explained(error))
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    async def register(self, registration: Registration) -> str:
        """Register, and wait for a runtime that is not there yet; returns the event of it.

        It is signed: a new certificate is taken on the word of the signing key. A runtime whose
        certificate is not accepted is not waited for.
        """
        body, subject = msgspec.json.encode(registration), registering(registration.id)

        def headers() -> HeaderPairs:
            return signed_headers(self._signer, subject, body, ACKNOWLEDGED)

        taken = await self._until_taken("POST", "/v1/providers", headers, body, _not_accepted)
        return str(taken["event"])

    async def deregister(self, provider: str, event: str) -> None:
        """Deregister, unless another has registered under the name since that event.

        A runtime that is away learns it from silence.
        """
        try:
            await self._once("DELETE", f"/v1/providers/{provider}?event={event}")
        except (WireError, RefusedByRuntime) as error:
            _LOG.info("not deregistered: %s", error)

    async def standing(self, provider: str) -> str:
        """Ask once in which state the runtime has a provider."""
        return str((await self._once("GET", f"/v1/providers/{provider}"))["state"])

    async def answer(self, invocation_id: str, body: bytes, sequence: int) -> None:
        """Deliver a late answer, over restarts of the runtime."""
        path = f"/v1/invocations/{invocation_id}"
        await self._push(invocation_id, f"{path}/response", body, sequence)

    async def partial(self, invocation_id: str, number: int, content: Any) -> None:
        """Deliver a piece of a late answer, over restarts of the runtime."""
        body = encode(PartialMessage(invocation_id, number, content))
        await self._push(invocation_id, f"/v1/invocations/{invocation_id}/partials", body, number)

    async def _push(self, invocation_id: str, path: str, body: bytes, sequence: int) -> None:
        """Send a numbered message once: after a doubt, ask first whether it has arrived."""
        wait = _FIRST_WAIT
        while True:
            headers = signed_headers(self._signer, invocation_id, body, sequence)
            try:
                await self._once("POST", path, headers, body)
                return
            except WireError as error:
                _LOG.warning("%s: %s; asking whether it has arrived", path, error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
            state = await self._until_taken("GET", f"/v1/invocations/{invocation_id}")
            if state["state"] != "open" or state["partials"] >= sequence:
                return

    async def correct(
        self, invocation_id: str, cost: list[CostLine], sequence: int, reason: str
    ) -> str:
        """Correct the cost of a settled invocation; returns the event of the correction."""
        name = f"cor_{secrets.token_urlsafe(12)}"
        lines = msgspec.to_builtins(cost)
        body = encode(CorrectionMessage(name, invocation_id, lines, reason=reason))

        def headers() -> HeaderPairs:
            return signed_headers(self._signer, invocation_id, body, sequence)

        taken = await self._until_taken("POST", "/v1/costs/corrections", headers, body)
        return str(taken["event"])

    async def emit(
        self, source: str, kind: str, content: Any, cost: list[CostLine], name: str
    ) -> Any:
        """Deliver a signal, in its order, until the runtime has acknowledged it."""
        emitted = time.time_ns() // 1_000_000
        async with self._emitting:
            if self._last_signal is None:
                found = await self._until_taken("GET", f"/v1/signals/{source}")
                self._last_signal = int(found["last"])
            number = self._last_signal + 1
            lines = msgspec.to_builtins(cost)
            body = encode(SignalMessage(source, name, number, kind, emitted, content, lines))
            wait = _FIRST_WAIT
            while True:
                headers = signed_headers(self._signer, f"{source}/{name}", body, number)
                try:
                    taken = await self._once("POST", "/v1/signals", headers, body)
                    break
                except RefusedByRuntime:
                    self._last_signal = None
                    raise
                except WireError as error:
                    _LOG.warning("signal %s: %s; trying again", name, error)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            self._last_signal = max(self._last_signal, int(taken["number"]))
            return taken


_LOOK_SECONDS: Final = 60.0
"""How often to ask: a runtime may fail to tell."""
_REFUSALS: Final = {"provider_deregistered": "deregistered", "not_yours": "not registered"}
"""With what a runtime refuses one that it does not have, or no longer."""


class Deregistered(ModelpactError):
    """The runtime has deregistered this provider; `state` and `reason` are what it said of that."""

    def __init__(self, provider: str, state: str, reason: str) -> None:
        self.provider = provider
        self.state = state
        self.reason = reason
        how = "an operator registers it again, with `modelpact providers register`"
        if state == "deregistered":
            how = "start it again to register it again"
        said = f": {reason}" if reason else ""
        super().__init__(f"the runtime has {provider} as {state}{said}; {how}")


class RegistrationStatus:
    """What a provider knows of its registration."""

    def __init__(self, provider: str, line: RuntimeClient) -> None:
        self.gone: Deregistered | None = None
        self._provider = provider
        self._line = line
        self._event = ""
        self._stirred = asyncio.Event()
        line.refused = self._refused

    def registered(self, event: str) -> None:
        """Note the event of the registration."""
        self._event = event

    def told(self, message: DeregisteredMessage) -> None:
        """Hear from a runtime; what is of another registration is a reason to ask."""
        if message.registered == self._event:
            self._end(message.state, message.reason)
        self._stirred.set()

    async def ended(self) -> Deregistered:
        """Return when the provider is deregistered."""
        while self.gone is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._stirred.wait()
            self._stirred.clear()
            if self.gone is None:
                await self._look()
        return self.gone

    async def _look(self) -> None:
        try:
            state = await self._line.standing(self._provider)
        except (WireError, RefusedByRuntime) as error:  # what a refusal tells was heard then
            _LOG.info("%s asked whether it is registered: %s", self._provider, error)
        else:
            if state != "active":
                self._end(state, "")

    def _refused(self, error: RefusedByRuntime) -> None:
        if self._event and error.code in _REFUSALS:
            self._end(_REFUSALS[error.code], error.message)

    def _end(self, state: str, reason: str) -> None:
        if self.gone is None:
            self.gone = Deregistered(self._provider, state, reason)
            _LOG.error("%s; no more invocations are taken", self.gone)
            self._stirred.set()
