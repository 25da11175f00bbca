"""A streaming model: a very small language model that streams one word at a time."""

import random
from collections.abc import AsyncIterator
from typing import Any

from modelpact.providers.sdk import CapabilityCall, FinalOutput, Provider

provider = Provider("babbler", "model", units=("tokens.input", "tokens.output", "currency"), currency="USD")
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
    rates={"tokens.input": 150_000, "tokens.output": 600_000},  # 0.15 and 0.60 USD per million
)
async def babble(request: dict[str, Any], call: CapabilityCall) -> AsyncIterator[object]:
    call.spend("tokens.input", len(request["prompt"].split()))
    generator = random.Random(request["prompt"])
    text = []
    for _ in range(request["words"]):
        text.append(generator.choice(WORDS))
        call.spend("tokens.output", 1)
        yield {"delta": text[-1]}
    yield FinalOutput({"text": " ".join(text)})


if __name__ == "__main__":
    provider.run()
