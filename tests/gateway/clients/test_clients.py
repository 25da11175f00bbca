"""LangChain, Pydantic AI, Instructor, `llm` and the `openai` npm package, each unmodified."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import Call, Fail, Reply
from tests.fakes.replies import Scripted, Step
from tests.gateway.clients.environments import HERE, node_with_openai, python_with_clients
from tests.gateway.conftest import Serve
from tests.gateway.sdks import MORE
from tests.gateway.support import Running

pytestmark = pytest.mark.slow
CALLS = (Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))
CITIES = [{"city": "Rome"}, {"city": "Oslo"}]
MODELS = ["gpt-4o", "claude-opus-4-5"]


def calling(body: dict[str, Any]) -> Step:
    """Call the tool twice where there is one, unless told which, then say so."""
    last = body["messages"][-1]
    answered = last["role"] == "tool" or "tool_result" in json.dumps(last)
    if answered:
        return Reply("Done.")
    choice = body.get("tool_choice", "auto")
    forced = choice not in ("auto", "none") and choice != {"type": "auto"}
    names = [one.get("name") or one["function"]["name"] for one in body.get("tools", [])]
    return Reply(calls=CALLS) if "weather" in names and not forced else Reply()


@pytest.fixture
def gateway(serve: Serve) -> Running:
    running = serve(MORE)
    for fake in (running.openai, running.anthropic):
        fake.script = Scripted((), calling)
    return running


def asked(command: list[str], folder: Path | None = None, env: dict[str, str] | None = None) -> Any:
    """Run a client to its end and read what it prints."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LANGSMITH_TRACING": "false", **(env or {})},
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def python_client(gateway: Running, name: str, model: str) -> dict[str, Any]:
    script = str(HERE / "python_clients.py")
    command = [str(python_with_clients()), script, name, gateway.url, gateway.key, model]
    found: dict[str, Any] = json.loads(asked(command).splitlines()[-1])
    assert all(state == "completed" for state, _ in gateway.settled())
    return found


@pytest.mark.parametrize("model", MODELS)
def test_langchain(gateway: Running, model: str) -> None:
    found = python_client(gateway, "langchain", model)
    assert found["plain"] == found["streamed"] == "You said: Hi"
    assert found["calls"] == CITIES
    assert found["schema"] == "x"
    assert found["image"] == "You said: [image]"
    assert found.get("embedding", 1_536) == 1_536
    assert "capability_not_provided" in found["refused"]


@pytest.mark.parametrize("model", MODELS)
def test_pydantic_ai(gateway: Running, model: str) -> None:
    """Over each API's own client, to its own upstream."""
    found = python_client(gateway, "pydantic-ai", model)
    assert found["plain"] == found["streamed"] == "You said: Hi"
    assert sorted(found["calls"]) == ["Oslo", "Rome"]
    assert found["after tools"] == "Done."
    assert found["schema"] == "x"
    assert "capability_not_provided" in found["refused"]


@pytest.mark.parametrize("model", MODELS)
def test_instructor(gateway: Running, model: str) -> None:
    found = python_client(gateway, "instructor", model)
    assert found["schema"] == "x"
    assert "capability_not_provided" in found["refused"]


@pytest.mark.parametrize("model", MODELS)
def test_llm(gateway: Running, model: str, tmp_path: Path) -> None:
    python = str(python_with_clients())
    (tmp_path / "extra-openai-models.yaml").write_text(
        json.dumps(
            [
                {
                    "model_id": f"pact-{name.rpartition('/')[2]}",
                    "model_name": name,
                    "api_base": f"{gateway.url}/v1",
                    "api_key_name": "pact",
                    "supports_schema": True,
                    "supports_tools": True,
                }
                for name in (model, "openai/text-only")
            ]
        )
    )
    llm = [python, "-m", "llm", "--key", gateway.key, "-m"]
    env = {"LLM_USER_PATH": str(tmp_path)}
    assert asked([*llm, f"pact-{model}", "Hi"], env=env).strip() == "You said: Hi"
    assert asked([*llm, f"pact-{model}", "--no-stream", "Hi"], env=env).strip() == "You said: Hi"
    schema = ["--schema", "name, people int", "Rome"]
    with pytest.raises(AssertionError, match="structured-output is not supported"):
        asked([*llm, "pact-text-only", *schema], env=env)
    assert all(state == "completed" for state, _ in gateway.settled())
    if model == "gpt-4o":
        typed = asked([*llm, f"pact-{model}", *schema], env=env)
        assert json.loads(typed) == {"name": "x", "people": 0}
    else:
        # Its schemas are open, which Anthropic does not take; its own words come through.
        with pytest.raises(AssertionError, match="'additionalProperties' must be explicitly set"):
            asked([*llm, f"pact-{model}", *schema], env=env)


@pytest.mark.parametrize("model", MODELS)
def test_the_openai_npm_package(gateway: Running, model: str) -> None:
    folder = node_with_openai()
    fake = gateway.openai if model == "gpt-4o" else gateway.anthropic
    count = {"left": 6}

    def limited(body: dict[str, Any]) -> Step:
        count["left"] -= 1
        return Fail(429) if count["left"] < 0 else calling(body)

    fake.script = Scripted((), limited)
    command = ["node", "node_client.mjs", gateway.url, gateway.key, model]
    found = json.loads(asked(command, folder))
    assert found["plain"] == found["streamed"] == "You said: Hi"
    assert found["verdict"] == ("yes" if model == "gpt-4o" else "labelled")
    assert found["calls"] == found["streamedCalls"] == CITIES
    assert found["schema"] == {"city": "x"}
    assert found["image"] == "You said: [image]"
    assert found.get("embedding", 1_536) == 1_536
    assert found["refused"] == {"status": 422, "code": "capability_not_provided"}
    assert found["limited"] == "RateLimitError"
