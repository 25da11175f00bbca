"""The bare pass-through on aiohttp's server and client, as their documentation has it.

Run as a process, like the pass-through.
"""

import argparse
import asyncio

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.loops import run

_DROPPED = ("Host", "Content-Length", "Connection", "Date", "Transfer-Encoding")


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    kept = headers.copy()
    for name in _DROPPED:
        kept.popall(name, None)
    return kept


async def main(url: str) -> None:
    connector = aiohttp.TCPConnector(limit=1_024)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            body = await request.read()
            headers = _passed_on(request.headers)
            async with session.request(request.method, url, headers=headers, data=body) as answer:
                headers = _passed_on(answer.headers)
                if answer.content_length is not None:
                    return web.Response(status=answer.status, headers=headers, body=await answer.read())
                response = web.StreamResponse(status=answer.status, headers=headers)
                await response.prepare(request)
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
                return response

        runner = web.ServerRunner(web.Server(handler))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("--loop", default="uvloop")
    given = arguments.parse_args()
    run(main(given.url), given.loop)
