"""The gateway itself, ledger on: what everything that it does costs beside passing bytes on.

Run as a process: it prints its port and serves until it is killed.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from gateway.loops import run
from modelpact.configuration import read_configuration
from modelpact.gateway.serving import serve_gateway
from modelpact.ledger.ledger import Ledger

_CONFIGURATION = """
[providers.local]
kind = "vllm"
base_url = "{base}"
[models."local/m"]
context_window = 128000
streaming = true
[gateway]
provider = "local"
"""


async def main(url: str, folder: str) -> None:
    base = url.removesuffix("/chat/completions")
    configuration = read_configuration(_CONFIGURATION.format(base=base))
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        Ledger.open(f"sqlite:{Path(place) / 'ledger.db'}") as ledger,
    ):
        async with serve_gateway(ledger, configuration, token="sk-bench") as serving:
            print(serving.server.port, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("--loop", default="uvloop")
    arguments.add_argument("--folder", default=".", help="where the ledger lies: a real disk")
    given = arguments.parse_args()
    run(main(given.url, given.folder), given.loop)
