"""The parameters of a session: checked, compared with the model, and made into a request."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.message import Message, check_values
from modelpact.conversation.openai_chat import read_request
from modelpact.conversation.request import Reasoning, Request
from modelpact.negotiation.parameters import ParamFinding, negotiate_parameters
from modelpact.providers.runtime.records import encode_content
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import is_secret_name

_NOT_PARAMS: Final = {
    "model": "switch_model, and /model in a chat, switch",
    "messages": "send them",
    "stream": "call stream instead of send; a chat streams by itself",
    "stream_options": "usage is always asked for",
}
"""Request fields that are no parameters of a session, and what to do instead."""

_SPELLINGS: Final[Mapping[str, str]] = {
    "stop_sequences": "stop",
    "stopSequences": "stop",
    "topP": "top_p",
    "topK": "top_k",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
}
"""One spelling for what the APIs spell differently: a session may switch APIs."""
_MAX_DEPTH: Final = 16
"""How deep a parameter is searched for names of secrets."""


class AppliedParams(msgspec.Struct, frozen=True):
    """The parameters to send, and what became of the others."""

    params: dict[str, Any]
    lost: tuple[ParamFinding, ...] = ()
    """Parameters that do not apply on the model and are not sent."""
    unknown: tuple[ParamFinding, ...] = ()
    """Parameters that are sent although it is not known whether they apply."""


def check_params(params: Any, layer: str) -> dict[str, Any]:
    """Check the parameters of a layer, as far as that is possible without a model."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise InputError(f"{layer}: parameters are an object, not {type(params).__name__}")
    for name, value in params.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"{layer}: a parameter's name is a text, not {brief(name)}")
        if name in _NOT_PARAMS:
            raise InputError(f"{layer}: {name} is not a parameter: {_NOT_PARAMS[name]}")
        for secret in _secrets(name, value):
            raise InputError(
                f"{layer}: {brief(secret)} names a secret, and parameters are saved with the "
                "session: put keys in the environment, or name them in modelpact.toml"
            )
        if value is None and layer != "/params":
            raise InputError(f"{layer}: {name} has no value; leave it out")
    plain = {name: _to_json(layer, name, value) for name, value in params.items()}
    try:
        build_request("-", (), {name: value for name, value in plain.items() if value is not None})
    except (InputError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{layer}: {error}") from None
    return plain


def build_request(model: str, messages: tuple[Message, ...], params: Mapping[str, Any]) -> Request:
    """Build a request from parameters in the spelling of any API."""
    body: dict[str, Any] = {_SPELLINGS.get(name, name): value for name, value in params.items()}
    top_k = body.pop("top_k", None)
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int)):
        raise InputError(f"top_k: expected a whole number, not {brief(top_k)}")
    reasoning = _pop_reasoning(body)
    request = read_request({**body, "model": model, "messages": []})
    changes: dict[str, Any] = {"messages": messages, "top_k": top_k}
    if reasoning is not None:
        changes["reasoning"] = reasoning
    return msgspec.structs.replace(request, **changes)


def apply_params(params: Mapping[str, Any], target: Resolution, emulated: frozenset[str]) -> AppliedParams:
    """Separate the parameters that apply on a model. Those that emulation handles are kept."""
    lost: list[ParamFinding] = []
    unknown: list[ParamFinding] = []
    for finding in negotiate_parameters(params, target):
        if finding.action == "unknown":
            unknown.append(finding)
        elif finding.action not in ("applies", "rename") and finding.capability not in emulated:
            lost.append(finding)
    applying = dict(params)
    for finding in lost:
        _remove(applying, finding.path)
    return AppliedParams(applying, tuple(lost), tuple(unknown))


def _to_json(layer: str, name: str, value: Any) -> Any:
    """Return a value as plain JSON data."""
    try:
        plain = msgspec.to_builtins(value)
        check_values({name: plain}, "the value")
        encode_content(plain)
    except TypeError:
        kind = type(value).__name__
        raise InputError(f"{layer}: {name}: a value of type {kind} is not JSON, as parameters are") from None
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(f"{layer}: {name}: {error}") from None
    return plain


def _secrets(name: str, value: Any) -> list[str]:
    """Return the names of secrets in a parameter.

    Headers and `extra_…` parameters are searched; in others, only the parameter's own name counts.
    """
    names = [name]
    if "header" in name.lower() or name.startswith("extra_"):
        names += _inner_names(value, _MAX_DEPTH)
    return [inner for inner in names if is_secret_name(inner)]


def _inner_names(value: Any, depth: int) -> list[str]:
    """Return the names in a value at any depth. Headers may also be pairs."""
    if depth == 0:
        return []
    if isinstance(value, Mapping):
        names = [name for name in value if isinstance(name, str)]
        inner = list(value.values())
    elif isinstance(value, (list, tuple)):
        names = [value[0]] if len(value) == 2 and isinstance(value[0], str) else []
        inner = list(value)
    else:
        return []
    return names + [name for item in inner for name in _inner_names(item, depth - 1)]


def _pop_reasoning(body: dict[str, Any]) -> Reasoning | None:
    """Remove `reasoning` and `thinking` from a body, and return what they ask for."""
    thinking = _pop_object(body, "thinking")
    budget = thinking.get("budget_tokens") if thinking.get("type") != "disabled" else None
    reasoning = _pop_object(body, "reasoning")
    effort = reasoning.get("effort", body.get("reasoning_effort", ""))
    budget = reasoning.get("max_tokens", budget)
    if not isinstance(effort, str):
        raise InputError(f"reasoning.effort: expected a text, not {brief(effort)}")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int)):
        raise InputError(f"thinking.budget_tokens: expected a whole number, not {brief(budget)}")
    if not effort and budget is None:
        return None
    return Reasoning(effort=effort, budget_tokens=budget)


def _pop_object(body: dict[str, Any], name: str) -> Mapping[str, Any]:
    value = body.pop(name, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: expected an object, not {brief(value)}")
    return value


def _remove(params: dict[str, Any], path: tuple[str, ...]) -> None:
    if len(path) == 1:
        params.pop(path[0], None)
        return
    outer = params.get(path[0])
    if isinstance(outer, Mapping):
        rest = {name: value for name, value in outer.items() if name != path[1]}
        if rest:
            params[path[0]] = rest
        else:
            del params[path[0]]
