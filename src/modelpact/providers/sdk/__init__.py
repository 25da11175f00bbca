"""The SDK for authors of providers: you write the capability, the SDK does the rest.

provider = Provider("weather", "tool", units=("discrete",))

@provider.capability("urn:example:forecast", input={…}, output={…})
async def forecast(place, call):
    return {"sky": "clear"}

provider.run()
"""

from modelpact.providers.sdk.provider import Provider, ProviderEnvironment
from modelpact.providers.sdk.runtime_client import Deregistered
from modelpact.providers.sdk.server import CapabilityCall, FinalOutput

__all__ = ["CapabilityCall", "Deregistered", "FinalOutput", "Provider", "ProviderEnvironment"]
