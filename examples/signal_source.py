"""A signal source: numbered heartbeats, delivered at least once."""

import asyncio
import os

from modelpact.providers.sdk import Provider

provider = Provider("heart", "signal-source", units=("discrete",), max_latency_ms=2_000)


@provider.task
async def beat() -> None:
    for number in range(int(os.environ.get("BEATS", "1000000"))):
        await provider.emit("heart.beat", {"number": number})
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    provider.run()
