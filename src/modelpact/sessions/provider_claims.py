"""What a provider declares about its own models: a hint, reconciled with what is known."""

import asyncio
import inspect
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim, ClaimSource, Constraint, Evidence, derive
from modelpact.catalog.resolution import FIRST_HAND
from modelpact.negotiation.stud import read_claims
from modelpact.providers.port import ModelPort
from modelpact.vocabulary.capability import CAPABILITIES, capability
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import redact_text

DESCRIBE_SECONDS: Final = 2.0
"""How long a provider may take to describe a model."""
_CAN_BE_LOWERED: Final = ("context-window", "image-input", "audio-input", "video-input")
"""Capabilities for which a declaration below the known value is believed."""


class Declaration(msgspec.Struct, frozen=True):
    """What a provider declared about a model, or why that cannot be used."""

    claims: tuple[Claim, ...] = ()
    problem: str = ""


class CappedClaim(msgspec.Struct, frozen=True):
    """A declared claim that exceeds the known value. The known value applies."""

    capability: str
    declared: int | str
    known: int | str


SILENT: Final = Declaration()
"""The declaration of a provider that says nothing."""


class ReconciledClaims:
    """Known claims, in which the accepted claims of a provider's declaration replace others."""

    def __init__(self, base: ClaimSource, declared: Mapping[str, Claim]) -> None:
        self._base = base
        self._declared = declared

    @property
    def target(self) -> str:
        """The `provider/model` that the claims are about."""
        return self._base.target

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The capabilities that exclude each other on this model."""
        return self._base.constraints

    def claim(self, name: str) -> Claim:
        """Return the declared claim, or one derived from such claims, or the known one."""
        declared = self._declared.get(name)
        if declared is not None:
            return declared
        info = CAPABILITIES.get(name) or capability(name)
        if info.formula is not None:
            return derive(name, info.formula, self.claim)
        return self._base.claim(name)


def describe_model(port: ModelPort, provider: str, model: str, seconds: float | None = None) -> Declaration:
    """Ask a port to describe a model, if it has a method `describe_capabilities(model)`.

    The method returns `{"streaming": true, "contextWindow": 128000, "multimodal": {"image": true}}`
    or an awaitable of that. It runs in a thread of its own. If it raises, takes too long or returns
    something else, the declaration has a problem instead of claims.
    """
    timeout = DESCRIBE_SECONDS if seconds is None else seconds
    try:
        describe = getattr(port, "describe_capabilities", None)
    except (Exception, SystemExit) as error:  # a property may raise as well
        return Declaration(problem=_problem(error, timeout))
    if describe is None:
        return SILENT
    done: Future[Declaration] = Future()

    def run() -> None:
        try:
            declared = _await(describe(model), timeout)
            done.set_result(SILENT if declared is None else _declaration(declared, provider))
        except BaseException as error:  # a port may raise anything, SystemExit included
            done.set_result(Declaration(problem=_problem(error, timeout)))

    threading.Thread(target=run, name="modelpact-describe", daemon=True).start()
    try:
        return done.result(timeout)
    except TimeoutError as error:
        return Declaration(problem=_problem(error, timeout))


def reconcile(known: ClaimSource, declaration: Declaration) -> tuple[ClaimSource, tuple[CappedClaim, ...]]:
    """Let declared claims fill what is unknown, and cap those that exceed what is known."""
    accepted: dict[str, Claim] = {}
    capped: list[CappedClaim] = []
    for declared in declaration.claims:
        name = declared.capability
        claim = known.claim(name)
        if not claim.known:
            accepted[name] = declared
        elif _measure(declared) > _measure(claim):
            capped.append(CappedClaim(name, _value(declared), _value(claim)))
        elif _measure(declared) < _measure(claim) and _can_be_lowered(claim):
            accepted[name] = declared
    return (ReconciledClaims(known, accepted) if accepted else known), tuple(capped)


def declared_only(source: ClaimSource, names: frozenset[str]) -> tuple[str, ...]:
    """Return those of the capabilities that only the provider's declaration claims."""
    claims = (source.claim(name) for name in sorted(names))
    return tuple(
        claim.capability
        for claim in claims
        if claim.known and claim.evidence is not None and claim.evidence.layer == "declared"
    )


def _await(value: Any, seconds: float) -> Any:
    """Return a value, awaited on a loop of its own if it is awaitable."""
    if not inspect.isawaitable(value):
        return value

    async def with_timeout() -> Any:
        async with asyncio.timeout(seconds):
            return await value

    return asyncio.run(with_timeout())


def _declaration(declared: Any, provider: str) -> Declaration:
    evidence = Evidence("declared", rule="describeCapabilities", source=provider)
    claims = [claim for claim in read_claims(declared) if claim.known]
    return Declaration(tuple(msgspec.structs.replace(claim, evidence=evidence) for claim in claims))


def _problem(error: BaseException, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not describe itself within {seconds:g} seconds"
    kind = type(error).__name__
    try:
        message = str(error)
    except BaseException:  # even __str__ may raise
        message = ""
    if isinstance(error, ModelpactError):
        return redact_text(message)[:300]
    return redact_text(f"{kind}: {message}" if message else kind)[:300]


def _can_be_lowered(known: Claim) -> bool:
    is_first_hand = known.evidence is not None and known.evidence.layer in FIRST_HAND
    return known.capability in _CAN_BE_LOWERED and not is_first_hand


def _measure(claim: Claim) -> int:
    if isinstance(claim.value, int):
        return claim.value
    return 0 if claim.support == "unsupported" else 1


def _value(claim: Claim) -> int | str:
    return claim.value if isinstance(claim.value, int) else claim.support
