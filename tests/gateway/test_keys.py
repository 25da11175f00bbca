"""Client keys: stored as hashes, limited to models, a budget and a rate."""

import hashlib
import json
from pathlib import Path

import pytest

from modelpact.gateway.budgets import period_start
from modelpact.gateway.key_store import create_key, load_keys, revoke_key
from modelpact.gateway.keys import ClientKey, KeySettings, RateLimiter
from modelpact.ledger.ledger import Ledger
from modelpact.vocabulary.errors import InputError
from tests.cli.conftest import Run
from tests.gateway.conftest import Serve
from tests.gateway.support import RunningGateway


def test_only_the_hash_of_a_key_is_stored(gateway: RunningGateway) -> None:
    secret = gateway.new_key("app")
    assert gateway.chat("gpt-4o", key=secret).status == 200
    stored = b"".join(path.read_bytes() for path in gateway.path.parent.glob("ledger.db*"))
    assert secret.encode() not in stored
    assert hashlib.sha256(secret.encode()).hexdigest().encode() in stored


def test_a_key_is_accepted_in_the_header_of_either_api(gateway: RunningGateway) -> None:
    headers = {"authorization": "", "x-api-key": gateway.key}
    assert gateway.chat("gpt-4o", headers).status == 200
    assert gateway.message("claude-opus-4-5").status == 200


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer nonsense", "Basic abc"])
def test_requests_without_a_key_are_unauthorized(gateway: RunningGateway, sent: str) -> None:
    for path, kind in (("/v1/chat/completions", "invalid_api_key"), ("/v1/messages", "")):
        answer = gateway.ask(path, {"model": "gpt-4o"}, {"authorization": sent})
        assert answer.status == 401
        assert answer.json["error"]["type"] == (kind or "authentication_error")
    for path in ("/v1/models", "/metrics", "/v1/capabilities"):
        answer = gateway.ask(path, None, {"authorization": sent}, method="GET")
        assert answer.status == 401
    assert not gateway.openai.requests


def test_a_revoked_key_is_unauthorized(gateway: RunningGateway) -> None:
    secret = gateway.new_key("app")
    revoke_key(gateway.ledger, "app")
    gateway.on_loop(gateway.gateway.load_keys)
    assert gateway.chat("gpt-4o", key=secret).status == 401
    with pytest.raises(InputError, match="is revoked already"):
        revoke_key(gateway.ledger, "app")


def test_another_process_learns_of_a_revoked_key(gateway: RunningGateway) -> None:
    secret = gateway.new_key("app")
    revoke_key(gateway.ledger, "app")
    gateway.wait_until(lambda: gateway.chat("gpt-4o", key=secret).status == 401)


@pytest.mark.parametrize(
    ("models", "name", "status"),
    [
        (("openai/*",), "openai/gpt-4o", 200),
        (("openai/*",), "gpt-4o", 200),
        (("openai/*",), "anthropic/claude-opus-4-5", 403),
        (("workload/extract",), "workload/extract", 200),
        (("workload/extract",), "openai/gpt-4o", 403),
        (("fast",), "fast", 200),
        (("fast",), "openai/gpt-4o-mini", 403),
    ],
)
def test_a_key_allows_only_its_models(serve: Serve, models: tuple[str, ...], name: str, status: int) -> None:
    gateway = serve(
        '[gateway.aliases]\nfast = "openai/gpt-4o-mini"\n[workloads.extract]\nmodel = "openai/gpt-4o"\nneeds = []\n'
    )
    secret = gateway.new_key(models=models)
    answer = gateway.chat(name, key=secret)
    assert answer.status == status
    if status == 403:
        assert answer.json["error"]["code"] == "model_not_allowed"
        assert models[0] in answer.json["error"]["message"]


def test_the_model_list_has_only_the_models_of_the_key(gateway: RunningGateway) -> None:
    secret = gateway.new_key(models=("openai/gpt-4o*",))
    listed = gateway.ask("/v1/models", method="GET", key=secret).json["data"]
    assert listed
    assert all(model["id"].startswith("openai/gpt-4o") for model in listed)
    assert gateway.ask("/v1/models/openai/gpt-5", method="GET", key=secret).status == 404


def test_the_rate_limits_requests_a_minute(gateway: RunningGateway) -> None:
    secret = gateway.new_key(rate=2)
    answers = [gateway.chat("gpt-4o", key=secret) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].json["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30


def test_the_rate_refills_evenly() -> None:
    key = ClientKey("k", "k", KeySettings(rate=60), 0)
    rates = RateLimiter()
    assert [rates.wait(key, 0.0) for _ in range(60)] == [0.0] * 60
    assert rates.wait(key, 0.0) == pytest.approx(1.0)
    assert rates.wait(key, 0.5) == pytest.approx(0.5)
    assert rates.wait(key, 1.0) == 0.0


def test_a_spent_budget_refuses(gateway: RunningGateway) -> None:
    """MP-A8: a budget counts the cost of ended requests and the estimate of open ones."""
    secret = gateway.new_key(budget=1, period="day")
    assert gateway.chat("gpt-4o", key=secret).status == 200
    refused = gateway.chat("gpt-4o", key=secret)
    assert (refused.status, refused.json["error"]["code"]) == (429, "insufficient_quota")
    assert "this day" in refused.json["error"]["message"]
    assert gateway.chat("gpt-4o").status == 200, "another key's budget is its own"
    assert len(gateway.openai.requests) == 2


def test_budgets_are_read_from_the_ledger(gateway: RunningGateway) -> None:
    secret = gateway.new_key(budget=10_000_000, period="all")
    cost = gateway.chat("gpt-4o", key=secret).headers["modelpact-cost-usd"]
    key = gateway.gateway.keys.find(secret)
    assert key is not None
    spent = gateway.gateway.budgets._total(key)
    assert spent == round(float(cost) * 1e9)


def test_periods_begin_at_midnight() -> None:
    import datetime

    now = datetime.datetime(2026, 5, 17, 13, 30, tzinfo=datetime.UTC)
    begun = {period: period_start(period, now) for period in ("day", "month", "all")}
    days = {"day": (2026, 5, 17), "month": (2026, 5, 1)}
    for period, (year, month, day) in days.items():
        moment = datetime.datetime(year, month, day, tzinfo=datetime.UTC)
        assert begun[period] == int(moment.timestamp()) * 10**9
    assert begun["all"] == 0


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("", KeySettings(), "name: expected"),
        ("a\nb", KeySettings(), "name: expected"),
        ("a", KeySettings(loosen=("speed",)), "'speed' is not one of"),
        ("a", KeySettings(budget=0), "budget: expected a number above zero"),
        ("a", KeySettings(rate=-1), "rate: expected a number above zero"),
    ],
)
def test_invalid_key_settings_are_rejected(name: str, settings: KeySettings, expected: str, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as ledger, pytest.raises(InputError, match=expected):
        create_key(ledger, name, settings)


def test_two_keys_of_one_name_are_revoked_by_id(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as ledger:
        first, _ = create_key(ledger, "app", KeySettings())
        _, secret = create_key(ledger, "app", KeySettings())
        with pytest.raises(InputError, match="several keys are called"):
            revoke_key(ledger, "app")
        revoke_key(ledger, first.id)
        assert load_keys(ledger).find(secret) is not None
        kinds = [event.type for event in ledger.events("keys")]
        assert kinds == ["key.created", "key.created", "key.revoked"]
        payloads = json.dumps([event.payload for event in ledger.events("keys")])
        assert secret not in payloads


def test_a_key_can_loosen_the_allowed_parts_of_the_policy(gateway: RunningGateway) -> None:
    loose = gateway.new_key(loosen=("params",))
    headers = {"modelpact-policy": "params=drop"}
    assert gateway.chat("gpt-5", headers, temperature=0.2).status == 400
    answer = gateway.chat("gpt-5", headers, key=loose, temperature=0.2)
    assert (answer.status, answer.headers["modelpact-dropped"]) == (200, "temperature")
    assert "temperature" not in gateway.openai.bodies[-1]
    refused = gateway.chat("gpt-5", {"modelpact-policy": "emulate=on"}, key=loose)
    assert "emulate can only be made stricter" in refused.json["error"]["message"]


def test_the_model_list_has_aliases_and_workloads_of_the_key(serve: Serve) -> None:
    """The names of this gateway, and vendors' names alone, stand for models that it is for."""
    gateway = serve(
        '[gateway.aliases]\nfast = "openai/gpt-4o-mini"\nother = "anthropic/claude-opus-4-5"\n'
        '[workloads.extract]\nmodel = "openai/gpt-4o"\nneeds = []\n'
        '[workloads.elsewhere]\nmodel = "anthropic/claude-opus-4-5"\nneeds = []\n'
    )
    secret = gateway.new_key(models=("openai/*",))
    listed = gateway.ask("/v1/models", method="GET", key=secret).json["data"]
    names = [model["id"] for model in listed]
    assert names[:2] == ["workload/extract", "fast"]
    assert all(name.startswith("openai/") for name in names[2:])
    assert listed[1]["modelpact"]["model"] == "openai/gpt-4o-mini"
    assert listed[1]["modelpact"]["capabilities"]["tool-calling"] == "native"
    for name, status in (("gpt-4o", 200), ("fast", 200), ("other", 404)):
        assert gateway.ask(f"/v1/models/{name}", method="GET", key=secret).status == status
        assert (gateway.chat(name, key=secret).status == 200) is (status == 200)


def test_a_spent_budget_without_a_period_refuses(gateway: RunningGateway) -> None:
    secret = gateway.new_key(budget=1, period="all")
    assert gateway.chat("gpt-4o", key=secret).status == 200
    refused = gateway.chat("gpt-4o", key=secret)
    assert (refused.status, refused.json["error"]["code"]) == (429, "insufficient_quota")
    assert refused.json["error"]["message"] == "the key a has spent all of its budget"


def test_aliases_are_listed_if_they_meet_a_need(serve: Serve) -> None:
    gateway = serve('[gateway.aliases]\nfast = "openai/gpt-4o-mini"\nplain = "openai/text-only"\n')
    listed = gateway.ask("/v1/models?need=tools", method="GET").json["data"]
    names = {model["id"] for model in listed}
    assert "fast" in names
    assert "plain" not in names


def test_keys_list_shows_small_budgets_and_loosened_parts(run: Run) -> None:
    made = run("keys", "create", "app", "--budget", "0.0002", "--loosen", "emulate")
    assert made.returncode == 0, made.stderr
    (header, row) = run("keys", "list").stdout.splitlines()
    assert "$0.0002/month" in row
    assert row.index("emulate") == header.index("may loosen")
