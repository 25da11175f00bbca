"""An asynchronous tool: a report that takes a while, and whose cost is corrected later."""

import asyncio
from typing import Any

from modelpact.ledger import CostLine
from modelpact.providers.sdk import CapabilityCall, Provider

provider = Provider("reports", "tool", units=("time", "discrete"))


@provider.capability(
    "urn:example:report",
    input={"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]},
    output={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    semantics="async",
)
async def report(request: dict[str, Any], call: CapabilityCall) -> dict[str, Any]:
    await asyncio.sleep(0.05)
    call.spend("discrete", request["lines"])
    call.estimate()
    invoices.put_nowait((call.invocation_id, request["lines"]))
    return {"text": "\n".join(f"line {number}" for number in range(request["lines"]))}


invoices: asyncio.Queue[tuple[str, int]] = asyncio.Queue()


@provider.task
async def settle_invoices() -> None:
    while True:
        invocation, lines = await invoices.get()
        await asyncio.sleep(0.2)
        exact = [CostLine("discrete", lines), CostLine("time", 50_000_000)]
        await provider.correct_cost(invocation, exact, reason="the month's invoice")


if __name__ == "__main__":
    provider.run()
