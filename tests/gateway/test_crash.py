"""`kill -9` under load, and two gateways on one store: acknowledged requests are recorded."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.gateway.load_clients import Load, invocation_outcomes, total_spent, verify_ledger
from tests.gateway.processes import Process, Upstream, started, until
from tests.gateway.test_reload import configuration

ENOUGH = 150
"""Answers before the gateway is killed: many share a commit by then."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream("one").in_thread() as listening:
        yield listening


def folder_for(place: Path, upstream: Upstream, store: str, name: str = "gateway") -> Path:
    place.mkdir(exist_ok=True)
    names = f'[gateway]\nname = "{name}"\n[host]\nname = "{name}"\n'
    text = f"[store]\nurl = {json.dumps(store)}\n{names}{configuration(openai=upstream)}"
    (place / "modelpact.toml").write_text(text)
    return place


def killed(gateway: Process, load: Load) -> None:
    """Kill a gateway in the midst of its work."""
    until(lambda: len(load.answered) >= ENOUGH or bool(load.unexpected), "there is load")
    gateway.signal(signal.SIGKILL)
    assert gateway.wait() == -signal.SIGKILL
    load.end()
    assert not load.unexpected


def test_acknowledged_requests_survive_a_kill(url: str, upstream: Upstream, run: Run, tmp_path: Path) -> None:
    """MP-A11: nothing that was acknowledged is lost, and the chain of events verifies."""
    folder = folder_for(tmp_path / "one", upstream, url)
    with started(folder) as gateway:
        load = Load(gateway, "openai/gpt-4o")
        killed(gateway, load)
    verify_ledger(run, url)
    record = invocation_outcomes(run, url)
    assert {record.get(invocation) for invocation, _ in load.answered} == {"completed"}
    assert len({invocation for invocation, _ in load.answered}) == len(load.answered), "each has its own"
    assert total_spent(run, url) >= sum(cost or 0 for _, cost in load.answered)
    with started(folder) as again:
        until(lambda: "invoked" not in invocation_outcomes(run, url).values(), "what was left open is ended")
        assert again.chat("openai/gpt-4o")[0] == 200
    verify_ledger(run, url)
    after = invocation_outcomes(run, url)
    assert set(record) <= set(after)
    assert {after[invocation] for invocation, kind in record.items() if kind != "invoked"} == {"completed"}


@pytest.mark.slow
def test_killed_again_and_again(url: str, upstream: Upstream, run: Run, tmp_path: Path) -> None:
    folder = folder_for(tmp_path / "one", upstream, url)
    answered: list[str] = []
    for _ in range(4):
        with started(folder) as gateway:
            load = Load(gateway, "openai/gpt-4o", clients=12)
            killed(gateway, load)
            answered += [invocation for invocation, _ in load.answered]
    verify_ledger(run, url)
    record = invocation_outcomes(run, url)
    assert {record.get(invocation) for invocation in answered} == {"completed"}


def test_two_gateways_on_one_postgresql(postgres_url: str, upstream: Upstream, run: Run, tmp_path: Path) -> None:
    """One gateway is killed; the other one works as before."""
    first = folder_for(tmp_path / "first", upstream, postgres_url, "first")
    second = folder_for(tmp_path / "second", upstream, postgres_url, "second")
    with started(first) as left, started(second) as right:
        loads = [Load(left, "openai/gpt-4o"), Load(right, "openai/gpt-4o")]
        killed(left, loads[0])
        before = len(loads[1].answered)
        until(lambda: len(loads[1].answered) > before + ENOUGH, "the other goes on")
        with started(first):
            before = len(loads[1].answered)
            until(lambda: len(loads[1].answered) > before + 20, "also while it comes back")
        loads[1].end()
        assert not loads[1].unexpected
    verify_ledger(run, postgres_url)
    record = invocation_outcomes(run, postgres_url)
    answered = [name for load in loads for name, _ in load.answered]
    assert {record.get(name) for name in answered} == {"completed"}
    reported = sum(cost or 0 for load in loads for _, cost in load.answered)
    assert total_spent(run, postgres_url) >= reported > 0


def test_keys_and_budgets_hold_at_both_gateways(
    postgres_url: str, upstream: Upstream, run: Run, tmp_path: Path
) -> None:
    first = folder_for(tmp_path / "first", upstream, postgres_url, "first")
    second = folder_for(tmp_path / "second", upstream, postgres_url, "second")
    made = run(*("keys", "create", "app", "--budget", "0.0001", "--json", "--store", postgres_url))
    assert made.returncode == 0, made.stderr
    key = {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    body = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    with started(first) as left, started(second) as right:

        def ask(gateway: Process) -> int:
            return gateway.ask("POST", "/v1/chat/completions", {**body, "max_tokens": 3}, **key)[0]

        assert ask(left) == 200
        until(lambda: ask(left) == 429, "the budget is spent")
        assert ask(right) == 429, "what the other spent is known here as soon as it matters"
        revoked = run("keys", "revoke", "app", "--store", postgres_url)
        assert revoked.returncode == 0, revoked.stderr
        for gateway in (left, right):
            until(lambda gateway=gateway: ask(gateway) == 401, "the key is gone")  # type: ignore[misc]
