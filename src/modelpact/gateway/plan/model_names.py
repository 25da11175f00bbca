"""Model names: resolves the `model` of a request to a provider and model, or a workload."""

from collections.abc import Collection
from typing import Final, Protocol

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.configuration.config import Configuration, Workload
from modelpact.vocabulary.errors import InputError, UnknownName, brief

WORKLOAD_PREFIX: Final = "workload/"


class UnknownModel(InputError):
    """A name does not resolve to a model that can be called; the message says what to do."""


class ModelDirectory(Protocol):
    """The models that can be called, as the resolver and the planner see them."""

    @property
    def catalog(self) -> Catalog:
        """The facts about models and providers."""

    @property
    def ports(self) -> Collection[str]:
        """The providers that are called through a port in this process."""

    def knows(self, provider: str) -> bool:
        """Tell whether a provider is configured, has a port, or is in the catalog."""

    def supported_providers(self) -> tuple[str, ...]:
        """Return the providers that can be called."""

    def can_authenticate(self, provider: str) -> bool:
        """Tell whether there is a key for a provider, or it needs none."""


class ResolvedName(msgspec.Struct, frozen=True):
    """The provider and model, and the workload if any, that a name resolves to."""

    provider: str
    model: str
    workload: Workload | None = None

    @property
    def target(self) -> str:
        """The provider and the model as one text."""
        return f"{self.provider}/{self.model}"


class ModelNameResolver:
    """Resolves names: aliases first, then providers, then vendors."""

    def __init__(self, configuration: Configuration, models: ModelDirectory) -> None:
        self._configuration = configuration
        self._models = models

    def resolve(self, name: str, workload: str = "") -> ResolvedName:
        """Resolve the name in a request; `workload` is the one that the header names."""
        if name.startswith(WORKLOAD_PREFIX):
            named = name.removeprefix(WORKLOAD_PREFIX)
            if workload not in ("", named):
                both = f"{brief(named)} and {brief(workload)}"
                raise InputError(f"workload: the model and the header name different ones: {both}")
            declared = self._workload(named)
            return ResolvedName(*self._models.catalog.split(declared.model), declared)
        resolved = self._resolve_model(name)
        if not workload:
            return resolved
        return ResolvedName(resolved.provider, resolved.model, self._workload(workload))

    def _workload(self, name: str) -> Workload:
        workload = self._configuration.workloads.get(name)
        if workload is None:
            unknown = UnknownName("workload", name, self._configuration.workloads)
            raise UnknownModel(str(unknown))
        return workload

    def _resolve_model(self, name: str) -> ResolvedName:
        settings = self._configuration.gateway
        name = settings.aliases.get(name, name)
        provider, slash, model = name.partition("/")
        if slash and model and self._models.knows(provider):
            return self._callable(ResolvedName(provider, model))
        if settings.provider:
            return self._callable(ResolvedName(settings.provider, name))
        vendor = self._models.catalog.names.family(name).vendor or self._only_vendor(name)
        if vendor is None:
            raise UnknownModel(
                f"{brief(name)}: no provider of this gateway is known to have it; "
                "write PROVIDER/MODEL, or define it under [gateway.aliases]"
            )
        return self._callable(ResolvedName(vendor, name))

    def _only_vendor(self, name: str) -> str | None:
        """Return the only vendor that lists a model, or None; for names of no known family."""
        catalog = self._models.catalog
        vendors = [
            provider.id
            for provider in catalog.providers.all
            if provider.serves == "own" and catalog.resolve(provider.id, name).known
        ]
        return vendors[0] if len(vendors) == 1 else None

    def _callable(self, resolved: ResolvedName) -> ResolvedName:
        if not self._models.can_authenticate(resolved.provider):
            listed = self._models.catalog.find_provider(resolved.provider)
            variables = "" if listed is None else " or ".join(listed.key_env)
            remedy = f"set {variables}, or " if variables else ""
            raise UnknownModel(
                f"{resolved.target}: this gateway has no key for {resolved.provider}; {remedy}"
                "choose a model of another provider"
            )
        return resolved
