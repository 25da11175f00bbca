"""Resolutions: what the model of a provider can do, with every layer that says so."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim, Constraint, Evidence, LayerKind, Vote, derive
from modelpact.catalog.facts import Layer, Lineage, ModelFacts, Price
from modelpact.catalog.provider import ProviderEntry
from modelpact.catalog.rules import MatchedRules
from modelpact.catalog.statement import LIST_FIELDS, SHARED_PARAMETERS, Stated
from modelpact.vocabulary.capability import CAPABILITIES, capability

_MAX_CLAIMS: Final = 512
_MAX_MEMO_ENTRIES: Final = 1_024
FIRST_HAND: Final = ("evidence", "overlay")
"""The layers that are about this very model: evidence, and the operator's overlay.

They apply even if the provider is not known, and a provider's declaration never changes them.
"""


class TraceEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one layer states, for people to read: its fields as in their source."""

    layer: LayerKind
    rule: str
    fields: dict[str, Any]
    source: str = ""
    date: str = ""
    assumed: bool = False


class ModelCapabilities(msgspec.Struct, frozen=True):
    """The nine fields of the nika specification; None if nothing is known."""

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
    """What the model of a provider can do. Claims are computed when they are requested."""

    __slots__ = (
        "_claims",
        "_defaults",
        "_evidences",
        "_find_facts",
        "_layers",
        "_lineages",
        "_matched",
        "_upper_layers",
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
        provider: ProviderEntry | None,
        api: str | None,
        vendor: str | None,
        defaults: Layer,
        matched: MatchedRules,
        find_facts: Callable[[], tuple[Layer, ...]],
        upper_layers: tuple[Layer, ...],
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
        """The vendor of the model, as far as its name tells."""
        self.listed = listed
        """Whether any catalog, or the operator, lists the model under this provider."""
        self.memo: dict[Any, Any] = {}
        """Results that `modelpact.negotiation` computed for this model; `remember` adds to them.

        A plain dictionary: most resolutions never need it, and it is cheap to create.
        """
        self._defaults = defaults
        self._matched = matched
        self._find_facts = find_facts
        self._upper_layers = upper_layers
        self._layers: tuple[Layer, ...] | None = None
        self._lineages = lineages
        self._evidences = evidences
        self._claims: dict[str, Claim] = {}

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The capabilities that exclude each other on this model."""
        return self._matched.constraints

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer that applies, from the defaults upward. Facts are decoded here."""
        layers = self._layers
        if layers is None:
            matched = self._matched
            layers = (self._defaults, *matched.rules, *self._find_facts(), *matched.corrections, *self._upper_layers)
            self._layers = layers
        return layers

    def __repr__(self) -> str:
        return f"<Resolution {self.target}>"

    def claim(self, name: str) -> Claim:
        """Return the claim for a capability by its canonical id, alias or dialect name."""
        try:
            claim = self._claims.get(name)
        except TypeError:
            claim = None  # not hashable; `capability` explains what is expected
        if claim is None:
            claim = self._make_claim(name)
            if len(self._claims) < _MAX_CLAIMS:
                self._claims[name] = claim
        return claim

    def remember(self, key: Any, value: Any) -> None:
        """Keep a result in `memo`, which is cleared when it is full."""
        if len(self.memo) >= _MAX_MEMO_ENTRIES:
            self.memo.clear()
        self.memo[key] = value

    def _make_claim(self, name: str) -> Claim:
        known = CAPABILITIES.get(name) if type(name) is str else None
        if known is None:
            known = capability(name)
        if known.id != name:
            return self.claim(known.id)
        if known.formula is not None:
            return derive(name, known.formula, self.claim)
        return self._stated_claim(name, self.layers)

    def overruled(self, name: str) -> Claim | None:
        """Return the claim without evidence, if evidence has changed it."""
        claim = self.claim(name)
        if claim.evidence is None or claim.evidence.layer != "evidence":
            return None
        original = self.without_evidence(claim.capability)
        same = (original.support, original.value) == (claim.support, claim.value)
        return original if original.known and not same else None

    def without_evidence(self, name: str) -> Claim:
        """Return the claim of the catalog and the operator, ignoring evidence."""
        known = capability(name)
        if known.formula is not None:
            return derive(known.id, known.formula, self.without_evidence)
        layers = [layer for layer in self.layers if layer.evidence.layer != "evidence"]
        return self._stated_claim(known.id, layers)

    def _stated_claim(self, name: str, layers: Sequence[Layer]) -> Claim:
        """Return the claim of the topmost layer that knows, or else the topmost assumption."""
        assumed: tuple[Layer, Stated] | None = None
        unknown_provider = self.provider is None and self.api is None
        for layer in reversed(layers):
            stated = layer.stated(name)
            if stated is None:
                continue
            if layer.is_assumption(name) or (unknown_provider and layer.evidence.layer not in FIRST_HAND):
                assumed = assumed or (layer, stated)
                continue
            evidence = self._evidence(layer, name)
            return Claim(name, stated.support, stated.value, stated.reason, evidence=evidence)
        if assumed is None:
            return Claim(name)
        layer, stated = assumed
        return Claim(name, value=stated.value, assumed=stated.support, evidence=self._evidence(layer, name))

    def _evidence(self, layer: Layer, name: str) -> Evidence:
        if layer.record is None:
            return layer.evidence
        pattern = layer.record.vote_pattern(name)
        key = (layer.evidence.rule, pattern)
        evidence = None if pattern is None else self._evidences.get(key)
        if evidence is None:
            votes = layer.record.votes_on(name, self._lineages)
            source = layer.evidence
            date = votes[0].date if votes else ""
            evidence = Evidence(source.layer, source.rule, source.source, date, votes)
            if pattern is not None and source.layer == "facts":
                self._evidences[key] = evidence
        return evidence

    def __iter__(self) -> Iterator[Claim]:
        for name in CAPABILITIES:
            yield self.claim(name)

    @property
    def records(self) -> tuple[ModelFacts, ...]:
        """The records of facts that apply, the provider's own last."""
        return tuple(layer.record for layer in self.layers if layer.record is not None)

    def _own_facts(self) -> ModelFacts | None:
        for layer in reversed(self.layers):
            if layer.record is not None and layer.trust == "known":
                return layer.record
        return None

    @property
    def price(self) -> Price | None:
        """The price at this provider, if it is known."""
        own = self._own_facts()
        return None if own is None else own.price

    @property
    def released(self) -> str:
        """The date of release, or an empty string."""
        own = self._own_facts()
        return "" if own is None else own.released

    @property
    def retires(self) -> str:
        """The date on which the provider retires the model, or an empty string."""
        own = self._own_facts()
        return "" if own is None else own.retires

    @property
    def status(self) -> str:
        """`deprecated`, `alpha`, `beta`, or an empty string."""
        own = self._own_facts()
        return "" if own is None else own.status

    @property
    def known(self) -> bool:
        """Whether a catalog, the vendor, the operator or evidence knows the model."""
        return self.listed or bool(self.records) or bool(self._upper_layers)

    def retired_by(self, day: str) -> bool:
        """Whether the model is deprecated, or retired by that day."""
        return self.status == "deprecated" or "" < self.retires <= day

    @property
    def trace(self) -> tuple[TraceEntry, ...]:
        """What each layer states, from the defaults upward."""
        return tuple(self._trace_entry(layer) for layer in self.layers)

    def _trace_entry(self, layer: Layer) -> TraceEntry:
        fields: dict[str, Any] = msgspec.to_builtins(dict(layer.fields))
        if layer.record is not None:
            for name in layer.record.capabilities():
                votes = layer.record.votes_on(name, self._lineages)
                fields[name] = {vote.lineage: _vote_value(vote) for vote in votes}
        evidence = layer.evidence
        return TraceEntry(
            evidence.layer, evidence.rule, fields, evidence.source, evidence.date, assumed=layer.trust != "known"
        )

    @property
    def capabilities(self) -> ModelCapabilities:
        """The nine fields of the nika specification."""
        return ModelCapabilities(
            token_limit_param=_string(self.claim("token-limit-param").value),
            input_modalities=self._list_field("input_modalities", "-input"),
            output_modalities=self._list_field("output_modalities", "-output"),
            tool_calling=_as_bool(self.claim("tool-calling")),
            parallel_tool_calls=_as_bool(self.claim("parallel-tool-calls")),
            streaming=_as_bool(self.claim("streaming")),
            json_mode=_string(self.claim("json-mode").value),
            caching=self._caching(),
            supported_parameters=self._list_field("supported_parameters", ""),
        )

    def _list_field(self, field: str, suffix: str) -> tuple[str, ...]:
        """Return the supported members of a list field, in the order of the topmost list."""
        stated = self._topmost(field) or ()
        others = (name for name in LIST_FIELDS[field] if name not in SHARED_PARAMETERS)
        order = dict.fromkeys((*stated, *others))
        return tuple(name for name in order if _as_bool(self.claim(name + suffix)))

    def _caching(self) -> str | None:
        stated = self._topmost("caching")
        if isinstance(stated, str) and stated != "none" and _as_bool(self.claim(stated)):
            return stated
        return _string(self.claim("caching").value)

    def _topmost(self, field: str) -> Any:
        """Return the value of a field in the topmost layer that has it, or None."""
        for layer in reversed(self.layers):
            if field in layer.fields:
                return layer.fields[field]
        return None


def _as_bool(claim: Claim) -> bool | None:
    support = claim.assumed if claim.support == "unknown" else claim.support
    return None if support in (None, "unknown") else support != "unsupported"


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _vote_value(vote: Vote) -> Any:
    if vote.value is not None:
        return list(vote.value) if isinstance(vote.value, tuple) else vote.value
    return vote.support == "native"
