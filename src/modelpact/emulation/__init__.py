"""Emulation: labelled strategies on conversations and responses. Pure: it asks, it never calls.

May import `negotiation`, `conversation`, `vocabulary` and what lies between.
"""

from modelpact.emulation.emulator import Emulator, emulator_strategies
from modelpact.emulation.report import (
    AppliedEmulation,
    AskAgain,
    EmulatedRequestReport,
    EmulationFailed,
    StreamCutOff,
)
from modelpact.emulation.strategies import (
    Disabled,
    EmulationConfig,
    EmulationEngine,
    EmulationEntry,
    EmulationReport,
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
    apply_emulation,
    can_emulate,
    default_strategies,
    default_strategy,
)
from modelpact.emulation.work import EmulatedRequest, StreamProcessor

__all__ = [
    "AppliedEmulation",
    "AskAgain",
    "Disabled",
    "EmulatedRequest",
    "EmulatedRequestReport",
    "EmulationConfig",
    "EmulationEngine",
    "EmulationEntry",
    "EmulationFailed",
    "EmulationReport",
    "EmulationStrategy",
    "Emulator",
    "PostProcessing",
    "StreamCutOff",
    "StreamProcessor",
    "SystemPromptInjection",
    "apply_emulation",
    "can_emulate",
    "default_strategies",
    "default_strategy",
    "emulator_strategies",
]
