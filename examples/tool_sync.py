"""A synchronous tool: the distance between two places on Earth."""

from math import acos, cos, radians, sin
from typing import Any

from modelpact.providers.sdk import CapabilityCall, Provider

provider = Provider("distances", "tool", units=("discrete", "currency"), currency="EUR")

PLACE = {
    "type": "object",
    "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
    "required": ["lat", "lon"],
}


@provider.capability(
    "urn:example:distance",
    input={"type": "object", "properties": {"start": PLACE, "end": PLACE}, "required": ["start", "end"]},
    output={"type": "object", "properties": {"km": {"type": "integer"}}, "required": ["km"]},
    rates={"discrete": 2_000_000_000},  # 0.002 EUR per call
)
def distance(request: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:
    call.spend("discrete", 1)
    start, end = request["start"], request["end"]
    lat1, lat2, dlon = map(radians, (start["lat"], end["lat"], end["lon"] - start["lon"]))
    cosine = sin(lat1) * sin(lat2) + cos(lat1) * cos(lat2) * cos(dlon)
    return {"km": round(6371 * acos(min(1.0, max(-1.0, cosine))))}


if __name__ == "__main__":
    provider.run()
