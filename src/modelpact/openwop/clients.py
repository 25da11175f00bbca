"""Clients: who starts runs, what they may ask for, and what they may spend."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from modelpact.needs.node_modules import FallbackModel
from modelpact.openwop.workflows import ModelTarget, RunRequest
from modelpact.vocabulary.errors import ModelpactError

MOST_TEXT: Final = 16_000_000
"""Characters that the prompts and outputs of one run may have in all."""


class RunClient(Protocol):
    """Who starts runs, and how much of what it may have."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def allows(self, target: str) -> bool:
        """Tell whether it may use a PROVIDER/MODEL."""

    def wait(self) -> float:
        """Take one request out of its rate; return 0, or the seconds after which there is one."""

    async def has_budget(self) -> bool:
        """Tell whether it may spend more."""

    def opened(self, estimate: int) -> None:
        """Count what a call may cost, in nano-dollars."""

    def settled(self, estimate: int, cost: int) -> None:
        """Count what it did cost instead."""


FindClient = Callable[[str], RunClient | None]
"""Returns the client of a tenant as it is now; None where it may do nothing any more."""


class Unlimited:
    """A client that may do everything."""

    name = "the client"

    def allows(self, target: str) -> bool:  # noqa: ARG002
        """Allow it."""
        return True

    def wait(self) -> float:
        """Have no rate."""
        return 0.0

    async def has_budget(self) -> bool:
        """Have no budget."""
        return True

    def opened(self, estimate: int) -> None:
        """Count nothing."""

    def settled(self, estimate: int, cost: int) -> None:
        """Count nothing."""


class ClientRefused(ModelpactError):
    """Something that a client may not do, or not now."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: float | None = None
    ) -> None:
        self.status = status
        self.code = code
        self.retry_after = retry_after
        super().__init__(message)


async def check_start(find: FindClient, tenant: str, request: RunRequest) -> None:
    """Refuse a run whose client may not use what it names, or has nothing left to spend.

    Fallbacks of modules are not looked at: they are not the client's choice, and the gate leaves
    those out that are not allowed.
    """
    client = _present(find, tenant)
    named: list[ModelTarget | FallbackModel] = [request.active, *request.retry_on]
    named += [one.fallback_model for one in request.workflow.nodes if one.fallback_model]
    for one in named:
        _check_allowed(client, f"{one.provider}/{one.model}")
    await _check_budget(client)
    wait = client.wait()
    if wait:
        told = f"{client.name} may not ask more often"
        raise ClientRefused(429, "rate_limit_exceeded", told, wait)


class Allowance:
    """What one run may still do: by its client's limits, and by the length of its texts."""

    def __init__(self, find: FindClient, tenant: str) -> None:
        self._find = find
        self._tenant = tenant
        self._called = False
        self.room = MOST_TEXT

    def allows(self, provider: str, model: str) -> bool:
        """Tell whether the client may use a model."""
        client = self._find(self._tenant)
        return client is not None and client.allows(f"{provider}/{model}")

    async def before_call(self, target: str, told: str) -> RunClient:
        """Return the client once it may call a model, which is `told` of so; or raise.

        A run that asks too often is slowed down, since its work up to here is paid for. The start
        of the run was its first request.
        """
        while True:
            client = _present(self._find, self._tenant)
            if not client.allows(target):
                raise _not_allowed(client, told)
            await _check_budget(client)
            wait = client.wait() if self._called else 0.0
            if not wait:
                self._called = True
                return client
            await asyncio.sleep(wait)


def _present(find: FindClient, tenant: str) -> RunClient:
    client = find(tenant)
    if client is None:
        raise ClientRefused(403, "client_unknown", "the key of this run is not in force any more")
    return client


def _check_allowed(client: RunClient, target: str) -> None:
    if not client.allows(target):
        raise _not_allowed(client, target)


def _not_allowed(client: RunClient, told: str) -> ClientRefused:
    return ClientRefused(403, "model_not_allowed", f"{client.name} is not for {told}")


async def _check_budget(client: RunClient) -> None:
    if not await client.has_budget():
        raise ClientRefused(429, "insufficient_quota", f"{client.name} has spent its budget")
