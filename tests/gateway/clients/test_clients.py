"""LangChain, Pydantic AI, Instructor, `llm` and the `openai` npm package, each unmodified.

What each is seen to do through the gateway, to upstreams of both APIs; the official SDKs for Python
have tests of their own (`test_openai_sdk`, `test_openai_responses_sdk`, `test_anthropic_sdk`):

| client                 | all but embeddings | embeddings |
|------------------------|--------------------|------------|
| openai, chat           | x                  | x          |
| openai, responses      | x                  |            |
| anthropic              | x                  |            |
| openai for node        | x                  | x          |
| langchain-openai       | x                  | x          |
| pydantic-ai-slim       | x                  |            |
| instructor             | x                  |            |
| llm                    | x                  |            |

All: plain, streamed, tools, parallel tools, structured output, images, reasoning settings, errors,
refusals, emulated and substituted answers.
Embeddings are left open where the client has none, or only OpenAI's own under fixed names.
"""

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import Call, Fail, Reply, cut
from tests.fakes.replies import Scripted, Step
from tests.gateway.clients.environments import HERE, node_with_openai, python_with_clients
from tests.gateway.conftest import Serve
from tests.gateway.sdks import MORE, PIXEL
from tests.gateway.support import RunningGateway

pytestmark = pytest.mark.slow
CALLS = (Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))
CITIES = [{"city": "Rome"}, {"city": "Oslo"}]
MODELS = ["gpt-4o", "claude-opus-4-5"]


NAMED = re.compile(r"\b(City|final_result)\b")
"""What clients call the tool that they have an answer written with."""


def calling(body: dict[str, Any]) -> Step:
    """Do as the user says: fail, break off, decline; call the tool twice where there is one."""
    last = body["messages"][-1]
    if body["model"] == "text-only":
        return Reply(emulated(json.dumps(body)))
    if last["role"] == "user" and (step := STEPS.get(text_of(last["content"]))):
        return step
    answered = last["role"] == "tool" or "tool_result" in json.dumps(last)
    if answered:
        return Reply("Done.")
    choice = body.get("tool_choice", "auto")
    forced = choice not in ("auto", "none") and choice != {"type": "auto"}
    names = [tool.get("name") or tool["function"]["name"] for tool in body.get("tools", [])]
    many = [name for name in names if name.startswith("Iterable")]
    if many:
        return Reply(calls=(Call(many[0], MANY),))
    return Reply(calls=CALLS) if "weather" in names and not forced else Reply()


STEPS: dict[str, Step] = {
    "Fail": Fail(429, "Too many."),
    "Break": Reply("x" * 300, fault=cut(8)),
    "Decline": Reply(refusal="I will not."),
}
MANY = {"tasks": [{"name": "Rome", "people": 3}, {"name": "Oslo", "people": 1}]}


def text_of(content: Any) -> str:
    """The text of a message, in parts or not."""
    parts = [{"text": content}] if isinstance(content, str) else content
    return "".join(part.get("text", "") for part in parts)


def emulated(prompt: str) -> str:
    """Answer as a model without tools and schemas does that is asked for them in its prompt."""
    city = {"name": "Rome", "people": 3}
    if "<tool_call>" not in prompt:
        return json.dumps(city)
    named = NAMED.search(prompt)
    assert named is not None
    return f"<tool_call>{json.dumps({'name': named[1], 'arguments': city})}</tool_call>"


@pytest.fixture
def gateway(serve: Serve) -> RunningGateway:
    running = serve(MORE)
    for fake in (running.openai, running.anthropic):
        fake.script = Scripted((), calling)
    return running


def run_client(command: list[str], folder: Path | None = None, env: dict[str, str] | None = None) -> Any:
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


def python_client(gateway: RunningGateway, name: str, model: str) -> dict[str, Any]:
    script = str(HERE / "python_clients.py")
    command = [str(python_with_clients()), script, name, gateway.url, gateway.key, model]
    results: dict[str, Any] = json.loads(run_client(command).splitlines()[-1])
    failed = [str(error) for state, error in gateway.settled() if state != "completed"]
    assert all("Too many." in error or "cut_off" in error for error in failed), failed
    assert effort_of(gateway, model)
    decided = [event.payload for event in gateway.events("negotiation.decided")]
    assert any(event["emulated"] for event in decided)
    assert any(event["substituted"] for event in decided)
    return results


def effort_of(gateway: RunningGateway, model: str) -> bool:
    """Tell whether the upstream was told how much to think."""
    fake = gateway.openai if model == "gpt-4o" else gateway.anthropic
    settings = ("reasoning_effort", "thinking")
    return any(
        any(name in body for name in settings) or "effort" in body.get("output_config", {}) for body in fake.bodies
    )


@pytest.mark.parametrize("model", MODELS)
def test_langchain(gateway: RunningGateway, model: str) -> None:
    results = python_client(gateway, "langchain", model)
    assert results["plain"] == results["streamed"] == "You said: Hi"
    assert results["calls"] == CITIES
    assert results["schema"] == "x"
    assert results["image"] == "You said: [image]"
    assert results["after tools"] == "Done."
    assert results["streamed calls"] == CITIES
    assert results["reasoned"] == results["substituted"] == "You said: Hi"
    assert results["emulated"] == "Rome"
    assert "I will not." in results["declined"]
    assert "RateLimit" in results["failed"]
    assert "the upstream failed" in results["failed stream"]
    assert results.get("embedding", 1_536) == 1_536
    assert "capability_not_provided" in results["refused"]


@pytest.mark.parametrize("model", MODELS)
def test_pydantic_ai(gateway: RunningGateway, model: str) -> None:
    """Over each API's own client, to its own upstream."""
    results = python_client(gateway, "pydantic-ai", model)
    assert results["plain"] == results["streamed"] == "You said: Hi"
    assert sorted(results["calls"]) == ["Oslo", "Rome"]
    assert results["after tools"] == "Done."
    assert results["schema"] == "x"
    assert results["image"] == "You said: [image]"
    assert results["reasoned"] == results["substituted"] == "You said: Hi"
    assert results["emulated"] == "Rome"
    assert "429" in results["failed"]
    assert results["declined"]
    assert "capability_not_provided" in results["refused"]


@pytest.mark.parametrize("model", MODELS)
def test_instructor(gateway: RunningGateway, model: str) -> None:
    results = python_client(gateway, "instructor", model)
    assert results["schema"] == results["streamed"] == results["image"] == "x"
    assert results["reasoned"] == results["substituted"] == "x"
    assert results["plain"] == "You said: Hi"
    assert results["parallel"] == ["Rome", "Oslo"]
    assert results["emulated"] == "Rome"
    assert "429" in results["failed"]
    assert "capability_not_provided" in results["refused"]


@pytest.mark.parametrize("model", MODELS)
def test_llm(gateway: RunningGateway, model: str, tmp_path: Path) -> None:
    python = str(python_with_clients())
    thinks = "gpt-5" if model == "gpt-4o" else model
    falls = "workload/substituted" if model == "gpt-4o" else "workload/carried-away"
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
                    "vision": True,
                    "reasoning": name == thinks,
                }
                for name in dict.fromkeys((model, thinks, "openai/text-only", "workload/emulated", falls))
            ]
        )
    )
    llm = [python, "-m", "llm", "--key", gateway.key, "-m"]
    env = {"LLM_USER_PATH": str(tmp_path)}
    assert run_client([*llm, f"pact-{model}", "Hi"], env=env).strip() == "You said: Hi"
    assert run_client([*llm, f"pact-{model}", "--no-stream", "Hi"], env=env).strip() == "You said: Hi"
    picture = tmp_path / "pixel.png"
    picture.write_bytes(base64.b64decode(PIXEL))
    seen = run_client([*llm, f"pact-{model}", "What is this?", "-a", str(picture)], env=env)
    assert seen.startswith("You said: What is this?[")
    weather = "def weather(city: str) -> str:\n    'Tells it.'\n    return 'sunny'\n"
    tools = ["--functions", weather, "--td", "Call Rome and Oslo"]
    for how in ([], ["--no-stream"]):
        assert "Done." in run_client([*llm, f"pact-{model}", *how, *tools], env=env)
    effort = ["-o", "reasoning_effort", "low", "Hi"]
    assert run_client([*llm, f"pact-{thinks}", *effort], env=env).strip() == "You said: Hi"
    assert effort_of(gateway, model)
    moved = falls.rpartition("/")[2]
    assert run_client([*llm, f"pact-{moved}", "Hi"], env=env).strip() == "You said: Hi"
    schema = ["--schema", "name, people int", "Rome"]
    made = run_client([*llm, "pact-emulated", "--no-stream", *schema], env=env)
    assert json.loads(made) == {"name": "Rome", "people": 3}
    with pytest.raises(AssertionError, match=r"Too many\."):
        run_client([*llm, f"pact-{model}", "Fail"], env=env)
    with pytest.raises(AssertionError, match="structured-output is not supported"):
        run_client([*llm, "pact-text-only", *schema], env=env)
    failed = [str(error) for state, error in gateway.settled() if state != "completed"]
    assert all("Too many." in error for error in failed), failed
    if model == "gpt-4o":
        typed = run_client([*llm, f"pact-{model}", *schema], env=env)
        assert json.loads(typed) == {"name": "x", "people": 0}
    else:
        # Its schemas are open, which Anthropic does not take; its own words come through.
        with pytest.raises(AssertionError, match="'additionalProperties' must be explicitly set"):
            run_client([*llm, f"pact-{model}", *schema], env=env)


@pytest.mark.parametrize("model", MODELS)
def test_the_openai_npm_package(gateway: RunningGateway, model: str) -> None:
    folder = node_with_openai()
    command = ["node", "node_client.mjs", gateway.url, gateway.key, model]
    results = json.loads(run_client(command, folder))
    assert results["plain"] == results["streamed"] == "You said: Hi"
    assert results["verdict"] == ("yes" if model == "gpt-4o" else "labelled")
    assert results["calls"] == results["streamedCalls"] == CITIES
    assert results["schema"] == {"city": "x"}
    assert results["image"] == "You said: [image]"
    assert results.get("embedding", 1_536) == 1_536
    assert results["refused"] == {"status": 422, "code": "capability_not_provided"}
    assert results["failed"] == "RateLimitError"
    assert "the upstream failed" in results["failedStream"]
    assert "I will not." in results["declined"]
    assert results["reasoned"] == "You said: Hi"
    assert effort_of(gateway, model)
    assert results["emulated"] == {"name": "Rome", "people": 3}
    assert results["emulatedHeader"].startswith("structured-output: ")
    assert results["substituted"] == "You said: Hi"
    assert "it lacks tool-calling" in results["substitutedHeader"]
