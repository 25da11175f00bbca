"""Helpers for the tests of sessions: models with known capabilities, and sessions on them."""

from collections.abc import Mapping
from typing import Any

from modelpact.catalog.catalog import Catalog, Overlay
from modelpact.catalog.facts import Price
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger import Event, Ledger, export_lines, verify_export
from modelpact.providers.port import MockProvider, ModelPort
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import Session
from tests.conftest import catalog, fact, lineage

FULL: dict[str, Any] = {
    "streaming": True,
    "tool_calling": True,
    "structured_output": True,
    "json_object": True,
    "reasoning": True,
    "prompt_caching": True,
    "image_input": True,
    "audio_input": True,
    "video_input": True,
    "context_window": 200_000,
    "max_output": 8_000,
    "temperature": True,
    "top_k": True,
    "stop_sequences": True,
}
LACKING: dict[str, dict[str, Any]] = {
    "streaming": {"streaming": False},
    "toolCalling": {"tool_calling": False},
    "structuredOutput": {"structured_output": False},
    "multimodal": {"image_input": False, "audio_input": False, "video_input": False},
    "reasoning": {"reasoning": False},
    "contextWindow": {"context_window": 7_999},
    "promptCaching": {"prompt_caching": False},
}
"""The seven capabilities of the `stud` specification, with the fields of a model that lacks it."""
NEED = {
    "streaming": "streaming",
    "toolCalling": "tool-calling",
    "structuredOutput": "structured-output",
    "multimodal": "multimodal",
    "reasoning": "reasoning",
    "contextWindow": "context-window>=8000",
    "promptCaching": "prompt-caching",
}
PROVIDERS = ("openai", "anthropic", "vllm")


def small_catalog(**models: Mapping[str, Any]) -> Catalog:
    """Return a catalog: `openai/gpt-full` has everything, other models name what differs."""
    price = Price(input=1, output=1)
    facts = [fact("openai/gpt-suggested", price, seed=True)]
    listed = {"gpt-full": {}, **{f"gpt-{name}": fields for name, fields in models.items()}}
    overlay = {
        (provider, model): Overlay({**FULL, **fields}, "test.toml")
        for provider in ("openai", "anthropic")
        for model, fields in listed.items()
    }
    rules = """
[[rules]]
match = { kind = "exact", model = "gpt-suggested" }
caps.tool_calling = true
caps.streaming = true
caps.structured_output = true
caps.reasoning = true
caps.prompt_caching = true
caps.context_window = 400000
caps.input_modalities = ["text", "image"]
caps.output_modalities = ["text"]
"""
    return catalog(rules, lineage("one", *facts), lineage("two", *facts), overlay=overlay)


def models_of(ledger: Ledger, known: Catalog | None = None, **ports: ModelPort) -> ModelCaller:
    """Return a model caller with mocks, except for the given ports."""
    all_ports: dict[str, ModelPort] = {name: MockProvider() for name in PROVIDERS}
    return ModelCaller(Runtime(ledger), catalog=known or small_catalog(), ports={**all_ports, **ports}, environment={})


def opened(
    ledger: Ledger,
    target: str = "openai/gpt-full",
    *,
    known: Catalog | None = None,
    ports: Mapping[str, ModelPort] | None = None,
    **how: Any,
) -> Session:
    """Open a session among the small catalog's models."""
    return Session.open(target, ledger=ledger, models=models_of(ledger, known, **(ports or {})), **how)


def seen(session: Session) -> tuple[Any, ...]:
    """Return everything about a session that a trigger may change."""
    return (
        session.target,
        session.needs,
        session.params,
        session.layers,
        session.machine,
        session.context_providers,
        session.hooks,
        session.security,
        session.policy,
        session.messages,
        session.unanswered,
    )


def stored(ledger: Ledger, session: Session) -> list[tuple[Any, ...]]:
    """Return the session's rows in the store, without the times."""
    sql = "SELECT state, event, revision FROM sessions WHERE id = ?"
    messages_sql = "SELECT number, answered, message FROM session_messages WHERE session = ? ORDER BY 1"
    return [*ledger.read(sql, (session.id,)), *ledger.read(messages_sql, (session.id,))]


def trail(ledger: Ledger, session: Session) -> list[Event]:
    """Return the session's events, after checking their hashes and causes."""
    assert verify_export(export_lines(ledger, session.envelope)).ok
    events = ledger.events(session.envelope)
    for event in events[1:]:
        assert event.cause is not None, event.type
        assert ledger.event(event.cause) is not None
    return events


def types(ledger: Ledger, session: Session) -> list[str]:
    return [event.type for event in trail(ledger, session)]


def last(ledger: Ledger, session: Session, kind: str) -> Event:
    return next(event for event in reversed(trail(ledger, session)) if event.type == kind)
