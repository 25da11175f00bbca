"""A session's parameters: three layers, held against a model, and made into a request."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.message import Message, check_values
from modelpact.conversation.openai_chat import read_request
from modelpact.conversation.request import Reasoning, Request
from modelpact.negotiation.parameters import ParamFinding, negotiate_parameters
from modelpact.providers.runtime.store import encoded
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import is_secret_name

_OURS: Final = {
    "model": "switch_model, and /model in a chat, switch",
    "messages": "send them",
    "stream": "call stream instead of send; a chat streams by itself",
    "stream_options": "usage is always asked for",
}
"""Names that are no parameters of a session, and what to do instead."""

_SPELLINGS: Final[Mapping[str, str]] = {
    "stop_sequences": "stop",
    "stopSequences": "stop",
    "topP": "top_p",
    "topK": "top_k",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
}
"""One word for what the APIs spell differently: a session outlives the API it speaks to."""
_DEEPEST: Final = 16
"""How deep a parameter is looked into."""


def check_params(params: Any, layer: str) -> dict[str, Any]:
    """Return parameters, checked as far as that goes without a model; errors name the layer."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise InputError(f"{layer}: parameters are an object, not {type(params).__name__}")
    for name, value in params.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"{layer}: a parameter's name is a text, not {brief(name)}")
        if name in _OURS:
            raise InputError(f"{layer}: {name} is not a parameter: {_OURS[name]}")
        for secret in _secrets(name, value):
            raise InputError(
                f"{layer}: {brief(secret)} names a secret, and parameters are saved with the "
                "session: put keys in the environment, or name them in modelpact.toml"
            )
        if value is None and layer != "/params":
            raise InputError(f"{layer}: {name} has no value; leave it out")
    plain = {name: _plain(layer, name, value) for name, value in params.items()}
    try:
        build_request("-", (), {name: one for name, one in plain.items() if one is not None})
    except (InputError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{layer}: {error}") from None
    return plain


def _plain(layer: str, name: str, value: Any) -> Any:
    """Return a value as JSON has it; an error names the parameter."""
    try:
        plain = msgspec.to_builtins(value)
        check_values({name: plain}, "the value")
        encoded(plain)
    except TypeError:
        kind = type(value).__name__
        raise InputError(
            f"{layer}: {name}: a value of type {kind} is not JSON, as parameters are"
        ) from None
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(f"{layer}: {name}: {error}") from None
    return plain


def _secrets(name: str, value: Any) -> list[str]:
    """Return the names under which a parameter would carry a secret.

    Headers, and what is added to a request as it is (`extra_body`), are looked into.
    """
    names = [name]
    if "header" in name.lower() or name.startswith("extra_"):
        names += _inner_names(value, _DEEPEST)
    return [one for one in names if is_secret_name(one)]


def _inner_names(value: Any, depth: int) -> list[str]:
    """Return the names in a value at any depth; headers may also be pairs."""
    if depth == 0:
        return []
    if isinstance(value, Mapping):
        names = [one for one in value if isinstance(one, str)]
        inner = list(value.values())
    elif isinstance(value, (list, tuple)):
        names = [value[0]] if len(value) == 2 and isinstance(value[0], str) else []
        inner = list(value)
    else:
        return []
    return names + [one for each in inner for one in _inner_names(each, depth - 1)]


def build_request(model: str, messages: tuple[Message, ...], params: Mapping[str, Any]) -> Request:
    """Make a request of parameters in the spelling of any API; the adapters respell them."""
    body: dict[str, Any] = {_SPELLINGS.get(name, name): one for name, one in params.items()}
    top_k = body.pop("top_k", None)
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int)):
        raise InputError(f"top_k: expected a whole number, not {brief(top_k)}")
    reasoning = _reasoning(body)
    request = read_request({**body, "model": model, "messages": []})
    changes: dict[str, Any] = {"messages": messages, "top_k": top_k}
    if reasoning is not None:
        changes["reasoning"] = reasoning
    return msgspec.structs.replace(request, **changes)


def _reasoning(body: dict[str, Any]) -> Reasoning | None:
    """Take out how much the model should reason, as `reasoning` or `thinking` say it."""
    thinking = _object(body, "thinking")
    budget = thinking.get("budget_tokens") if thinking.get("type") != "disabled" else None
    reasoning = _object(body, "reasoning")
    effort = reasoning.get("effort", body.get("reasoning_effort", ""))
    budget = reasoning.get("max_tokens", budget)
    if not isinstance(effort, str):
        raise InputError(f"reasoning.effort: expected a text, not {brief(effort)}")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int)):
        raise InputError(f"thinking.budget_tokens: expected a whole number, not {brief(budget)}")
    if not effort and budget is None:
        return None
    return Reasoning(effort=effort, budget_tokens=budget)


def _object(body: dict[str, Any], name: str) -> Mapping[str, Any]:
    found = body.pop(name, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{name}: expected an object, not {brief(found)}")
    return found


class Applied(msgspec.Struct, frozen=True):
    """The parameters that will be sent, and what became of the others."""

    params: dict[str, Any]
    lost: tuple[ParamFinding, ...] = ()
    """Those that do not apply on the model."""
    doubtful: tuple[ParamFinding, ...] = ()
    """Those that are sent though nobody knows whether they apply."""


def apply_params(
    params: Mapping[str, Any], target: Resolution, emulated: frozenset[str]
) -> Applied:
    """Hold parameters against a model; what stands for an emulated capability is kept."""
    lost: list[ParamFinding] = []
    doubtful: list[ParamFinding] = []
    for one in negotiate_parameters(params, target):
        if one.action == "unknown":
            doubtful.append(one)
        elif one.action not in ("applies", "rename") and one.capability not in emulated:
            lost.append(one)
    kept = dict(params)
    for one in lost:
        _remove(kept, one.path)
    return Applied(kept, tuple(lost), tuple(doubtful))


def _remove(params: dict[str, Any], path: tuple[str, ...]) -> None:
    if len(path) == 1:
        params.pop(path[0], None)
        return
    held = params.get(path[0])
    if isinstance(held, Mapping):
        left = {name: one for name, one in held.items() if name != path[1]}
        if left:
            params[path[0]] = left
        else:
            del params[path[0]]
