"""The keys of the gateway as clients of the OpenWOP host: both share rates and budgets."""

from collections.abc import Callable

from modelpact.gateway.errors import GatewayError
from modelpact.gateway.keys import ClientKey
from modelpact.gateway.service import OPERATOR, Gateway
from modelpact.openwop.clients import FindClient, RunClient
from modelpact.wire import HttpRequest


class KeyClient(RunClient):
    """A client of the host that has a key.

    The runs of the host and the requests of the gateway share the rate and the budget of the key.
    """

    def __init__(self, gateway: Gateway, key: ClientKey) -> None:
        self._gateway = gateway
        self._key = key

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"the key {self._key.name}"

    def allows(self, target: str) -> bool:
        """Tell whether it may use a PROVIDER/MODEL."""
        return self._key.allows(target)

    def wait(self) -> float:
        """Take one request out of its rate; return 0, or the seconds until there is one."""
        return self._gateway.rates.wait(self._key)

    async def has_budget(self) -> bool:
        """Tell whether it may spend more."""
        return await self._gateway.budgets.has_remaining(self._key)

    def opened(self, estimate: int) -> None:
        """Reserve the estimate of a call, in nano-dollars."""
        self._gateway.budgets.reserve(self._key.id, estimate)

    def settled(self, estimate: int, cost: int) -> None:
        """Count the cost of a call instead of its estimate."""
        self._gateway.budgets.settle(self._key.id, estimate, cost)


def host_authentication(gateway: Gateway) -> Callable[[HttpRequest], str | None]:
    """Return the host's authentication: the id of the request's key is its tenant."""

    def tenant(request: HttpRequest) -> str | None:
        try:
            return gateway.authenticate(request).id
        except GatewayError:
            return None

    return tenant


def client_finder(gateway: Gateway) -> FindClient:
    """Return a function that finds the client of a tenant among the keys in force."""

    def find(tenant: str) -> RunClient | None:
        if tenant == OPERATOR:
            return RunClient()
        key = gateway.keys.by_id(tenant)
        return None if key is None else KeyClient(gateway, key)

    return find
