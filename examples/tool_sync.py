"""A tool, synchronous: how far it is from one place on Earth to another."""

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
    input={
        "type": "object",
        "properties": {"start": PLACE, "end": PLACE},
        "required": ["start", "end"],
    },
    output={"type": "object", "properties": {"km": {"type": "integer"}}, "required": ["km"]},
    rates={"discrete": 2_000_000_000},  # 0.002 EUR a call
)
def distance(asked: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:
    call.spend("discrete", 1)
    a, b = asked["start"], asked["end"]
    one, two, apart = map(radians, (a["lat"], b["lat"], b["lon"] - a["lon"]))
    cosine = sin(one) * sin(two) + cos(one) * cos(two) * cos(apart)
    return {"km": round(6371 * acos(min(1.0, max(-1.0, cosine))))}


if __name__ == "__main__":
    provider.run()
