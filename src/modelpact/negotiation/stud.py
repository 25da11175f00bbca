"""The `stud` dialect: requirements with levels against seven capabilities, JSON in and out."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import Claim, Claims, Evidence
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.statement import LARGEST_LIMIT
from modelpact.needs.dialects import read_stud
from modelpact.needs.need import LEVELS
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.negotiate import DEFAULT_POLICY, decide
from modelpact.negotiation.parameters import check_layers
from modelpact.negotiation.verdict import Diagnostic, Policy, Verdict
from modelpact.vocabulary.dialects import STUD, STUD_KINDS
from modelpact.vocabulary.errors import InputError, brief

_GIVEN: Final = Evidence("given")
_WRITTEN: Final = {name: STUD.write(name) for name in STUD.ids.values()}
"""The dialect's names by canonical ids: looked up for every need of every diagnostic."""
_CLAIM_LEVELS: Final = (*LEVELS, "absent")
_FIELDS: Final = ("requirements", "claims", "target", "previous", "params")


def read_claims(claims: Any, target: str = "") -> Claims:
    """Read a provider's claims: booleans, levels, and for contextWindow a number or "probed"."""
    if not isinstance(claims, Mapping):
        raise InputError(f"claims: expected an object, not {type(claims).__name__}")
    found: list[Claim] = []
    for name, value in claims.items():
        info = STUD.read(name)
        if info.kind == "limit":
            found.append(_window(name, value))
        elif info.id == "multimodal" and isinstance(value, Mapping):
            found.extend(_kinds(value))
        else:
            found.append(_flag(f"claims.{name}", info.id, value))
    return Claims(found, target=target)


def _flag(where: str, name: str, value: Any) -> Claim:
    if isinstance(value, bool):
        return Claim(name, "native" if value else "unsupported", evidence=_GIVEN)
    if isinstance(value, str) and value in _CLAIM_LEVELS:
        if value == "probed":
            return Claim(name)
        return Claim(name, "unsupported" if value == "absent" else "native", evidence=_GIVEN)
    raise InputError(
        f"{where}: expected true, false, {', '.join(_CLAIM_LEVELS)}, not {brief(value)}"
    )


def _window(name: str, value: Any) -> Claim:
    if value == "probed":
        return Claim("context-window")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_LIMIT:
        raise InputError(
            f'claims.{name}: expected a number of tokens or "probed", not {brief(value)}'
        )
    return Claim("context-window", "native", value, evidence=_GIVEN)


def _kinds(value: Mapping[str, Any]) -> list[Claim]:
    """Read MultimodalKinds; a kind that is left out is not claimed, so it is not there."""
    for kind in value:
        STUD_KINDS.read(kind)
    return [
        _flag(f"claims.multimodal.{kind}", name, value.get(kind, False))
        for kind, name in STUD_KINDS.ids.items()
    ]


def negotiate_json(
    request: Any,
    *,
    policy: Policy = DEFAULT_POLICY,
    catalog: Catalog | None = None,
) -> dict[str, Any]:
    """Answer one request of the dialect: `{"requirements", "claims" | "target", …}`."""
    if not isinstance(request, Mapping):
        raise InputError(f"expected an object, not {type(request).__name__}")
    for field in request:
        if field not in _FIELDS:
            raise InputError(f"no field {brief(field)}; there are {', '.join(_FIELDS)}")
    if "requirements" not in request:
        raise InputError("requirements is missing")
    if ("claims" in request) == ("target" in request):
        raise InputError("expected either claims or target")
    catalog = catalog or default_catalog()
    needs = read_stud(request["requirements"])
    claims: Claims | Resolution
    resolution: Resolution | None = None
    if "target" in request:
        resolution = catalog.resolve(*catalog.split(request["target"]))
        claims = resolution if is_known_pair(resolution) else Claims((), target=resolution.target)
    else:
        claims = read_claims(request["claims"])
    verdict = decide(needs, claims, policy)
    previous = request.get("previous")
    if previous is not None:
        catalog.split(previous)
    if "params" in request:
        check_layers(request["params"])
    diagnostic = diagnose(
        verdict,
        previous=previous,
        params=request.get("params"),
        target=resolution,
        policy=policy,
        catalog=catalog,
    )
    return verdict_json(verdict, diagnostic)


def is_known_pair(resolution: Resolution) -> bool:
    """Tell whether anything is registered for the pair; if not, all seven are probed."""
    return resolution.listed or bool(resolution.records)


def verdict_json(verdict: Verdict, diagnostic: Diagnostic | None) -> dict[str, Any]:
    """Write a verdict in the dialect's form."""
    missing = [
        {
            "capability": wire(one.capability),
            "requiredBy": list(one.need.required_by),
            "reason": one.reason,
        }
        for one in verdict.missing
    ]
    answer: dict[str, Any] = {
        "ok": verdict.ok,
        "missing": missing,
        "warnings": [
            {"name": wire(one.capability), "reason": one.outcome} for one in verdict.warnings
        ],
    }
    if diagnostic is not None:
        answer["diagnostic"] = diagnostic_json(diagnostic)
    if not verdict.ok:
        answer["error"] = {
            "class": "ProviderCapability",
            "code": "MissingCapability",
            "context": {"target": _pair(verdict.target), "missing": missing},
        }
    return answer


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """Write a diagnostic with the seed's five fields, the optional ones where there are any."""
    answer: dict[str, Any] = {
        "target": _pair(diagnostic.target),
        "missing": [
            {
                "capability": wire(one.capability),
                "requiredBy": list(one.required_by),
                "reason": one.reason,
            }
            for one in diagnostic.missing
        ],
        "previous": _pair(diagnostic.previous),
    }
    if diagnostic.suggestion:
        answer["suggestion"] = _pair(diagnostic.suggestion)
    if diagnostic.params_affected:
        answer["paramsAffected"] = msgspec.to_builtins(diagnostic.params_affected)
    return answer


def wire(name: str) -> str:
    """Return the dialect's name where it has one, else the canonical id."""
    return _WRITTEN.get(name, name)


def _pair(target: str | None) -> dict[str, str] | None:
    if not target:
        return None
    provider, _, model = target.partition("/")
    return {"provider": provider, "model": model}
