"""What a session knows of models: the catalog with what use has taught, and verdicts by it."""

import threading
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.claim import ClaimSource
from modelpact.catalog.resolution import Resolution
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.emulation.emulator import emulator_strategies
from modelpact.evidence import read_evidence
from modelpact.ledger.reader import LedgerReader
from modelpact.needs.need import Needs
from modelpact.negotiation.negotiate import decide, model_notes, negotiate
from modelpact.negotiation.search import suggest
from modelpact.negotiation.stud import is_known_pair
from modelpact.negotiation.verdict import Policy, Verdict
from modelpact.sessions.provider_claims import (
    SILENT,
    Capped,
    Declaration,
    ask,
    held_against,
    hinted,
    no_claims,
)
from modelpact.vocabulary.errors import InputError, UnknownName, brief

_FIRST_HAND: Final = ("evidence", "overlay")
_MARK: Final = "SELECT COUNT(*), MAX(observed) FROM evidence"


class Judgement(msgspec.Struct, frozen=True):
    """A verdict, the model that it is about, and what was wrong with its provider's own words."""

    verdict: Verdict
    resolution: Resolution
    catalog: Catalog
    capped: tuple[Capped, ...] = ()
    problem: str = ""


class Knowledge:
    """The catalog as evidence has it now, and what providers declared of their models."""

    def __init__(self, reader: LedgerReader, models: ModelCaller) -> None:
        self._reader = reader
        self._models = models
        self._lock = threading.Lock()
        self._mark: Any = (0, None)
        self._catalog = models.catalog
        self._declared: dict[str, Declaration] = {}

    def catalog(self) -> Catalog:
        """Return the catalog with all evidence, also what other processes learned meanwhile."""
        mark = self._reader.read(_MARK)[0]
        with self._lock:
            if mark != self._mark:
                evidence = read_evidence(self._reader)
                self._catalog = self._models.catalog.extended(evidence=evidence)
                self._mark = mark
            return self._catalog

    def target(self, text: str, provider: str = "") -> str:
        """Read `provider/model`, or a model of the provider in use, as one full name.

        What comes before the first slash is a provider, unless nobody knows it and the provider in
        use lists such a model or passes others' models on.
        """
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            raise InputError(f"a model is named PROVIDER/MODEL, not {brief(text)}")
        text = text.strip()
        if len(text) > 300:
            raise InputError(f"a model's name of {len(text):,} characters is too long")
        first, slash, rest = text.partition("/")
        if not slash and not provider:
            raise InputError(f"{brief(text)}: whose model? Write PROVIDER/MODEL")
        if slash and not (first and rest):
            raise InputError(f"a model is named PROVIDER/MODEL, not {brief(text)}")
        if not slash or (not self._models.knows(first) and self._has(provider, text)):
            return f"{provider}/{text}"
        return f"{self.provider(first)}/{rest}"

    def _has(self, provider: str, model: str) -> bool:
        """Tell whether a provider may have a model with a slash in its name."""
        if not provider:
            return False
        found = self._models.catalog.resolve(provider, model)
        return found.known or found.provider is None or found.provider.serves != "own"

    def provider(self, name: str) -> str:
        """Return a provider's own name, or raise where it is not known."""
        if not isinstance(name, str) or not self._models.knows(name):
            known = (*self._models.configuration.providers, *self._models.catalog.providers.names)
            raise UnknownName("provider", name, known)
        return self._models.catalog.resolve(name, "-").provider_id

    def choice(self, provider: str, needs: Needs, policy: Policy) -> str:
        """Return the model to use at a provider where the session has used none yet.

        That is the first that the configuration names there; else the cheapest well-known one
        that meets the needs, or, where none does, the cheapest well-known one.
        """
        configuration = self._models.configuration
        named = [one.model for one in configuration.workloads.values()]
        named += [f"{whose}/{model}" for whose, model in configuration.models]
        for target in named:
            if target.partition("/")[0] in (provider, *self._aliases(provider)):
                return self.target(target)
        for wanted in (needs, Needs()):
            found = suggest(wanted, avoid=f"{provider}/", policy=policy, catalog=self.catalog())
            if found is not None and found.target.startswith(f"{provider}/"):
                return found.target
        raise InputError(
            f"{provider}: no model was used there yet and none is configured; "
            f"name one: /model {provider}/MODEL"
        )

    def _aliases(self, provider: str) -> tuple[str, ...]:
        known = self._models.catalog.find_provider(provider)
        return () if known is None or known.id != provider else known.aliases

    def describe(self, target: str, *, anew: bool) -> Declaration:
        """Return what a provider declares of a model; it is asked `anew` on every switch.

        Raises where there is no way to the provider: it is not known, or its key is missing.
        """
        found = None if anew else self._declared.get(target)
        if found is None:
            provider, _, model = target.partition("/")
            found = self._declared[target] = ask(self._models.port(provider), provider, model)
        return found

    def judge(self, needs: Needs, target: str, policy: Policy) -> Judgement:
        """Negotiate with what is known, and with what the provider last declared."""
        catalog = self.catalog()
        resolution = catalog.resolve(*target.split("/", 1))
        declaration = self._declared.get(target, SILENT)
        known = is_known_pair(resolution) or "mock" in (resolution.api or "")
        if known and not declaration.claims:
            verdict = negotiate(
                needs, resolution, policy, strategies=emulator_strategies(), catalog=catalog
            )
            return Judgement(verdict, resolution, catalog, problem=declaration.problem)
        source, capped = held_against(_claims(resolution, known), declaration)
        verdict = decide(needs, source, policy, emulator_strategies())
        notes = model_notes(resolution, catalog)
        hearsay = hinted(source, needs.bases)
        if hearsay:
            notes = (*notes, f"only its provider says that it has {', '.join(hearsay)}")
        verdict = msgspec.structs.replace(verdict, notes=notes)
        return Judgement(verdict, resolution, catalog, capped, declaration.problem)

    def claims(self, target: str) -> ClaimSource:
        """Return what is known of a model now, its provider's own words included."""
        resolution = self.catalog().resolve(*target.split("/", 1))
        known = is_known_pair(resolution) or "mock" in (resolution.api or "")
        return held_against(_claims(resolution, known), self._declared.get(target, SILENT))[0]


def _claims(resolution: Resolution, known: bool) -> ClaimSource:
    """Return the claims of a pair; of an unknown one only what is known at first hand."""
    if known:
        return resolution
    names = {
        name
        for layer in resolution.layers
        if layer.evidence.layer in _FIRST_HAND
        for name in layer.cells
    }
    return no_claims(resolution.target, {name: resolution.claim(name) for name in names})
