"""A provider as a process: echoes in every semantics, and writes down each time that it works."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from modelpact.providers.sdk import CapabilityCall, FinalOutput, Provider

NAME = os.environ.get("PROVIDER", "echo")
provider = Provider(NAME, "tool", units=("discrete",))
ANY: dict[str, Any] = {"type": "object"}


@provider.capability("urn:test:echo", input=ANY, output=ANY, semantics=("sync", "async", "streaming"))
async def echo(value: dict[str, Any], call: CapabilityCall) -> AsyncIterator[Any]:
    with Path(os.environ["WORKED"]).open("a") as log:
        log.write(f"{call.invocation_id}\n")
    if "HANG" in os.environ:
        await asyncio.Event().wait()
    call.spend("discrete", 1)
    yield {"half": 1}
    yield {"half": 2}
    yield FinalOutput(value)


provider.run()
