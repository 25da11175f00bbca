"""LiteLLM as it is asked here: offline, and only of models that it answers for offline."""

import logging
import socket
from typing import Any

_ASK_A_SERVER = ("github_copilot", "chatgpt", "lemonade")
"""Providers for which LiteLLM itself opens a connection when it is asked what a model can do."""


def _refuse(*_: object, **__: object) -> Any:
    raise OSError("benchmarks run offline")


def load() -> Any:
    """Import LiteLLM, with logging and the network off."""
    socket.socket.connect = _refuse  # type: ignore[method-assign]
    socket.getaddrinfo = _refuse
    import litellm

    litellm.suppress_debug_info = True
    logging.disable(logging.CRITICAL)
    return litellm


def models(litellm: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return LiteLLM's models that it answers for offline and without an error."""
    kept = []
    for name, entry in litellm.model_cost.items():
        if name == "sample_spec" or entry.get("litellm_provider") in _ASK_A_SERVER:
            continue
        try:
            litellm.get_model_info(name)
        except Exception:
            continue
        kept.append((name, entry))
    return kept


def forget(litellm: Any) -> None:
    """Empty LiteLLM's memory of single models; its tables stay as they are loaded."""
    litellm.utils.cached_get_model_info_helper.cache_clear()
    litellm.utils._cached_get_model_info.cache_clear()
