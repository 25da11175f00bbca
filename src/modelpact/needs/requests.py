"""The features that a request uses, read from its body, and the needs that follow from them.

`RequestFeatures` is small and hashable, so that plans can be kept for requests with the same
features.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NoReturn

import msgspec

from modelpact.needs.need import Level, Need, Needs, need
from modelpact.vocabulary.errors import InputError, brief

RequestApi = Literal["openai-chat", "openai-responses", "anthropic", "embeddings"]
CACHE_MARKER: Final = ("prompt-caching", "cache_control")
"""The feature of a request that marks what to cache; without it, only the cost changes."""
MEDIA_PARTS: Final = {
    "image_url": "image-input",
    "input_image": "image-input",
    "image": "image-input",
    "input_audio": "audio-input",
    "video_url": "video-input",
    "file": "pdf-input",
    "input_file": "pdf-input",
    "document": "pdf-input",
}
"""The types of message parts that are not text, and the capabilities that they need."""
_LEVELS: Final[Mapping[str, Level]] = {"prompt-caching": "preferred"}
_EXAMPLES: Final[Mapping[str, Any]] = {"logit_bias": {"0": 0}, "stop": ["\n"], "stop_sequences": ["\n"]}
_HOSTED_TOOLS: Final = {
    "web_search": "web-search",
    "web_search_preview": "web-search",
    "file_search": "file-search",
    "computer_use_preview": "computer-use",
    "code_interpreter": "code-execution",
}
_MINIMAL_KEYS: Final = frozenset(("model", "messages", "stream"))
"""A body with only these keys uses no other feature."""
_SHARED_PARAMS: Final = ("temperature", "top_p", "top_k")
_CHAT_PARAMS: Final = (
    *_SHARED_PARAMS,
    "reasoning_effort",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "n",
    "logprobs",
    "top_logprobs",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "prediction",
    "web_search_options",
)
_ANTHROPIC_PARAMS: Final = (*_SHARED_PARAMS, "stop_sequences", "max_tokens")
_RESPONSES_PARAMS: Final = (*_SHARED_PARAMS, "max_output_tokens", "top_logprobs")
_COMMON_KEYS: Final = frozenset((*_MINIMAL_KEYS, *_CHAT_PARAMS, "tools", "tool_choice", "response_format"))
"""The keys of most bodies; none of them differs from another only in case."""
_PLACEHOLDERS: Final[Mapping[str, Any]] = {
    "max_tokens": 1,
    "max_completion_tokens": 1,
    "max_output_tokens": 1,
    "stop": True,
    "stop_sequences": True,
    "seed": 1,
    "logit_bias": True,
    "prediction": True,
    "web_search_options": True,
    "top_logprobs": 1,
    "n": 2,
}
"""Stand for values of which only the presence influences negotiation."""
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "stop": ([], ""),
    "stop_sequences": ([],),
    "logit_bias": ({},),
    "n": (1,),
    "top_logprobs": (0,),
}
_MAX_PARAM_LENGTH: Final = 100


class RequestFeatures(msgspec.Struct, frozen=True, gc=False):
    """The capabilities and parameters that one request uses, and whether it streams."""

    api: RequestApi
    uses: tuple[tuple[str, str], ...] = ()
    """Capabilities, each with the field that uses it."""
    params: tuple[tuple[str, Any], ...] = ()
    """Parameters. A value that does not influence negotiation is replaced by a placeholder."""
    stream: bool = False

    @property
    def needs(self) -> Needs:
        """The needs that follow: hard, except for features that only save cost."""
        return _needs(self.uses)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters in the form that `negotiate_parameters` takes."""
        return {name: _EXAMPLES.get(name, value) for name, value in self.params}


def read_features(api: RequestApi, body: Any) -> RequestFeatures:
    """Read the features of a body; raise if it is not a request of that API."""
    if type(body) is not dict:
        raise InputError(f"body: expected an object, not {brief(body)}")
    model = body.get("model")
    if type(model) is not str or not model:
        raise InputError(f"model: expected a string, not {brief(model)}")
    if not body.keys() <= _COMMON_KEYS and len(set(map(str.casefold, body))) != len(body):
        _refuse_similar_keys(body)
    return _READERS[api](body)


def _read_chat(body: dict[str, Any]) -> RequestFeatures:
    messages = body.get("messages")
    if type(messages) is not list or not messages:
        raise InputError("messages: expected a list with at least one message")
    uses: dict[str, str] = {}
    for index, message in enumerate(messages):
        if type(message) is not dict:
            raise InputError(f"messages[{index}]: expected an object, not {brief(message)}")
        role = message.get("role")
        if role in ("system", "developer"):
            uses["system-messages"] = "messages"
        elif type(role) is not str:
            raise InputError(f"messages[{index}].role: expected a string, not {brief(role)}")
        if type(message.get("content")) is list:
            _read_parts(message["content"], uses)
        if "cache_control" in message:
            uses["prompt-caching"] = "cache_control"
    stream = body.get("stream") is True
    if stream:
        uses["streaming"] = "stream"
    if body.keys() <= _MINIMAL_KEYS:
        return RequestFeatures("openai-chat", tuple(uses.items()), (), stream)
    if body.get("tools") or body.get("functions"):
        uses["tool-calling"] = "tools" if body.get("tools") else "functions"
        _read_cache_markers(body.get("tools"), uses)
    choice = body.get("tool_choice", body.get("function_call"))
    if choice not in (None, "auto", "none"):
        uses["tool-choice"] = "tool_choice"
    if body.get("parallel_tool_calls"):
        uses["parallel-tool-calls"] = "parallel_tool_calls"
    form = body.get("response_format")
    if type(form) is dict:
        _read_format(form.get("type"), "response_format", uses)
    modalities = body.get("modalities")
    if type(modalities) is list and "audio" in modalities:
        uses["audio-output"] = "modalities"
    return RequestFeatures("openai-chat", tuple(uses.items()), _read_params(body, _CHAT_PARAMS), stream)


def _read_anthropic(body: dict[str, Any]) -> RequestFeatures:
    messages = body.get("messages")
    if type(messages) is not list or not messages:
        raise InputError("messages: expected a list with at least one message")
    uses: dict[str, str] = {}
    for index, message in enumerate(messages):
        if type(message) is not dict or type(message.get("role")) is not str:
            raise InputError(f"messages[{index}]: expected an object with a role")
        if type(message.get("content")) is list:
            _read_parts(message["content"], uses)
    system = body.get("system")
    if system:
        uses["system-messages"] = "system"
        _read_cache_markers(system, uses)
    if "cache_control" in body:
        uses["prompt-caching"] = "cache_control"
    if body.get("tools"):
        uses["tool-calling"] = "tools"
        _read_cache_markers(body["tools"], uses)
    choice = body.get("tool_choice")
    if type(choice) is dict and choice.get("type") not in ("auto", "none"):
        uses["tool-choice"] = "tool_choice"
    config = body.get("output_config")
    form = body.get("output_format") or (config.get("format") if type(config) is dict else None)
    if type(form) is dict:
        _read_format(form.get("type"), "output_config", uses)
    thinking = body.get("thinking")
    if type(thinking) is dict and thinking.get("type") not in (None, "disabled"):
        uses["reasoning"] = "thinking"
    stream = body.get("stream") is True
    if stream:
        uses["streaming"] = "stream"
    return RequestFeatures("anthropic", tuple(uses.items()), _read_params(body, _ANTHROPIC_PARAMS), stream)


def _read_responses(body: dict[str, Any]) -> RequestFeatures:
    content = body.get("input")
    if type(content) not in (str, list) and not body.get("previous_response_id"):
        raise InputError(f"input: expected a string or a list, not {brief(content)}")
    uses: dict[str, str] = {}
    if body.get("instructions"):
        uses["system-messages"] = "instructions"
    for item in content if type(content) is list else ():
        if type(item) is dict:
            if item.get("role") in ("system", "developer"):
                uses["system-messages"] = "input"
            if type(item.get("content")) is list:
                _read_parts(item["content"], uses)
    tools = body.get("tools") or []
    if type(tools) is not list:
        raise InputError(f"tools: expected a list, not {brief(tools)}")
    for tool in tools:
        kind = tool.get("type") if type(tool) is dict else None
        uses[_HOSTED_TOOLS.get(str(kind), "tool-calling")] = "tools"
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        uses["tool-choice"] = "tool_choice"
    if body.get("parallel_tool_calls") and "tool-calling" in uses:
        uses["parallel-tool-calls"] = "parallel_tool_calls"
    text = body.get("text")
    form = text.get("format") if type(text) is dict else None
    if type(form) is dict:
        _read_format(form.get("type"), "text.format", uses)
    stream = body.get("stream") is True
    if stream:
        uses["streaming"] = "stream"
    return RequestFeatures("openai-responses", tuple(uses.items()), _read_params(body, _RESPONSES_PARAMS), stream)


def _read_embeddings(body: dict[str, Any]) -> RequestFeatures:
    if type(body.get("input")) not in (str, list):
        raise InputError(f"input: expected a string or a list, not {brief(body.get('input'))}")
    return RequestFeatures("embeddings", (("embedding-output", "input"),))


_READERS: Final[Mapping[RequestApi, Callable[[dict[str, Any]], RequestFeatures]]] = {
    "openai-chat": _read_chat,
    "anthropic": _read_anthropic,
    "openai-responses": _read_responses,
    "embeddings": _read_embeddings,
}


@lru_cache(maxsize=4_096)
def _needs(uses: tuple[tuple[str, str], ...]) -> Needs:
    def feature_need(capability: str, field: str) -> Need:
        level = _LEVELS.get(capability, "hard")
        return need(capability, level=level, required_by=(f"request: {field}",))

    return Needs(feature_need(*use) for use in uses)


def _refuse_similar_keys(body: dict[str, Any]) -> NoReturn:
    """Refuse keys that differ only in case: some servers would read another body than we do."""
    seen: dict[str, str] = {}
    for name in body:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(f"the keys {brief(other)} and {brief(name)} differ only in case")
    raise AssertionError("no keys differ only in case")


def _read_parts(content: list[Any], uses: dict[str, str]) -> None:
    for part in content:
        if type(part) is dict:
            capability = MEDIA_PARTS.get(part.get("type", ""))
            if capability is not None:
                uses[capability] = "messages"
            if "cache_control" in part:
                uses["prompt-caching"] = "cache_control"
            inner = part.get("content")
            if type(inner) is list:
                _read_parts(inner, uses)


def _read_format(kind: Any, field: str, uses: dict[str, str]) -> None:
    if kind == "json_schema":
        uses["structured-output"] = field
    elif kind == "json_object":
        uses["json-object"] = field


def _read_cache_markers(entries: Any, uses: dict[str, str]) -> None:
    if type(entries) is list and any(type(entry) is dict and "cache_control" in entry for entry in entries):
        uses["prompt-caching"] = "cache_control"


def _read_params(body: dict[str, Any], names: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    params = []
    for name in names:
        if name not in body:
            continue
        value = body[name]
        if value is None or value in _NEUTRAL.get(name, ()):
            continue
        placeholder = _PLACEHOLDERS.get(name)
        if placeholder is not None:
            value = placeholder
        elif type(value) not in (int, float, str, bool):
            raise InputError(f"{name}: expected a number, a string or true or false")
        elif type(value) is str and len(value) > _MAX_PARAM_LENGTH:
            # Features are kept with plans, so they must stay small.
            raise InputError(f"{name}: {brief(value)} is longer than any valid value")
        params.append((name, value))
    return tuple(params)
