"""Parameters: which settings of a request or session apply on a model, and why not."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.resolution import Resolution
from modelpact.negotiation.verdict import ParamAffected, evidence_text, format_value
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact, redact_text

Action = Literal["applies", "rename", "unsupported", "unknown", "invalid", "conflict"]
SourceLayer = Literal["defaultParams", "launch", "/params"]
SOURCE_LAYERS: Final[tuple[SourceLayer, ...]] = ("defaultParams", "launch", "/params")

_PARAMETERS: Final = Path(__file__).with_name("parameters.toml")
_API_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "stop-sequences": {"openai-chat": "stop", "anthropic": "stop_sequences", "gemini": "stopSequences"},
    "top-p": {"openai-chat": "top_p", "anthropic": "top_p", "gemini": "topP"},
    "top-k": {"openai-chat": "top_k", "anthropic": "top_k", "gemini": "topK"},
}
"""The names of a setting in the APIs, if they differ."""

_RANGES: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "temperature": {"openai-chat": (0, 2), "openai-responses": (0, 2), "gemini": (0, 2), "anthropic": (0, 1)},
    "top-p": dict.fromkeys(("openai-chat", "openai-responses", "gemini", "anthropic"), (0, 1)),
}
_UNCHECKED: Final = frozenset(
    {"model", "messages", "input", "system", "instructions", "metadata", "user", "store"}
    | {"stream_options", "service_tier", "safety_identifier", "timeout", "summary"}
)
"""Fields of requests that no capability decides."""

_NESTED: Final = frozenset({"reasoning", "thinking", "output_config", "generationConfig"})


class _Parameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The capability or token limit that a parameter uses, and its neutral values."""

    capability: str = ""
    token_limit: str = ""
    neutral: tuple[Any, ...] = ()


class ParamFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result for one parameter on a model."""

    path: tuple[str, ...]
    action: Action
    value: Any = None
    reason: str = ""
    capability: str = ""
    rename_to: str = ""


def negotiate_parameters(
    params: Mapping[str, Any], target: Resolution | str, catalog: Catalog | None = None
) -> tuple[ParamFinding, ...]:
    """Return for every parameter whether it applies, has another name, or does not apply and why.

    Parameters that exclude each other on the model are conflicts that name each other.
    """
    if not isinstance(params, Mapping):
        raise InputError(f"parameters: expected an object, not {type(params).__name__}")
    if isinstance(target, str):
        catalog = catalog or default_catalog()
        target = catalog.resolve(*catalog.split(target))
    findings = [_finding(path, value, target) for path, value in _flatten(params)]
    return tuple(_mark_conflicts(findings, target))


def check_layers(layers: Any) -> None:
    """Check parameters by layer: `defaultParams`, `launch`, `/params`."""
    if not isinstance(layers, Mapping):
        raise InputError(f"params: expected layers of parameters, not {type(layers).__name__}")
    for name, params in layers.items():
        if name not in SOURCE_LAYERS:
            raise InputError(f"unknown layer {brief(name)}: {', '.join(SOURCE_LAYERS)}")
        if not isinstance(params, Mapping):
            raise InputError(f"{name}: expected an object, not {type(params).__name__}")


def effective_params(layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the layers: `/params` over `launch` over `defaultParams`.

    None in a later layer removes a parameter.
    """
    merged: dict[str, Any] = {}
    for layer in SOURCE_LAYERS:
        for name, value in layers.get(layer, {}).items():
            earlier = merged.get(name)
            if name in _NESTED and isinstance(earlier, Mapping) and isinstance(value, Mapping):
                value = {**earlier, **value}
            merged[name] = value
    return {name: value for name, value in merged.items() if value is not None}


def params_affected(layers: Mapping[str, Mapping[str, Any]], target: Resolution) -> tuple[ParamAffected, ...]:
    """Return the parameters of a session that do not apply on the destination model."""
    check_layers(layers)
    source_layers: dict[tuple[str, ...], SourceLayer] = {}
    for layer in SOURCE_LAYERS:
        for path, _ in _flatten(layers.get(layer, {})):
            source_layers[path] = layer
    params = _flatten(effective_params(layers))
    findings = [_finding(path, value, target) for path, value in params]
    return tuple(
        ParamAffected(
            finding.path,
            # The reasons of unsupported parameters are redacted already.
            finding.reason if finding.action == "unsupported" else redact_text(finding.reason),
            target.model,
            redact(finding.value, name=finding.path[-1]),
            source_layers[finding.path],
        )
        for finding in _mark_conflicts(findings, target)
        if finding.action in ("unsupported", "invalid", "conflict")
    )


@cache
def _parameters() -> dict[str, _Parameter]:
    import tomllib  # imported only when the table is read

    content = tomllib.loads(_PARAMETERS.read_text(encoding="utf-8"))
    return msgspec.convert(content, dict[str, _Parameter])


def _mark_conflicts(findings: list[ParamFinding], target: Resolution) -> list[ParamFinding]:
    """Turn parameters that exclude each other on the model into conflicts."""
    applying = {finding.capability: finding for finding in findings if finding.action in ("applies", "rename")}
    if "thinking-budget" in applying or "reasoning-effort" in applying:
        setting = applying.get("thinking-budget") or applying["reasoning-effort"]
        applying.setdefault("reasoning", setting)
    for constraint in target.constraints:
        involved = [applying.get(name) for name in constraint.excludes]
        if not all(involved):
            continue
        for finding in involved:
            others = [".".join(other.path) for other in involved if other and other is not finding]
            if finding is not None and others:
                reason = f"cannot be set together with {' and '.join(others)} on {target.target}"
                index = findings.index(finding)
                conflict = ParamFinding(finding.path, "conflict", finding.value, reason, finding.capability)
                findings[index] = conflict
                applying = {name: conflict if entry is finding else entry for name, entry in applying.items()}
    return findings


def _flatten(params: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in params.items():
        if not isinstance(name, str):
            raise InputError(f"the name of a parameter is a string, not {brief(name)}")
        if name in _NESTED and isinstance(value, Mapping):
            for inner, inner_value in value.items():
                yield (name, str(inner)), inner_value
        else:
            yield (name,), value


def _finding(path: tuple[str, ...], value: Any, target: Resolution) -> ParamFinding:
    name = path[-1]
    if value is None:
        return ParamFinding(path, "applies", value)
    table = _parameters()
    parameter = table.get(".".join(path)) or table.get(name)
    if parameter is None and name not in _UNCHECKED and path[0] not in _UNCHECKED:
        return ParamFinding(path, "unknown", value, "modelpact does not know this parameter")
    if parameter is None or value in parameter.neutral:
        return ParamFinding(path, "applies", value)
    if parameter.token_limit:
        return _token_limit(path, parameter.token_limit, value, target)
    capability = parameter.capability
    if name == "response_format":
        capability = _format_capability(value)
        if not capability:
            return ParamFinding(path, "applies", value)
    claim = target.claim(capability)
    if claim.support == "unsupported":
        return ParamFinding(path, "unsupported", value, _lacking_reason(target, capability), capability)
    if claim.support == "unknown":
        return ParamFinding(
            path, "unknown", value, f"whether {target.target} has {capability} is not known", capability
        )
    accepted = claim.value
    if capability == "reasoning-effort" and isinstance(accepted, tuple) and value not in accepted:
        reason = f"{target.target} accepts {format_value(accepted)}, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, capability)
    low, high = _RANGES.get(capability, {}).get(target.api or "", (value, value))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not low <= value <= high:
        reason = f"{target.target} takes {capability} from {low} to {high}, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, capability)
    api_name = _API_NAMES.get(capability, {}).get(target.api or "", name)
    if api_name != name:
        reason = f"the API of {target.target} calls it {api_name}"
        return ParamFinding(path, "rename", value, reason, capability, rename_to=api_name)
    return ParamFinding(path, "applies", value, capability=capability)


def _format_capability(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(kind, str):
        return ""
    return {"json_schema": "structured-output", "json_object": "json-object"}.get(kind, "")


def _lacking_reason(target: Resolution, name: str) -> str:
    """Explain that a model lacks a capability, with the evidence; kept with the model."""
    key = ("lacks", name)
    reason: str | None = target.memo.get(key)
    if reason is None:
        claim = target.claim(name)
        evidence = "" if claim.evidence is None else f" ({evidence_text(claim)})"
        reason = redact_text(f"{target.target} has no {name}{evidence}")
        target.remember(key, reason)
    return reason


def _token_limit(path: tuple[str, ...], limit_param: str, value: Any, target: Resolution) -> ParamFinding:
    capability = "token-limit-param"
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        reason = f"expected a positive integer of tokens, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, capability)
    limit = target.claim("max-output")
    if limit.known and isinstance(limit.value, int) and value > limit.value:
        reason = f"{target.target} answers with at most {limit.value:,} tokens, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, "max-output")
    claim = target.claim(capability)
    if claim.known and claim.value != limit_param:
        api_name = str(claim.value).replace("-", "_")
        if target.api == "gemini":
            api_name = "maxOutputTokens"
        reason = f"{target.target} calls it {api_name}"
        return ParamFinding(path, "rename", value, reason, capability, rename_to=api_name)
    return ParamFinding(path, "applies", value, capability=capability)
