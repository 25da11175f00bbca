"""The configuration: one `modelpact.toml`, typed, with errors that name line and key."""

from modelpact.configuration.config import (
    Configuration,
    ContractSettings,
    GatewaySettings,
    HostSettings,
    MachineSettings,
    ProfileSettings,
    ProviderSettings,
    SecretRef,
    StageSettings,
    StoreSettings,
    Workload,
)
from modelpact.configuration.load import find_configuration, load_configuration, read_configuration

__all__ = [
    "Configuration",
    "ContractSettings",
    "GatewaySettings",
    "HostSettings",
    "MachineSettings",
    "ProfileSettings",
    "ProviderSettings",
    "SecretRef",
    "StageSettings",
    "StoreSettings",
    "Workload",
    "find_configuration",
    "load_configuration",
    "read_configuration",
]
