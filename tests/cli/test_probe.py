"""`modelpact probe` as a process, against fakes on real sockets."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.evidence import Observation, record
from modelpact.ledger import Ledger
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal
from tests.fakes.behaviours import obedient
from tests.fakes.openai import FakeOpenAI
from tests.fakes.openai_rules import Model
from tests.fakes.replies import Reply, Step, drip, hang
from tests.fakes.server import FakeServer
from tests.gateway.processes import until


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[FakeServer]:
    """A server whose gpt-4o claims tools and stops, and has neither."""
    model = Model("gpt-4o", ignores=("stop", "tools", "tool_choice", "parallel_tool_calls"))
    with FakeOpenAI(models=[model], behaviour=obedient).in_thread() as fake:
        configure(tmp_path, fake)
        yield fake


def configure(folder: Path, fake: FakeServer, more: str = "") -> None:
    (folder / "modelpact.toml").write_text(
        f'{more}\n[providers.local]\nkind = "openai"\nbase_url = "{fake.base_url}"\n'
    )


def test_show_displays_the_evidence_of_a_probe(run: Run, liar: FakeServer) -> None:
    """MP-I5: `probe` "keeps its evidence with date and transcript hash, and `show` displays it"."""
    done = run("probe", "local/gpt-4o", "--yes", "--capability", "tools", "--capability", "seed")
    assert done.returncode == 1, done.stderr
    rows = {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith(tuple("✓✗?"))}
    assert "contradicts" in rows["tool-calling"]
    assert "supported" in rows["seed"]
    assert "1 of 2 contradicts the catalog." in done.stdout
    output = run("show", "local/gpt-4o")
    (line,) = [entry for entry in output.stdout.splitlines() if " tool-calling " in entry]
    assert line.startswith("✗")
    assert "probe on 20" in line
    assert "silently ignored" in line
    assert "contradicts litellm models-dev: native" in line
    assert output.stderr == ""


def test_evidence_overrules_the_catalog_until_it_is_deleted(run: Run, liar: FakeServer) -> None:
    run("probe", "local/gpt-4o", "--yes", "--capability", "tools")
    trace = json.loads(run("show", "local/gpt-4o", "--trace", "--json").stdout)
    last = trace["trace"][-1]
    assert (last["layer"], last["rule"]) == ("evidence", "probe")
    assert last["source"].startswith("sha256:")
    assert last["fields"] == {"tool_calling": False}
    assert trace["overruled"]["tool-calling"]["support"] == "native"
    negotiated = run("negotiate", "--target", "local/gpt-4o", "--need", "tools")
    assert negotiated.returncode == 1
    assert "probe on 20" in negotiated.stdout
    listing = run("models", "--need", "tools", "--provider", "local")
    assert "local/gpt-4o" not in listing.stdout
    forgotten = run("probe", "local/gpt-4o", "--forget")
    assert forgotten.stdout == "1 piece of evidence on local/gpt-4o deleted.\n"
    assert run("negotiate", "--target", "local/gpt-4o", "--need", "tools").returncode == 0


def test_evidence_from_use_is_shown_with_its_date(run: Run, tmp_path: Path) -> None:
    """MP-A12: what an upstream rejects becomes evidence, which `show` displays."""
    with Ledger.open(f"sqlite:{tmp_path / 'data' / 'modelpact.db'}") as ledger:
        message = "rejected: gpt-4o does not support tools"
        record(ledger, Observation("openai", "gpt-4o", "tool-calling", "unsupported", None, "use", message))
    (line,) = [entry for entry in run("show", "openai/gpt-4o").stdout.splitlines() if " tool-calling " in entry]
    assert "use on 20" in line
    assert message in line
    assert "contradicts litellm models-dev: native" in line


def test_check_uses_the_evidence(run: Run, liar: FakeServer, tmp_path: Path) -> None:
    workload = '[workloads.w]\nmodel = "local/gpt-4o"\nneeds = ["tools"]'
    configure(tmp_path, liar, workload)
    assert run("check").returncode == 0
    run("probe", "local/gpt-4o", "--yes", "--capability", "tools")
    assert run("check").returncode == 1


def test_nothing_is_spent_without_consent(run: Run, liar: FakeServer) -> None:
    done = run("probe", "local/gpt-4o")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "at most $" in done.stdout
    assert liar.requests == []


def test_a_terminal_is_asked_to_confirm_the_cost(liar: FakeServer, tmp_path: Path) -> None:
    """MP-I5: `probe` "shows its cost estimate first"."""
    arguments = ("probe", "local/gpt-4o", "--capability", "tools", "--capability", "seed")
    with Terminal(*arguments, cwd=tmp_path) as terminal:
        terminal.expect_match(r"at most \$\S+, budget \$0\.10\s+Continue\? \[y/N\]:")
        terminal.type("n\r")
        assert terminal.ended() == 0
    assert liar.requests == []
    with Terminal(*arguments, cwd=tmp_path) as terminal:
        terminal.expect("Continue? [y/N]:")
        terminal.type("y\r")
        terminal.expect("1 of 2 contradicts the catalog.")
        assert terminal.ended() == 1
    assert liar.requests


def test_a_slow_probe_shows_a_progress_bar(tmp_path: Path) -> None:
    """MP-I5: … "and a progress bar while it runs"."""
    slow = [Reply(text="x", fault=drip(0.02, size=40))] * 8
    with FakeOpenAI(slow).in_thread() as fake:
        configure(tmp_path, fake)
        arguments = ("probe", "local/gpt-4o", "--yes", "--capability", "tools", "--capability", "seed")
        with Terminal(*arguments, cwd=tmp_path) as terminal:
            terminal.expect("transcript sha256:")
            terminal.ended()
    assert re.search(r"\rProbing local/gpt-4o █+░+ +\d+%", terminal.raw.decode())
    assert "░" not in terminal.text, "the bar is taken away at the end"


@pytest.mark.parametrize(
    ("answers", "message"), [(2, "✓  tool-calling"), (0, "local/gpt-4o could not be probed: interrupted")]
)
def test_results_before_an_interrupt_are_shown_and_stored(run: Run, tmp_path: Path, answers: int, message: str) -> None:
    left = iter([True] * answers)

    def behaviour(body: dict[str, Any]) -> Step:
        return obedient(body) if next(left, False) else Reply(fault=hang(-1))

    with FakeOpenAI(models=[Model("gpt-4o")], behaviour=behaviour).in_thread() as fake:
        configure(tmp_path, fake)
        arguments = ("probe", "local/gpt-4o", "--yes", "--capability", "tools", "--capability", "seed")
        with Terminal(*arguments, cwd=tmp_path) as terminal:
            until(lambda: len(fake.requests) == answers + 1, "the call that is not answered")
            terminal.type("\x03")
            assert terminal.ended() == 130
            terminal.expect(message)
            if answers:
                assert "The probe ended early: interrupted" in terminal.text
                assert f"{answers + 1} calls" in terminal.text
    assert ("probe on 20" in run("show", "local/gpt-4o").stdout) is bool(answers)
    assert run("invocations", "list").stdout == "None are open.\n"


def test_json_has_the_results_before_an_interrupt(tmp_path: Path) -> None:
    def behaviour(body: dict[str, Any]) -> Step:
        return Reply(fault=hang(-1)) if "seed" in body else obedient(body)

    with FakeOpenAI(models=[Model("gpt-4o")], behaviour=behaviour).in_thread() as fake:
        configure(tmp_path, fake)
        arguments = ("probe", "local/gpt-4o", "--yes", "--json", "--capability", "tools")
        process = subprocess.Popen(
            [sys.executable, "-m", "modelpact", *arguments, "--capability", "seed"],
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "MODELPACT_DATA": str(tmp_path / "data")},
        )
        until(lambda: len(fake.requests) == 3, "the call that is not answered")
        process.send_signal(signal.SIGINT)
        report = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 130
    assert report["stopped"] == "interrupted"
    verdicts = {result["capability"]: result["verdict"] for result in report["results"]}
    assert verdicts == {"tool-calling": "supported", "seed": "inconclusive"}


def test_a_dry_run_prints_the_plan(run: Run, liar: FakeServer) -> None:
    plan = json.loads(run("probe", "local/gpt-4o", "--dry-run", "--json").stdout)
    assert plan["mostNanoUsd"] > 0
    assert plan["budgetNanoUsd"] == 100_000_000
    assert "streaming" in plan["capabilities"]
    assert liar.requests == []


def test_json_and_the_transcript(run: Run, liar: FakeServer, tmp_path: Path) -> None:
    stored = tmp_path / "transcript.json"
    arguments = ("--capability", "stop", "--transcript", str(stored))
    done = run("probe", "local/gpt-4o", "--yes", "--json", *arguments)
    report = json.loads(done.stdout)
    assert report["contradictions"] == ["stop-sequences"]
    assert report["spentNanoUsd"] > 0
    assert report["transcript"] == f"sha256:{hashlib.sha256(stored.read_bytes()).hexdigest()}"
    output = run("audit", "show", report["envelope"])
    assert "capability.completed" in output.stdout


def test_no_store_keeps_nothing(run: Run, liar: FakeServer, tmp_path: Path) -> None:
    done = run("probe", "local/gpt-4o", "--yes", "--no-store", "--capability", "stop")
    assert done.returncode == 1
    assert "nothing stored" in done.stdout
    assert not (tmp_path / "data" / "modelpact.db").exists()


def test_a_model_that_agrees_with_the_catalog_exits_with_0(run: Run, tmp_path: Path) -> None:
    with FakeOpenAI(behaviour=obedient).in_thread() as fake:
        configure(tmp_path, fake)
        done = run("probe", "local/gpt-4o", "--yes", "--budget", "1")
    assert done.returncode == 0, done.stdout
    assert "contradict" not in done.stdout


def test_an_exhausted_budget_is_reported(run: Run, liar: FakeServer) -> None:
    done = run("probe", "local/gpt-4o", "--yes", "--budget", "$0.003")
    assert "The probe ended early: the next call might exceed the budget" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("local/no-such-model", "--yes"), "could not be probed"),
        (("local/gpt-4o", "--yes", "--budget", "much"), "not an amount"),
        (("local/gpt-4o", "--yes", "--capability", "batch-api"), "cannot be probed"),
        (("nobody/model", "--yes"), "unknown provider"),
    ],
)
def test_errors_exit_with_2(run: Run, liar: FakeServer, args: tuple[str, ...], message: str) -> None:
    done = run("probe", *args)
    assert done.returncode == 2
    assert message in done.stderr


def test_show_does_not_create_a_store(run: Run, tmp_path: Path) -> None:
    done = run("show", "openai/gpt-4o")
    assert done.returncode == 0
    assert not (tmp_path / "data").exists()


def test_a_broken_store_is_only_a_warning_for_show(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "modelpact.db").write_bytes(b"this is no database" * 100)
    done = run("show", "openai/gpt-4o")
    assert done.returncode == 0
    assert "evidence is ignored" in done.stderr
    assert "tool-calling" in done.stdout


def test_an_unreachable_postgresql_is_only_a_warning_for_show(run: Run, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text('[store]\nurl = "postgresql://127.0.0.1:9/none?connect_timeout=2"\n')
    done = run("show", "openai/gpt-4o")
    assert done.returncode == 0
    assert "evidence is ignored" in done.stderr


def test_a_probe_of_the_mock_finds_contradictions(run: Run) -> None:
    done = run("probe", "mock/demo", "--yes")
    assert done.returncode == 1
    assert "the price is unknown" in done.stdout


def test_an_unwritable_transcript_is_reported_before_anything_is_spent(run: Run) -> None:
    done = run("probe", "mock/demo", "--yes", "--transcript", "no/such/folder/file")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "0 pieces" in run("probe", "mock/demo", "--forget").stdout
