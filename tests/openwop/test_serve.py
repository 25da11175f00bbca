"""`modelpact serve` as a process: killed, restarted and stopped."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.openai import FakeOpenAI
from tests.openwop.support import TOKEN, HostClient, types

CONFIGURATION = """
[store]
url = {url}
[providers.slow]
kind = "openai"
base_url = {base_url}
[models."slow/gpt-4o"]
structured_output = true
[host]
model = "slow/gpt-4o"
packs = ["pack.toml"]
"""
PACK = """
name = "acme"
version = "1.0.0"
[[nodes]]
typeId = "vendor.acme.plain"
[[workflows]]
workflowId = "acme.plain"
[[workflows.nodes]]
nodeId = "only"
typeId = "vendor.acme.plain"
config = { prompt = "Hi" }
"""
Start = Callable[[], tuple["subprocess.Popen[str]", HostClient]]


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[tuple[Start, FakeOpenAI]]:
    """Start the command on one store, any number of times; kill what still runs at the end."""
    fake = FakeOpenAI()
    (tmp_path / "pack.toml").write_text(PACK)
    running: list[subprocess.Popen[str]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(fake.in_thread())
        text = CONFIGURATION.format(url=json.dumps(url), base_url=json.dumps(fake.base_url))
        (tmp_path / "modelpact.toml").write_text(text)

        def run() -> tuple["subprocess.Popen[str]", HostClient]:
            process = subprocess.Popen(
                [sys.executable, "-m", "modelpact", "serve", "--port", "0", "--json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "MODELPACT_TOKEN": TOKEN, "MODELPACT_DATA": str(tmp_path / "data")},
            )
            running.append(process)
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("}"):
                    break
            assert lines, process.stderr.read() if process.stderr else ""
            banner = json.loads("".join(lines))
            assert banner["token"] is None, "what the operator chose is not printed"
            return process, HostClient(banner["url"])

        try:
            yield run, fake
        finally:
            for process in running:
                process.kill()
                process.communicate(timeout=30)


def test_runs_survive_a_killed_host(start: tuple[Start, FakeOpenAI]) -> None:
    """A run of a killed process can be read from the next; no model is called twice."""
    begin, fake = start
    process, host = begin()
    done = host.start(workflowId="acme.plain")
    assert host.finished(done)["status"] == "completed"
    held, release = threading.Event(), threading.Event()
    fake.hold = (held, release)
    middle = host.start(workflowId="acme.plain")
    assert held.wait(30), "the model is being called"
    process.kill()
    process.wait(30)
    release.set()
    fake.hold = None
    before = len(fake.requests)

    _, again = begin()
    assert again.finished(done)["status"] == "completed"
    assert types(again.events(done))[-1] == "run.completed"
    ended = again.finished(middle)
    assert ended["error"]["code"] == "run_interrupted"
    assert types(again.events(middle)) == ["run.started", "node.started", "node.failed", "run.failed"]
    assert len(fake.requests) == before


def test_sigterm_lets_runs_finish(start: tuple[Start, FakeOpenAI]) -> None:
    begin, fake = start
    process, host = begin()
    held, release = threading.Event(), threading.Event()
    fake.hold = (held, release)
    run = host.start(workflowId="acme.plain")
    assert held.wait(30)
    process.send_signal(signal.SIGTERM)
    release.set()
    assert process.wait(30) == 0
    _, again = begin()
    assert again.finished(run)["status"] == "completed"


@pytest.mark.parametrize("same_port", [True, False])
def test_a_second_process_leaves_the_first_alone(
    start: tuple[Start, FakeOpenAI], tmp_path: Path, same_port: bool
) -> None:
    """A second host with the same name does not start, and leaves the first one's runs alone."""
    begin, fake = start
    _, host = begin()
    held, release = threading.Event(), threading.Event()
    fake.hold = (held, release)
    run = host.start(workflowId="acme.plain")
    assert held.wait(30)
    port = host.url.rpartition(":")[2] if same_port else "0"
    second = subprocess.run(
        [sys.executable, "-m", "modelpact", "serve", "--port", port],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MODELPACT_TOKEN": TOKEN, "MODELPACT_DATA": str(tmp_path / "data")},
    )
    assert second.returncode == 2
    assert "is held by another live process on this store" in second.stderr
    assert "[gateway] name" in second.stderr
    fake.hold = None
    release.set()
    assert host.finished(run)["status"] == "completed"
    assert types(host.events(run))[-1] == "run.completed"


def test_warnings_are_printed_and_the_banner_names_the_credential(tmp_path: Path) -> None:
    (tmp_path / "pack.toml").write_text(
        """
        name = "acme"
        version = "1.0.0"
        [[nodes]]
        typeId = "core.ai.bare"
        [[nodes]]
        typeId = "vendor.acme.far"
        requiredModelCapabilities = ["reasoning"]
        fallbackModel = { provider = "elsewhere", model = "x" }
        """
    )
    (tmp_path / "modelpact.toml").write_text('[host]\npacks = ["pack.toml"]\n')
    environment = {**os.environ, "MODELPACT_TOKEN": TOKEN, "MODELPACT_DATA": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "modelpact", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    ) as process:
        assert process.stdout is not None
        banner = ""
        for line in process.stdout:
            banner += line
            if "Stop with" in line:
                break
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert '-H "Authorization: Bearer $MODELPACT_TOKEN"' in banner
    assert TOKEN not in banner
    assert "pack.toml: nodes[0]: core.ai.bare calls a model" in stderr
    assert "warning: vendor.acme.far: its fallbackModel is never used" in stderr
