"""A bare pass-through on `modelpact.wire`: what a gateway costs that does nothing else.

Run as a process: it prints its port and serves until it is killed.
"""

import argparse
import asyncio

from gateway.loops import run
from modelpact.wire import Client, Handler, HttpRequest, HttpResponse, PoolLimits, serve

_LIMITS = PoolLimits(connections=1_024)


def pass_through(client: Client, url: str) -> Handler:
    """Send on what comes with its headers, and what is answered with its; streams as they come."""

    async def handler(request: HttpRequest) -> HttpResponse:
        body = await request.body()
        answer = await client.request(request.method, url, request.headers.forwardable(), body)
        headers = answer.headers.forwardable()
        if answer.complete:
            return HttpResponse(answer.status, headers, await answer.read())
        return HttpResponse(answer.status, headers, answer)

    return handler


async def main(url: str) -> None:
    async with Client(limits=_LIMITS) as client, await serve(pass_through(client, url), "127.0.0.1", 0) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("--loop", default="uvloop")
    given = arguments.parse_args()
    run(main(given.url), given.loop)
