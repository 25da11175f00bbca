"""The provider kit: write the capability; server, signatures, trust and registration are done.

provider = Provider("weather", "tool", units=("discrete",))

@provider.capability("urn:example:forecast", input={…}, output={…})
async def forecast(place, call):
    return {"sky": "clear"}

provider.run()
"""

from modelpact.providers.sdk.provider import Provider
from modelpact.providers.sdk.runtime_client import Deregistered
from modelpact.providers.sdk.server import CapabilityCall, FinalOutput
from modelpact.providers.sdk.settings import ProviderEnvironment

__all__ = ["CapabilityCall", "Deregistered", "FinalOutput", "Provider", "ProviderEnvironment"]
