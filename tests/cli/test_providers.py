"""`modelpact providers` and `modelpact invocations`, as processes."""

import asyncio
import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.identity import Authority, fingerprint
from modelpact.ledger import Ledger
from modelpact.providers.contract import ComplianceProfile, ContractError
from modelpact.providers.runtime.human import ASK, human_registration
from modelpact.providers.runtime.runtime import Runtime
from tests.cli.conftest import Run
from tests.identity.conftest import der

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
        opened = asyncio.run(Runtime(ledger).invoke("human", ASK, {"question": question}, semantics="async", **more))
    return opened.id


def test_the_life_cycle_of_a_provider(desk: Path, run: Run) -> None:
    listing = data(run("providers", "list", "--json"))
    assert [(entry["id"], entry["state"]) for entry in listing] == [("human", "active")]
    output = run("providers", "show", "human").stdout
    assert ASK in output
    waiting = ask(desk)
    assert data(run("providers", "show", "human", "--json"))["open"] == 1
    deregistered = data(run("providers", "deregister", "human", "--policy", "cancel", "--json"))
    assert deregistered["event"].startswith("registry:")
    assert data(run("invocations", "show", waiting, "--json"))["state"] == "cancelled"
    second = run("providers", "deregister", "human")
    assert second.returncode == 1
    assert "no active provider" in second.stderr
    assert "deregistered" in run("providers", "list").stdout


def test_the_inbox_of_a_human(desk: Path, run: Run) -> None:
    """MP-P8: "A person answers the invocations of human providers"."""
    assert run("invocations", "list").stdout == "None are open.\n"
    first, second = ask(desk), ask(desk, "And this?", deadline_s=3_600)
    text = run("invocations", "list").stdout
    assert first in text
    assert "Ship it?" in text
    assert [invocation["id"] for invocation in data(run("invocations", "list", "--json"))] == [second, first]
    wrong = run("invocations", "answer", first, '{"reply": 1}')
    assert wrong.returncode == 2
    assert "does not fit" in wrong.stderr
    done = data(run("invocations", "answer", first, '{"answer": "yes"}', "--json"))
    assert (done["state"], done["output"]) == ("completed", {"answer": "yes"})
    repeated = run("invocations", "answer", first, '{"answer": "no"}')
    assert repeated.returncode == 1
    assert "already completed" in repeated.stderr
    output = run("invocations", "show", first).stdout
    assert '"answer": "yes"' in output
    assert done["settled_by"] in output
    assert run("invocations", "cancel", second, "--reason", "late").returncode == 0
    assert run("invocations", "cancel", second).returncode == 1
    states = [invocation["state"] for invocation in data(run("invocations", "list", "--state", "all", "--json"))]
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
    ("args", "code", "message"),
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
        (("providers", "show", "\udcff"), 2, "unknown provider"),
        (("invocations", "show", "\udcff"), 2, "no invocation"),
        (("providers", "deregister", "\udcff"), 1, "no active provider"),
        (("invocations", "list", "--provider", "\udcff"), 0, ""),
        (("providers", "register", "broken.json"), 2, "registration.baseUrl"),
    ],
)
def test_wrong_usage(desk: Path, run: Run, args: tuple[str, ...], code: int, message: str) -> None:
    (desk / "bad.json").write_text('{"id": "X Y"}')
    (desk / "bad.toml").write_text("= 1")
    plain = {**HUMAN, "id": "far", "baseUrl": "http://far.example", "signingKey": "a" * 64}
    (desk / "plain.json").write_text(json.dumps(plain))
    (desk / "broken.json").write_text(json.dumps({**plain, "baseUrl": "http://[::1"}))
    done = run(*args)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_profile_of_the_configuration_is_in_force(desk: Path, run: Run) -> None:
    """MP-P7: "Compliance profiles are named bundles of policy in the configuration"."""
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


def test_of_two_answers_only_one_counts(desk: Path) -> None:
    """Two people answer one question: one answer counts, the other is an error, none is flagged."""

    async def both(entry: Runtime, two: Runtime, waiting: str) -> list[Any]:
        answers = [
            runtime.inbox.answer(waiting, {"answer": str(number)})
            for number, runtime in enumerate((entry, two, entry, two))
        ]
        return await asyncio.gather(*answers, return_exceptions=True)

    url, strict = f"sqlite:{desk / 'work.db'}", ComplianceProfile(on_violation="deregister")
    waiting = ask(desk)
    with Ledger.open(url) as entry, Ledger.open(url) as two:
        results = asyncio.run(both(Runtime(entry, profile=strict), Runtime(two, profile=strict), waiting))
        done = [came_one for came_one in results if not isinstance(came_one, Exception)]
        late = [came_one for came_one in results if isinstance(came_one, ContractError)]
        assert [entry.state for entry in done] == ["completed"]
        assert [entry.code for entry in late] == ["settled"] * 3
        assert Runtime(entry).find(waiting).output == done[0].output
        assert [event.type for event in entry.events("registry")] == ["provider.registered"]


def test_the_list_shows_where_an_invocation_is_answered(desk: Path, run: Run) -> None:
    remote = {**HUMAN, "id": "remote", "baseUrl": "http://127.0.0.1:1", "signingKey": "a" * 64}
    (desk / "remote.json").write_text(json.dumps(remote))
    assert run("providers", "register", "remote.json").returncode == 0
    local = ask(desk)
    with Ledger.open(f"sqlite:{desk / 'work.db'}") as ledger:
        question = {"question": "?"}
        there = asyncio.run(Runtime(ledger).invoke("remote", ASK, question, semantics="async"))
    assert there.state == "failed"
    listing = run("invocations", "list", "--state", "all").stdout
    assert [line.split()[0] for line in listing.splitlines() if " here " in line] == [local]
    assert [line.split()[0] for line in listing.splitlines() if " by provider " in line] == [there.id]
    refused = run("invocations", "answer", there.id, '{"answer": "x"}')
    assert refused.returncode == 2
    assert "of category human that was registered without a baseUrl" in refused.stderr


def test_an_invocation_is_shown_with_its_cost_and_events(desk: Path, run: Run) -> None:
    waiting = ask(desk)
    assert run("invocations", "answer", waiting, '{"answer": "yes"}').returncode == 0
    output = run("invocations", "show", waiting).stdout
    assert "1 pieces" in output
    assert "by human, " in output
    assert [line.split()[-1] for line in output.splitlines()[-2:]] == ["capability.invoked", "capability.completed"]
    expected = data(run("invocations", "show", waiting, "--json"))
    assert {line["unit"] for line in expected["cost"]["lines"]} == {"time", "discrete"}
    assert len(expected["events"]) == 2


def test_deregistering_reports_the_open_invocations(desk: Path, run: Run) -> None:
    ask(desk)
    ask(desk)
    assert "It may still answer: 2 open invocations." in run("providers", "deregister", "human").stdout
    assert run("providers", "register", "human.json").returncode == 0
    done = run("providers", "deregister", "human", "--policy", "cancel", "--release")
    assert done.stdout.startswith("human is released (registry:4). Cancelled: 2 open")
    assert data(run("providers", "list", "--json"))[0]["state"] == "released"


def test_all_problems_of_a_registration_are_reported_at_once(desk: Path, run: Run) -> None:
    bad = {
        "id": "x",
        "category": "robot",
        "unit": ["time"],
        "offers": [{"kind": "urn:a:b", "inptu": {}, "semantics": ["sync", "later"]}],
    }
    (desk / "bad.json").write_text(json.dumps(bad))
    message = run("providers", "register", "bad.json").stderr
    lines = message.splitlines()
    assert lines[0] == "modelpact: 7 problems:"
    assert all(line.startswith("  bad.json: registration") for line in lines[1:])
    for expected in (
        "registration: unknown field 'unit'; did you mean units?",
        "registration.category: Invalid enum value 'robot'; expected of model, tool, knowledge",
        "registration.units: is missing: one of currency, tokens.input",
        "registration.offers[0]: unknown field 'inptu'; did you mean input?",
        "registration.offers[0].input: is missing",
        "registration.offers[0].semantics: Invalid enum value 'later'",
    ):
        assert expected in message
    (desk / "bad.json").write_text(json.dumps({**HUMAN, "units": ["hours"]}))
    message = run("providers", "register", "bad.json").stderr
    assert "expected of currency, tokens.input" in message
    sync = {**HUMAN, "offers": [{**HUMAN["offers"][0], "semantics": ["sync"]}]}
    (desk / "bad.json").write_text(json.dumps(sync))
    message = run("providers", "register", "bad.json").stderr
    assert "a human without a baseUrl answers from the inbox, later" in message


def test_a_revoked_identity_is_shown(desk: Path, run: Run) -> None:
    authority = Authority.init(desk / "data" / "identity" / "authority")
    issued = authority.issue("far", "provider", ["127.0.0.1"])
    far = {
        **HUMAN,
        "id": "far",
        "baseUrl": "https://127.0.0.1:1",
        "signingKey": "a" * 64,
        "identity": fingerprint(der(issued.path)),
    }
    (desk / "far.json").write_text(json.dumps(far))
    assert run("providers", "register", "far.json").returncode == 0
    assert "revoked" not in run("providers", "list").stdout
    authority.revoke("far")
    assert "revoked" in run("providers", "list").stdout
    assert "(revoked)" in run("providers", "show", "far").stdout
    listing = data(run("providers", "list", "--json"))
    assert {entry["id"]: entry["revoked"] for entry in listing} == {"far": True, "human": False}


def test_control_characters_from_a_provider_are_rejected_or_escaped(desk: Path, run: Run) -> None:
    offer = HUMAN["offers"][0]
    for change in (
        {"name": "n\x1b]0;title\x07"},
        {"name": "two\nlines"},
        {"offers": [{**offer, "kind": "urn:x:\x1b[31mred"}]},
        {"offers": [{**offer, "description": "\x1b[2J"}]},
        {"baseUrl": "http://127.0.0.1:1/\x1b[2J", "signingKey": "a" * 64},
    ):
        (desk / "bad.json").write_text(json.dumps({**HUMAN, **change}))
        done = run("providers", "register", "bad.json")
        assert done.returncode == 2
        assert "\x1b" not in done.stderr
    waiting = ask(desk, "\x9b31m\u202e red")
    run("invocations", "answer", waiting, "--error", "no \x9b2J")
    with sqlite3.connect(desk / "work.db") as raw:  # as an older version let it in
        raw.execute("UPDATE providers SET registration = REPLACE(registration, 'A question', '\\u001b[31m')")
    raw.close()
    for args in (
        ("providers", "list"),
        ("providers", "show", "human"),
        ("invocations", "list", "--state", "all"),
        ("invocations", "show", waiting),
    ):
        done = run(*args)
        assert done.returncode == 0, done.stderr
        assert not set(done.stdout) & {"\x1b", "\x9b", "\u202e", "\x07"}
