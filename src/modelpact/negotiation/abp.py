"""The `abp` dialect: manifests, requirements, NegotiationResult and CompatibilityReport.

The names are those of the abp specification.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim, Claims
from modelpact.needs.dialects import read_abp
from modelpact.needs.need import Needs
from modelpact.negotiation.negotiate import NO_STRATEGIES, Strategies, decide
from modelpact.negotiation.verdict import Finding, Policy, Verdict
from modelpact.vocabulary.dialects import ABP, pascal_case
from modelpact.vocabulary.errors import InputError

CAPABILITY_UNSUPPORTED: Final = "CAPABILITY_UNSUPPORTED"
Manifest = Mapping[str, Any]
_PLAIN: Final = ("native", "emulated", "unsupported")


class SupportLevel(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a capability can be provided: native, emulated with a strategy, or unsupported."""

    level: str
    strategy: str | None = None


class NegotiationResult(msgspec.Struct, frozen=True):
    """The required capabilities by how they can be provided. Each is in exactly one list."""

    native: tuple[str, ...] = ()
    emulatable: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    verdict: Verdict | None = None
    """The verdict behind the lists; not part of the wire form."""

    def is_compatible(self) -> bool:
        """Whether nothing is unsupported."""
        return not self.unsupported

    def total(self) -> int:
        """Count the capabilities of all three lists."""
        return len(self.native) + len(self.emulatable) + len(self.unsupported)

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"native": list(self.native), "emulatable": list(self.emulatable), "unsupported": list(self.unsupported)}


class CompatibilityReport(msgspec.Struct, frozen=True):
    """A summary for people."""

    compatible: bool
    native_count: int
    emulated_count: int
    unsupported_count: int
    summary: str
    details: tuple[tuple[str, SupportLevel], ...]


def read_manifest(manifest: Any) -> Claims:
    """Read the manifest of a backend; capabilities that it does not name are unsupported."""
    if not isinstance(manifest, Mapping):
        raise InputError(f"manifest: expected an object, not {type(manifest).__name__}")
    claims = [_claim(name, level) for name, level in manifest.items()]
    return Claims(claims, target="manifest", absent="unsupported")


def _claim(name: str, level: Any) -> Claim:
    info = ABP.read(name)
    if isinstance(level, str) and level in _PLAIN:
        return Claim(info.id, level)  # type: ignore[arg-type]
    if isinstance(level, Mapping) and set(level) == {"restricted"}:
        detail = level["restricted"]
        if isinstance(detail, Mapping) and set(detail) == {"reason"} and isinstance(detail["reason"], str):
            return Claim(info.id, "restricted", reason=detail["reason"])
    raise InputError(
        f'manifest.{name}: expected "native", "emulated", "unsupported" or {{"restricted": {{"reason": "…"}}}}'
    )


def check_capability(manifest: Manifest | Claims, capability: str) -> SupportLevel:
    """Classify one capability against a manifest."""
    claims = manifest if isinstance(manifest, Claims) else read_manifest(manifest)
    return _level(claims.claim(ABP.read(capability).id))


def _level(claim: Claim) -> SupportLevel:
    if claim.support == "native":
        return SupportLevel("native")
    if claim.support == "emulated":
        return SupportLevel("emulated", "adapter")
    if claim.support == "restricted":
        return SupportLevel("emulated", f"restricted: {claim.reason}")
    return SupportLevel("unsupported")


def negotiate(
    manifest: Manifest | Claims, requirements: Any, *, strategies: Strategies = NO_STRATEGIES
) -> NegotiationResult:
    """Negotiate all required capabilities; those that the strategies provide are emulatable."""
    claims = manifest if isinstance(manifest, Claims) else read_manifest(manifest)
    needs = requirements if isinstance(requirements, Needs) else read_abp(requirements)
    if any(need.level != "hard" for need in needs):
        raise InputError("requirements: abp has no levels; every requirement is hard")
    policy = Policy(emulate=bool(strategies.labels))
    verdict = decide(needs, claims, policy, strategies)
    lists: dict[str, list[str]] = {"native": [], "emulatable": [], "unsupported": []}
    for finding in verdict.findings:
        lists[_list_name(finding)].append(ABP.write(finding.capability))
    return NegotiationResult(tuple(lists["native"]), tuple(lists["emulatable"]), tuple(lists["unsupported"]), verdict)


def _list_name(finding: Finding) -> str:
    if finding.outcome == "missing":
        return "unsupported"
    return "native" if finding.claim.support == "native" else "emulatable"


def generate_report(result: NegotiationResult) -> CompatibilityReport:
    """Summarize a result; the details follow the order of the three lists."""
    levels = _levels(result)
    names = (*result.native, *result.emulatable, *result.unsupported)
    ending = "fully compatible" if result.is_compatible() else "incompatible"
    counts = (len(result.native), len(result.emulatable), len(result.unsupported))
    return CompatibilityReport(
        compatible=result.is_compatible(),
        native_count=counts[0],
        emulated_count=counts[1],
        unsupported_count=counts[2],
        summary=(f"{counts[0]} native, {counts[1]} emulatable, {counts[2]} unsupported — {ending}"),
        details=tuple((pascal_case(name), levels[name]) for name in names),
    )


def _levels(result: NegotiationResult) -> dict[str, SupportLevel]:
    levels = dict.fromkeys(result.native, SupportLevel("native"))
    levels |= dict.fromkeys(result.emulatable, SupportLevel("emulated", "adapter"))
    levels |= dict.fromkeys(result.unsupported, SupportLevel("unsupported"))
    if result.verdict is not None:
        for finding in result.verdict.findings:
            name = ABP.write(finding.capability)
            if name not in result.emulatable:
                continue
            levels[name] = (
                SupportLevel("emulated", finding.label) if finding.outcome == "emulated" else _level(finding.claim)
            )
    return levels
