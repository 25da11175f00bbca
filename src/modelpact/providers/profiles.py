"""The compliance profile in force, from the configuration."""

import msgspec

from modelpact.configuration import Configuration
from modelpact.providers.contract import Profile


def profile_in_force(configuration: Configuration) -> Profile:
    """Return the profile that `[contract]` names; without one, the standard profile."""
    name = configuration.contract.profile
    settings = configuration.profiles.get(name)
    if settings is None:
        return Profile(name)
    return Profile(name, **msgspec.structs.asdict(settings))
