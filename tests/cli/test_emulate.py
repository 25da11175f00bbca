"""`modelpact emulate`: the wire shape, and bad input told in a line."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import Run

THINK = "Think step by step before answering."
USER = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
SYSTEM = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}


def request(*capabilities: str, messages: Any = (USER,), **more: Any) -> str:
    conversation = {"messages": list(messages)}
    return json.dumps({"capabilities": list(capabilities), "conversation": conversation, **more})


def test_the_json_shape(run: Run) -> None:
    """MP-J4: `emulate` "gives `{"conversation", "report"}`"."""
    done = run("emulate", stdin=request("extended_thinking", "code_execution"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "conversation": {"messages": [{"role": "system", "content": [{"type": "text", "text": THINK}]}, USER]},
        "report": {
            "applied": [
                {"capability": "extended_thinking", "strategy": {"type": "system_prompt_injection", "prompt": THINK}}
            ],
            "warnings": ["Capability CodeExecution not emulated: Cannot safely emulate sandboxed code execution"],
        },
    }


def test_an_existing_system_message(run: Run) -> None:
    """An injection into a system message adds a text block of a newline and the prompt."""
    done = run("emulate", "--json", stdin=request("extended_thinking", messages=[SYSTEM, USER]))
    first = json.loads(done.stdout)["conversation"]["messages"][0]
    assert first == {"role": "system", "content": [*SYSTEM["content"], {"type": "text", "text": f"\n{THINK}"}]}


def test_the_output_is_valid_input(run: Run) -> None:
    """Applying twice changes nothing more and reports the same."""
    first = json.loads(run("emulate", stdin=request("extended_thinking")).stdout)
    second = request("extended_thinking", messages=first["conversation"]["messages"])
    assert json.loads(run("emulate", stdin=second).stdout) == first


def test_config_and_plan(run: Run) -> None:
    config = {"strategies": {"tool_bash": {"type": "system_prompt_injection", "prompt": "No."}}}
    payload = request("tool_bash", config=config)
    done = json.loads(run("emulate", stdin=payload).stdout)
    assert done["conversation"]["messages"][0]["content"][0]["text"] == "No."
    plan = json.loads(run("emulate", "--plan", stdin=payload).stdout)
    assert plan["report"] == done["report"]
    assert plan["conversation"] == {"messages": [USER]}


def test_every_block_comes_back(run: Run) -> None:
    blocks = [
        {"type": "text", "text": "日本語 😀"},
        {"type": "image", "url": "https://x.example/a.png"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": [None, 1.5]}},
        {"type": "tool_result", "tool_use_id": "1", "content": [], "is_error": True},
        {"type": "thinking", "thinking": "Hm."},
    ]
    message = {"role": "assistant", "content": blocks, "metadata": {"turn": 1}}
    done = run("emulate", stdin=request(messages=[message]))
    assert json.loads(done.stdout)["conversation"]["messages"] == [message]


def deep(levels: int) -> str:
    return '{"messages": [], "metadata": {"a": ' + "[" * levels + "]" * levels + "}}"


BAD: dict[str, tuple[str, str]] = {
    "an unknown capability": (request("telepathy"), "unknown abp capability 'telepathy'"),
    "another dialect's name": (request("toolCalling"), "unknown abp capability"),
    "a capability that is a number": ('{"capabilities": [5], "conversation": {"messages": []}}', "5"),
    "capabilities in words": ('{"capabilities": "x", "conversation": {}}', "expected a list"),
    "no conversation": ('{"capabilities": []}', "conversation: expected an object"),
    "a malformed block": (
        request(messages=[{"role": "user", "content": [{"type": "txt", "text": "x"}]}]),
        "messages[0].content[0].type 'txt'; did you mean text",
    ),
    "a block without its field": (
        request(messages=[USER, {"role": "user", "content": [{"type": "text"}]}]),
        "messages[1].content[0]: a text block needs text",
    ),
    "an unknown role": (request(messages=[{"role": "robot"}]), "messages[0].role"),
    "an unknown field": (request(strategy=1), "unknown field 'strategy'"),
    "a strategy that is none": (
        request(config={"strategies": {"streaming": {"type": "magic"}}}),
        "config.strategies.streaming",
    ),
    "a key twice": ('{"capabilities": [], "capabilities": []}', "'capabilities' occurs twice"),
    "NaN": ('{"capabilities": NaN}', "NaN is not JSON"),
    "deep nesting": ("[" * 100_000, "nested too deeply"),
    "nesting": (f'{{"capabilities": [], "conversation": {deep(500)}}}', "nested more than 100 deep"),
    "not an object": ("[]", "expected an object"),
    "not JSON": ("{", "is not JSON"),
    "nothing": ("", "is not JSON"),
    "half a character": (request(messages=[{"role": "user", "content": "\ud800"}]), "is half a character"),
    "half a character in a config": (
        request("streaming", config={"strategies": {"streaming": {"type": "post_processing", "detail": "\ud800"}}}),
        "is half a character",
    ),
}


@pytest.mark.parametrize(("stdin", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_an_error_in_one_line(run: Run, stdin: str, message: str) -> None:
    """MP-E8: "Input that is wrong is an error"; MP-I1: exit code 2."""
    done = run("emulate", stdin=stdin)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 500


def test_input_that_is_not_utf_8() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modelpact", "emulate"],
        input=b'{"capabilities": ["\xff"]}',
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"not UTF-8" in done.stderr


def test_a_missing_file_is_an_error(run: Run) -> None:
    done = run("emulate", "nothing.json")
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
