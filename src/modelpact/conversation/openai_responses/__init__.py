"""OpenAI Responses: requests, responses and streams, read and written."""

from modelpact.conversation.openai_responses.items import API
from modelpact.conversation.openai_responses.request import read_request, write_request
from modelpact.conversation.openai_responses.response import read_response, read_usage, write_response
from modelpact.conversation.openai_responses.stream import OpenAIResponsesStreamReader, OpenAIResponsesStreamWriter

__all__ = [
    "API",
    "OpenAIResponsesStreamReader",
    "OpenAIResponsesStreamWriter",
    "read_request",
    "read_response",
    "read_usage",
    "write_request",
    "write_response",
]
