"""A human, asynchronous: questions are shown on the terminal and answered there, line by line."""

import asyncio
import sys
from typing import Any

from modelpact.providers.sdk import CapabilityCall, Provider

provider = Provider("desk", "human", units=("time",))
turn = asyncio.Lock()


@provider.capability(
    "urn:example:ask",
    input={
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"],
    },
    output={"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    semantics="async",
)
async def ask(asked: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:  # noqa: ARG001
    async with turn:
        print(asked["question"], flush=True)
        answer = await asyncio.to_thread(sys.stdin.readline)
    return {"answer": answer.strip()}


if __name__ == "__main__":
    provider.run()
