"""Parameters: which of a request's or session's settings will not apply on a model, and why."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.resolution import Resolution
from modelpact.negotiation.formats import evidence_text
from modelpact.negotiation.verdict import ParamAffected, shown
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact, redact_text

Action = Literal["applies", "rename", "unsupported", "unknown", "invalid", "conflict"]
SourceLayer = Literal["defaultParams", "launch", "/params"]
SOURCE_LAYERS: Final[tuple[SourceLayer, ...]] = ("defaultParams", "launch", "/params")

_CAPABILITY_OF: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "top-p",
    "topP": "top-p",
    "top_k": "top-k",
    "topK": "top-k",
    "stop": "stop-sequences",
    "stop_sequences": "stop-sequences",
    "stopSequences": "stop-sequences",
    "seed": "seed",
    "n": "n",
    "candidateCount": "n",
    "logprobs": "logprobs",
    "top_logprobs": "logprobs",
    "frequency_penalty": "frequency-penalty",
    "presence_penalty": "presence-penalty",
    "logit_bias": "logit-bias",
    "stream": "streaming",
    "tools": "tool-calling",
    "functions": "tool-calling",
    "tool_choice": "tool-choice",
    "function_call": "tool-choice",
    "parallel_tool_calls": "parallel-tool-calls",
    "response_format": "json-object",
    "reasoning_effort": "reasoning-effort",
    "reasoning.effort": "reasoning-effort",
    "output_config.effort": "reasoning-effort",
    "thinking.budget_tokens": "thinking-budget",
    "thinking.type": "reasoning",
    "thinkingBudget": "thinking-budget",
    "include_reasoning": "include-reasoning",
    "prediction": "predicted-outputs",
    "web_search_options": "web-search",
    "prompt_cache_key": "prompt-caching",
    "cache_control": "prompt-caching",
}
_TOKEN_LIMITS: Final[Mapping[str, str]] = {
    "max_tokens": "max-tokens",
    "max_completion_tokens": "max-completion-tokens",
    "max_output_tokens": "max-output-tokens",
    "maxOutputTokens": "max-output-tokens",
}
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "temperature": (1, 1.0),
    "top_p": (1, 1.0),
    "n": (1,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "logit_bias": ({},),
    "stream": (False,),
    "stop": ([],),
    "stop_sequences": ([],),
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (False,),
    "include_reasoning": (False,),
    "reasoning_effort": ("none",),
    "effort": ("none",),
    "type": ("disabled",),
}
"""Values that ask for nothing beyond what every model does anyway."""

_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "stop-sequences": {
        "openai-chat": "stop",
        "anthropic": "stop_sequences",
        "gemini": "stopSequences",
    },
    "top-p": {"openai-chat": "top_p", "anthropic": "top_p", "gemini": "topP"},
    "top-k": {"openai-chat": "top_k", "anthropic": "top_k", "gemini": "topK"},
}
"""What the APIs call one setting, where they differ."""

_RANGES: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "temperature": {
        "openai-chat": (0, 2),
        "openai-responses": (0, 2),
        "gemini": (0, 2),
        "anthropic": (0, 1),
    },
    "top-p": dict.fromkeys(("openai-chat", "openai-responses", "gemini", "anthropic"), (0, 1)),
}
_UNCHECKED: Final = frozenset(
    {"model", "messages", "input", "system", "instructions", "metadata", "user", "store"}
    | {"stream_options", "service_tier", "safety_identifier", "timeout", "summary"}
)
"""Fields of requests that no capability stands behind."""

_NESTED: Final = frozenset({"reasoning", "thinking", "output_config", "generationConfig"})


class ParamFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of one parameter on a model."""

    path: tuple[str, ...]
    action: Action
    value: Any = None
    reason: str = ""
    capability: str = ""
    rename_to: str = ""


def negotiate_parameters(
    params: Mapping[str, Any], target: Resolution | str, catalog: Catalog | None = None
) -> tuple[ParamFinding, ...]:
    """Say of every parameter whether it applies, must be renamed, or will not apply and why.

    Parameters that each apply but exclude each other on the model are conflicts that name both.
    """
    if not isinstance(params, Mapping):
        raise InputError(f"parameters are an object, not {type(params).__name__}")
    if isinstance(target, str):
        catalog = catalog or default_catalog()
        target = catalog.resolve(*catalog.split(target))
    found = [_finding(path, value, target) for path, value in _flat(params)]
    return tuple(_without_conflicts(found, target))


def _without_conflicts(found: list[ParamFinding], target: Resolution) -> list[ParamFinding]:
    """Turn parameters that exclude each other into conflicts."""
    applying = {one.capability: one for one in found if one.action in ("applies", "rename")}
    if "thinking-budget" in applying or "reasoning-effort" in applying:
        setting = applying.get("thinking-budget") or applying["reasoning-effort"]
        applying.setdefault("reasoning", setting)
    for constraint in target.constraints:
        involved = [applying.get(name) for name in constraint.excludes]
        if not all(involved):
            continue
        for one in involved:
            others = [".".join(other.path) for other in involved if other and other is not one]
            if one is not None and others:
                reason = f"cannot be set together with {' and '.join(others)} on {target.target}"
                place = found.index(one)
                found[place] = ParamFinding(one.path, "conflict", one.value, reason, one.capability)
                applying = {k: found[place] if v is one else v for k, v in applying.items()}
    return found


def check_layers(layers: Any) -> None:
    """Check parameters by layer: `defaultParams`, `launch`, `/params`."""
    if not isinstance(layers, Mapping):
        raise InputError(f"params: expected layers of parameters, not {type(layers).__name__}")
    for name, held in layers.items():
        if name not in SOURCE_LAYERS:
            raise InputError(f"unknown layer {brief(name)}: {', '.join(SOURCE_LAYERS)}")
        if not isinstance(held, Mapping):
            raise InputError(f"{name}: parameters are an object, not {type(held).__name__}")


def effective_params(layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters that hold: `/params` over `launch` over `defaultParams`.

    One that is None in a later layer does not hold, whatever an earlier one says.
    """
    held: dict[str, Any] = {}
    for layer in SOURCE_LAYERS:
        for name, value in layers.get(layer, {}).items():
            before = held.get(name)
            if name in _NESTED and isinstance(before, Mapping) and isinstance(value, Mapping):
                value = {**before, **value}
            held[name] = value
    return {name: value for name, value in held.items() if value is not None}


def params_affected(
    layers: Mapping[str, Mapping[str, Any]], target: Resolution
) -> tuple[ParamAffected, ...]:
    """List the session's parameters that will not apply on the destination model.

    Later layers win: `/params` over `launch` over `defaultParams`.
    """
    check_layers(layers)
    effective: dict[tuple[str, ...], tuple[Any, SourceLayer]] = {}
    for layer in SOURCE_LAYERS:
        for path, value in _flat(layers.get(layer, {})):
            effective[path] = (value, layer)
    held = dict(_flat(effective_params(layers)))  # without what a later layer took out whole
    findings = [_finding(path, value, target) for path, value in held.items()]
    return tuple(
        ParamAffected(
            found.path,
            found.reason if found.action == "unsupported" else redact_text(found.reason),
            target.model,
            redact(found.value, name=found.path[-1]),
            effective[found.path][1],
        )
        for found in _without_conflicts(findings, target)
        if found.action in ("unsupported", "invalid", "conflict")
    )


def _flat(params: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in params.items():
        if not isinstance(name, str):
            raise InputError(f"a parameter's name is a string, not {brief(name)}")
        if name in _NESTED and isinstance(value, Mapping):
            for inner, held in value.items():
                yield (name, str(inner)), held
        else:
            yield (name,), value


def _finding(path: tuple[str, ...], value: Any, target: Resolution) -> ParamFinding:
    name = path[-1]
    if value is None:
        return ParamFinding(path, "applies", value)
    if name in _TOKEN_LIMITS:
        return _token_limit(path, value, target)
    dotted = ".".join(path)
    wanted = _CAPABILITY_OF.get(dotted) or _CAPABILITY_OF.get(name)
    if wanted is None and name not in _UNCHECKED and path[0] not in _UNCHECKED:
        return ParamFinding(path, "unknown", value, "modelpact does not know this parameter")
    if wanted is None or value in _NEUTRAL.get(name, ()):
        return ParamFinding(path, "applies", value)
    if name == "response_format":
        wanted = _format_capability(value)
        if not wanted:
            return ParamFinding(path, "applies", value)
    claim = target.claim(wanted)
    if claim.support == "unsupported":
        return ParamFinding(path, "unsupported", value, _lacks(target, wanted), wanted)
    if claim.support == "unknown":
        return ParamFinding(
            path, "unknown", value, f"whether {target.target} has {wanted} is not known", wanted
        )
    accepted = claim.value
    if wanted == "reasoning-effort" and isinstance(accepted, tuple) and value not in accepted:
        reason = f"{target.target} accepts {shown(accepted)}, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, wanted)
    low, high = _RANGES.get(wanted, {}).get(target.api or "", (value, value))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not low <= value <= high:
        reason = f"{target.target} takes {wanted} from {low} to {high}, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, wanted)
    right = _SPELLINGS.get(wanted, {}).get(target.api or "", name)
    if right != name:
        reason = f"the API of {target.target} calls it {right}"
        return ParamFinding(path, "rename", value, reason, wanted, rename_to=right)
    return ParamFinding(path, "applies", value, capability=wanted)


def _format_capability(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(kind, str):
        return ""
    return {"json_schema": "structured-output", "json_object": "json-object"}.get(kind, "")


def _lacks(target: Resolution, name: str) -> str:
    """Say what a model has not, and how that is known; said once, it is remembered."""
    key = ("lacks", name)
    if key not in target.memo:
        claim = target.claim(name)
        because = "" if claim.evidence is None else f" ({evidence_text(claim)})"
        target.memo[key] = redact_text(f"{target.target} has no {name}{because}")
    said: str = target.memo[key]
    return said


def _token_limit(path: tuple[str, ...], value: Any, target: Resolution) -> ParamFinding:
    wanted = "token-limit-param"
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        reason = f"expected a whole number of tokens above zero, not {brief(value)}"
        return ParamFinding(path, "invalid", value, reason, wanted)
    longest = target.claim("max-output")
    if longest.known and isinstance(longest.value, int) and value > longest.value:
        reason = (
            f"{target.target} answers with at most {longest.value:,} tokens, not {brief(value)}"
        )
        return ParamFinding(path, "invalid", value, reason, "max-output")
    claim = target.claim(wanted)
    spelled = _TOKEN_LIMITS[path[-1]]
    if claim.known and claim.value != spelled:
        right = str(claim.value).replace("-", "_")
        if target.api == "gemini":
            right = "maxOutputTokens"
        reason = f"{target.target} calls it {right}"
        return ParamFinding(path, "rename", value, reason, wanted, rename_to=right)
    return ParamFinding(path, "applies", value, capability=wanted)
