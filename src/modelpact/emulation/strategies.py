"""Strategies: seed 002's three, its default table, and the engine that applies them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Conversation, Message, TextBlock, check_values
from modelpact.negotiation.negotiate import Strategies
from modelpact.vocabulary.dialects import ABP, pascal_case
from modelpact.vocabulary.errors import InputError


class _Strategy(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """What the three have in common."""


class SystemPromptInjection(_Strategy, frozen=True, tag="system_prompt_injection"):
    """Text added to the system prompt. Changes the conversation."""

    prompt: str


class PostProcessing(_Strategy, frozen=True, tag="post_processing"):
    """Work on the response after it has arrived. Changes nothing before."""

    detail: str


class Disabled(_Strategy, frozen=True, tag="disabled"):
    """Cannot be emulated: a warning, and nothing is changed."""

    reason: str


EmulationStrategy = SystemPromptInjection | PostProcessing | Disabled

_DEFAULTS: Final[Mapping[str, EmulationStrategy]] = {
    "extended_thinking": SystemPromptInjection("Think step by step before answering."),
    "structured_output_json_schema": PostProcessing("Parse and validate JSON from text response"),
    "code_execution": Disabled("Cannot safely emulate sandboxed code execution"),
}


def default_strategy(capability: str) -> EmulationStrategy:
    """Return the default strategy for a capability by its `abp` name."""
    ABP.read(capability)
    found = _DEFAULTS.get(capability)
    if found is not None:
        return found
    return Disabled(f"No emulation available for {pascal_case(capability)}")


def can_emulate(capability: str) -> bool:
    """Tell whether a capability's default strategy is not Disabled."""
    return not isinstance(default_strategy(capability), Disabled)


def strategy_label(strategy: EmulationStrategy) -> str:
    """Say in a line what a strategy does."""
    if isinstance(strategy, SystemPromptInjection):
        return f"system_prompt_injection: {strategy.prompt}"
    if isinstance(strategy, PostProcessing):
        return f"post_processing: {strategy.detail}"
    return f"disabled: {strategy.reason}"


def default_strategies() -> Strategies:
    """Return what the default table can emulate, for negotiation."""
    return Strategies(
        {
            ABP.read(name).id: strategy_label(default_strategy(name))
            for name in ABP.ids
            if can_emulate(name)
        }
    )


class EmulationConfig:
    """Strategies that override the defaults, by `abp` capability."""

    __slots__ = ("strategies",)

    def __init__(self, strategies: Mapping[str, EmulationStrategy] | None = None) -> None:
        self.strategies: dict[str, EmulationStrategy] = {}
        for capability, strategy in (strategies or {}).items():
            self.set(capability, strategy)

    def set(self, capability: str, strategy: EmulationStrategy) -> None:
        """Override the strategy for a capability."""
        ABP.read(capability)
        if not isinstance(strategy, EmulationStrategy):
            raise InputError(f"a strategy for {capability} is not a {type(strategy).__name__}")
        self.strategies[capability] = strategy

    def resolve(self, capability: str) -> EmulationStrategy:
        """Return the override, else the default."""
        return self.strategies.get(capability) or default_strategy(capability)


def read_config(data: Any) -> EmulationConfig:
    """Read `{"strategies": {capability: strategy}}`."""
    if not isinstance(data, Mapping) or set(data) - {"strategies"}:
        raise InputError('config: expected {"strategies": {capability: strategy}}')
    given = data.get("strategies", {})
    if not isinstance(given, Mapping):
        raise InputError("config.strategies: expected an object")
    check_values(data, "config")
    config = EmulationConfig()
    for capability, strategy in given.items():
        ABP.read(capability)
        try:
            parsed = msgspec.convert(strategy, EmulationStrategy)
        except msgspec.ValidationError as error:
            raise InputError(f"config.strategies.{capability}: {error}") from None
        config.set(capability, parsed)
    return config


class EmulationEntry(msgspec.Struct, frozen=True):
    """One emulation that was applied."""

    capability: str
    strategy: EmulationStrategy


class EmulationReport(msgspec.Struct, frozen=True):
    """What was done, and what could not be."""

    applied: tuple[EmulationEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def is_empty(self) -> bool:
        """Tell whether nothing was applied and nothing warned of."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Tell whether a requested capability could not be emulated."""
        return bool(self.warnings)


class EmulationEngine:
    """Applies strategies to conversations: configured ones first, then the defaults."""

    __slots__ = ("config",)

    def __init__(self, config: EmulationConfig | None = None) -> None:
        self.config = config or EmulationConfig()

    @classmethod
    def with_defaults(cls) -> "EmulationEngine":
        """Return an engine with exactly the default table."""
        return cls()

    def plan(self, capabilities: Iterable[str]) -> EmulationReport:
        """Return the report that `apply` would give, and change nothing."""
        applied: list[EmulationEntry] = []
        warnings: list[str] = []
        for capability in dict.fromkeys(_listed(capabilities)):
            strategy = self.config.resolve(capability)
            if isinstance(strategy, Disabled):
                name = pascal_case(capability)
                warnings.append(f"Capability {name} not emulated: {strategy.reason}")
            else:
                applied.append(EmulationEntry(capability, strategy))
        return EmulationReport(tuple(applied), tuple(warnings))

    def apply(self, capabilities: Iterable[str], conversation: Conversation) -> EmulationReport:
        """Change the conversation as the strategies say and return what was done.

        Applying twice changes nothing more and reports the same.
        """
        report = self.plan(capabilities)
        for entry in report.applied:
            if isinstance(entry.strategy, SystemPromptInjection):
                inject(conversation, entry.strategy.prompt)
        return report


def _listed(capabilities: Iterable[str]) -> list[str]:
    if isinstance(capabilities, (str, bytes)):
        raise InputError("capabilities: expected a list of names")
    listed = list(capabilities)
    for name in listed:
        ABP.read(name)
    return listed


def apply_emulation(
    config: EmulationConfig, capabilities: Iterable[str], conversation: Conversation
) -> EmulationReport:
    """Apply emulations with a given config."""
    return EmulationEngine(config).apply(capabilities, conversation)


def inject(conversation: Conversation, prompt: str) -> bool:
    """Add a prompt to the system message, or a system message before all; tell if it was new."""
    for place, message in enumerate(conversation.messages):
        if message.role != "system":
            continue
        if any(
            isinstance(one, TextBlock) and one.text.lstrip("\n") == prompt.lstrip("\n")
            for one in message.content
        ):
            return False
        content = (*message.content, TextBlock(f"\n{prompt}"))
        conversation.messages[place] = Message("system", content, message.metadata)
        return True
    conversation.messages.insert(0, Message("system", (TextBlock(prompt),)))
    return True
