"""The emulation engine of the abp specification: its three strategies and its default table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Conversation, Message, TextBlock, check_values
from modelpact.negotiation.negotiate import Strategies
from modelpact.vocabulary.dialects import ABP, pascal_case
from modelpact.vocabulary.errors import InputError


class _Strategy(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """The base of the three strategies."""


class SystemPromptInjection(_Strategy, frozen=True, tag="system_prompt_injection"):
    """Add text to the system prompt. This changes the conversation."""

    prompt: str


class PostProcessing(_Strategy, frozen=True, tag="post_processing"):
    """Process the response after it has arrived. This leaves the conversation alone."""

    detail: str


class Disabled(_Strategy, frozen=True, tag="disabled"):
    """Do not emulate: warn, and change nothing."""

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
    strategy = _DEFAULTS.get(capability)
    if strategy is not None:
        return strategy
    return Disabled(f"No emulation available for {pascal_case(capability)}")


def can_emulate(capability: str) -> bool:
    """Whether the default strategy for a capability is not `Disabled`."""
    return not isinstance(default_strategy(capability), Disabled)


def strategy_label(strategy: EmulationStrategy) -> str:
    """Describe a strategy in one line."""
    if isinstance(strategy, SystemPromptInjection):
        return f"system_prompt_injection: {strategy.prompt}"
    if isinstance(strategy, PostProcessing):
        return f"post_processing: {strategy.detail}"
    return f"disabled: {strategy.reason}"


def default_strategies() -> Strategies:
    """Return the capabilities that the default table can emulate, for negotiation."""
    return Strategies(
        {ABP.read(name).id: strategy_label(default_strategy(name)) for name in ABP.ids if can_emulate(name)}
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
            raise InputError(f"{capability}: expected a strategy, not {type(strategy).__name__}")
        self.strategies[capability] = strategy

    def resolve(self, capability: str) -> EmulationStrategy:
        """Return the override for a capability, or its default strategy."""
        return self.strategies.get(capability) or default_strategy(capability)


def read_config(data: Any) -> EmulationConfig:
    """Read `{"strategies": {capability: strategy}}`."""
    if not isinstance(data, Mapping) or set(data) - {"strategies"}:
        raise InputError('config: expected {"strategies": {capability: strategy}}')
    strategies = data.get("strategies", {})
    if not isinstance(strategies, Mapping):
        raise InputError("config.strategies: expected an object")
    check_values(data, "config")
    config = EmulationConfig()
    for capability, strategy in strategies.items():
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
    """What was applied, and what could not be emulated."""

    applied: tuple[EmulationEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def is_empty(self) -> bool:
        """Whether nothing was applied and there are no warnings."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Whether a requested capability could not be emulated."""
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
        """Return the report that `apply` would give; change nothing."""
        applied: list[EmulationEntry] = []
        warnings: list[str] = []
        for capability in dict.fromkeys(_capability_names(capabilities)):
            strategy = self.config.resolve(capability)
            if isinstance(strategy, Disabled):
                name = pascal_case(capability)
                warnings.append(f"Capability {name} not emulated: {strategy.reason}")
            else:
                applied.append(EmulationEntry(capability, strategy))
        return EmulationReport(tuple(applied), tuple(warnings))

    def apply(self, capabilities: Iterable[str], conversation: Conversation) -> EmulationReport:
        """Apply the strategies to the conversation and return the report.

        Applying twice changes nothing more and reports the same.
        """
        report = self.plan(capabilities)
        for entry in report.applied:
            if isinstance(entry.strategy, SystemPromptInjection):
                inject_system_prompt(conversation, entry.strategy.prompt)
        return report


def apply_emulation(
    config: EmulationConfig, capabilities: Iterable[str], conversation: Conversation
) -> EmulationReport:
    """Apply emulations with a configuration."""
    return EmulationEngine(config).apply(capabilities, conversation)


def inject_system_prompt(conversation: Conversation, prompt: str) -> bool:
    """Add a prompt to the system message, or add a system message; return whether it was new."""
    for index, message in enumerate(conversation.messages):
        if message.role != "system":
            continue
        if any(
            isinstance(block, TextBlock) and block.text.lstrip("\n") == prompt.lstrip("\n") for block in message.content
        ):
            return False
        content = (*message.content, TextBlock(f"\n{prompt}"))
        conversation.messages[index] = Message("system", content, message.metadata)
        return True
    conversation.messages.insert(0, Message("system", (TextBlock(prompt),)))
    return True


def _capability_names(capabilities: Iterable[str]) -> list[str]:
    if isinstance(capabilities, (str, bytes)):
        raise InputError("capabilities: expected a list of names")
    names = list(capabilities)
    for name in names:
        ABP.read(name)
    return names
