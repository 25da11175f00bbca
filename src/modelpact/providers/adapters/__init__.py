"""Adapters: model ports to real servers, and what puts a model port behind the provider contract.

May import what `providers` may.
"""

from modelpact.providers.adapters.anthropic import AnthropicAdapter
from modelpact.providers.adapters.choice import adapter_for
from modelpact.providers.adapters.errors import CannotCarry, UpstreamError
from modelpact.providers.adapters.keys import NO_KEY, Key, MissingKey, resolve_key
from modelpact.providers.adapters.model_provider import ModelProvider
from modelpact.providers.adapters.openai_chat import OpenAIChatAdapter
from modelpact.providers.adapters.openai_responses import OpenAIResponsesAdapter
from modelpact.providers.adapters.values import CHAT

__all__ = [
    "CHAT",
    "NO_KEY",
    "AnthropicAdapter",
    "CannotCarry",
    "Key",
    "MissingKey",
    "ModelProvider",
    "OpenAIChatAdapter",
    "OpenAIResponsesAdapter",
    "UpstreamError",
    "adapter_for",
    "resolve_key",
]
