"""OpenAI Chat Completions: requests, responses and streams, read and written."""

from modelpact.conversation.openai_chat.request import API, read_request, write_request
from modelpact.conversation.openai_chat.response import read_response, read_usage, write_response
from modelpact.conversation.openai_chat.stream import DONE, OpenAIChatStreamReader, OpenAIChatStreamWriter, wants_usage

__all__ = [
    "API",
    "DONE",
    "OpenAIChatStreamReader",
    "OpenAIChatStreamWriter",
    "read_request",
    "read_response",
    "read_usage",
    "wants_usage",
    "write_request",
    "write_response",
]
