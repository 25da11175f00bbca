"""The catalog: resolves a provider and a model to claims, in layers."""

import warnings
from collections.abc import Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from modelpact.catalog import snapshot
from modelpact.catalog.claim import Evidence
from modelpact.catalog.facts import Lineage, ModelFacts
from modelpact.catalog.index import Index, IndexContent
from modelpact.catalog.layer import Layer, Trust
from modelpact.catalog.names import Spelling, spellings
from modelpact.catalog.paths import user_folder
from modelpact.catalog.provider import Provider, Providers
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.rules import RuleBook, ascii_lower
from modelpact.catalog.statement import compile_statement
from modelpact.vocabulary.errors import CatalogError, InputError, brief

_LONGEST_REMEMBERED: Final = 512
T = TypeVar("T")

_MOST_REMEMBERED: Final = 65_536
"""Resolutions kept; past that all are forgotten, so that made-up names cannot fill the memory."""


class Overlay(msgspec.Struct, frozen=True):
    """What the operator says of one model, and of whose model it really is."""

    fields: Mapping[str, Any]
    source: str
    same_as: str = ""


class Catalog:
    """What is known of models: immutable, and safe to share between threads."""

    def __init__(
        self,
        content: snapshot.Content,
        *,
        overlay: Mapping[tuple[str, str], Overlay] | None = None,
        configured: Mapping[str, str] | None = None,
        evidence: Mapping[tuple[str, str], tuple[Layer, ...]] | None = None,
    ) -> None:
        self._content = content
        self.providers = Providers(content.providers)
        self.models = snapshot.SnapshotModels(content.models)
        self.configured = dict(configured or {})
        written = (*(overlay or {}), *(evidence or {}))
        self._spellings = {
            (self._shown_id(name), ascii_lower(model)): model for name, model in written
        }
        self.overlay = self._by_own_id(overlay or {})
        self.evidence = self._by_own_id(evidence or {})
        self.rulebook = RuleBook(content.rules, content.corrections, content.constraints)
        self.spelling = Spelling(content.names)
        self._defaults = Layer(
            Evidence("defaults", rule="[defaults]"),
            content.defaults,
            compile_statement(content.defaults),
            trust="assumed",
        )
        self._index: Index | None = None
        self._evidences: dict[Any, Evidence] = {}
        """Evidence of votes, shared by all models of which the same was said by the same."""
        self._memo: dict[tuple[str, str | None, str | None], Resolution] = {}

    def _by_own_id(self, table: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        """Key a table by the providers' own ids, whichever of their names it was given under."""
        return {
            (self._shown_id(name), ascii_lower(model)): value
            for (name, model), value in table.items()
        }

    def _shown_id(self, name: str) -> str:
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
        """Return this catalog with an operator's overlay, providers and evidence over it."""
        return Catalog(
            self._content,
            overlay={**self._as_written(self.overlay), **(overlay or {})},
            configured={**self.configured, **(configured or {})},
            evidence={**self._as_written(self.evidence), **(evidence or {})},
        )

    def _as_written(self, table: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        return {(name, self.spelled(name, model)): one for (name, model), one in table.items()}

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
        """Today, or the day of the newest facts where the clock is behind it."""
        return max(self.day, date.today().isoformat())

    @property
    def index(self) -> Index:
        """The index over all models of the snapshot."""
        if self._index is None:
            decoded = msgspec.msgpack.decode(self._content.index, type=IndexContent)
            self._index = Index(decoded)
        return self._index

    def find_provider(self, name: str) -> Provider | None:
        """Return the provider of that id, alias or configured name, or None."""
        return self.providers.find(self.configured.get(name, name))

    def spelled(self, provider: str, model: str) -> str:
        """Return a model's name as it was written in the overlay, or by its catalogs."""
        return self._spellings.get((provider, model), model)

    def split(self, target: str) -> tuple[str, str]:
        """Split `provider/model`; the model may have slashes of its own."""
        if not isinstance(target, str):
            raise InputError(f"a target is a string PROVIDER/MODEL, not {type(target).__name__}")
        provider, slash, model = target.strip().partition("/")
        if not (slash and provider and model):
            raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL")
        return provider, model

    def resolve(
        self, provider: str, model: str | None = None, api: str | None = None
    ) -> Resolution:
        """Return what is known of a model, named in two parts or as `provider/model`.

        Never raises for names that nobody knows.
        """
        try:
            return self._memo[provider, model, api]
        except (KeyError, TypeError):
            pass  # it is asked for the first time, or of something that is no text
        names = self.split(provider) if model is None else (provider, model)
        found = self._resolve(*names, api)
        if len(self._memo) >= _MOST_REMEMBERED:
            self._memo.clear()
        if len(found.target) <= _LONGEST_REMEMBERED:
            self._memo[provider, model, api] = found
        return found

    def _resolve(self, provider: str, model: str, api: str | None) -> Resolution:
        if not isinstance(provider, str) or not isinstance(model, str):
            raise InputError("provider and model are strings: resolve('openai', 'gpt-5')")
        if api is not None and not isinstance(api, str):
            raise InputError(f"api is a string or None, not {type(api).__name__}")
        known = self.find_provider(provider)
        rules_id = provider if known is None else known.id
        shown_id = provider if provider in self.configured else rules_id
        if api is None and known is not None:
            api = known.apis[0]
        said = self.overlay.get((shown_id, ascii_lower(model))) if self.overlay else None
        named = self.spelling.family(model)
        vendor, own_name = named.vendor, named.name
        if said is not None and said.same_as:
            vendor, _, own_name = said.same_as.partition("/")
        raw = self.models.packed(rules_id, model) if known is not None else None
        return Resolution(
            provider_id=shown_id,
            model=model,
            provider=known,
            api=api,
            vendor=vendor,
            under=self._defaults,
            matched=self.rulebook.matching(rules_id, api, model, own_name),
            find_facts=partial(self._fact_layers, known, raw, vendor, own_name),
            over=self._operators_layers(shown_id, model, said),
            lineages=self._content.lineages,
            evidences=self._evidences,
            listed=raw is not None or said is not None,
        )

    def _operators_layers(
        self, provider: str, model: str, said: Overlay | None
    ) -> tuple[Layer, ...]:
        found = self.evidence.get((provider, ascii_lower(model)), ()) if self.evidence else ()
        if said is None:
            return found
        rule = f'[models."{provider}/{model}"]'
        evidence = Evidence("overlay", rule=rule, source=said.source)
        return (*found, Layer(evidence, said.fields, compile_statement(said.fields)))

    def _fact_layers(
        self, provider: Provider | None, raw: msgspec.Raw | None, vendor: str | None, name: str
    ) -> tuple[Layer, ...]:
        """Return the vendor's facts as far as they hold here, then the provider's own."""
        here = "" if provider is None else provider.id
        own: tuple[Layer, ...] = ()
        if raw is not None:
            record = snapshot.unpack(raw)
            own = (Layer(_OWN_FACTS, record=record),)
            vendor = record.base.partition("/")[0] or vendor
        if raw is not None and vendor in (None, here):
            return own
        found = self._family_record(vendor or here, name)
        if found is None:
            return own
        owner, spelled, relative = found
        trust: Trust = "known" if owner == here else "assumed"
        if owner != here and provider is not None and provider.serves == "relay":
            trust = "model"
        evidence = Evidence("family", rule=f"{owner}/{spelled}")
        return (Layer(evidence, record=relative, trust=trust), *own)

    def _family_record(self, vendor: str, name: str) -> tuple[str, str, ModelFacts] | None:
        for spelled in spellings(name):
            record = self.models.find(vendor, spelled)
            if record is not None:
                return vendor, spelled, record
        return None


_OWN_FACTS: Final = Evidence("facts", rule="public catalogs")

_default: Catalog | None = None


def default_catalog() -> Catalog:
    """Return the catalog, read when first asked for: this user's newer one, or the bundled."""
    global _default
    if _default is None:
        _default = _read_newest()
    return _default


def _read_newest() -> Catalog:
    bundled = snapshot.read()
    updated = user_folder() / snapshot.BUNDLED.name
    try:
        if not updated.is_file():
            return Catalog(bundled)
        theirs = snapshot.read(updated)
    except (CatalogError, OSError) as error:
        warnings.warn(f"the bundled catalog is used instead of yours: {error}", stacklevel=3)
        return Catalog(bundled)
    if _newest_date(theirs) < _newest_date(bundled):
        return Catalog(bundled)
    if not snapshot.same_rules(theirs, bundled):
        told = "your catalog was made with other rules; run `modelpact catalog update` again"
        warnings.warn(told, stacklevel=3)
        return Catalog(bundled)
    return Catalog(theirs)


def _newest_date(content: snapshot.Content) -> str:
    return max((one.date for one in content.lineages), default="")


def resolve(provider: str, model: str | None = None, api: str | None = None) -> Resolution:
    """Return what the catalog knows of a model: `resolve("openai", "gpt-5")`."""
    catalog = _default
    if catalog is None:
        catalog = default_catalog()
    return catalog.resolve(provider, model, api)
