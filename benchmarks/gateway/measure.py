"""Measure the upstream alone and the bare pass-through: `python -m gateway.measure`.

The server at hand has the first core; the load and the upstream share the other. On a machine
that is shared, the processor time of a request is the figure to trust.
"""

import argparse

from gateway.load import chat, loaded
from gateway.ours import serving
from gateway.processes import started

CASES = {
    "300 B": (chat(300), 32),
    "300 B, one at a time": (chat(300), 1),
    "20 KB": (chat(20_000), 32),
    "streams": (chat(300, stream=True), 32),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--together", type=int, default=10, help="stream events in one write")
    arguments.add_argument("--only", choices=tuple(CASES))
    given = arguments.parse_args()
    with (
        started("gateway.upstream", "--together", str(given.together), core=1) as upstream,
        started("gateway.passthrough", upstream.url(), "--loop", given.loop, core=0) as near,
        started("gateway.floor", upstream.url(), "--loop", given.loop, core=0) as floor,
        serving(upstream, core=0) as ours,
    ):
        servers = {"upstream": upstream, "floor": floor, "through": near, "gateway": ours}
        for name, (body, connections) in CASES.items():
            if given.only in (None, name):
                for who, server in servers.items():
                    loaded(server, body, connections=connections, seconds=1)
                    figures = loaded(server, body, connections=connections, seconds=given.seconds)
                    print(f"{name:22} {who:10} {figures}", flush=True)


if __name__ == "__main__":
    main()
