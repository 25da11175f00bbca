"""The load: `wrk` with a POST of a given length, and what it says."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.processes import Started, pinned

KEY = "sk-bench"
_SCRIPT = """wrk.method = "POST"
wrk.body = [[%s]]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
wrk.headers["User-Agent"] = "bench/1"
%s
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"requests": %%d, "seconds": %%f, "p50": %%f, "p99": %%f, "failed": %%d}\\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""
_FIGURES = re.compile(r"^\{.*\}$", re.MULTILINE)


@dataclass(frozen=True)
class Figures:
    """What a load found. Times in seconds; `processor` is the server's own, of one request."""

    rate: float
    p50: float
    p99: float
    processor: float

    def __str__(self) -> str:
        return (
            f"{self.rate:8,.0f}/s   p50 {self.p50 * 1e3:6.2f} ms   p99 {self.p99 * 1e3:6.2f} ms"
            f"   {self.processor * 1e6:7.1f} µs of processor each"
        )


def chat(length: int = 300, *, stream: bool = False) -> str:
    """Return a chat request of about a length."""
    content = "hello, how are you today? " * (length // 26 + 1)
    said = {"role": "user", "content": content[: max(1, length - 80)]}
    return json.dumps({"model": "m", "stream": stream, "messages": [said]}, separators=(",", ":"))


def generator() -> str:
    """Return where `wrk` is, or say how to get it."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("wrk is not installed; on Debian: apt-get install wrk")
    return wrk


def loaded(
    server: Started,
    body: str,
    *,
    connections: int,
    seconds: int,
    core: int = 1,
    headers: Mapping[str, str] | None = None,
) -> Figures:
    """Put a server under load and return what came of it."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        more = [f'wrk.headers["{name}"] = "{value}"' for name, value in (headers or {}).items()]
        script.write(_SCRIPT % (body, KEY, "\n".join(more)))
        script.flush()
        command = [generator(), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s"]
        command += ["-s", script.name]
        before = server.processor_seconds()
        said = subprocess.run(pinned([*command, server.url()], core), capture_output=True, text=True, check=True).stdout
        used = server.processor_seconds() - before
    found = json.loads(_FIGURES.findall(said)[-1])
    if found["failed"] or not found["requests"]:
        raise SystemExit(f"{found['failed']} of {found['requests']} requests failed:\n{said}")
    count = found["requests"]
    return Figures(count / found["seconds"], found["p50"], found["p99"], used / count)
