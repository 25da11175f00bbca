"""Emulation: capabilities that a model lacks, made up for by changes to request and response.

`strategies` has the engine of the abp specification; `emulator` has the stronger emulations. Both
are pure: they never call a model. A response that fails its check becomes a `RepairRequest`, and
the caller sends it.
"""

from modelpact.emulation.emulated_request import (
    AppliedEmulation,
    EmulatedRequest,
    EmulationFailed,
    EmulatorReport,
    RepairRequest,
    StreamCutOff,
    StreamProcessor,
)
from modelpact.emulation.emulator import Emulator, emulator_strategies
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

__all__ = [
    "AppliedEmulation",
    "Disabled",
    "EmulatedRequest",
    "EmulationConfig",
    "EmulationEngine",
    "EmulationEntry",
    "EmulationFailed",
    "EmulationReport",
    "EmulationStrategy",
    "Emulator",
    "EmulatorReport",
    "PostProcessing",
    "RepairRequest",
    "StreamCutOff",
    "StreamProcessor",
    "SystemPromptInjection",
    "apply_emulation",
    "can_emulate",
    "default_strategies",
    "default_strategy",
    "emulator_strategies",
]
