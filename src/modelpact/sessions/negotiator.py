"""Negotiation for a session: which model a name means, whether it fits, and why it does not.

The negotiator reads the catalog, the evidence in the ledger, and what providers declare about
their own models. It changes nothing and records nothing.
"""

import threading
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.claim import Claims, ClaimSource
from modelpact.catalog.resolution import FIRST_HAND, Resolution
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.emulation.emulator import emulator_strategies
from modelpact.evidence import read_evidence
from modelpact.ledger.reader import LedgerReader
from modelpact.needs.need import Needs
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.negotiate import decide, model_notes, negotiate
from modelpact.negotiation.parameters import params_affected
from modelpact.negotiation.search import suggest
from modelpact.negotiation.stud import is_known_pair
from modelpact.negotiation.verdict import Diagnostic, Policy, Verdict
from modelpact.providers.models.credentials import MissingKey
from modelpact.sessions.errors import KeyMissing, SessionError, SwitchRejected, TargetUnreachable
from modelpact.sessions.provider_claims import (
    SILENT,
    CappedClaim,
    Declaration,
    declared_only,
    describe_model,
    reconcile,
)
from modelpact.sessions.store import SessionState
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName, brief

RESUME: Final = "resume"
_DESCRIBE_AGAIN: Final = ("/model", "/provider", RESUME)
"""Triggers on which the provider describes the model again."""
_MAX_TARGET: Final = 300
_EVIDENCE_VERSION: Final = "SELECT COUNT(*), MAX(observed) FROM evidence"


class SessionDecision(msgspec.Struct, frozen=True):
    """The outcome of one negotiation: of a proposed state with its model."""

    trigger: str
    """What set the negotiation off: `/model`, `/sm attach`, `spawn`, …"""
    needs: Needs
    verdict: Verdict
    diagnostic: Diagnostic | None
    """What a person should know; None if there is nothing to tell."""
    previous: str = ""
    """The model in use before."""
    unreachable: ModelpactError | None = None
    """Why a model that fits cannot be called."""
    capped: tuple[CappedClaim, ...] = ()
    """What the provider declared beyond the known values."""
    declaration_problem: str = ""
    """Why the provider's declaration could not be used."""

    @property
    def accepted(self) -> bool:
        """Whether the model fits and can be called."""
        return self.verdict.ok and self.unreachable is None

    def rejection(self, kind: type[SwitchRejected]) -> SessionError:
        """Return the error to raise for a decision that is not accepted."""
        assert self.diagnostic is not None
        if self.unreachable is None:
            return kind(self.verdict, self.diagnostic, self.trigger)
        has_no_key = isinstance(self.unreachable, MissingKey)
        error = KeyMissing if has_no_key else TargetUnreachable
        return error(self.diagnostic, self.trigger, self.unreachable)


class Negotiator:
    """Negotiates a session's needs with models, by everything that is known about them now."""

    def __init__(self, reader: LedgerReader, models: ModelCaller) -> None:
        self._reader = reader
        self._models = models
        self._lock = threading.Lock()
        self._evidence_version: Any = (0, None)
        self._catalog = models.catalog
        self._declarations: dict[str, Declaration] = {}

    def negotiate(self, trigger: str, current: SessionState, proposed: SessionState, needs: Needs) -> SessionDecision:
        """Negotiate the needs of a proposed state with its model.

        The suggestion of a rejection is never the session's current model.
        """
        target, policy = proposed.target, proposed.policy
        current_model = current.target
        is_switch = target != current_model or trigger in _DESCRIBE_AGAIN
        unreachable: ModelpactError | None = None
        try:
            self._describe(target, again=is_switch)
        except ModelpactError as error:
            unreachable = error
        judged = self._judge(needs, target, policy)
        if not judged.verdict.ok:
            unreachable = None  # a model that does not fit is rejected for that, key or no key
        # A resumed session stays on its model: there is no previous one.
        previous = None if trigger == RESUME else current_model or None
        diagnostic = diagnose(
            judged.verdict,
            previous=previous,
            params=proposed.layers,
            target=judged.resolution,
            policy=policy,
            catalog=judged.catalog,
            exclude=(current_model,),
        )
        if diagnostic is None and (is_switch or unreachable):
            # The needs are met, but parameters may stop applying. That is never silent.
            affected = params_affected(proposed.layers, judged.resolution)
            if affected or unreachable:
                diagnostic = Diagnostic(target, (), previous, params_affected=affected)
        return SessionDecision(
            trigger,
            needs,
            judged.verdict,
            diagnostic,
            current_model,
            unreachable,
            judged.capped,
            judged.declaration_problem,
        )

    def verdict(self, needs: Needs, target: str, policy: Policy) -> Verdict:
        """Return how a model fits these needs. The provider is not asked."""
        return self._judge(needs, target, policy).verdict

    def catalog(self) -> Catalog:
        """Return the catalog with the current evidence, also that of other processes."""
        version = self._reader.read(_EVIDENCE_VERSION)[0]
        with self._lock:
            if version != self._evidence_version:
                evidence = read_evidence(self._reader)
                self._catalog = self._models.catalog.extended(evidence=evidence)
                self._evidence_version = version
            return self._catalog

    def resolution(self, target: str) -> Resolution:
        """Return what the catalog and the evidence say about a model."""
        return self.catalog().resolve(*target.split("/", 1))

    def claims(self, target: str) -> ClaimSource:
        """Return all claims about a model, with its provider's declaration."""
        resolution = self.resolution(target)
        declaration = self._declarations.get(target, SILENT)
        return reconcile(_known_claims(resolution), declaration)[0]

    def resolve_target(self, text: str, provider: str = "") -> str:
        """Read `provider/model`, or a model of the provider in use, as a full name.

        The part before the first slash is a provider, unless no such provider is known and the
        provider in use lists a model of that name or relays models of others.
        """
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            raise InputError(f"a model is named PROVIDER/MODEL, not {brief(text)}")
        text = text.strip()
        if len(text) > _MAX_TARGET:
            raise InputError(f"a model's name has at most {_MAX_TARGET} characters; {len(text):,} is too long")
        first, slash, rest = text.partition("/")
        if not slash and not provider:
            raise InputError(f"{brief(text)} has no provider: write PROVIDER/MODEL")
        if slash and not (first and rest):
            raise InputError(f"a model is named PROVIDER/MODEL, not {brief(text)}")
        if not slash or (not self._models.knows(first) and self._may_have(provider, text)):
            return f"{provider}/{text}"
        return f"{self.resolve_provider(first)}/{rest}"

    def resolve_provider(self, name: str) -> str:
        """Return a provider's id, given its id or an alias. Raise if it is unknown."""
        if not isinstance(name, str) or not self._models.knows(name):
            known = (*self._models.configuration.providers, *self._models.catalog.providers.names)
            raise UnknownName("provider", name, known)
        return self._models.catalog.resolve(name, "-").provider_id

    def choose_model(self, provider: str, needs: Needs, policy: Policy) -> str:
        """Return the model to use at a provider that the session has not used yet.

        That is the first model that the configuration names there; else the cheapest well-known
        model that meets the needs; else the cheapest well-known model.
        """
        configuration = self._models.configuration
        configured = [workload.model for workload in configuration.workloads.values()]
        configured += [f"{owner}/{model}" for owner, model in configuration.models]
        for target in configured:
            if target.partition("/")[0] in (provider, *self._aliases(provider)):
                return self.resolve_target(target)
        for wanted in (needs, Needs()):
            best = suggest(wanted, prefer_provider=provider, policy=policy, catalog=self.catalog())
            if best is not None and best.target.startswith(f"{provider}/"):
                return best.target
        raise InputError(
            f"{provider}: no model was used there yet and none is configured; name one: /model {provider}/MODEL"
        )

    def _may_have(self, provider: str, model: str) -> bool:
        """Tell whether a provider may have a model with a slash in its name."""
        if not provider:
            return False
        resolution = self._models.catalog.resolve(provider, model)
        listed = resolution.known
        return listed or resolution.provider is None or resolution.provider.serves != "own"

    def _aliases(self, provider: str) -> tuple[str, ...]:
        known = self._models.catalog.find_provider(provider)
        return () if known is None or known.id != provider else known.aliases

    def _describe(self, target: str, *, again: bool) -> None:
        """Ask the provider what it declares about a model, if it was not asked yet or `again`.

        Raises if the provider cannot be called: it is unknown, or its key is missing.
        """
        if again or target not in self._declarations:
            provider, _, model = target.partition("/")
            port = self._models.port(provider)
            self._declarations[target] = describe_model(port, provider, model)

    def _judge(self, needs: Needs, target: str, policy: Policy) -> "_Judgement":
        catalog = self.catalog()
        resolution = catalog.resolve(*target.split("/", 1))
        declaration = self._declarations.get(target, SILENT)
        if _is_known(resolution) and not declaration.claims:
            verdict = negotiate(needs, resolution, policy, strategies=emulator_strategies(), catalog=catalog)
            return _Judgement(verdict, resolution, catalog, (), declaration.problem)
        claims, capped = reconcile(_known_claims(resolution), declaration)
        verdict = decide(needs, claims, policy, emulator_strategies())
        notes = model_notes(resolution, catalog)
        unconfirmed = declared_only(claims, needs.bases)
        if unconfirmed:
            notes = (*notes, f"only its provider says that it has {', '.join(unconfirmed)}")
        verdict = msgspec.structs.replace(verdict, notes=notes)
        return _Judgement(verdict, resolution, catalog, capped, declaration.problem)


class _Judgement(msgspec.Struct, frozen=True):
    """A verdict and what it was made from."""

    verdict: Verdict
    resolution: Resolution
    catalog: Catalog
    capped: tuple[CappedClaim, ...]
    declaration_problem: str


def _is_known(resolution: Resolution) -> bool:
    return is_known_pair(resolution) or resolution.api == "mock"


def _known_claims(resolution: Resolution) -> ClaimSource:
    """Return the claims about a model; for one that nobody lists, only first-hand ones."""
    if _is_known(resolution):
        return resolution
    names = {name for layer in resolution.layers if layer.evidence.layer in FIRST_HAND for name in layer.cells}
    claims = {name: resolution.claim(name) for name in names}
    return Claims(claims, target=resolution.target)
