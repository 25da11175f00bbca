"""The configuration: one `modelpact.toml`, typed, with errors that name line and key."""

from modelpact.configuration.config import Configuration, HostSettings, ProviderSettings, SecretRef
from modelpact.configuration.load import find_configuration, load_configuration, read_configuration

__all__ = [
    "Configuration",
    "HostSettings",
    "ProviderSettings",
    "SecretRef",
    "find_configuration",
    "load_configuration",
    "read_configuration",
]
