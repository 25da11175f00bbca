"""Adapters to the APIs of model providers, and a model port as a provider of the contract."""

from modelpact.providers.models.adapters import (
    AnthropicAdapter,
    NotTranslatable,
    OpenAIChatAdapter,
    OpenAIResponsesAdapter,
    adapter_for,
)
from modelpact.providers.models.credentials import NO_KEY, ApiKey, MissingKey, resolve_key
from modelpact.providers.models.json_codec import CHAT
from modelpact.providers.models.model_provider import ModelProvider
from modelpact.providers.models.upstream import UpstreamError

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
