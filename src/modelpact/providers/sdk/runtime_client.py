"""The client of the runtime: it registers, sends deferred responses, corrections and signals."""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from modelpact.identity import Signer
from modelpact.ledger.costs import CostLine
from modelpact.providers.contract import Registration
from modelpact.providers.http.messages import (
    ACKNOWLEDGEMENT,
    JSON,
    CorrectionMessage,
    DeregisteredMessage,
    SignalMessage,
    encode,
    registration_subject,
    signed_headers,
)
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import Client, ConnectionLost, Timeouts, WireError
from modelpact.wire.headers import HeaderPairs

MessageKind = Literal["partials", "response"]
"""What a provider delivers for an invocation: a part of its response, or the response."""
_LOG: Final = logging.getLogger("modelpact.sdk")
_TIMEOUTS: Final = Timeouts(connect=5.0, first_byte=30.0, total=60.0)
_MAX_RESPONSE_BYTES: Final = 1_048_576
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 5.0
_CHECK_SECONDS: Final = 60.0
"""How often to ask for the registration state, because a notification may be lost."""
_DEREGISTERED_CODES: Final = {"provider_deregistered": "deregistered", "not_yours": "not registered"}
"""Error codes of a runtime that has deregistered the provider, and the state that they mean."""


class RefusedByRuntime(ModelpactError):
    """The runtime refused a request; trying again would not help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(f"the runtime refused with {status} {code}: {message}")


class Deregistered(ModelpactError):
    """The runtime has deregistered this provider; `state` and `reason` come from the runtime."""

    def __init__(self, provider: str, state: str, reason: str) -> None:
        self.provider = provider
        self.state = state
        self.reason = reason
        advice = "an operator must register it again, with `modelpact providers register`"
        if state == "deregistered":
            advice = "start it again to register it again"
        detail = f": {reason}" if reason else ""
        super().__init__(f"the runtime has {provider} as {state}{detail}; {advice}")


class RuntimeClient:
    """Sends requests to the runtime and retries while the runtime is unavailable."""

    def __init__(self, url: str, client: Client, signer: Signer) -> None:
        self._url = url
        self._client = client
        self._signer = signer
        self.on_refused: Callable[[RefusedByRuntime], None] = lambda refusal: None  # noqa: ARG005
        """Called with every refusal."""
        self._emit_lock = asyncio.Lock()
        self._last_signal: int | None = None

    async def register(self, registration: Registration) -> str:
        """Register and return the event of the registration; wait for a runtime that is away.

        The registration is signed, so that a new certificate is accepted on the word of the
        signing key. If the runtime's own certificate is not accepted, that is raised at once.
        """
        body = msgspec.json.encode(registration)
        subject = registration_subject(registration.id)

        def headers() -> HeaderPairs:
            return signed_headers(self._signer, subject, body, ACKNOWLEDGEMENT)

        response = await self._retry("POST", "/v1/providers", headers, body, _is_untrusted)
        return str(response["event"])

    async def deregister(self, provider: str, event: str) -> None:
        """Deregister, unless there is a newer registration than that event. Failures are logged."""
        try:
            await self._request("DELETE", f"/v1/providers/{provider}?event={event}")
        except (WireError, RefusedByRuntime) as error:
            _LOG.info("not deregistered: %s", error)

    async def registration_state(self, provider: str) -> str:
        """Return the state that the runtime has for a provider; no retries."""
        return str((await self._request("GET", f"/v1/providers/{provider}"))["state"])

    async def deliver(self, invocation_id: str, kind: MessageKind, body: bytes, sequence: int) -> None:
        """Deliver a deferred response or a partial once, also across restarts of the runtime.

        After a lost connection, ask the runtime whether the message has arrived.
        """
        path = f"/v1/invocations/{invocation_id}/{kind}"
        backoff = _Backoff()
        while True:
            headers = signed_headers(self._signer, invocation_id, body, sequence)
            try:
                await self._request("POST", path, headers, body)
                return
            except WireError as error:
                _LOG.warning("%s: %s; asking whether it has arrived", path, error)
            await backoff.sleep()
            invocation = await self._retry("GET", f"/v1/invocations/{invocation_id}")
            if invocation["state"] != "open" or invocation["partials"] >= sequence:
                return

    async def correct_cost(self, invocation_id: str, cost: list[CostLine], sequence: int, reason: str) -> str:
        """Correct the cost of a settled invocation; return the event of the correction."""
        correction_id = f"cor_{secrets.token_urlsafe(12)}"
        lines = msgspec.to_builtins(cost)
        body = encode(CorrectionMessage(correction_id, invocation_id, lines, reason=reason))

        def headers() -> HeaderPairs:
            return signed_headers(self._signer, invocation_id, body, sequence)

        response = await self._retry("POST", "/v1/costs/corrections", headers, body)
        return str(response["event"])

    async def emit(self, source: str, kind: str, content: Any, cost: list[CostLine], signal_id: str) -> Any:
        """Deliver a signal, in order, until the runtime has acknowledged it."""
        emitted = time.time_ns() // 1_000_000
        async with self._emit_lock:
            if self._last_signal is None:
                response = await self._retry("GET", f"/v1/signals/{source}")
                self._last_signal = int(response["last"])
            number = self._last_signal + 1
            lines = msgspec.to_builtins(cost)
            body = encode(SignalMessage(source, signal_id, number, kind, emitted, content, lines))

            def headers() -> HeaderPairs:
                return signed_headers(self._signer, f"{source}/{signal_id}", body, number)

            try:
                receipt = await self._retry("POST", "/v1/signals", headers, body)
            except RefusedByRuntime:
                self._last_signal = None
                raise
            self._last_signal = max(self._last_signal, int(receipt["number"]))
            return receipt

    async def _retry(
        self,
        method: str,
        path: str,
        headers: Callable[[], HeaderPairs] = lambda: (JSON,),
        body: bytes = b"",
        is_final: Callable[[WireError], bool] = lambda error: False,  # noqa: ARG005
    ) -> Any:
        """Send an idempotent request until there is a response.

        Headers are created for each attempt, because a signature is valid only for minutes. An
        error for which `is_final` is true is raised at once.
        """
        backoff = _Backoff()
        while True:
            try:
                return await self._request(method, path, headers(), body)
            except WireError as error:
                if is_final(error):
                    raise
                _LOG.warning("%s %s: %s; trying again", method, path, _explain(error))
            await backoff.sleep()

    async def _request(self, method: str, path: str, headers: HeaderPairs = (JSON,), body: bytes = b"") -> Any:
        response = await self._client.request(method, f"{self._url}{path}", headers, body, timeouts=_TIMEOUTS)
        data = await response.read(_MAX_RESPONSE_BYTES)
        if response.status >= 500:
            raise WireError("head", f"the runtime answered {response.status}")
        try:
            content = msgspec.json.decode(data)
        except msgspec.DecodeError:
            content = {}
        if response.status >= 400:
            error = content.get("error", {}) if isinstance(content, dict) else {}
            message = error.get("message", data[:200].decode("utf-8", "replace"))
            refusal = RefusedByRuntime(response.status, error.get("code", ""), message)
            self.on_refused(refusal)
            raise refusal
        return content


class RegistrationStatus:
    """What a provider knows of its registration."""

    def __init__(self, provider: str, runtime: RuntimeClient) -> None:
        self.ended: Deregistered | None = None
        """Why the registration has ended, or None while it stands."""
        self._provider = provider
        self._runtime = runtime
        self._event = ""
        self._changed = asyncio.Event()
        runtime.on_refused = self._refused

    def registered(self, event: str) -> None:
        """Set the event of the registration."""
        self._event = event

    def notified(self, message: DeregisteredMessage) -> None:
        """Handle a notice of the runtime; one about another registration triggers a check."""
        if message.registered == self._event:
            self._end(message.state, message.reason)
        self._changed.set()

    async def wait_until_ended(self) -> Deregistered:
        """Return when the provider is deregistered."""
        while self.ended is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            if self.ended is None:
                await self._check()
        return self.ended

    async def _check(self) -> None:
        try:
            state = await self._runtime.registration_state(self._provider)
        except (WireError, RefusedByRuntime) as error:  # a refusal was handled by `_refused`
            _LOG.info("%s cannot check its registration: %s", self._provider, error)
        else:
            if state != "active":
                self._end(state, "")

    def _refused(self, error: RefusedByRuntime) -> None:
        if self._event and error.code in _DEREGISTERED_CODES:
            self._end(_DEREGISTERED_CODES[error.code], error.message)

    def _end(self, state: str, reason: str) -> None:
        if self.ended is None:
            self.ended = Deregistered(self._provider, state, reason)
            _LOG.error("%s; no more invocations are accepted", self.ended)
            self._changed.set()


class _Backoff:
    """Exponentially growing pauses between attempts."""

    def __init__(self) -> None:
        self._seconds = _FIRST_WAIT

    async def sleep(self) -> None:
        await asyncio.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, _LONGEST_WAIT)


def _is_untrusted(error: WireError) -> bool:
    """Tell whether the runtime's certificate was not accepted, which retries do not change."""
    return isinstance(error.__cause__, ssl.SSLCertVerificationError)


def _explain(error: WireError) -> str:
    """Return the error with a likely cause if the connection was closed without a response."""
    if isinstance(error, ConnectionLost) and error.phase == "first byte":
        return f"{error}: the runtime may have refused this certificate; see its log"
    return str(error)
