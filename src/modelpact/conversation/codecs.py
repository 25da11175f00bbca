"""Answers in the APIs' spellings: bodies, stream events and errors, read and written. Pure.

May import the rest of `conversation` and `vocabulary` only.
"""

from modelpact.conversation.anthropic.response import from_anthropic_answer, to_anthropic_answer
from modelpact.conversation.anthropic.stream import AnthropicEvents, AnthropicStream
from modelpact.conversation.error_bodies import (
    ApiError,
    StreamBroken,
    read_error,
    write_anthropic_error,
    write_openai_error,
)
from modelpact.conversation.openai_chat.response import from_openai_answer, to_openai_answer
from modelpact.conversation.openai_chat.stream import DONE, OpenAIChunks, OpenAIStream
from modelpact.conversation.openai_responses.response import (
    from_openai_response,
    to_openai_response,
)
from modelpact.conversation.openai_responses.stream import ResponsesEvents, ResponsesStream

__all__ = [
    "DONE",
    "AnthropicEvents",
    "AnthropicStream",
    "ApiError",
    "OpenAIChunks",
    "OpenAIStream",
    "ResponsesEvents",
    "ResponsesStream",
    "StreamBroken",
    "from_anthropic_answer",
    "from_openai_answer",
    "from_openai_response",
    "read_error",
    "to_anthropic_answer",
    "to_openai_answer",
    "to_openai_response",
    "write_anthropic_error",
    "write_openai_error",
]
