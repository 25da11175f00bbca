"""Answers in the APIs' spellings: bodies, stream events and errors, read and written. Pure.

May import the rest of `conversation` and `vocabulary` only.
"""

from modelpact.conversation.answers.anthropic_body import from_anthropic_answer, to_anthropic_answer
from modelpact.conversation.answers.anthropic_events import AnthropicEvents
from modelpact.conversation.answers.anthropic_stream import AnthropicStream
from modelpact.conversation.answers.errors import (
    ErrorSaid,
    StreamBroken,
    read_error,
    write_anthropic_error,
    write_openai_error,
)
from modelpact.conversation.answers.openai_body import from_openai_answer, to_openai_answer
from modelpact.conversation.answers.openai_chunks import OpenAIChunks
from modelpact.conversation.answers.openai_stream import DONE, OpenAIStream
from modelpact.conversation.answers.responses_body import from_openai_response, to_openai_response
from modelpact.conversation.answers.responses_events import ResponsesEvents
from modelpact.conversation.answers.responses_stream import ResponsesStream

__all__ = [
    "DONE",
    "AnthropicEvents",
    "AnthropicStream",
    "ErrorSaid",
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
