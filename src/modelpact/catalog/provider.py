"""Providers: who serves models, under which names, over which APIs."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Api = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mock"]
APIS: Final[tuple[Api, ...]] = ("openai-chat", "openai-responses", "anthropic", "gemini", "mock")


class Provider(msgspec.Struct, frozen=True, omit_defaults=True):
    """One provider of models.

    `serves` tells how far a vendor's facts hold there: `own` models, other vendors' models passed
    on (`relay`), or open `weights` that it hosts itself.
    """

    id: str
    name: str
    kind: Literal["cloud", "local", "test"]
    serves: Literal["own", "relay", "weights"]
    apis: tuple[Api, ...]
    aliases: tuple[str, ...] = ()
    base_url: str = ""
    base_url_env: str = ""
    """The variable by which its own SDK is led to another address."""
    key_env: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Those that come along with modelpact, the one to begin with first."""
    tags: tuple[str, ...] = ()
    lineages: dict[str, tuple[str, ...]] = {}

    def __hash__(self) -> int:
        return hash(self.id)


class Providers:
    """All providers, found by id or alias whatever the case."""

    __slots__ = ("_by_name", "listed")

    def __init__(self, listed: Iterable[Provider]) -> None:
        self.listed = tuple(listed)
        self._by_name: dict[str, Provider] = {}
        for provider in self.listed:
            for name in (provider.id, *provider.aliases):
                self._by_name[name] = provider

    def find(self, name: str) -> Provider | None:
        """Return the provider of that id or alias, or None."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name.get(name.strip().lower().replace("_", "-"))
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Every id and alias."""
        return tuple(self._by_name)

    def __len__(self) -> int:
        return len(self.listed)
