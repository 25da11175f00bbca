"""A model, streaming: a very small language model that speaks word by word."""

import random
from collections.abc import AsyncIterator
from typing import Any

from modelpact.providers.sdk import CapabilityCall, FinalOutput, Provider

provider = Provider(
    "babbler", "model", units=("tokens.input", "tokens.output", "currency"), currency="USD"
)
WORDS = ("every", "pact", "holds", "while", "models", "say", "what", "they", "can", "do")


@provider.capability(
    "urn:example:babble",
    input={
        "type": "object",
        "properties": {"prompt": {"type": "string"}, "words": {"type": "integer", "minimum": 1}},
        "required": ["prompt", "words"],
    },
    output={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    semantics=("streaming", "sync"),
    rates={"tokens.input": 150_000, "tokens.output": 600_000},  # 0.15 and 0.60 USD a million
)
async def babble(asked: dict[str, Any], call: CapabilityCall) -> AsyncIterator[object]:
    call.spend("tokens.input", len(asked["prompt"].split()))
    chance = random.Random(asked["prompt"])
    said = []
    for _ in range(asked["words"]):
        said.append(chance.choice(WORDS))
        call.spend("tokens.output", 1)
        yield {"delta": said[-1]}
    yield FinalOutput({"text": " ".join(said)})


if __name__ == "__main__":
    provider.run()
