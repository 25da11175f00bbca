"""Adapters: model ports to real servers, and what puts a model port behind the provider contract.

May import what `providers` may.
"""

from modelpact.providers.models.anthropic import AnthropicAdapter
from modelpact.providers.models.credentials import NO_KEY, ApiKey, MissingKey, resolve_key
from modelpact.providers.models.errors import NotTranslatable, UpstreamError
from modelpact.providers.models.factory import adapter_for
from modelpact.providers.models.json_codec import CHAT
from modelpact.providers.models.model_provider import ModelProvider
from modelpact.providers.models.openai_chat import OpenAIChatAdapter
from modelpact.providers.models.openai_responses import OpenAIResponsesAdapter

__all__ = [
    "CHAT",
    "NO_KEY",
    "AnthropicAdapter",
    "ApiKey",
    "MissingKey",
    "ModelProvider",
    "NotTranslatable",
    "OpenAIChatAdapter",
    "OpenAIResponsesAdapter",
    "UpstreamError",
    "adapter_for",
    "resolve_key",
]
