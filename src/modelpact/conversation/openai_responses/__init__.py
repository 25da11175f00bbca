"""OpenAI Responses: request bodies to requests and back."""

from modelpact.conversation.openai_responses.items import API
from modelpact.conversation.openai_responses.read import from_openai_responses
from modelpact.conversation.openai_responses.write import to_openai_responses

__all__ = ["API", "from_openai_responses", "to_openai_responses"]
