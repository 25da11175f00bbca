"""`OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL`: heeded, told, and overruled by modelpact.toml."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import IO

import pytest

from tests.cli.conftest import Run
from tests.cli.terminal import Terminal
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import FakeOpenAI

KEY = "-".join(["key", "of", "the", "test"])


def test_chat_goes_there_and_says_so(tmp_path: Path) -> None:
    """MP-I3: the environment gives the address of a server."""
    with (
        FakeOpenAI(key=KEY).in_thread() as openai,
        FakeAnthropic(key=KEY).in_thread() as anthropic,
        Terminal(
            "chat",
            "--model",
            "openai/gpt-4o",
            cwd=tmp_path,
            OPENAI_BASE_URL=openai.base_url,
            OPENAI_API_KEY=KEY,
            ANTHROPIC_BASE_URL=anthropic.base_url,
            ANTHROPIC_API_KEY=KEY,
        ) as terminal,
    ):
        terminal.expect(f"on openai/gpt-4o. It is at {openai.base_url} (from OPENAI_BASE_URL).")
        terminal.enter("Hello")
        terminal.expect("You said: Hello")
        terminal.enter("/provider")
        terminal.expect(f"○ anthropic  at {anthropic.base_url} (from ANTHROPIC_BASE_URL)")
        terminal.enter("/model anthropic/claude-opus-4-5")
        terminal.expect(f"It is at {anthropic.base_url} (from ANTHROPIC_BASE_URL).")
        terminal.enter("And you?")
        terminal.expect("You said: And you?")
        terminal.enter("/quit")
        assert terminal.ended() == 0
    assert (len(openai.bodies), len(anthropic.bodies)) == (1, 1)


def test_the_configuration_wins(run: Run, tmp_path: Path) -> None:
    with FakeOpenAI().in_thread() as fake:
        (tmp_path / "modelpact.toml").write_text(
            f'[providers.openai]\nbase_url = "{fake.base_url}"\n'
        )
        asked = ("chat", "--model", "openai/gpt-4o")
        done = run(*asked, stdin="Hi\n", OPENAI_BASE_URL="https://nobody.example/v1")
    assert done.stdout == "You said: Hi\n"


def test_probe_says_where(run: Run) -> None:
    asked = ("probe", "openai/gpt-4o", "--dry-run", "--capability", "streaming")
    here = "http://127.0.0.1:9/v1"
    done = run(*asked, OPENAI_BASE_URL=here)
    assert done.stdout.startswith(f"Probe openai/gpt-4o at {here} (from OPENAI_BASE_URL): stream")
    data = json.loads(run(*asked, "--json", OPENAI_BASE_URL=here).stdout)
    assert data["address"] == {"url": here, "from": "OPENAI_BASE_URL"}
    assert "address" not in json.loads(run(*asked, "--json").stdout)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_gateway_is_not_led_to_itself(run: Run, host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = run("serve", "--port", str(port), OPENAI_BASE_URL=f"http://{host}:{port}/v1")
    assert done.returncode == 2
    assert "OPENAI_BASE_URL points openai at this gateway itself" in done.stderr


def test_a_gateway_forwards_there_and_says_so(tmp_path: Path) -> None:
    with FakeOpenAI(key=KEY).in_thread() as fake:
        led = {"OPENAI_BASE_URL": fake.base_url, "OPENAI_API_KEY": KEY}
        with subprocess.Popen(
            [sys.executable, "-m", "modelpact", "serve", "--port", "0", "--key", "--json"],
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "MODELPACT_DATA": str(tmp_path), **led},
        ) as served:
            try:
                assert served.stdout is not None
                told, _ = json.JSONDecoder().raw_decode(_object(served.stdout))
                address = {"url": fake.base_url, "from": "OPENAI_BASE_URL"}
                assert told["addresses"] == {"openai": address}
                asked = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
                request = urllib.request.Request(
                    f"{told['url']}/v1/chat/completions",
                    json.dumps(asked).encode(),
                    {"authorization": f"Bearer {told['token']}"},
                )
                with urllib.request.urlopen(request, timeout=60) as answer:
                    said = json.load(answer)
            finally:
                served.terminate()
    assert said["choices"][0]["message"]["content"] == "You said: Hi"
    assert len(fake.bodies) == 1


def _object(lines: IO[bytes]) -> str:
    text = ""
    for line in lines:
        text += line.decode()
        if line.startswith(b"}"):
            break
    return text
