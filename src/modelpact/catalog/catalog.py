"""The catalog: resolves a provider and a model to claims, in layers."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog import snapshot
from modelpact.catalog.claim import Constraint, Evidence
from modelpact.catalog.facts import Lineage, Record
from modelpact.catalog.index import Index, IndexContent
from modelpact.catalog.names import Names, family, spellings
from modelpact.catalog.provider import Provider, Providers
from modelpact.catalog.resolution import Layer, Resolution
from modelpact.catalog.rules import RuleIndex
from modelpact.catalog.statement import compile_statement
from modelpact.catalog.user import user_folder
from modelpact.vocabulary.errors import CatalogError, InputError, brief

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
        self.models = snapshot.Models(content.models)
        self.overlay = dict(overlay or {})
        self.configured = dict(configured or {})
        self.evidence = dict(evidence or {})
        self.rules = RuleIndex(content.rules)
        self.corrections = RuleIndex(content.corrections)
        self.constraints = RuleIndex(content.constraints)
        self._defaults = Layer(
            Evidence("defaults", rule="[defaults]"),
            content.defaults,
            compile_statement(content.defaults),
            trust="assumed",
        )
        self._index: Index | None = None
        self._memo: dict[tuple[str, str, str | None], Resolution] = {}

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
            overlay={**self.overlay, **(overlay or {})},
            configured={**self.configured, **(configured or {})},
            evidence={**self.evidence, **(evidence or {})},
        )

    @property
    def lineages(self) -> tuple[Lineage, ...]:
        """The sources of public facts."""
        return self._content.lineages

    @property
    def day(self) -> str:
        """The day of the newest facts."""
        return _newest_date(self._content)

    @property
    def names(self) -> Names:
        """The tables by which spellings are told apart."""
        return self._content.names

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

    def split(self, target: str) -> tuple[str, str]:
        """Split `provider/model`; the model may have slashes of its own."""
        if not isinstance(target, str):
            raise InputError(f"a target is a string PROVIDER/MODEL, not {type(target).__name__}")
        provider, slash, model = target.strip().partition("/")
        if not (slash and provider and model):
            raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL")
        return provider, model

    def resolve(self, provider: str, model: str, api: str | None = None) -> Resolution:
        """Return what is known of a model. Never raises for names that nobody knows."""
        try:
            found = self._memo.get((provider, model, api))
        except TypeError:
            found = None
        if found is None:
            found = self._resolve(provider, model, api)
            if len(self._memo) >= _MOST_REMEMBERED:
                self._memo.clear()
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
        said = self.overlay.get((shown_id, model))
        named = family(self.names, model)
        record = self.models.find(rules_id, model) if known is not None else None
        vendor, own_names = named.vendor, (model, named.name)
        if said is not None and said.same_as:
            vendor, _, own = said.same_as.partition("/")
            own_names = (model, own)
        elif record is not None and record.base:
            vendor = record.base.partition("/")[0]
        layers = [self._defaults]
        for number in self.rules.matching(rules_id, api, own_names):
            layers.append(self._rule_layer(self.rules, number, "rule"))
        layers.extend(self._fact_layers(known, record, vendor, own_names[1]))
        for number in self.corrections.matching(rules_id, api, own_names):
            layers.append(self._rule_layer(self.corrections, number, "correction"))
        layers.extend(self.evidence.get((shown_id, model), ()))
        if said is not None:
            layers.append(
                Layer(
                    Evidence("overlay", rule=f'[models."{shown_id}/{model}"]', source=said.source),
                    said.fields,
                    compile_statement(said.fields),
                )
            )
        excluded = self.constraints.matching(rules_id, api, own_names)
        return Resolution(
            provider_id=shown_id,
            model=model,
            provider=known,
            api=api,
            vendor=vendor,
            layers=tuple(layers),
            lineages=self.lineages,
            constraints=tuple(self._constraint(number) for number in excluded),
            listed=record is not None or said is not None,
        )

    def _rule_layer(self, index: RuleIndex, number: int, kind: Any) -> Layer:
        rule = index.rules[number]
        evidence = Evidence(kind, rule.name, rule.source, rule.date)
        return Layer(evidence, rule.caps, index.cells(number))

    def _constraint(self, number: int) -> Constraint:
        rule = self.constraints.rules[number]
        return Constraint(rule.name, rule.excludes, rule.source)

    def _fact_layers(
        self, provider: Provider | None, record: Record | None, vendor: str | None, name: str
    ) -> Iterable[Layer]:
        """Yield the vendor's facts as far as they hold here, then the provider's own."""
        here = "" if provider is None else provider.id
        if record is None or (vendor is not None and vendor != here):
            found = self._family_record(vendor or here, name)
            if found is not None:
                owner, spelled, relative = found
                trust = "known" if owner == here else "assumed"
                if owner != here and provider is not None and provider.serves == "relay":
                    trust = "model"
                evidence = Evidence("family", rule=f"{owner}/{spelled}")
                yield Layer(evidence, record=relative, trust=trust)  # type: ignore[arg-type]
        if record is not None:
            yield Layer(Evidence("facts", rule="public catalogs"), record=record)

    def _family_record(self, vendor: str, name: str) -> tuple[str, str, Record] | None:
        for spelled in spellings(name):
            record = self.models.find(vendor, spelled)
            if record is not None:
                return vendor, spelled, record
        return None


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
    if updated.is_file():
        try:
            theirs = snapshot.read(updated)
        except CatalogError as error:
            warnings.warn(f"the bundled catalog is used instead: {error}", stacklevel=3)
        else:
            if _newest_date(theirs) >= _newest_date(bundled):
                return Catalog(theirs)
    return Catalog(bundled)


def _newest_date(content: snapshot.Content) -> str:
    return max((one.date for one in content.lineages), default="")


def resolve(provider: str, model: str, api: str | None = None) -> Resolution:
    """Return what the bundled catalog knows of a model."""
    catalog = _default
    if catalog is None:
        catalog = default_catalog()
    return catalog.resolve(provider, model, api)
