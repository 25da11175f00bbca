"""The provider kit: write the capability; server, signatures, trust and registration are done.

provider = Provider("weather", "tool", units=("discrete",))

@provider.capability("urn:example:forecast", input={…}, output={…})
async def forecast(place, call):
    return {"sky": "clear"}

provider.run()
"""

from modelpact.providers.kit.call import Call, Final
from modelpact.providers.kit.provider import Provider
from modelpact.providers.kit.settings import Settings
from modelpact.providers.kit.standing import Deregistered

__all__ = ["Call", "Deregistered", "Final", "Provider", "Settings"]
