"""OpenAI Chat Completions: request bodies to requests and back."""

from modelpact.conversation.openai_chat.read_request import API, from_openai_chat
from modelpact.conversation.openai_chat.write_request import to_openai_chat

__all__ = ["API", "from_openai_chat", "to_openai_chat"]
