"""Learning from calls: the one path from a rejection or a response to evidence in the ledger.

Everything that calls models uses it: sessions, the OpenWOP host, probes and the gateway.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.evidence.observation import Observation
from modelpact.evidence.rejection import Rejection, learn_from_rejection
from modelpact.evidence.response import find_refuted, learn_from_response
from modelpact.evidence.store import current_observations, record_async, withdraw_async
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.ledger import Ledger
from modelpact.vocabulary.memo import BoundedMemo


class Lesson(msgspec.Struct, frozen=True):
    """What one call taught about its model."""

    observations: tuple[Observation, ...] = ()
    """What the call showed, whether or not the catalog said so already."""
    changed: bool = False
    """Whether the evidence changed: a catalog that was read before does not have it yet."""


class EvidenceLearner:
    """Records what calls teach, and withdraws evidence that they refute.

    A ledger that cannot be written to costs the lesson, never the call.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._recorded: BoundedMemo[Observation, bool] = BoundedMemo()

    async def observe_rejection(
        self,
        request: Request,
        error: Rejection | BaseException,
        resolution: Resolution,
        *,
        cause: str | None = None,
    ) -> Lesson:
        """Learn from a request that the upstream rejected.

        `resolution` is what the catalog knows about the model that was called. `cause` is the
        event that settled the call.
        """
        observations = learn_from_rejection(
            error, request, resolution.provider_id, resolution.model
        )
        changed = await self._record(self._admit(observations, resolution), cause)
        return Lesson(observations, changed)

    async def observe_response(
        self,
        request: Request,
        response: Response,
        resolution: Resolution,
        *,
        events: Sequence[StreamEvent] = (),
        cause: str | None = None,
    ) -> Lesson:
        """Learn from a response, and withdraw the evidence that it refutes.

        `events` are the first events of a streamed response.
        """
        names = (resolution.provider_id, resolution.model)
        observations = learn_from_response(request, response, *names, events=events)
        changed = await self._record(self._admit(observations, resolution), cause)
        with contextlib.suppress(LedgerError):
            current = await asyncio.to_thread(current_observations, self._ledger, *names)
            refuted = find_refuted(current, observations, response.usage, resolution)
            if refuted:
                await withdraw_async(self._ledger, refuted, cause=cause)
                self._recorded.clear()  # what was withdrawn may be learned again
                changed = True
        return Lesson(observations, changed)

    def _admit(
        self, observations: tuple[Observation, ...], resolution: Resolution
    ) -> tuple[Observation, ...]:
        """Return the observations to record: those that tell the catalog something new.

        This is the place for rules on which observations become evidence, such as a scope or a
        number of calls that must agree.
        """
        return tuple(
            observation
            for observation in observations
            if observation not in self._recorded and _is_new(observation, resolution)
        )

    async def _record(self, observations: tuple[Observation, ...], cause: str | None) -> bool:
        if not observations:
            return False
        try:
            await record_async(self._ledger, *observations, cause=cause)
        except LedgerError:
            return False
        for observation in observations:
            self._recorded[observation] = True
        return True


def _is_new(observation: Observation, resolution: Resolution) -> bool:
    claim = resolution.claim(observation.capability)
    return claim.support != observation.support or observation.value not in (None, claim.value)
