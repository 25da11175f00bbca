"""OpenAI Chat Completions: request bodies to requests and back."""

from modelpact.conversation.openai_chat.read import API, from_openai_chat
from modelpact.conversation.openai_chat.write import to_openai_chat

__all__ = ["API", "from_openai_chat", "to_openai_chat"]
