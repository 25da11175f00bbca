"""What OpenAI's two APIs spell alike, and what the Responses API says that no other can hear."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.fidelity import Losses
from modelpact.vocabulary.errors import InputError

RESPONSES: Final = "openai-responses"
SHARED: Final = (
    *("metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention"),
    *("safety_identifier", "user"),
)
"""Fields of requests that mean the same in both APIs."""

_LOGPROBS: Final = "message.output_text.logprobs"
_STATE: Final = "the server that holds it is not the one that is asked"
_UNSUPPORTED: Final = {
    "previous_response_id": f"an earlier answer is meant by its id: {_STATE}",
    "conversation": f"a conversation is meant by its id: {_STATE}",
    "prompt": f"a prompt is meant by its id: {_STATE}",
    "background": "this API answers at once, not in the background",
    "top_logprobs": "token probabilities are not carried back",
    "tool_choice": "a choice of tools that this API does not have",
    "moderation": "this API does not moderate what it is sent",
}
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "background": (False,),
    "include": ([],),
    "metadata": ({},),
    "service_tier": ("auto",),
    "store": (False,),
    "stream_options": ({},),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
"""Values that say what the other APIs do anyway."""


def leave_responses(
    extras: Mapping[str, Any], losses: Losses, shared: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields that another API has too, by its names, and note those it has not.

    Fields of `text` and `reasoning` go by a path, such as `text.verbosity`.
    """
    flat: dict[str, Any] = {}
    for name, value in extras.items():
        inner = isinstance(value, Mapping) and name in ("text", "reasoning")
        flat |= {f"{name}.{one}": what for one, what in value.items()} if inner else {name: value}
    found: dict[str, Any] = {}
    for name, value in flat.items():
        if value is None or value in _NEUTRAL.get(name, ()):
            continue
        if name in shared:
            found[shared[name]] = value
        elif name in _UNSUPPORTED:
            losses.unsupported(name, _UNSUPPORTED[name])
        elif name == "text.format":
            if value != {"type": "text"}:
                losses.unsupported(name, "a format that this API does not have")
        elif name == "include" and isinstance(value, list) and _LOGPROBS in value:
            losses.unsupported(name, _UNSUPPORTED["top_logprobs"])
        else:
            losses.lossy(name, f"only {RESPONSES} has this field")
    return found


def read_arguments(raw: str) -> Any:
    """Parse a call's arguments; None where they are not JSON that another API can carry."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError("a key stands twice")
        return dict(found)

    def constant(text: str) -> Any:
        raise ValueError(f"{text} is not JSON")

    def finite(text: str) -> float:
        if math.isinf(number := float(text)):
            raise ValueError(f"{text} is too large")
        return number

    try:
        return json.loads(raw, object_pairs_hook=pairs, parse_constant=constant, parse_float=finite)
    except (ValueError, RecursionError):
        return None


def write_arguments(given: Any, path: str) -> str:
    """Write a call's arguments as JSON, or raise an error that names the place."""
    try:
        return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}.input: cannot be written as JSON: {error}") from None
