"""Providers of models, and the many names that they have for a model.

`openrouter` writes `openai/o3`, `bedrock` `us.anthropic.claude-…-v1:0`, `vertex` `claude-…@2025…`,
`azure` `eu/gpt-4o`, `together` `meta-llama/Llama-…`. The family of a model is what these names have
in common: the vendor and the vendor's own name for the model.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from modelpact.catalog.rules import Prefixes, ascii_lower

Api = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mock"]
APIS: Final[tuple[Api, ...]] = ("openai-chat", "openai-responses", "anthropic", "gemini", "mock")
_BEDROCK_VERSION = re.compile(r"-v\d+$")
_DATE = re.compile(r"-(?:20\d{2}-?[01]\d-?[0-3]\d|[01]\d-?[0-3]\d|latest)$")
_NAMED_VERSIONS = ("default", "latest")


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


class NameTables(msgspec.Struct, frozen=True):
    """The tables of `names.toml`."""

    vendors: dict[str, str] = {}
    families: dict[str, str] = {}
    regions: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Path segments that do not identify a vendor."""


class Family(msgspec.Struct, frozen=True, gc=False):
    """The vendor of a model, if it is known, and the vendor's own name for the model."""

    vendor: str | None
    name: str


class ModelNames:
    """Finds the family of a model name with the tables of `names.toml`."""

    __slots__ = ("_families", "_tables")

    def __init__(self, tables: NameTables) -> None:
        self._tables = tables
        self._families = Prefixes(tables.families)

    def family(self, model: str) -> Family:
        """Return the vendor of a model and the vendor's name for it."""
        tables = self._tables
        path, _, name = ascii_lower(model).rpartition("/")
        vendor = None
        for segment in path.split("/") if path else ():
            if segment in tables.vendors:
                vendor = tables.vendors[segment]
            elif segment not in tables.paths and segment not in tables.regions:
                return Family(None, ascii_lower(model))  # the path names an unknown vendor
        name, colon, _ = name.partition(":")
        head, dot, rest = name.partition(".")
        if dot and head in tables.regions:
            name = rest
            head, dot, rest = name.partition(".")
        if dot and head in tables.vendors:
            vendor, name = tables.vendors[head], rest
            name = _BEDROCK_VERSION.sub("", name)
        elif colon:
            name = _BEDROCK_VERSION.sub("", name)
        if "@" in name:
            name, _, version = name.partition("@")
            if version and version not in _NAMED_VERSIONS:
                name = f"{name}-{version}"
        if vendor is None:
            index = self._families.longest(name)
            vendor = self._families.values[index] if index >= 0 else None
        return Family(vendor, name)


def name_variants(name: str) -> tuple[str, ...]:
    """Return the names under which a vendor may list a model, the closest first."""
    dashed = name.replace(".", "-")
    undated = _DATE.sub("", name)
    variants = [name, dashed, undated, undated.replace(".", "-")]
    return tuple(dict.fromkeys(variant for variant in variants if variant))
