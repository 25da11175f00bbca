"""A request as it was read, before it is planned."""

from typing import Any

import msgspec

from modelpact.gateway.plan.plan import PlanKey
from modelpact.gateway.request.auth import Caller
from modelpact.needs.requests import RequestApi
from modelpact.wire.headers import Headers


class IncomingRequest(msgspec.Struct, frozen=True):
    """A request for a model: its caller, its body, and what its plan depends on."""

    api: RequestApi
    caller: Caller
    headers: Headers
    raw: bytes
    body: dict[str, Any]
    """`raw`, decoded."""
    plan_key: PlanKey

    @property
    def stream(self) -> bool:
        """Whether the client wants a stream."""
        return self.plan_key.features.stream
