"""Usage and stop reasons as the APIs spell them.

OpenAI's prompt tokens hold the cached ones, as ours do; Anthropic's input tokens do not.
"""

from collections.abc import Mapping
from typing import Any, Final

from modelpact.conversation.body_reader import checked
from modelpact.conversation.response import StopReason, Usage
from modelpact.vocabulary.errors import InputError, brief

OPENAI_STOPS: Final[Mapping[str, StopReason]] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
TO_OPENAI_STOPS: Final[Mapping[StopReason, str]] = {
    "end": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "unknown": "stop",
}
ANTHROPIC_STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
}
TO_ANTHROPIC_STOPS: Final[Mapping[StopReason, str]] = {
    "end": "end_turn",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "unknown": "end_turn",
}


def read_openai_usage(data: Any, where: str = "usage") -> Usage:
    """Read a usage; one that is missing counts nothing."""
    if data is None:
        return Usage()
    data = checked(data, where)
    given = _details(data, "prompt_tokens_details", where)
    made = _details(data, "completion_tokens_details", where)
    details = f"{where}.prompt_tokens_details"
    cached = _count(given, "cached_tokens", details)
    return Usage(
        _count(data, "prompt_tokens", where),
        _count(data, "completion_tokens", where),
        _count(made, "reasoning_tokens", f"{where}.completion_tokens_details"),
        cached or _count(data, "prompt_cache_hit_tokens", where),
        _count(given, "cache_write_tokens", details),
    )


def write_openai_usage(usage: Usage, told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a usage; `told` is how the API told it, and says more."""
    if told is not None and read_openai_usage(told) == usage:
        return dict(told)
    given = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        given["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": given,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def read_responses_usage(data: Any, where: str = "usage") -> Usage:
    """Read a usage of the Responses API, which counts as Chat Completions do."""
    if data is None:
        return Usage()
    data = checked(data, where)
    given = _details(data, "input_tokens_details", where)
    made = _details(data, "output_tokens_details", where)
    details = f"{where}.input_tokens_details"
    return Usage(
        _count(data, "input_tokens", where),
        _count(data, "output_tokens", where),
        _count(made, "reasoning_tokens", f"{where}.output_tokens_details"),
        _count(given, "cached_tokens", details),
        _count(given, "cache_write_tokens", details),
    )


def write_responses_usage(usage: Usage, told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a usage; `told` is how the API told it, and says more."""
    if told is not None and read_responses_usage(told) == usage:
        return dict(told)
    given = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    return {
        "input_tokens": usage.input,
        "input_tokens_details": given,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def read_anthropic_usage(data: Any, where: str = "usage") -> Usage:
    """Read a usage: cache reads and writes are counted as input too."""
    if data is None:
        return Usage()
    data = checked(data, where)
    read = _count(data, "cache_read_input_tokens", where)
    written = _count(data, "cache_creation_input_tokens", where)
    made = _details(data, "output_tokens_details", where)
    return Usage(
        _count(data, "input_tokens", where) + read + written,
        _count(data, "output_tokens", where),
        _count(made, "thinking_tokens", f"{where}.output_tokens_details"),
        read,
        written,
    )


def write_anthropic_usage(usage: Usage, told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a usage; `told` is how the API told it, and says more."""
    if told is not None and read_anthropic_usage(told) == usage:
        return dict(told)
    data: dict[str, Any] = {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        data["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return data


def own_usage(told: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """Return what a usage says beside the plain one, to be kept with the answer."""
    return {} if not told or told == plain else {"usage": told}


def _details(data: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = data.get(name)
    return {} if found is None else checked(found, f"{where}.{name}")


def _count(data: Mapping[str, Any], name: str, where: str) -> int:
    value = data.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{where}.{name}: expected a number of tokens, not {brief(value)}")
    return value
