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


def test_chat_uses_the_address_and_says_so(tmp_path: Path) -> None:
    """MP-I3: "any … server whose key and address the environment or `modelpact.toml` gives"."""
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


def test_the_configuration_overrides_the_environment(run: Run, tmp_path: Path) -> None:
    with FakeOpenAI().in_thread() as fake:
        (tmp_path / "modelpact.toml").write_text(f'[providers.openai]\nbase_url = "{fake.base_url}"\n')
        arguments = ("chat", "--model", "openai/gpt-4o")
        done = run(*arguments, stdin="Hi\n", OPENAI_BASE_URL="https://nobody.example/v1")
    assert done.stdout == "You said: Hi\n"


def test_probe_says_which_address_it_uses(run: Run) -> None:
    arguments = ("probe", "openai/gpt-4o", "--dry-run", "--capability", "streaming")
    address = "http://127.0.0.1:9/v1"
    done = run(*arguments, OPENAI_BASE_URL=address)
    assert done.stdout.startswith(f"Probe openai/gpt-4o at {address} (from OPENAI_BASE_URL): stream")
    data = json.loads(run(*arguments, "--json", OPENAI_BASE_URL=address).stdout)
    assert data["address"] == {"url": address, "from": "OPENAI_BASE_URL"}
    assert "address" not in json.loads(run(*arguments, "--json").stdout)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_gateway_refuses_an_address_that_is_its_own(run: Run, host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = run("serve", "--port", str(port), OPENAI_BASE_URL=f"http://{host}:{port}/v1")
    assert done.returncode == 2
    assert "OPENAI_BASE_URL points openai at this gateway itself" in done.stderr


def test_a_gateway_uses_the_address_and_says_so(tmp_path: Path) -> None:
    with FakeOpenAI(key=KEY).in_thread() as fake:
        overrides = {"OPENAI_BASE_URL": fake.base_url, "OPENAI_API_KEY": KEY}
        with subprocess.Popen(
            [sys.executable, "-m", "modelpact", "serve", "--port", "0", "--key", "--json"],
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "MODELPACT_DATA": str(tmp_path), **overrides},
        ) as served:
            try:
                assert served.stdout is not None
                output, _ = json.JSONDecoder().raw_decode(_object(served.stdout))
                address = {"url": fake.base_url, "from": "OPENAI_BASE_URL"}
                assert output["addresses"] == {"openai": address}
                body = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
                request = urllib.request.Request(
                    f"{output['url']}/v1/chat/completions",
                    json.dumps(body).encode(),
                    {"authorization": f"Bearer {output['token']}"},
                )
                with urllib.request.urlopen(request, timeout=60) as response:
                    answer = json.load(response)
            finally:
                served.terminate()
    assert answer["choices"][0]["message"]["content"] == "You said: Hi"
    assert len(fake.bodies) == 1


def _object(lines: IO[bytes]) -> str:
    text = ""
    for line in lines:
        text += line.decode()
        if line.startswith(b"}"):
            break
    return text
