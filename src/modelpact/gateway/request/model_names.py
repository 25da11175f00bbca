"""Names: which provider and model a client means, or which workload."""

from typing import Final

import msgspec

from modelpact.configuration.config import Configuration, Workload
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.vocabulary.errors import InputError, UnknownName, brief

WORKLOAD: Final = "workload/"


class UnknownModel(InputError):
    """A model that cannot be called here; the message says what to do."""


class ResolvedName(msgspec.Struct, frozen=True):
    """What a client's name means."""

    provider: str
    model: str
    workload: Workload | None = None

    @property
    def target(self) -> str:
        """The provider and the model in one."""
        return f"{self.provider}/{self.model}"


class ModelNames:
    """Finds out what names mean. Aliases come first, then providers, then vendors."""

    def __init__(self, configuration: Configuration, models: ModelCaller) -> None:
        self._configuration = configuration
        self._settings = configuration.gateway
        self._models = models

    def meant(self, name: str, workload: str = "") -> ResolvedName:
        """Return what a model's name means, under the workload that a header names."""
        if name.startswith(WORKLOAD):
            named = name.removeprefix(WORKLOAD)
            if workload not in ("", named):
                told = f"the model and the header name two: {brief(named)} and {brief(workload)}"
                raise InputError(f"workload: {told}")
            return self._of_workload(named)
        found = self._of_name(name)
        if not workload:
            return found
        return ResolvedName(found.provider, found.model, self._workload(workload))

    def _workload(self, name: str) -> Workload:
        found = self._configuration.workloads.get(name)
        if found is None:
            unknown = UnknownName("workload", name, self._configuration.workloads)
            raise UnknownModel(str(unknown))
        return found

    def _of_workload(self, name: str) -> ResolvedName:
        workload = self._workload(name)
        return ResolvedName(*self._models.catalog.split(workload.model), workload)

    def _of_name(self, name: str) -> ResolvedName:
        catalog = self._models.catalog
        name = self._settings.aliases.get(name, name)
        provider, slash, model = name.partition("/")
        if slash and model and self._models.knows(provider):
            return self._callable(ResolvedName(provider, model))
        if self._settings.provider:
            return self._callable(ResolvedName(self._settings.provider, name))
        vendor = catalog.spelling.family(name).vendor or self._lister(name)
        if vendor is None:
            raise UnknownModel(
                f"{brief(name)}: nobody here is known to have it; write PROVIDER/MODEL, or give it "
                "a meaning under [gateway.aliases]"
            )
        return self._callable(ResolvedName(vendor, name))

    def _lister(self, name: str) -> str | None:
        """Return the one vendor that lists a model whose name does not tell whose it is."""
        found = [
            one.id
            for one in self._models.catalog.providers.listed
            if one.serves == "own" and self._models.catalog.resolve(one.id, name).known
        ]
        return found[0] if len(found) == 1 else None

    def _callable(self, meant: ResolvedName) -> ResolvedName:
        if not self._models.can_authenticate(meant.provider):
            known = self._models.catalog.find_provider(meant.provider)
            variables = "" if known is None else " or ".join(known.key_env)
            what = f"set {variables}, or " if variables else ""
            raise UnknownModel(
                f"{meant.target}: there is no key for {meant.provider} here; {what}"
                "choose a model of another provider"
            )
        return meant
