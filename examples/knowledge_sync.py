"""A synchronous knowledge source: passages that contain the words of a query, best first."""

from typing import Any

from modelpact.providers.sdk import CapabilityCall, Provider

provider = Provider("library", "knowledge", units=("discrete",))

PASSAGES = (
    "Every invocation ends with a cost record, failed ones included.",
    "A signal source counts its signals from one, so that none is missed.",
    "An envelope is a chain: each event carries the hash of the one before it.",
)


@provider.capability(
    "urn:example:passages",
    input={"type": "object", "properties": {"query": {"type": "string", "minLength": 1}}, "required": ["query"]},
    output={
        "type": "object",
        "properties": {"passages": {"type": "array", "items": {"type": "string"}}},
        "required": ["passages"],
    },
)
def search(request: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:
    words = set(request["query"].lower().split())
    scored = [(len(words & set(text.lower().strip(".").split())), text) for text in PASSAGES]
    matches = [text for score, text in sorted(scored, reverse=True) if score]
    call.spend("discrete", len(matches))
    return {"passages": matches}


if __name__ == "__main__":
    provider.run()
