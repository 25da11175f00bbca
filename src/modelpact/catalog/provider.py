"""Providers of models: their names, addresses and APIs."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Api = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mock"]
APIS: Final[tuple[Api, ...]] = ("openai-chat", "openai-responses", "anthropic", "gemini", "mock")


class ProviderEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One provider of models.

    `serves` decides how far the facts of a vendor apply: the provider serves its `own` models,
    passes requests on to other vendors (`relay`), or hosts open `weights` itself.
    """

    id: str
    name: str
    kind: Literal["cloud", "local", "test"]
    serves: Literal["own", "relay", "weights"]
    apis: tuple[Api, ...]
    aliases: tuple[str, ...] = ()
    base_url: str = ""
    base_url_env: str = ""
    """The environment variable that sets another address in the provider's own SDK."""
    key_env: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Models that modelpact itself provides, the default first."""
    tags: tuple[str, ...] = ()
    lineages: dict[str, tuple[str, ...]] = {}

    def __hash__(self) -> int:
        return hash(self.id)


class Providers:
    """All providers, by id or alias; letter case does not matter."""

    __slots__ = ("_by_name", "all")

    def __init__(self, providers: Iterable[ProviderEntry]) -> None:
        self.all = tuple(providers)
        self._by_name: dict[str, ProviderEntry] = {}
        for provider in self.all:
            for name in (provider.id, *provider.aliases):
                self._by_name[name] = provider

    def find(self, name: str) -> ProviderEntry | None:
        """Return the provider of that id or alias, or None."""
        provider = self._by_name.get(name)
        if provider is None:
            provider = self._by_name.get(name.strip().lower().replace("_", "-"))
        return provider

    @property
    def names(self) -> tuple[str, ...]:
        """Every id and alias."""
        return tuple(self._by_name)

    def __len__(self) -> int:
        return len(self.all)
