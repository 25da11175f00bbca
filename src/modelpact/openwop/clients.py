"""Clients of the host: which models their runs may use, and what they may spend."""

import asyncio
from collections.abc import Callable
from typing import Final

from modelpact.needs.dialects import FallbackModel
from modelpact.openwop.workflows import ModelTarget, RunRequest
from modelpact.vocabulary.errors import ModelpactError

MAX_RUN_TEXT: Final = 16_000_000
"""Characters that the prompts and outputs of one run may have in all."""


class RunClient:
    """A client that starts runs. This one has no limits; a subclass sets them."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "the client"

    def allows(self, target: str) -> bool:  # noqa: ARG002
        """Tell whether it may use a PROVIDER/MODEL."""
        return True

    def wait(self) -> float:
        """Take one request from its rate. Return 0, or the seconds until there is one."""
        return 0.0

    async def has_budget(self) -> bool:
        """Tell whether it may spend more."""
        return True

    def opened(self, estimate: int) -> None:
        """Count the estimated cost of a call, in nano-dollars."""

    def settled(self, estimate: int, cost: int) -> None:
        """Replace the estimated cost of a call with the actual cost."""


FindClient = Callable[[str], RunClient | None]
"""Returns the current client of a tenant, or None if the tenant may do nothing any more."""


class ClientRefused(ModelpactError):
    """A client may not do something, or not now."""

    def __init__(self, status: int, code: str, message: str, retry_after: float | None = None) -> None:
        self.status = status
        self.code = code
        self.retry_after = retry_after
        super().__init__(message)


async def check_start(find: FindClient, tenant: str, request: RunRequest) -> None:
    """Refuse a run that names a model its client may not use, or that it cannot pay for.

    Fallbacks of modules are not checked: the client did not choose them, and the gate does not use
    those that are not allowed.
    """
    client = _find_client(find, tenant)
    targets: list[ModelTarget | FallbackModel] = [request.active, *request.retry_on]
    targets += [node.fallback_model for node in request.workflow.nodes if node.fallback_model]
    for target in targets:
        name = f"{target.provider}/{target.model}"
        if not client.allows(name):
            raise _not_allowed(client, name)
    await _check_budget(client)
    wait = client.wait()
    if wait:
        message = f"{client.name} sends requests too often; wait as long as Retry-After says"
        raise ClientRefused(429, "rate_limit_exceeded", message, wait)


class RunAllowance:
    """What one run may still do: by the limits of its client, and by the length of its texts."""

    def __init__(self, find: FindClient, tenant: str) -> None:
        self._find = find
        self._tenant = tenant
        self._has_called = False
        self.characters_left = MAX_RUN_TEXT

    def allows(self, provider: str, model: str) -> bool:
        """Tell whether the client may use a model."""
        client = self._find(self._tenant)
        return client is not None and client.allows(f"{provider}/{model}")

    async def before_call(self, target: str, displayed_target: str) -> RunClient:
        """Return the client once it may call a model, or raise.

        Messages name the model as `displayed_target`. A run that exceeds its client's rate waits,
        since its work so far is paid for. The start of the run counted as its first request.
        """
        while True:
            client = _find_client(self._find, self._tenant)
            if not client.allows(target):
                raise _not_allowed(client, displayed_target)
            await _check_budget(client)
            wait = client.wait() if self._has_called else 0.0
            if not wait:
                self._has_called = True
                return client
            await asyncio.sleep(wait)


def _find_client(find: FindClient, tenant: str) -> RunClient:
    client = find(tenant)
    if client is None:
        raise ClientRefused(403, "client_unknown", "the key of this run is not in force any more")
    return client


def _not_allowed(client: RunClient, target: str) -> ClientRefused:
    return ClientRefused(403, "model_not_allowed", f"{client.name} is not for {target}")


async def _check_budget(client: RunClient) -> None:
    if not await client.has_budget():
        raise ClientRefused(429, "insufficient_quota", f"{client.name} has spent its budget")
