"""What a provider declares of its own models: a hint, held against what is known."""

import asyncio
import inspect
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim, Claims, ClaimSource, Constraint, Evidence, derive
from modelpact.negotiation.stud import read_claims
from modelpact.providers.port import ModelPort
from modelpact.vocabulary.capability import CAPABILITIES, capability
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import redact_text

SECONDS: Final = 2.0
"""How long a provider may take to describe a model."""

_LIMITED: Final = ("context-window", "image-input", "audio-input", "video-input")
"""What a declaration may lower, but not raise: the known values are the ceiling."""
_FIRST_HAND: Final = ("evidence", "overlay")


class Declaration(msgspec.Struct, frozen=True):
    """What a provider said of a model, or why that cannot be used."""

    claims: tuple[Claim, ...] = ()
    problem: str = ""


class Capped(msgspec.Struct, frozen=True):
    """A claim of a provider's that goes beyond what is known; what is known stands."""

    capability: str
    declared: int | str
    known: int | str


SILENT: Final = Declaration()


def ask(port: ModelPort, provider: str, model: str, seconds: float | None = None) -> Declaration:
    """Ask a port to describe a model, if it has a method `describe_capabilities(model)`.

    That returns `{"streaming": true, "contextWindow": 128000, "multimodal": {"image": true}, …}`,
    and may be a coroutine. One that fails, dawdles or talks nonsense is silent.
    """
    allowed = SECONDS if seconds is None else seconds
    try:
        describe = getattr(port, "describe_capabilities", None)
    except (Exception, SystemExit) as error:  # a property is a stranger's code too
        return Declaration(problem=_told(error, allowed))
    if describe is None:
        return SILENT
    done: Future[Declaration] = Future()

    def run() -> None:
        try:
            said = _heard(describe(model), allowed)
            done.set_result(SILENT if said is None else _declaration(said, provider))
        except BaseException as error:  # whatever a stranger's code raises, SystemExit included
            done.set_result(Declaration(problem=_told(error, allowed)))

    threading.Thread(target=run, name="modelpact-describe", daemon=True).start()
    try:
        return done.result(allowed)
    except TimeoutError as error:
        return Declaration(problem=_told(error, allowed))


def _heard(said: Any, seconds: float) -> Any:
    """Return what was said; a coroutine runs on a loop of its own, where it holds nobody up."""
    if not inspect.isawaitable(said):
        return said

    async def awaited() -> Any:
        async with asyncio.timeout(seconds):
            return await said

    return asyncio.run(awaited())


def _declaration(said: Any, provider: str) -> Declaration:
    evidence = Evidence("declared", rule="describeCapabilities", source=provider)
    claims = [one for one in read_claims(said) if one.known]
    return Declaration(tuple(msgspec.structs.replace(one, evidence=evidence) for one in claims))


def _told(error: BaseException, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not describe itself within {seconds:g} seconds"
    kind = type(error).__name__
    try:
        said = str(error)
    except BaseException:  # an error that cannot even say what it is
        said = ""
    if isinstance(error, ModelpactError):
        return redact_text(said)[:300]
    return redact_text(f"{kind}: {said}" if said else kind)[:300]


class OverlaidClaims:
    """Claims with a provider's hints over them, where those may stand."""

    def __init__(self, base: ClaimSource, hints: Mapping[str, Claim]) -> None:
        self._base = base
        self._hints = hints

    @property
    def target(self) -> str:
        """The `provider/model` that the claims are about."""
        return self._base.target

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What excludes what on this model."""
        return self._base.constraints

    def claim(self, name: str) -> Claim:
        """Return the hint, or what follows from hints, or what is known."""
        hint = self._hints.get(name)
        if hint is not None:
            return hint
        info = CAPABILITIES.get(name) or capability(name)
        if info.formula is not None:
            return derive(name, info.formula, self.claim)
        return self._base.claim(name)


def held_against(
    base: ClaimSource, declaration: Declaration
) -> tuple[ClaimSource, tuple[Capped, ...]]:
    """Let a declaration fill what is unknown, and cap what goes beyond the known."""
    hints: dict[str, Claim] = {}
    capped: list[Capped] = []
    for said in declaration.claims:
        known = base.claim(said.capability)
        if not known.known:
            hints[said.capability] = said
            continue
        if _measure(said) > _measure(known):
            capped.append(Capped(said.capability, _shown(said), _shown(known)))
        elif _measure(said) < _measure(known) and _may_be_lowered(known):
            hints[said.capability] = said
    return (OverlaidClaims(base, hints) if hints else base), tuple(capped)


def _may_be_lowered(known: Claim) -> bool:
    """Tell whether a provider's lower value holds: operators and use have the last word."""
    first_hand = known.evidence is not None and known.evidence.layer in _FIRST_HAND
    return known.capability in _LIMITED and not first_hand


def hinted(source: ClaimSource, names: frozenset[str]) -> tuple[str, ...]:
    """Return which of these capabilities nobody but the provider vouches for."""
    found = (source.claim(name) for name in sorted(names))
    return tuple(
        one.capability
        for one in found
        if one.known and one.evidence is not None and one.evidence.layer == "declared"
    )


def _measure(claim: Claim) -> int:
    if isinstance(claim.value, int):
        return claim.value
    return 0 if claim.support == "unsupported" else 1


def _shown(claim: Claim) -> int | str:
    return claim.value if isinstance(claim.value, int) else claim.support


def no_claims(target: str, first_hand: Mapping[str, Claim]) -> Claims:
    """Return the default vector of an unknown pair: all probed, but for what use has shown."""
    return Claims(first_hand, target=target)
