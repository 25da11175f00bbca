"""An application: waits for a provider to register, invokes it once and prints output and cost.

python examples/runtime.py IDENTITY_FOLDER PROVIDER CAPABILITY INPUT
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from modelpact.identity import Authority, Identity, Trust
from modelpact.ledger import Ledger
from modelpact.providers.http import HttpTransport, serve_runtime
from modelpact.providers.runtime.runtime import Runtime


async def main(folder: str, provider: str, capability: str, request: str) -> None:
    authority = Authority.open(Path(folder) / "authority")
    identity = Identity(authority.identity_file("worker-1"))
    trust = Trust(authority.certificate, crl=authority.crl)
    transport, port = HttpTransport(identity, trust), int(os.environ.get("PORT", "8643"))
    with Ledger.open("sqlite:modelpact.db") as ledger:
        runtime = Runtime(ledger, name="worker-1", default_transport=transport)
        async with serve_runtime(runtime, identity, trust, port=port) as host:
            print(f"{host.url} waits for {provider}", flush=True)
            while (registered := runtime.registry.find(provider)) is None or registered[1] != "active":
                await asyncio.sleep(0.1)
            invocation = await runtime.invoke(provider, capability, json.loads(request))
            print(invocation.state, invocation.output or invocation.error)
            print(runtime.cost(invocation.id))
    await transport.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
