"""The catalog: resolve a provider and a model to claims, in layers."""

import warnings
from collections.abc import Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from modelpact.catalog import snapshot
from modelpact.catalog.claim import Evidence
from modelpact.catalog.facts import Layer, Lineage, ModelFacts, Trust
from modelpact.catalog.provider import ModelNames, ProviderEntry, Providers, name_variants
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.rules import RuleBook, ascii_lower
from modelpact.catalog.snapshot import Index, IndexContent, user_folder
from modelpact.catalog.statement import compile_statement
from modelpact.vocabulary.errors import CatalogError, InputError, brief

T = TypeVar("T")

_MAX_RESOLUTIONS: Final = 65_536
"""Resolutions that are kept; the limit keeps invented names from filling the memory."""
_MAX_KEPT_NAME: Final = 512
"""The longest target whose resolution is kept."""
_OWN_FACTS: Final = Evidence("facts", rule="public catalogs")


class Overlay(msgspec.Struct, frozen=True):
    """What the operator states about one model; `same_as` names the model that it really is."""

    fields: Mapping[str, Any]
    source: str
    same_as: str = ""


class Catalog:
    """What is known about models. Immutable, and safe to share between threads."""

    def __init__(
        self,
        content: snapshot.SnapshotContent,
        *,
        overlay: Mapping[tuple[str, str], Overlay] | None = None,
        configured: Mapping[str, str] | None = None,
        evidence: Mapping[tuple[str, str], tuple[Layer, ...]] | None = None,
    ) -> None:
        self._content = content
        self.providers = Providers(content.providers)
        self.models = snapshot.SnapshotModels(content.models)
        self.configured = dict(configured or {})
        keys = (*(overlay or {}), *(evidence or {}))
        self._spellings = {(self._canonical_id(name), ascii_lower(model)): model for name, model in keys}
        self.overlay = self._by_canonical_id(overlay or {})
        self.evidence = self._by_canonical_id(evidence or {})
        self.rulebook = RuleBook(content.rules, content.corrections, content.constraints)
        self.names = ModelNames(content.names)
        self._defaults = Layer(
            Evidence("defaults", rule="[defaults]"),
            content.defaults,
            compile_statement(content.defaults),
            trust="assumed",
        )
        self._index: Index | None = None
        self._evidences: dict[Any, Evidence] = {}
        """Evidence of votes, shared by all models on which the same lineages vote the same."""
        # A plain dictionary is measurably faster to read than a `BoundedMemo`.
        self._resolutions: dict[tuple[str, str | None, str | None], Resolution] = {}

    def _by_canonical_id(self, table: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        """Replace the names of providers in the keys of a table by their ids."""
        return {(self._canonical_id(name), ascii_lower(model)): value for (name, model), value in table.items()}

    def _canonical_id(self, name: str) -> str:
        known = None if name in self.configured else self.providers.find(name)
        return name if known is None else known.id

    @classmethod
    def read(cls, path: Path = snapshot.BUNDLED) -> "Catalog":
        """Read the catalog from a snapshot file, by default the bundled one."""
        return cls(snapshot.read(path))

    def extended(
        self,
        *,
        overlay: Mapping[tuple[str, str], Overlay] | None = None,
        configured: Mapping[str, str] | None = None,
        evidence: Mapping[tuple[str, str], tuple[Layer, ...]] | None = None,
    ) -> "Catalog":
        """Return this catalog extended by an operator's overlay, providers and evidence."""
        return Catalog(
            self._content,
            overlay={**self._as_written(self.overlay), **(overlay or {})},
            configured={**self.configured, **(configured or {})},
            evidence={**self._as_written(self.evidence), **(evidence or {})},
        )

    def _as_written(self, table: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        return {(name, self.spelled(name, model)): value for (name, model), value in table.items()}

    @property
    def lineages(self) -> tuple[Lineage, ...]:
        """The sources of public facts."""
        return self._content.lineages

    @property
    def day(self) -> str:
        """The day of the newest facts."""
        return _newest_date(self._content)

    @property
    def today(self) -> str:
        """Today, or the day of the newest facts if the clock is behind it."""
        return max(self.day, date.today().isoformat())

    @property
    def index(self) -> Index:
        """The index over all models of the snapshot."""
        if self._index is None:
            decoded = msgspec.msgpack.decode(self._content.index, type=IndexContent)
            self._index = Index(decoded)
        return self._index

    def find_provider(self, name: str) -> ProviderEntry | None:
        """Return the provider with that id, alias or configured name, or None."""
        return self.providers.find(self.configured.get(name, name))

    def spelled(self, provider: str, model: str) -> str:
        """Return the name of a model as the overlay or the evidence spells it."""
        return self._spellings.get((provider, model), model)

    def split(self, target: str) -> tuple[str, str]:
        """Split `provider/model`; the name of the model may have slashes."""
        if not isinstance(target, str):
            raise InputError(f"a target is a string PROVIDER/MODEL, not {type(target).__name__}")
        provider, slash, model = target.strip().partition("/")
        if not (slash and provider and model):
            raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL")
        return provider, model

    def resolve(self, provider: str, model: str | None = None, api: str | None = None) -> Resolution:
        """Return what is known about a model, named in two parts or as `provider/model`.

        An unknown name is not an error.
        """
        try:
            return self._resolutions[provider, model, api]
        except (KeyError, TypeError):
            pass  # not resolved before, or a name that is not hashable: `_resolve` explains that
        names = self.split(provider) if model is None else (provider, model)
        resolution = self._resolve(*names, api)
        if len(self._resolutions) >= _MAX_RESOLUTIONS:
            self._resolutions.clear()
        if len(resolution.target) <= _MAX_KEPT_NAME:
            self._resolutions[provider, model, api] = resolution
        return resolution

    def _resolve(self, provider: str, model: str, api: str | None) -> Resolution:
        if not isinstance(provider, str) or not isinstance(model, str):
            raise InputError("provider and model must be strings: resolve('openai', 'gpt-5')")
        if api is not None and not isinstance(api, str):
            raise InputError(f"api: expected a string or None, not {type(api).__name__}")
        known = self.find_provider(provider)
        rules_id = provider if known is None else known.id
        provider_id = provider if provider in self.configured else rules_id
        if api is None and known is not None:
            api = known.apis[0]
        overlay = self.overlay.get((provider_id, ascii_lower(model))) if self.overlay else None
        family = self.names.family(model)
        vendor, own_name = family.vendor, family.name
        if overlay is not None and overlay.same_as:
            vendor, _, own_name = overlay.same_as.partition("/")
        raw = self.models.packed(rules_id, model) if known is not None else None
        return Resolution(
            provider_id=provider_id,
            model=model,
            provider=known,
            api=api,
            vendor=vendor,
            defaults=self._defaults,
            matched=self.rulebook.matching(rules_id, api, model, own_name),
            find_facts=partial(self._fact_layers, known, raw, vendor, own_name),
            upper_layers=self._upper_layers(provider_id, model, overlay),
            lineages=self._content.lineages,
            evidences=self._evidences,
            listed=raw is not None or overlay is not None,
        )

    def _upper_layers(self, provider: str, model: str, overlay: Overlay | None) -> tuple[Layer, ...]:
        """Return the layers above the facts: evidence, then the operator's overlay."""
        layers = self.evidence.get((provider, ascii_lower(model)), ()) if self.evidence else ()
        if overlay is None:
            return layers
        rule = f'[models."{provider}/{model}"]'
        evidence = Evidence("overlay", rule=rule, source=overlay.source)
        return (*layers, Layer(evidence, overlay.fields, compile_statement(overlay.fields)))

    def _fact_layers(
        self, provider: ProviderEntry | None, raw: msgspec.Raw | None, vendor: str | None, name: str
    ) -> tuple[Layer, ...]:
        """Return the vendor's facts, as far as they apply here, then the provider's own facts."""
        provider_id = "" if provider is None else provider.id
        own: tuple[Layer, ...] = ()
        if raw is not None:
            record = snapshot.unpack(raw)
            own = (Layer(_OWN_FACTS, record=record),)
            vendor = record.base.partition("/")[0] or vendor
        if raw is not None and vendor in (None, provider_id):
            return own
        owner = vendor or provider_id
        family = self._family_record(owner, name)
        if family is None:
            return own
        family_name, record = family
        trust: Trust = "known" if owner == provider_id else "assumed"
        if owner != provider_id and provider is not None and provider.serves == "relay":
            trust = "model"
        evidence = Evidence("family", rule=f"{owner}/{family_name}")
        return (Layer(evidence, record=record, trust=trust), *own)

    def _family_record(self, vendor: str, name: str) -> tuple[str, ModelFacts] | None:
        for variant in name_variants(name):
            record = self.models.find(vendor, variant)
            if record is not None:
                return variant, record
        return None


_default: Catalog | None = None


def default_catalog() -> Catalog:
    """Return the catalog, read on first use: the user's own if it is newer, or the bundled one."""
    global _default
    if _default is None:
        _default = _read_newest()
    return _default


def _read_newest() -> Catalog:
    bundled = snapshot.read()
    path = user_folder() / snapshot.BUNDLED.name
    try:
        if not path.is_file():
            return Catalog(bundled)
        updated = snapshot.read(path)
    except (CatalogError, OSError) as error:
        warnings.warn(f"using the bundled catalog instead of yours: {error}", stacklevel=3)
        return Catalog(bundled)
    if _newest_date(updated) < _newest_date(bundled):
        return Catalog(bundled)
    if not snapshot.same_rules(updated, bundled):
        message = "your catalog was built with other rules; run `modelpact catalog update` again"
        warnings.warn(message, stacklevel=3)
        return Catalog(bundled)
    return Catalog(updated)


def _newest_date(content: snapshot.SnapshotContent) -> str:
    return max((lineage.date for lineage in content.lineages), default="")


def resolve(provider: str, model: str | None = None, api: str | None = None) -> Resolution:
    """Return what the default catalog knows about a model: `resolve("openai", "gpt-5")`."""
    catalog = _default
    if catalog is None:
        catalog = default_catalog()
    return catalog.resolve(provider, model, api)
