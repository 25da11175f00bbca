"""What the wire costs: a bare pass-through (server and client) beside its upstream alone.

Two ways, since each is blind to something. In one process, on one event loop, the processor time
of a request is measured, best of many short rounds: other work on the machine hardly shows. With
processes of their own and a load generator (wrk if installed, else this file's own), requests a
second are counted as a user would see them.

Run as `python benchmarks/wire.py`; uvloop is measured as well if it is installed.
"""

import argparse
import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from modelpact.wire import Client, Handler, Incoming, Outgoing, PoolLimits, serve

CONNECTIONS = 32
ROUNDS = 30
REQUESTS = 2_000
BODY = b'{"model":"m","messages":[{"role":"user","content":"hello, how are you today?"}]}'
REPLY = b'{"id":"x","choices":[{"message":{"role":"assistant","content":"well, thank you"}}]}'
JSON = (("content-type", "application/json"),)
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer key-0123456789\r\nUser-Agent: bench/1\r\nAccept: */*\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
_SCRIPT = """wrk.method = "POST"
wrk.body = [[%s]]
wrk.headers["Content-Type"] = "application/json"
"""


async def upstream(request: Incoming) -> Outgoing:
    await request.body()
    return Outgoing(200, JSON, REPLY)


def pass_through(client: Client, url: str) -> Handler:
    async def handler(request: Incoming) -> Outgoing:
        body = await request.body()
        answer = await client.request(request.method, url, JSON, body)
        return Outgoing(answer.status, JSON, await answer.read())

    return handler


class Load(asyncio.Protocol):
    """One connection that asks again as soon as it is answered; all answers have one length."""

    def __init__(self, count: int, done: asyncio.Future[None]) -> None:
        self._left = count
        self._done = done
        self._length = 0
        self._got = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(REQUEST)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if not self._length:
            if not data.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"unexpected: {data[:80]!r}")
            self._length = data.index(b"\r\n\r\n") + 4 + len(REPLY)
        self._got += len(data)
        if self._got >= self._length:
            self._got -= self._length
            self._left -= 1
            if self._left:
                self._transport.write(REQUEST)  # type: ignore[attr-defined]
            else:
                self._transport.close()
                self._done.set_result(None)


async def load(port: int, requests: int) -> None:
    loop = asyncio.get_running_loop()
    waiting = []
    for _ in range(CONNECTIONS):
        done = loop.create_future()
        waiting.append(done)
        await loop.create_connection(
            lambda done=done: Load(requests // CONNECTIONS, done), "127.0.0.1", port
        )
    await asyncio.gather(*waiting)


async def in_one_process() -> dict[str, float]:
    """Return the processor seconds of a request, upstream alone and through the pass-through."""
    best = {"direct": 9.0, "through": 9.0}
    async with Client() as client, await serve(upstream, "127.0.0.1", 0) as far:
        handler = pass_through(client, f"http://127.0.0.1:{far.port}/v1/chat/completions")
        async with await serve(handler, "127.0.0.1", 0) as near:
            for _ in range(ROUNDS):
                for name, port in (("direct", far.port), ("through", near.port)):
                    begin = time.process_time()
                    await load(port, REQUESTS)
                    best[name] = min(best[name], (time.process_time() - begin) / REQUESTS)
    return best


async def be(role: str, target: str) -> None:
    """Be the upstream or the pass-through, in a process of its own; say the port."""
    limits = PoolLimits(connections=CONNECTIONS)
    async with Client(limits=limits) as client:
        handler = upstream if role == "upstream" else pass_through(client, target)
        async with await serve(handler, "127.0.0.1", 0) as server:
            print(server.port, flush=True)
            await asyncio.Event().wait()


def requests_a_second(port: int, seconds: float) -> float:
    wrk = shutil.which("wrk")
    if wrk is None:
        begin = time.perf_counter()
        count = 0
        while time.perf_counter() - begin < seconds:
            asyncio.run(load(port, REQUESTS))
            count += REQUESTS
        return count / (time.perf_counter() - begin)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % BODY.decode())
        script.flush()
        said = subprocess.run(
            [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}", "-s", script.name,
             f"http://127.0.0.1:{port}/v1/chat/completions"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    if "Non-2xx" in said:
        raise SystemExit(said)
    return float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0])


def in_processes(loop: str, rounds: int = 3, seconds: float = 2) -> dict[str, float]:
    """Return the best requests a second of both, each server in a process of its own."""
    started = []

    def start(role: str, target: str = "-") -> int:
        command = [sys.executable, __file__, "--be", role, "--target", target, "--loop", loop]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return int(process.stdout.readline())

    try:
        far = start("upstream")
        near = start("gateway", f"http://127.0.0.1:{far}/v1/chat/completions")
        best = {"direct": 0.0, "through": 0.0}
        for _ in range(rounds):
            for name, port in (("direct", far), ("through", near)):
                best[name] = max(best[name], requests_a_second(port, seconds))
        return best
    finally:
        for process in started:
            process.kill()
            process.wait()


def run(loop: str, work: object) -> object:
    if loop == "uvloop":
        import uvloop

        return uvloop.run(work)
    return asyncio.run(work)  # type: ignore[arg-type]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--be", choices=("upstream", "gateway"))
    arguments.add_argument("--target", default="")
    arguments.add_argument("--loop", choices=("asyncio", "uvloop"))
    arguments.add_argument("--only", choices=("time", "rate"))
    given = arguments.parse_args()
    if given.be:
        run(given.loop, be(given.be, given.target))
    loops = [given.loop] if given.loop else ["asyncio", "uvloop"]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {CONNECTIONS} connections")
    for loop in loops:
        if importlib.util.find_spec(loop) is None:
            continue
        if given.only != "rate":
            cost = run(loop, in_one_process())
            assert isinstance(cost, dict)
            direct, through = cost["direct"] * 1e6, cost["through"] * 1e6
            print(
                f"{loop}: one request, processor time: direct {direct:.1f} µs (load and upstream), "
                f"pass-through +{through - direct:.1f} µs "
                f"= {1e6 / (through - direct):,.0f} a second on one core, "
                f"ratio {through / direct:.2f}"
            )
        if given.only != "time":
            rate = in_processes(loop)
            print(
                f"{loop}: requests a second: upstream alone {rate['direct']:,.0f}, "
                f"through {rate['through']:,.0f}, ratio {rate['through'] / rate['direct']:.2f} "
                f"({'wrk' if shutil.which('wrk') else 'own load generator'})"
            )


if __name__ == "__main__":
    main()
