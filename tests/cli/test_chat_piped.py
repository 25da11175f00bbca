"""`modelpact chat` without a terminal: lines in, text or JSON out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.fakes.openai import FakeOpenAI
from tests.fakes.replies import Fail

SMALL = '[models."mock/small"]\ntool_calling = false\n'


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_line_is_answered_until_the_end_of_input(run: Run) -> None:
    done = run("chat", stdin="Hi\n\n//etc is a folder\n")
    assert done.stdout == "You said: Hi\nYou said: /etc is a folder\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert run("chat", stdin="/quit\nHi\n").stdout == ""


def test_a_failed_line_exits_with_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text(SMALL)
    arguments = ("chat", "--model", "mock/demo", "--need", "tools")
    done = run(*arguments, stdin="/model mock/small\nHi\n")
    assert done.returncode == 2
    assert done.stdout == "You said: Hi\n"
    assert "mock/small is refused: it does not meet 1 need." in done.stderr
    assert "required by you" in done.stderr
    assert "Still on mock/demo; nothing has changed." in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/modle x", "unknown command '/modle'; did you mean /model?"),
        ("/model", ""),
        ("/model nobody/x", "unknown provider"),
        ("/provider nobody", "unknown provider"),
        ("/sm attach nothing", "unknown state machine 'nothing'"),
        ("/sm attach no.toml", "no.toml cannot be read"),
        ("/sm atach review", "write /sm attach NAME | detach"),
        ("/sm detach", "no state machine is attached"),
        ("/params temperature", "write NAME=VALUE, or -NAME"),
        ("/params stop=[1", "is not JSON"),
        ("/params -seed", "seed is not set"),
        ("/params model=x", "is not a parameter"),
        ("/audit when", "write /audit or /audit why"),
        ("/new x", "/new takes no argument"),
    ],
)
def test_a_wrong_command_is_an_error_in_one_line(run: Run, line: str, message: str) -> None:
    done = run("chat", stdin=f"{line}\nHi\n")
    assert "You said: Hi" in done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == (1 if message else 0)
    assert done.returncode == (2 if message else 0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--model", "nobody/x"), "unknown provider"),
        (("--model", "openai/gpt-5"), "no key: set OPENAI_API_KEY"),
        (("--need", "audio,context>=300k"), "mock/demo is refused: it does not meet 1 need."),
        (("--need", "tols"), "did you mean"),
        (("--resume", "nothing"), "no session 'nothing'"),
        (("--resume",), "there is no session to resume yet"),
        (("--resume", "x", "--need", "tools"), "--need is for a new session"),
    ],
)
def test_a_session_that_cannot_be_opened_exits_with_2(run: Run, args: tuple[str, ...], message: str) -> None:
    done = run("chat", *args, stdin="Hi\n", OPENAI_API_KEY="")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_json_output_has_one_object_per_turn_or_event(run: Run, tmp_path: Path) -> None:
    """MP-I2: every command has `--json`; here turns, refusals and errors are data."""
    (tmp_path / "modelpact.toml").write_text(SMALL)
    lines = "Hi\n/model small\n/model\n/needs\n/params seed=7\n/cost\n/audit\n/history\n/oops\n/quit\n"
    done = run("chat", "--json", "--model", "mock/demo", "--need", "tools", stdin=lines)
    assert done.returncode == 2
    assert done.stderr == ""
    entries = {entry["type"]: entry for entry in objects(done.stdout)}
    assert entries["session"]["target"] == "mock/demo"
    assert entries["session"]["needs"] == ["tool-calling"]
    answer = entries["answer"]
    assert (answer["text"], answer["stopReason"]) == ("You said: Hi", "end")
    assert answer["usage"]["output"] > 0
    diagnostic = entries["refused"]["diagnostic"]
    assert diagnostic["missing"][0]["requiredBy"] == ["you"]
    assert diagnostic["previous"] == {"provider": "mock", "model": "demo"}
    assert entries["needs"]["ok"] is True
    assert entries["params"]["layers"]["/params"] == {"seed": 7}
    assert entries["cost"]["rows"][0]["calls"] == 1
    assert "session.rejected" in {event["type"] for event in entries["audit"]["events"]}
    assert [message["answered"] for message in entries["history"]["messages"]] == [True, True]
    assert "unknown command" in entries["error"]["message"]
    assert objects(done.stdout)[-1] == {"type": "left", "session": entries["session"]["session"]}


def test_unknown_parameters_are_marked_as_unknown(run: Run) -> None:
    arguments = ("chat", "--model", "openai/gpt-5")
    lines = "/params n=2 own=1 seed=7 temperature=0.2\n"
    key = "-".join("abc")
    output = run(*arguments, stdin=lines, OPENAI_API_KEY=key).stdout
    marks = {line.split()[1]: line.split(maxsplit=4) for line in output.splitlines()[:4]}
    assert [marks[name][0] for name in ("n", "own", "seed", "temperature")] == ["?", "?", "✓", "✗"]
    assert marks["n"][4] == "unknown: whether openai/gpt-5 has n is not known"
    assert marks["own"][4] == "unknown: modelpact does not know this parameter"
    assert marks["temperature"][4] == "does not apply"
    message = objects(run(*arguments, "--json", stdin=lines, OPENAI_API_KEY=key).stdout)[-1]
    assert [entry["paramPath"] for entry in message["paramsUnknown"]] == [["n"], ["own"]]


def test_parameters_are_all_changed_or_none(run: Run) -> None:
    """One line is one change: where a part of it is wrong, the rest is not done either."""
    lines = "/params temperature=0.5 seed=4\n/params -temperature max_tokens=many\n/params\n"
    done = run("chat", "--json", stdin=f"{lines}/params -temperature seed=5\n/audit\n")
    *_, wrong, after, changed, audit = objects(done.stdout)
    assert "max_tokens: expected an integer" in wrong["message"]
    assert after["params"] == {"temperature": 0.5, "seed": 4}
    assert changed["params"] == {"seed": 5}
    assert audit["events"][-1]["payload"] == {"set": {"seed": 5}, "unset": ["temperature"]}


def test_a_refused_parameter_is_explained(run: Run) -> None:
    done = run("chat", "--model", "mock/small", stdin="/params top_k=5\nHi\n")
    assert done.returncode == 2
    assert done.stderr == (
        "✗ nothing was sent, mock/small does not take what is set: top_k=5 (from /params): "
        "mock/small has no top-k (rule “mock: small has no tools and a small window”); "
        "/params -top_k removes it, /model switches to another model, and [policy] "
        'unsupported_params = "drop" in modelpact.toml leaves it out with a warning\n'
    )


def test_sessions_are_listed_and_resumed_by_name(run: Run) -> None:
    assert "there is no ledger in" in run("chat", "--list").stderr
    first = objects(run("chat", "--json", stdin="One\n").stdout)[0]["session"]
    second = objects(run("chat", "--json", stdin="Two\n/new\nThree\n").stdout)
    names = [entry["session"] for entry in second if entry["type"] == "session"]
    sessions = objects(run("chat", "--list", "--json").stdout)[0]["sessions"]
    assert [entry["id"] for entry in sessions] == [*reversed(names), first]
    done = run("chat", "--resume", first, "--model", "mock/other", stdin="/history\n")
    assert done.returncode == 0, done.stderr
    assert "Now on mock/other" in done.stdout
    assert "you  One\nmodel  You said: One" in done.stdout
    assert run("chat", "--list").stdout.splitlines()[1].startswith(first)


def test_a_server_is_found_by_the_configuration_alone(run: Run, tmp_path: Path) -> None:
    """MP-I3: "any OpenAI-compatible … server whose key and address … `modelpact.toml` gives"."""
    key = "-".join(["key", "of", "the", "test"])
    with FakeOpenAI([Fail(500), "Here."], key=key).in_thread() as fake:
        (tmp_path / "modelpact.toml").write_text(
            f'[providers.local]\nkind = "openai"\nbase_url = "{fake.base_url}"\n'
            'api_key = { env = "LOCAL" }\n'
            '[workloads.talk]\nmodel = "local/gpt-4o"\n'
            '[machines.triage]\ncontract = "^9.0"\n'
            '[[machines.triage.stages]]\nname = "sort"\nneeds = ["structured-output"]\n'
        )
        done = run("chat", stdin="Hi\nHi again\n/sm attach triage\n/sm\n/provider\n", LOCAL=key)
    assert done.stdout.startswith("Here.\n")
    assert "answered 500" in done.stderr
    assert "send it again, or switch with /provider" in done.stderr
    assert "load-time contract version" in done.stderr
    assert "sort" in done.stdout
    assert "● local" in done.stdout


def test_a_configured_model_without_a_key_is_not_the_default(run: Run, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text('[workloads.talk]\nmodel = "openai/gpt-5"\n')
    done = run("chat", stdin="Hi\n", OPENAI_API_KEY="")
    assert done.stdout == "You said: Hi\n"


def test_a_model_that_cannot_stream_is_called_without_streaming(run: Run, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text('[models."mock/slow"]\nstreaming = false\n')
    done = run("chat", "--model", "mock/slow", stdin="Hi\n")
    assert done.returncode == 0
    assert "ProviderCapability/MissingStreaming" in done.stdout
    assert done.stdout.endswith("You said: Hi\n")


def test_invalid_utf8_input_is_replaced(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modelpact", "chat"],
        input=b"caf\xe9 \x00\n",
        capture_output=True,
        env={**os.environ, "MODELPACT_DATA": str(tmp_path), "PYTHONUTF8": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "You said: caf\ufffd \\x00\n"


def test_a_long_answer_does_not_hide_the_events_before_it(run: Run) -> None:
    done = run("chat", "--json", stdin=f"/params seed=1\n{'long ' * 2_000}\n/audit\n")
    types = [event["type"] for event in objects(done.stdout)[-1]["events"]]
    assert "session.params" in types
    assert "capability.partial" not in types
