"""The wire: what one request costs a bare pass-through, beside aiohttp's and beside the floor."""

import shutil
from collections.abc import Mapping

from gateway.load import chat, loaded
from gateway.loops import available
from gateway.processes import Started, started
from rows import Row, emit, emit_skipped

ROUNDS = 5
CONNECTIONS = 32
CASES = {
    "a request of 300 B passed through": chat(300),
    "a request of 20 KB passed through": chat(20_000),
    "a stream of 100 events passed through": chat(300, stream=True),
}


def processor_seconds(servers: Mapping[str, Started], body: str) -> dict[str, float]:
    """Return the processor time of one request at each: the least over interleaved rounds."""
    best = dict.fromkeys(servers, float("inf"))
    for _ in range(ROUNDS):
        for name, server in servers.items():
            figures = loaded(server, body, connections=CONNECTIONS, seconds=1)
            best[name] = min(best[name], figures.processor)
    return best


def main() -> None:
    if shutil.which("wrk") is None:
        emit_skipped("wrk is not installed; on Debian: apt-get install wrk")
        return
    rows = []
    with (
        started("gateway.upstream", core=1) as upstream,
        started("gateway.passthrough", upstream.url(), core=0) as ours,
        started("gateway.peer_aiohttp", upstream.url(), core=0) as aiohttp,
        started("gateway.floor", upstream.url(), core=0) as floor,
    ):
        for what, body in CASES.items():
            best = processor_seconds({"ours": ours, "aiohttp": aiohttp, "floor": floor}, body)
            rows += [
                Row(what, best["ours"], best["aiohttp"], "aiohttp", bar=2),
                Row(what, best["ours"], best["floor"], "the floor", kind="at most"),
            ]
    emit(
        *rows,
        note="Processor time, the kernel's included, of a pass-through in one process with "
        f"{CONNECTIONS} connections, on {'uvloop' if available('uvloop') else 'asyncio'}, under "
        "`wrk`. The floor is the least that Python can do: `httptools` and callbacks on both "
        "sides, without limits, deadlines, tasks or errors.",
    )


if __name__ == "__main__":
    main()
