"""OpenAI Responses: request bodies to requests and back."""

from modelpact.conversation.openai_responses.read_request import API, from_openai_responses
from modelpact.conversation.openai_responses.write_request import to_openai_responses

__all__ = ["API", "from_openai_responses", "to_openai_responses"]
