"""Memory stays flat over requests of every kind, and over ever new plan keys."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.wire import Client, PoolLimits
from tests.gateway.processes import CHAT, TOKEN, Process, Upstream, chat_body, started
from tests.gateway.test_reload import configuration

pytestmark = pytest.mark.slow
HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
AT_ONCE = 16
WARM, MEASURED = 18_000, 15_000
"""What is remembered has its limits, up to 10,000 of a kind: the first of these reach them."""
GROWTH = 4 * 1024
"""KiB. A leak of 300 bytes a request would be more."""
TOOLS: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Process]:
    more = (
        '\n[gateway.aliases]\nfast = "here/gpt-4o"\n'
        '[models."here/text-only"]\ntool_calling = false\n'
        '[workloads.falls]\nmodel = "here/text-only"\nneeds = ["tools"]\nfallback = "here/gpt-4o"\n'
    )
    with Upstream("one").in_thread() as upstream:
        upstream.seen = Forgetful()
        (tmp_path / "modelpact.toml").write_text(configuration(here=upstream) + more)
        with started(tmp_path) as process:
            yield process


class Forgetful(list[dict[str, Any]]):
    """Keeps nothing: the test's own memory is not what is looked at."""

    def append(self, item: dict[str, Any]) -> None:
        """Forget it."""


def kind(number: int) -> dict[str, Any]:
    """Requests as they come: mostly plain, some streamed, renamed, carried or refused."""
    which = number % 10
    if which == 0:
        return chat_body("here/gpt-4o", stream=True)
    if which == 1:
        return chat_body("fast", max_tokens=5)
    if which == 2:
        return chat_body("here/text-only", tools=TOOLS)
    if which == 3:
        return chat_body("workload/falls")
    return chat_body("here/gpt-4o", temperature=0.5)


def different(number: int) -> dict[str, Any]:
    """No two requests ask the same question: what is remembered of them must have an end."""
    return chat_body("here/gpt-4o", temperature=number / 1_000_000)


async def ask(gateway: Process, bodies: Iterator[dict[str, Any]]) -> None:
    """Ask one after the other, many at once."""
    async with Client(limits=PoolLimits(connections=AT_ONCE)) as client:

        async def ask_once() -> None:
            for body in bodies:
                content = json.dumps(body).encode()
                answer = await client.request("POST", f"{gateway.url}{CHAT}", HEADERS, content)
                await answer.read()
                assert answer.status in (200, 422), answer.status

        await asyncio.gather(*(ask_once() for _ in range(AT_ONCE)))


@pytest.mark.parametrize("made", [kind, different])
def test_memory_is_flat_over_many_requests(gateway: Process, made: Callable[[int], dict[str, Any]]) -> None:
    """Memory does not grow with the number of requests."""
    asyncio.run(ask(gateway, map(made, range(WARM))))
    before = gateway.memory()
    asyncio.run(ask(gateway, map(made, range(WARM, WARM + MEASURED))))
    assert gateway.memory() - before < GROWTH
