"""What a chat request asks of its model, read off its body.

The reading is small and can be compared: requests that ask for the same are the same question, and
are answered from memory.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NoReturn

import msgspec

from modelpact.needs.need import Level, Need, Needs, need
from modelpact.vocabulary.errors import InputError, brief

RequestApi = Literal["openai-chat", "openai-responses", "anthropic", "embeddings"]


class RequestFeatures(msgspec.Struct, frozen=True, gc=False):
    """What one request asks for: capabilities with their place, parameters, and its stream."""

    api: RequestApi
    uses: tuple[tuple[str, str], ...] = ()
    """A capability, and the field that asks for it."""
    params: tuple[tuple[str, Any], ...] = ()
    """Parameters; of a value that no answer depends on, only that it is there."""
    stream: bool = False

    @property
    def needs(self) -> Needs:
        """The needs that follow: hard, except what a request does as well without."""
        return _needs(self.uses)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters, as `negotiate_parameters` takes them."""
        return {name: _THAWED.get(name, value) for name, value in self.params}


CACHE_MARKER: Final = ("prompt-caching", "cache_control")
"""What a request uses that marks what to cache. It costs less, and means the same without."""
_LEVELS: Final[Mapping[str, Level]] = {"prompt-caching": "preferred"}
_THAWED: Final[Mapping[str, Any]] = {
    "logit_bias": {"0": 0},
    "stop": ["\n"],
    "stop_sequences": ["\n"],
}


@lru_cache(maxsize=4_096)
def _needs(uses: tuple[tuple[str, str], ...]) -> Needs:
    def one(capability: str, place: str) -> Need:
        level = _LEVELS.get(capability, "hard")
        return need(capability, level=level, required_by=(f"request: {place}",))

    return Needs(one(*use) for use in uses)


def read_asked(api: RequestApi, body: Any) -> RequestFeatures:
    """Read what a body asks for; raise where it is not a request of that API."""
    if type(body) is not dict:
        raise InputError(f"the body: expected an object, not {brief(body)}")
    model = body.get("model")
    if type(model) is not str or not model:
        raise InputError(f"model: expected a text, not {brief(model)}")
    if not body.keys() <= _USUAL and len(set(map(str.casefold, body))) != len(body):
        _refuse_look_alikes(body)
    return _READERS[api](body)


def _refuse_look_alikes(body: dict[str, Any]) -> NoReturn:
    """Refuse keys that some servers take for one another, so that they would read another body."""
    seen: dict[str, str] = {}
    for name in body:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(f"the keys {brief(other)} and {brief(name)} differ only in case")
    raise AssertionError("no key looks like another")


def _read_chat(body: dict[str, Any]) -> RequestFeatures:
    messages = body.get("messages")
    if type(messages) is not list or not messages:
        raise InputError("messages: expected a list with at least one message")
    uses: dict[str, str] = {}
    for place, message in enumerate(messages):
        if type(message) is not dict:
            raise InputError(f"messages[{place}]: expected an object, not {brief(message)}")
        role = message.get("role")
        if role in ("system", "developer"):
            uses["system-messages"] = "messages"
        elif type(role) is not str:
            raise InputError(f"messages[{place}].role: expected a text, not {brief(role)}")
        if type(message.get("content")) is list:
            _parts(message["content"], uses)
        if "cache_control" in message:
            uses["prompt-caching"] = "cache_control"
    stream = body.get("stream") is True
    if stream:
        uses["streaming"] = "stream"
    if body.keys() <= _PLAINEST:
        return RequestFeatures("openai-chat", tuple(uses.items()), (), stream)
    if body.get("tools") or body.get("functions"):
        uses["tool-calling"] = "tools" if body.get("tools") else "functions"
        _cached(body.get("tools"), uses)
    choice = body.get("tool_choice", body.get("function_call"))
    if choice not in (None, "auto", "none"):
        uses["tool-choice"] = "tool_choice"
    if body.get("parallel_tool_calls"):
        uses["parallel-tool-calls"] = "parallel_tool_calls"
    form = body.get("response_format")
    if type(form) is dict:
        _format(form.get("type"), "response_format", uses)
    modalities = body.get("modalities")
    if type(modalities) is list and "audio" in modalities:
        uses["audio-output"] = "modalities"
    return RequestFeatures("openai-chat", tuple(uses.items()), _params(body, _CHAT_PARAMS), stream)


_PLAINEST: Final = frozenset(("model", "messages", "stream"))
"""A body of no more than these asks for nothing else."""


def _parts(content: list[Any], uses: dict[str, str]) -> None:
    for part in content:
        if type(part) is dict:
            used = MEDIA_PARTS.get(part.get("type", ""))
            if used is not None:
                uses[used] = "messages"
            if "cache_control" in part:
                uses["prompt-caching"] = "cache_control"
            inner = part.get("content")
            if type(inner) is list:
                _parts(inner, uses)


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
"""Parts of messages that are not text, and what a model needs for them."""


def _format(kind: Any, place: str, uses: dict[str, str]) -> None:
    if kind == "json_schema":
        uses["structured-output"] = place
    elif kind == "json_object":
        uses["json-object"] = place


def _cached(listed: Any, uses: dict[str, str]) -> None:
    if type(listed) is list and any(type(one) is dict and "cache_control" in one for one in listed):
        uses["prompt-caching"] = "cache_control"


def _read_messages(body: dict[str, Any]) -> RequestFeatures:
    messages = body.get("messages")
    if type(messages) is not list or not messages:
        raise InputError("messages: expected a list with at least one message")
    uses: dict[str, str] = {}
    for place, message in enumerate(messages):
        if type(message) is not dict or type(message.get("role")) is not str:
            raise InputError(f"messages[{place}]: expected an object with a role")
        if type(message.get("content")) is list:
            _parts(message["content"], uses)
    system = body.get("system")
    if system:
        uses["system-messages"] = "system"
        _cached(system, uses)
    if "cache_control" in body:
        uses["prompt-caching"] = "cache_control"
    if body.get("tools"):
        uses["tool-calling"] = "tools"
        _cached(body["tools"], uses)
    choice = body.get("tool_choice")
    if type(choice) is dict and choice.get("type") not in ("auto", "none"):
        uses["tool-choice"] = "tool_choice"
    config = body.get("output_config")
    form = body.get("output_format") or (config.get("format") if type(config) is dict else None)
    if type(form) is dict:
        _format(form.get("type"), "output_config", uses)
    thinking = body.get("thinking")
    if type(thinking) is dict and thinking.get("type") not in (None, "disabled"):
        uses["reasoning"] = "thinking"
    stream = body.get("stream") is True
    if stream:
        uses["streaming"] = "stream"
    return RequestFeatures(
        "anthropic", tuple(uses.items()), _params(body, _MESSAGES_PARAMS), stream
    )


def _read_responses(body: dict[str, Any]) -> RequestFeatures:
    given = body.get("input")
    if type(given) not in (str, list) and not body.get("previous_response_id"):
        raise InputError(f"input: expected a text or a list, not {brief(given)}")
    uses: dict[str, str] = {}
    if body.get("instructions"):
        uses["system-messages"] = "instructions"
    for item in given if type(given) is list else ():
        if type(item) is dict:
            if item.get("role") in ("system", "developer"):
                uses["system-messages"] = "input"
            if type(item.get("content")) is list:
                _parts(item["content"], uses)
    tools = body.get("tools") or []
    if type(tools) is not list:
        raise InputError(f"tools: expected a list, not {brief(tools)}")
    for tool in tools:
        kind = tool.get("type") if type(tool) is dict else None
        uses[_HOSTED.get(str(kind), "tool-calling")] = "tools"
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        uses["tool-choice"] = "tool_choice"
    if body.get("parallel_tool_calls") and "tool-calling" in uses:
        uses["parallel-tool-calls"] = "parallel_tool_calls"
    text = body.get("text")
    form = text.get("format") if type(text) is dict else None
    if type(form) is dict:
        _format(form.get("type"), "text.format", uses)
    stream = body.get("stream") is True
    if stream:
        uses["streaming"] = "stream"
    return RequestFeatures(
        "openai-responses", tuple(uses.items()), _params(body, _RESPONSES_PARAMS), stream
    )


_HOSTED: Final = {
    "web_search": "web-search",
    "web_search_preview": "web-search",
    "file_search": "file-search",
    "computer_use_preview": "computer-use",
    "code_interpreter": "code-execution",
}


def _read_embeddings(body: dict[str, Any]) -> RequestFeatures:
    if type(body.get("input")) not in (str, list):
        raise InputError(f"input: expected a text or a list, not {brief(body.get('input'))}")
    return RequestFeatures("embeddings", (("embedding-output", "input"),))


_READERS: Final[Mapping[RequestApi, Callable[[dict[str, Any]], RequestFeatures]]] = {
    "openai-chat": _read_chat,
    "anthropic": _read_messages,
    "openai-responses": _read_responses,
    "embeddings": _read_embeddings,
}

_LONGEST_PARAM: Final = 100
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
_MESSAGES_PARAMS: Final = (*_SHARED_PARAMS, "stop_sequences", "max_tokens")
_RESPONSES_PARAMS: Final = (*_SHARED_PARAMS, "max_output_tokens", "top_logprobs")
_USUAL: Final = frozenset((*_PLAINEST, *_CHAT_PARAMS, "tools", "tool_choice", "response_format"))
"""Keys of most bodies: none of them looks like another."""
_ONLY_THAT: Final[Mapping[str, Any]] = {
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
"""What stands for a value where only its being there matters to an answer."""
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "stop": ([], ""),
    "stop_sequences": ([],),
    "logit_bias": ({},),
    "n": (1,),
    "top_logprobs": (0,),
}


def _params(body: dict[str, Any], names: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    found = []
    for name in names:
        if name not in body:
            continue
        value = body[name]
        if value is None or value in _NEUTRAL.get(name, ()):
            continue
        stand_in = _ONLY_THAT.get(name)
        if stand_in is not None:
            value = stand_in
        elif type(value) not in (int, float, str, bool):
            raise InputError(f"{name}: expected a number, a text or true or false")
        elif type(value) is str and len(value) > _LONGEST_PARAM:
            # What was asked is remembered with its plan: it must not take much room.
            raise InputError(f"{name}: {brief(value)} is too long for any value that there is")
        found.append((name, value))
    return tuple(found)
