"""Anthropic Messages: requests, responses and streams, read and written."""

from modelpact.conversation.anthropic.read_request import API, read_request
from modelpact.conversation.anthropic.response import read_response, read_usage, write_response
from modelpact.conversation.anthropic.stream import AnthropicStreamReader, AnthropicStreamWriter
from modelpact.conversation.anthropic.write_request import DEFAULT_MAX_TOKENS, write_request

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
