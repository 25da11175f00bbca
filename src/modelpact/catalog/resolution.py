"""Resolutions: what a provider's model can do, with every layer that had a say."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim, Constraint, Evidence, LayerKind, derive
from modelpact.catalog.facts import Lineage, ModelFacts, Price
from modelpact.catalog.layer import Layer
from modelpact.catalog.provider import Provider
from modelpact.catalog.rules import Matched
from modelpact.catalog.statement import LIST_FIELDS, SHARED_PARAMETERS, Stated
from modelpact.vocabulary.capability import CAPABILITIES, capability

_MOST_CLAIMS: Final = 512
_FIRST_HAND: Final = ("evidence", "overlay")
"""Layers that speak of a provider even when nobody knows it."""


class TraceEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one layer said, for people to read: the fields as they stand in their source."""

    layer: LayerKind
    rule: str
    fields: dict[str, Any]
    source: str = ""
    date: str = ""
    assumed: bool = False


class ModelCapabilities(msgspec.Struct, frozen=True):
    """The nine fields of seed 004, resolved; None where nothing is said."""

    token_limit_param: str | None
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]
    tool_calling: bool | None
    parallel_tool_calls: bool | None
    streaming: bool | None
    json_mode: str | None
    caching: str | None
    supported_parameters: tuple[str, ...]


class Resolution:
    """The answer to "what can this provider's model do": claims, made when they are asked for."""

    __slots__ = (
        "_claims",
        "_evidences",
        "_find_facts",
        "_layers",
        "_lineages",
        "_matched",
        "_over",
        "_under",
        "api",
        "listed",
        "memo",
        "model",
        "provider",
        "provider_id",
        "target",
        "vendor",
    )

    def __init__(
        self,
        *,
        provider_id: str,
        model: str,
        provider: Provider | None,
        api: str | None,
        vendor: str | None,
        under: Layer,
        matched: Matched,
        find_facts: Callable[[], tuple[Layer, ...]],
        over: tuple[Layer, ...],
        lineages: tuple[Lineage, ...],
        evidences: dict[Any, Evidence],
        listed: bool,
    ) -> None:
        self.provider_id = provider_id
        self.model = model
        self.target = f"{provider_id}/{model}"
        self.provider = provider
        self.api = api
        self.vendor = vendor
        """The provider whose model this is, as far as its name tells."""
        self.listed = listed
        """Whether any catalog, or the operator, lists the model under this provider."""
        self.memo: dict[Any, Any] = {}
        """Answers to questions asked of this model before; see `modelpact.negotiation`."""
        self._under = under
        self._matched = matched
        self._find_facts = find_facts
        self._over = over
        self._layers: tuple[Layer, ...] | None = None
        self._lineages = lineages
        self._evidences = evidences
        self._claims: dict[str, Claim] = {}

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What excludes what on this model."""
        return self._matched.constraints

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer that has a say, from the defaults upward; facts are unpacked here."""
        layers = self._layers
        if layers is None:
            found = self._matched
            layers = (
                self._under,
                *found.rules,
                *self._find_facts(),
                *found.corrections,
                *self._over,
            )
            self._layers = layers
        return layers

    def __repr__(self) -> str:
        return f"<Resolution {self.target}>"

    def claim(self, name: str) -> Claim:
        """Return the claim for a capability by its canonical id, alias or dialect name."""
        try:
            found = self._claims.get(name)
        except TypeError:
            found = None
        if found is None:
            found = self._make(name)
            if len(self._claims) < _MOST_CLAIMS:
                self._claims[name] = found
        return found

    def _make(self, name: str) -> Claim:
        known = CAPABILITIES.get(name) if type(name) is str else None
        if known is None:
            known = capability(name)
        if known.id != name:
            return self.claim(known.id)
        if known.formula is not None:
            return derive(name, known.formula, self.claim)
        return self._said(name, self.layers)

    def overruled(self, name: str) -> Claim | None:
        """Return what would be claimed without evidence, where evidence says otherwise."""
        claim = self.claim(name)
        if claim.evidence is None or claim.evidence.layer != "evidence":
            return None
        before = self.without_evidence(claim.capability)
        agreed = (before.support, before.value) == (claim.support, claim.value)
        return before if before.known and not agreed else None

    def without_evidence(self, name: str) -> Claim:
        """Return what the catalog and the operator claim, whatever probes and use showed."""
        known = capability(name)
        if known.formula is not None:
            return derive(known.id, known.formula, self.without_evidence)
        layers = [one for one in self.layers if one.evidence.layer != "evidence"]
        return self._said(known.id, layers)

    def _said(self, name: str, layers: Sequence[Layer]) -> Claim:
        assumed: tuple[Layer, Stated] | None = None
        nobody = self.provider is None and self.api is None
        for layer in reversed(layers):
            stated = layer.stated(name)
            if stated is None:
                continue
            if layer.only_assumed(name) or (nobody and layer.evidence.layer not in _FIRST_HAND):
                assumed = assumed or (layer, stated)
                continue
            evidence = self._evidence(layer, name)
            return Claim(name, stated.support, stated.value, stated.reason, evidence=evidence)
        if assumed is None:
            return Claim(name)
        layer, stated = assumed
        return Claim(
            name,
            value=stated.value,
            assumed=stated.support,
            evidence=self._evidence(layer, name),
        )

    def _evidence(self, layer: Layer, name: str) -> Evidence:
        if layer.record is None:
            return layer.evidence
        pattern = layer.record.pattern(name)
        key = (layer.evidence.rule, pattern)
        found = None if pattern is None else self._evidences.get(key)
        if found is None:
            votes = layer.record.votes_on(name, self._lineages)
            said = layer.evidence
            date = votes[0].date if votes else ""
            found = Evidence(said.layer, said.rule, said.source, date, votes)
            if pattern is not None and layer.evidence.layer == "facts":
                self._evidences[key] = found
        return found

    def __iter__(self) -> Iterator[Claim]:
        for name in CAPABILITIES:
            yield self.claim(name)

    @property
    def records(self) -> tuple[ModelFacts, ...]:
        """The records of facts behind the answer, the provider's own last."""
        return tuple(layer.record for layer in self.layers if layer.record is not None)

    def _own(self) -> ModelFacts | None:
        for layer in reversed(self.layers):
            if layer.record is not None and layer.trust == "known":
                return layer.record
        return None

    @property
    def price(self) -> Price | None:
        """What this provider charges, where that is known."""
        own = self._own()
        return None if own is None else own.price

    @property
    def released(self) -> str:
        """The date of release, or an empty string."""
        own = self._own()
        return "" if own is None else own.released

    @property
    def retires(self) -> str:
        """The date on which the provider takes the model away, or an empty string."""
        own = self._own()
        return "" if own is None else own.retires

    @property
    def status(self) -> str:
        """`deprecated`, `alpha`, `beta`, or an empty string."""
        own = self._own()
        return "" if own is None else own.status

    @property
    def known(self) -> bool:
        """Whether anyone lists the model: a catalog, its vendor, the operator or evidence."""
        return self.listed or bool(self.records) or bool(self._over)

    def retired_by(self, day: str) -> bool:
        """Tell whether the model was deprecated, or taken away by that day."""
        return self.status == "deprecated" or "" < self.retires <= day

    @property
    def trace(self) -> tuple[TraceEntry, ...]:
        """What each layer said, from the defaults upward."""
        return tuple(self._trace_entry(layer) for layer in self.layers)

    def _trace_entry(self, layer: Layer) -> TraceEntry:
        fields: dict[str, Any] = msgspec.to_builtins(dict(layer.fields))
        if layer.record is not None:
            for name in layer.record.spoken_of():
                votes = layer.record.votes_on(name, self._lineages)
                fields[name] = {vote.lineage: _shown(vote.support, vote.value) for vote in votes}
        said = layer.evidence
        return TraceEntry(
            said.layer,
            said.rule,
            fields,
            said.source,
            said.date,
            assumed=layer.trust != "known",
        )

    @property
    def capabilities(self) -> ModelCapabilities:
        """The nine fields of seed 004."""
        return ModelCapabilities(
            token_limit_param=_text(self.claim("token-limit-param").value),
            input_modalities=self._listing("input_modalities", "-input"),
            output_modalities=self._listing("output_modalities", "-output"),
            tool_calling=_truth(self.claim("tool-calling")),
            parallel_tool_calls=_truth(self.claim("parallel-tool-calls")),
            streaming=_truth(self.claim("streaming")),
            json_mode=_text(self.claim("json-mode").value),
            caching=self._caching(),
            supported_parameters=self._listing("supported_parameters", ""),
        )

    def _listing(self, field: str, suffix: str) -> tuple[str, ...]:
        """Return a list field in the order in which it was last written, as the claims have it."""
        written = self._last_written(field) or ()
        unsaid = (name for name in LIST_FIELDS[field] if name not in SHARED_PARAMETERS)
        order = dict.fromkeys((*written, *unsaid))
        return tuple(name for name in order if _truth(self.claim(name + suffix)))

    def _caching(self) -> str | None:
        written = self._last_written("caching")
        if isinstance(written, str) and written != "none" and _truth(self.claim(written)):
            return written
        return _text(self.claim("caching").value)

    def _last_written(self, field: str) -> Any:
        for layer in reversed(self.layers):
            if field in layer.fields:
                return layer.fields[field]
        return None


def _truth(claim: Claim) -> bool | None:
    support = claim.assumed if claim.support == "unknown" else claim.support
    return None if support in (None, "unknown") else support != "unsupported"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _shown(support: str, value: object) -> Any:
    if value is not None:
        return list(value) if isinstance(value, tuple) else value
    return support == "native"
