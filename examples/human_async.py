"""An asynchronous human: prints each question on the terminal and reads a line as the answer."""

import asyncio
import sys
from typing import Any

from modelpact.providers.sdk import CapabilityCall, Provider

provider = Provider("desk", "human", units=("time",))
terminal = asyncio.Lock()


@provider.capability(
    "urn:example:ask",
    input={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
    output={"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    semantics="async",
)
async def ask(request: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:  # noqa: ARG001
    async with terminal:
        print(request["question"], flush=True)
        answer = await asyncio.to_thread(sys.stdin.readline)
    return {"answer": answer.strip()}


if __name__ == "__main__":
    provider.run()
