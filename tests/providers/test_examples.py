"""The examples, each as a process over real mutual TLS: every category and semantics."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from modelpact.ledger import Event, Ledger
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.registration import read_registration
from modelpact.providers.transport import Partial
from tests.providers.processes.starting import free_port, providing
from tests.providers.support import PATIENCE, ROOT, World, assert_whole, events_of, flags, on_loop, until


@on_loop
async def test_a_synchronous_tool(world: World, ledger: Ledger) -> None:
    """S003-8.2-2: a response within a bounded time."""
    async with world.hosting(ledger) as host:
        async with world.example("tool_sync.py", "distances", host.url):
            runtime = host.runtime
            await until(lambda: runtime.registry.find("distances"))
            berlin, paris = {"lat": 52.52, "lon": 13.405}, {"lat": 48.857, "lon": 2.352}
            value = {"start": berlin, "end": paris}
            done = await runtime.invoke("distances", "urn:example:distance", value)
            assert done.output == {"km": 877}
            cost = events_of(ledger, done)[-1].payload["cost"]
            assert {"unit": "currency", "amount": 2_000_000, "currency": "EUR"} in cost["lines"]
        # It was told to end, and deregistered itself before it did.
        registered = runtime.registry.find("distances")
        assert registered is not None
        assert registered[1] == "deregistered"
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_an_asynchronous_tool_that_corrects_its_cost(world: World, ledger: Ledger) -> None:
    """S003-8.3-5..7: an estimate that is marked, and a correction that refers to the event."""
    async with world.hosting(ledger) as host, world.example("tool_async.py", "reports", host.url):
        runtime = host.runtime
        await until(lambda: runtime.registry.find("reports"))
        opened = await runtime.invoke("reports", "urn:example:report", {"lines": 3}, semantics="async")
        assert opened.state == "open"
        done = await runtime.wait(opened.id)
        assert done.output == {"text": "line 0\nline 1\nline 2"}
        settled = ledger.event(str(done.settled_by))
        assert settled is not None
        assert settled.payload["cost"]["estimate"] is True

        def corrections() -> list[Event]:
            events = ledger.events(done.envelope)
            return [event for event in events if event.type == "cost.corrected"]

        await until(corrections)
        (correction,) = corrections()
        assert correction.cause == correction.payload["corrects"] == done.settled_by
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_streaming_model(world: World, ledger: Ledger) -> None:
    """S003-8.2-4: partial responses that end in a final one."""
    async with world.hosting(ledger) as host, world.example("model_streaming.py", "babbler", host.url):
        runtime = host.runtime
        await until(lambda: runtime.registry.find("babbler"))
        value = {"prompt": "say it", "words": 5}
        opened = await runtime.invoke("babbler", "urn:example:babble", value, semantics="streaming")
        came = [item async for item in runtime.stream(opened)]
        pieces = [item for item in came if isinstance(item, Partial)]
        done = came[-1]
        assert isinstance(done, Invocation)
        assert [piece.number for piece in pieces] == [1, 2, 3, 4, 5]
        assert done.output == {"text": " ".join(piece.content["delta"] for piece in pieces)}
        lines = events_of(ledger, done)[-1].payload["cost"]["lines"]
        assert {"unit": "currency", "amount": 3_300, "currency": "USD"} in lines
        whole = await runtime.invoke("babbler", "urn:example:babble", value)
        assert whole.output == done.output
        # The partials stay for later readers.
        again = [item async for item in runtime.follow(opened.id)]
        assert again == came
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_knowledge(lite: World, lite_ledger: Ledger) -> None:
    async with lite.hosting(lite_ledger) as host, lite.example("knowledge_sync.py", "library", host.url):
        await until(lambda: host.runtime.registry.find("library"))
        done = await host.runtime.invoke("library", "urn:example:passages", {"query": "cost of an invocation"})
        assert done.output["passages"][0].startswith("Every invocation ends with a cost")


@on_loop
async def test_a_human_at_a_terminal(lite: World, lite_ledger: Ledger) -> None:
    """S003-8.4-1: asynchronous and human invocations."""
    async with lite.hosting(lite_ledger) as host, lite.example("human_async.py", "desk", host.url) as process:
        runtime = host.runtime
        await until(lambda: runtime.registry.find("desk"))
        opened = await runtime.invoke("desk", "urn:example:ask", {"question": "Ship it?"}, semantics="async")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("yes\n")
        process.stdin.flush()
        done = await runtime.wait(opened.id)
        assert done.output == {"answer": "yes"}
        assert process.stdout.readline() == "Ship it?\n"


@on_loop
async def test_a_signal_source(world: World, ledger: Ledger) -> None:
    """S003-8-4, S003-8-5: signal sources emit; they share trust and cost."""
    async with world.hosting(ledger) as host, world.example("signal_source.py", "heart", host.url, BEATS="20"):
        inbox = host.runtime.signal_inbox
        await until(lambda: inbox.last("heart") == 20)
        came = inbox.after("heart")
        assert [item.content["number"] for item in came] == list(range(20))
        measured = inbox.latency("heart")
        assert (measured.count, measured.late, measured.declared_ms) == (20, 0, 2_000)
        rows = ledger.events("signals/heart")
        assert all(row.payload["cost"]["lines"] for row in rows)
    assert flags(ledger) == []
    assert_whole(ledger)


@on_loop
async def test_a_provider_that_waits_for_its_runtime_can_be_stopped(lite: World, tmp_path: Path) -> None:
    with providing(lite, "https://127.0.0.1:1", tmp_path / "worked") as process:
        log = tmp_path / "worked.log"
        await until(lambda: "trying again" in log.read_text())
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0


def blocks(language: str) -> list[str]:
    page = (ROOT / "docs" / "provider-binding.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_walkthrough_of_the_documentation(tmp_path: Path) -> None:
    """The commands of the documentation work as written."""
    script = next(block for block in blocks("sh") if "examples/runtime.py" in block)
    port = free_port()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        ["bash", "-c", f"set -e\n{script.replace('8643', str(port))}\nwait"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PORT": str(port),
            "MODELPACT_DATA": str(tmp_path / "data"),
            "NO_COLOR": "1",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"https://127.0.0.1:{port} waits for distances" in done.stdout
    assert "completed {'km': 877}" in done.stdout
    assert "0.002 EUR" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_desk_of_the_documentation_is_an_inbox() -> None:
    text = next(block for block in blocks("json") if '"desk"' in block)
    assert read_registration(json.loads(text)).in_inbox
