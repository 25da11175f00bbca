"""`modelpact providers` and `modelpact invocations`, as processes."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.ledger import Ledger
from modelpact.providers.human import ASK, human_registration
from modelpact.providers.runtime import Runtime
from tests.cli.conftest import Run

HUMAN = msgspec.to_builtins(human_registration())


def data(done: "subprocess.CompletedProcess[str]", code: int = 0) -> Any:
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def desk(tmp_path: Path, run: Run) -> Path:
    """A store with a registered human."""
    (tmp_path / "modelpact.toml").write_text('[store]\nurl = "sqlite:work.db"\n')
    (tmp_path / "human.json").write_text(json.dumps(HUMAN))
    done = run("providers", "register", "human.json")
    assert done.returncode == 0, done.stderr
    return tmp_path


def ask(folder: Path, question: str = "Ship it?", **more: Any) -> str:
    with Ledger.open(f"sqlite:{folder / 'work.db'}") as ledger:
        opened = asyncio.run(
            Runtime(ledger).invoke("human", ASK, {"question": question}, semantics="async", **more)
        )
    return opened.id


def test_the_life_of_a_provider(desk: Path, run: Run) -> None:
    listed = data(run("providers", "list", "--json"))
    assert [(one["id"], one["state"]) for one in listed] == [("human", "active")]
    shown = run("providers", "show", "human").stdout
    assert ASK in shown
    waiting = ask(desk)
    assert data(run("providers", "show", "human", "--json"))["open"] == 1
    gone = data(run("providers", "deregister", "human", "--policy", "cancel", "--json"))
    assert gone["event"].startswith("registry:")
    assert data(run("invocations", "show", waiting, "--json"))["state"] == "cancelled"
    again = run("providers", "deregister", "human")
    assert again.returncode == 1
    assert "no active provider" in again.stderr
    assert "deregistered" in run("providers", "list").stdout


def test_the_inbox_of_a_human(desk: Path, run: Run) -> None:
    """Issue 4: "A human's inbox: `modelpact invocations list|show|answer|cancel`"."""
    assert run("invocations", "list").stdout == "None are open.\n"
    first, second = ask(desk), ask(desk, "And this?", deadline_s=3_600)
    people = run("invocations", "list").stdout
    assert first in people
    assert "Ship it?" in people
    assert [one["id"] for one in data(run("invocations", "list", "--json"))] == [second, first]
    wrong = run("invocations", "answer", first, '{"reply": 1}')
    assert wrong.returncode == 2
    assert "does not fit" in wrong.stderr
    done = data(run("invocations", "answer", first, '{"answer": "yes"}', "--json"))
    assert (done["state"], done["output"]) == ("completed", {"answer": "yes"})
    again = run("invocations", "answer", first, '{"answer": "no"}')
    assert again.returncode == 1
    assert "completed already" in again.stderr
    shown = run("invocations", "show", first).stdout
    assert '"answer": "yes"' in shown
    assert done["settled_by"] in shown
    assert run("invocations", "cancel", second, "--reason", "late").returncode == 0
    assert run("invocations", "cancel", second).returncode == 1
    states = [one["state"] for one in data(run("invocations", "list", "--state", "all", "--json"))]
    assert states == ["cancelled", "completed"]


def test_answers_from_a_file_and_errors(desk: Path, run: Run) -> None:
    first, second = ask(desk), ask(desk)
    done = run("invocations", "answer", first, "--file", "-", "--json", stdin='{"answer": "x"}')
    assert data(done)["output"] == {"answer": "x"}
    done = run("invocations", "answer", second, "--error", "not my field", "--json")
    assert (data(done)["state"], data(done)["error"]) == ("failed", "not my field")


def test_an_answer_after_the_deadline_comes_too_late(desk: Path, run: Run) -> None:
    late = ask(desk, deadline_s=0.0)
    assert "overdue" in run("invocations", "list").stdout
    done = run("invocations", "answer", late, '{"answer": "x"}')
    assert done.returncode == 1
    assert "no answer before the deadline" in done.stderr
    assert data(run("invocations", "show", late, "--json"))["state"] == "failed"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("providers", "show", "humam"), 2, "did you mean human"),
        (("providers", "register", "missing.json"), 2, "cannot be read"),
        (("providers", "register", "bad.json"), 2, "registration"),
        (("providers", "register", "bad.toml"), 2, "not TOML"),
        (("providers", "register", "plain.json"), 1, "plain_http"),
        (("providers", "deregister", "nobody"), 1, "no active provider"),
        (("invocations", "show", "inv_x"), 2, "no invocation"),
        (("invocations", "answer", "inv_x", "{}"), 2, "no invocation"),
        (("invocations", "answer", "inv_x"), 2, "Give one of"),
        (("invocations", "answer", "inv_x", "{"), 2, "not JSON"),
        (("invocations", "cancel", "inv_x"), 2, "no invocation"),
        (("invocations", "list", "--state", "odd"), 2, "--state"),
    ],
)
def test_wrong_use(desk: Path, run: Run, args: tuple[str, ...], code: int, said: str) -> None:
    (desk / "bad.json").write_text('{"id": "X Y"}')
    (desk / "bad.toml").write_text("= 1")
    plain = {
        **HUMAN,
        "id": "far",
        "baseUrl": "http://far.example",
        "signingKey": "a" * 64,
    }
    (desk / "plain.json").write_text(json.dumps(plain))
    done = run(*args)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_profile_of_the_configuration_is_in_force(desk: Path, run: Run) -> None:
    """DESIGN: profiles are "named bundles of policy … in the configuration"."""
    text = (
        '[store]\nurl = "sqlite:work.db"\n[profiles.strict]\nrequire_identity = true\n'
        'on_deregistration = "cancel"\n[contract]\nprofile = "strict"\n'
    )
    (desk / "modelpact.toml").write_text(text)
    done = run("providers", "register", "human.json")
    assert done.returncode == 1
    assert "the profile strict takes no provider without an identity" in done.stderr
    waiting = ask(desk)
    assert run("providers", "deregister", "human").returncode == 0
    assert data(run("invocations", "show", waiting, "--json"))["state"] == "cancelled"
