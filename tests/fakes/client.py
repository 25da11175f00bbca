"""A plain client of the fakes: it sends any body and shows what came."""

import json
from typing import Any

from modelpact.wire import Client, EventParser
from tests.fakes.server import FakeServer


async def post(
    fake: FakeServer, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any, dict[str, str]]:
    """Send a body; return status, JSON and headers."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **(headers or {})}
    async with Client() as client:
        answer = await client.request("POST", f"{fake.base_url}{path}", sent, content)
        return answer.status, json.loads(await answer.read()), dict(answer.headers)


async def events(fake: FakeServer, path: str, body: Any, headers: dict[str, str] | None = None) -> list[Any]:
    """Send a body; return the events of the answer, parsed where they are JSON."""
    sent = {"content-type": "application/json", **(headers or {})}
    data = []
    async with Client() as client:
        url = f"{fake.base_url}{path}"
        answer = await client.request("POST", url, sent, json.dumps(body).encode())
        assert answer.status == 200, await answer.read()
        parser = EventParser()
        async for chunk in answer:
            data += [event.data for event in parser.feed(chunk)]
    return [one if one == "[DONE]" else json.loads(one) for one in data]
