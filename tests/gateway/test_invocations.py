"""Calls of a gateway as invocations: two events each and no row, listed, shown and recovered."""

import contextlib
import http.client
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.ledger.ledger import Ledger
from modelpact.providers.runtime.lookup import list_in_events, unfinished_envelopes
from tests.cli.conftest import Run
from tests.fakes import Fail
from tests.gateway.conftest import Serve
from tests.gateway.processes import CHAT, Process, Upstream, chat_body, started, until
from tests.gateway.support import RunningGateway
from tests.gateway.test_crash import folder_for

DAY = 86_400 * 10**9
EVENING = 1_767_657_540 * 10**9
"""2026-01-05T23:59:00Z."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream("one").in_thread() as listening:
        yield listening


@contextlib.contextmanager
def open_call(gateway: Process, upstream: Upstream) -> Iterator[str]:
    """Have a stream that does not end, and give its invocation."""
    upstream.held = True
    with contextlib.closing(gateway.open("POST", CHAT, chat_body("openai/gpt-4o", stream=True))) as connection:
        answer = connection.getresponse()
        assert b"one" in answer.readline()
        yield answer.headers["modelpact-invocation"]


def open_stream(gateway: RunningGateway, model: str) -> http.client.HTTPConnection:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    headers = {"authorization": f"Bearer {gateway.key}", "content-type": "application/json"}
    connection.request("POST", CHAT, json.dumps(chat_body(model, stream=True)), headers)
    return connection


def listed(run: Run, store: str, *options: str) -> list[Any]:
    done = run("invocations", "list", *options, "--json", "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    invocations: list[Any] = json.loads(done.stdout)
    return invocations


def show(run: Run, store: str, name: str) -> Any:
    done = run("invocations", "show", name, "--json", "--store", store)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_request_is_two_events_and_no_row(gateway: RunningGateway, run: Run) -> None:
    """MP-A6: a request is two events, opened and settled."""
    gateway.openai.script.add("yes", Fail(400, "no"))
    names = [gateway.chat("gpt-4o").headers["modelpact-invocation"] for _ in range(2)]
    gateway.settled()
    assert gateway.ledger.read("SELECT COUNT(*) FROM invocations") == [(0,)]
    opened = gateway.events("capability.invoked")
    assert [invocation.id for invocation in opened] == names
    ends = [event for event in gateway.events() if event.cause in names]
    assert [(end.type, end.cause) for end in ends] == [
        ("capability.completed", names[0]),
        ("capability.failed", names[1]),
    ]
    store = f"sqlite:{gateway.path}"
    assert listed(run, store) == []
    for state, name in (("completed", names[0]), ("failed", names[1])):
        (invocation,) = listed(run, store, "--state", state)
        assert invocation["id"] == name
        details = show(run, store, name)
        assert details["state"] == state
        assert [event["type"] for event in details["events"]] == ["capability.invoked", f"capability.{state}"]
    assert [entry["id"] for entry in listed(run, store, "--state", "all")] == names[::-1]
    assert listed(run, store, "--state", "all", "--provider", "anthropic") == []
    header, *rows = run("invocations", "list", "--state", "all", "--store", store).stdout.splitlines()
    assert header.split()[:5] == ["invocation", "state", "provider", "model", "asked"]
    assert [row.split()[2:4] for row in rows] == [["openai", "gpt-4o"]] * 2
    for command in (("invocations", "show"), ("audit", "show", "--why")):
        done = run(*command, names[0], "--store", store)
        assert done.returncode == 0, done.stderr
        assert names[0] in done.stdout


def test_show_has_model_worker_cost_and_content(serve: Serve, run: Run) -> None:
    """Its model, its workload and its key; not what only a runtime's invocations have."""
    gateway = serve('[workloads.extract]\nmodel = "openai/gpt-4o"\nneeds = []\n')
    gateway.openai.script.add(Fail(400, "no"))
    name = gateway.chat("workload/extract").headers["modelpact-invocation"]
    gateway.settled()
    done = run("invocations", "show", name, "--store", f"sqlite:{gateway.path}")
    assert done.returncode == 0, done.stderr
    facts = dict(line.split(maxsplit=1) for line in done.stdout.split("\n\n")[0].splitlines())
    assert (facts["state"], facts["model"], facts["function"]) == ("failed", "gpt-4o", "extract")
    assert facts["worker"].startswith("key_")
    assert not {"answered", "reminders", "until"} & set(facts), "its error says who ended it"


def test_an_open_call_can_be_listed_but_not_cancelled_or_answered(upstream: Upstream, run: Run, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'ledger.db'}"
    folder = folder_for(tmp_path / "one", upstream, store)
    with started(folder) as gateway, open_call(gateway, upstream) as name:
        assert [entry["id"] for entry in listed(run, store)] == [name]
        assert listed(run, store, "--state", "failed") == []
        details = show(run, store, name)
        assert (details["state"], details["cost"]) == ("open", None)
        cancelled = run("invocations", "cancel", name, "--store", store)
        assert cancelled.returncode == 1
        assert "is a request at a gateway: it ends with its client" in cancelled.stderr
        answered = run("invocations", "answer", name, '"yes"', "--store", store)
        assert answered.returncode == 1
        assert "is a request at a gateway: its provider answers it" in answered.stderr
        envelope = name.rpartition(":")[0]
        archived = run("audit", "archive", envelope, "--to", "a.gz", "--store", store)
        assert archived.returncode != 0
        assert "belongs to a gateway that has not finished it" in archived.stderr
        assert not (tmp_path / "a.gz").exists()
        upstream.release.set()
        until(lambda: listed(run, store) == [], "it ends")
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
    assert show(run, store, name)["state"] == "completed"
    again = run("invocations", "cancel", name, "--store", store)
    assert again.returncode == 1
    assert "is already completed" in again.stderr
    with Ledger.open(store) as ledger:
        assert ledger.events(envelope)[-1].type == "gateway.stopped"
    archived = run("audit", "archive", envelope, "--to", "a.gz", "--store", store)
    assert archived.returncode == 0, archived.stderr


def test_calls_of_a_killed_gateway_are_settled_by_the_next(
    url: str, upstream: Upstream, run: Run, tmp_path: Path
) -> None:
    """By one of the same name, as failed, with its estimate for a cost; by no other."""
    folder = folder_for(tmp_path / "one", upstream, url)
    other = folder_for(tmp_path / "other", upstream, url, "other")
    with started(folder) as gateway, open_call(gateway, upstream) as name:
        gateway.signal(signal.SIGKILL)
        assert gateway.wait() == -signal.SIGKILL
    upstream.release.set()
    with started(other):
        assert show(run, url, name)["state"] == "open"
    with Ledger.open(url) as ledger:
        (opened,) = [event for event in ledger.events(name.rpartition(":")[0]) if event.id == name]
    with started(folder):
        until(lambda: show(run, url, name)["state"] != "open", "it is settled")
    details = show(run, url, name)
    assert details["state"] == "failed"
    assert details["error"].startswith("interrupted: ")
    assert details["cost"]["estimate"] is True
    assert details["cost"]["lines"] == opened.payload["estimate"]
    assert [entry["id"] for entry in listed(run, url, "--state", "failed")] == [name]
    with Ledger.open(url) as ledger:
        assert ledger.events(name.rpartition(":")[0])[-1].type == "gateway.stopped"
        assert unfinished_envelopes(ledger, "gateway") == []
    verified = run("audit", "verify", "--store", url)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_imported_calls_are_not_settled(gateway: RunningGateway, run: Run, tmp_path: Path) -> None:
    """The gateway of another store may have this one's name, and be alive."""
    name = gateway.chat("gpt-4o").headers["modelpact-invocation"]
    envelope = name.rpartition(":")[0]
    source, target = f"sqlite:{gateway.path}", f"sqlite:{tmp_path / 'other.db'}"
    for done in (
        run("audit", "export", envelope, "-o", "live.jsonl", "--store", source),
        run("audit", "import", "live.jsonl", "--unsigned", "--store", target),
    ):
        assert done.returncode == 0, done.stderr
    with Ledger.open(target) as ledger:
        assert unfinished_envelopes(ledger, "gateway") == []
    assert unfinished_envelopes(gateway.ledger, "gateway") == [envelope]


def test_a_listing_says_when_it_was_truncated(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        gateway.chat("gpt-4o")
    gateway.settled()
    assert list_in_events(gateway.ledger, "open", "", 100) == ([], False)
    monkeypatch.setattr("modelpact.providers.runtime.lookup._PAGE", 2)
    monkeypatch.setattr("modelpact.providers.runtime.lookup.MAX_LISTED_EVENTS", 4)
    assert list_in_events(gateway.ledger, "open", "", 100) == ([], True)
    invocations, cut = list_in_events(gateway.ledger, "completed", "", 2)
    assert (len(invocations), cut) == (2, False), "as many as were wanted"


def test_envelopes_rotate_at_midnight(serve: Serve, upstream: Upstream) -> None:
    """What began before midnight ends where it began; an envelope is finished with its last."""
    ahead = [0]
    began = time.monotonic_ns()
    gateway = serve(
        f'[providers.held]\nkind = "vllm"\nbase_url = "{upstream.base_url}"\n'
        '[workloads.quick]\nmodel = "openai/gpt-4o"\nneeds = []\n',
        clock=lambda: EVENING + time.monotonic_ns() - began + ahead[0],
    )

    def ends(envelope: str) -> str:
        return gateway.ledger.events(envelope)[-1].type

    def envelope_of(model: str) -> str:
        name = gateway.chat(model).headers["modelpact-invocation"]
        return name.rpartition(":")[0]

    quick = envelope_of("workload/quick")
    assert quick.endswith("/quick/2026-01-05")
    upstream.held = True
    with contextlib.closing(open_stream(gateway, "held/gpt-4o")) as connection:
        stream = connection.getresponse()
        assert b"one" in stream.readline()
        name = stream.headers["modelpact-invocation"]
        direct = name.rpartition(":")[0]
        assert direct.endswith("/direct/2026-01-05")
        ahead[0] = 2 * 60 * 10**9
        assert envelope_of("gpt-4o") == direct.replace("01-05", "01-06")
        gateway.wait_until(lambda: ends(quick) == "gateway.stopped")
        assert ends(direct) == "capability.invoked", "something in it is open"
        upstream.release.set()
        assert stream.read().rstrip().endswith(b"[DONE]")
    gateway.wait_until(lambda: ends(direct) == "gateway.stopped")
    last = gateway.ledger.events(direct)[-2]
    assert (last.type, last.cause) == ("capability.completed", name)
    ahead[0] += DAY
    assert envelope_of("workload/quick").endswith("/quick/2026-01-07")
    gateway.wait_until(lambda: ends(direct.replace("01-05", "01-06")) == "gateway.stopped")
