"""The gateway itself, as `modelpact serve` starts it, its ledger on a real disk."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gateway.load import KEY
from gateway.processes import Started, pinned

_CONFIGURATION = """[providers.local]
kind = "vllm"
base_url = "{base}"
[models."local/m"]
context_window = 128000
streaming = true
[gateway]
provider = "local"
"""
FOLDER = Path(__file__).resolve().parents[2] / ".bench"


@contextlib.contextmanager
def serving(upstream: Started, core: int | None = None) -> Iterator[Started]:
    """Start the gateway before an upstream; its ledger goes with it."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as place:
        config, store = Path(place, "modelpact.toml"), f"sqlite:{place}/ledger.db"
        config.write_text(_CONFIGURATION.format(base=upstream.url("/v1")))
        command = [sys.executable, "-m", "modelpact", "serve", "--json", "--port", "0"]
        command += ["--config", str(config), "--store", store]
        process = subprocess.Popen(
            pinned(command, core), stdout=subprocess.PIPE, text=True, env={**os.environ, "MODELPACT_TOKEN": KEY}
        )
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line == "}\n":
                    break
            else:
                raise SystemExit("modelpact serve did not start: see its message above")
            yield Started(process, int(json.loads(said)["url"].rpartition(":")[2]))
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
