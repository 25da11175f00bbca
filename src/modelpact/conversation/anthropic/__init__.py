"""Anthropic Messages: request bodies to requests and back."""

from modelpact.conversation.anthropic.read_request import API, from_anthropic
from modelpact.conversation.anthropic.write_request import DEFAULT_MAX_TOKENS, to_anthropic

__all__ = ["API", "DEFAULT_MAX_TOKENS", "from_anthropic", "to_anthropic"]
