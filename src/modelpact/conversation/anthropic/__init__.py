"""Anthropic Messages: requests, responses and streams, read and written."""

from modelpact.conversation.anthropic.request import API, DEFAULT_MAX_TOKENS, read_request, write_request
from modelpact.conversation.anthropic.response import read_response, read_usage, write_response
from modelpact.conversation.anthropic.stream import AnthropicStreamReader, AnthropicStreamWriter

__all__ = [
    "API",
    "DEFAULT_MAX_TOKENS",
    "AnthropicStreamReader",
    "AnthropicStreamWriter",
    "read_request",
    "read_response",
    "read_usage",
    "write_request",
    "write_response",
]
