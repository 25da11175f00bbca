"""The `stud` dialect: requirements with levels, claims of seven capabilities, and verdicts."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import Claim, Claims, Evidence
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.statement import LARGEST_LIMIT
from modelpact.needs.dialects import read_stud
from modelpact.needs.need import LEVELS
from modelpact.negotiation.diagnosis import diagnose
from modelpact.negotiation.negotiate import decide
from modelpact.negotiation.parameters import check_layers
from modelpact.negotiation.verdict import DEFAULT_POLICY, Diagnostic, Missing, Policy, Verdict, missing_data
from modelpact.vocabulary.dialects import STUD, STUD_KINDS
from modelpact.vocabulary.errors import InputError, brief

_FROM_CALLER: Final = Evidence("given")
_NAMES: Final = {name: STUD.write(name) for name in STUD.ids.values()}
"""The names of the dialect by capability id."""
_CLAIM_LEVELS: Final = (*LEVELS, "absent")
_FIELDS: Final = ("requirements", "claims", "target", "previous", "params")


def read_claims(claims: Any, target: str = "") -> Claims:
    """Read a provider's claims: booleans, levels, and for contextWindow a number or "probed"."""
    if not isinstance(claims, Mapping):
        raise InputError(f"claims: expected an object, not {type(claims).__name__}")
    read: list[Claim] = []
    for name, value in claims.items():
        info = STUD.read(name)
        if info.kind == "limit":
            read.append(_window(name, value))
        elif info.id == "multimodal" and isinstance(value, Mapping):
            read.extend(_kinds(value))
        else:
            read.append(_flag(f"claims.{name}", info.id, value))
    return Claims(read, target=target)


def _flag(where: str, name: str, value: Any) -> Claim:
    if isinstance(value, bool):
        return Claim(name, "native" if value else "unsupported", evidence=_FROM_CALLER)
    if isinstance(value, str) and value in _CLAIM_LEVELS:
        if value == "probed":
            return Claim(name)
        return Claim(name, "unsupported" if value == "absent" else "native", evidence=_FROM_CALLER)
    raise InputError(f"{where}: expected true, false, {', '.join(_CLAIM_LEVELS)}, not {brief(value)}")


def _window(name: str, value: Any) -> Claim:
    if value == "probed":
        return Claim("context-window")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_LIMIT:
        raise InputError(f'claims.{name}: expected a number of tokens or "probed", not {brief(value)}')
    return Claim("context-window", "native", value, evidence=_FROM_CALLER)


def _kinds(value: Mapping[str, Any]) -> list[Claim]:
    """Read MultimodalKinds; a kind that is not claimed is unsupported."""
    for kind in value:
        STUD_KINDS.read(kind)
    return [_flag(f"claims.multimodal.{kind}", name, value.get(kind, False)) for kind, name in STUD_KINDS.ids.items()]


def negotiate_json(request: Any, *, policy: Policy = DEFAULT_POLICY, catalog: Catalog | None = None) -> dict[str, Any]:
    """Negotiate one request of the dialect: `{"requirements", "claims" | "target", …}`."""
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
        verdict, previous=previous, params=request.get("params"), target=resolution, policy=policy, catalog=catalog
    )
    return verdict_json(verdict, diagnostic)


def is_known_pair(resolution: Resolution) -> bool:
    """Whether anything is known of the pair; if not, all seven capabilities are probed."""
    return resolution.listed or bool(resolution.records)


def verdict_json(verdict: Verdict, diagnostic: Diagnostic | None) -> dict[str, Any]:
    """Write a verdict, and what `diagnose` returned for it, in the form of the dialect."""
    missing = [] if diagnostic is None else missing_json(diagnostic.missing)
    data: dict[str, Any] = {
        "ok": verdict.ok,
        "missing": missing,
        "warnings": [
            {"name": stud_name(finding.capability), "reason": finding.outcome} for finding in verdict.warnings
        ],
    }
    if diagnostic is not None:
        data["diagnostic"] = diagnostic_json(diagnostic)
    if not verdict.ok:
        data["error"] = {
            "class": "ProviderCapability",
            "code": "MissingCapability",
            "context": {"target": _pair(verdict.target), "missing": missing},
        }
    return data


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """Write a diagnostic with the five fields of the dialect; optional ones only if set."""
    data: dict[str, Any] = {
        "target": _pair(diagnostic.target),
        "missing": missing_json(diagnostic.missing),
        "previous": _pair(diagnostic.previous),
    }
    if diagnostic.suggestion:
        data["suggestion"] = _pair(diagnostic.suggestion)
    if diagnostic.params_affected:
        data["paramsAffected"] = msgspec.to_builtins(diagnostic.params_affected)
    return data


def missing_json(missing: Iterable[Missing]) -> list[dict[str, Any]]:
    """Write missing capabilities with the names and the three fields of the dialect."""
    items = missing_data(missing)
    for item in items:
        item["capability"] = stud_name(item["capability"])
        del item["message"]
    return items


def stud_name(name: str) -> str:
    """Return the dialect's name of a capability, or the id if it has none."""
    return _NAMES.get(name, name)


def _pair(target: str | None) -> dict[str, str] | None:
    if not target:
        return None
    provider, _, model = target.partition("/")
    return {"provider": provider, "model": model}
