"""Whether the runtime still has this provider: it is told, it is refused, and now and then it asks.

One that was deregistered takes no more work and does not register again by itself: whoever took it
out had a reason.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from modelpact.providers.binding.messages import DeregisteredMessage
from modelpact.providers.kit.line import RefusedByRuntime, RuntimeLine
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import WireError

_LOG: Final = logging.getLogger("modelpact.kit")
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


class Standing:
    """What a provider knows of its registration."""

    def __init__(self, provider: str, line: RuntimeLine) -> None:
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
