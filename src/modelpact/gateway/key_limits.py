"""Keys as the OpenWOP host asks them: the limits of a key hold for its runs too."""

from modelpact.gateway.keys import ClientKey
from modelpact.gateway.service import OPERATOR, Gateway
from modelpact.openwop.clients import FindClient, RunClient, UnlimitedClient


class KeyClient:
    """A key that starts runs; it shares its rate and budget with the requests of the gateway."""

    def __init__(self, gateway: Gateway, key: ClientKey) -> None:
        self._gateway = gateway
        self._key = key

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"the key {self._key.name}"

    def allows(self, target: str) -> bool:
        """Tell whether it may use a PROVIDER/MODEL."""
        return self._key.allows(target)

    def wait(self) -> float:
        """Take one request out of its rate; return 0, or the seconds after which there is one."""
        return self._gateway.rates.wait(self._key)

    async def has_budget(self) -> bool:
        """Tell whether it may spend more."""
        return await self._gateway.budgets.has_remaining(self._key)

    def opened(self, estimate: int) -> None:
        """Count what a call may cost, in nano-dollars."""
        self._gateway.budgets.reserve(self._key.id, estimate)

    def settled(self, estimate: int, cost: int) -> None:
        """Count what it did cost instead."""
        self._gateway.budgets.settle(self._key.id, estimate, cost)


def clients_of(gateway: Gateway) -> FindClient:
    """Return what finds the client of a tenant, by the keys that are in force at that moment."""

    def find(tenant: str) -> RunClient | None:
        if tenant == OPERATOR:
            return UnlimitedClient()
        key = gateway.keys.by_id(tenant)
        return None if key is None else KeyClient(gateway, key)

    return find
