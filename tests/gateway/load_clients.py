"""Clients that send requests without pause and remember every complete response."""

import http.client
import json
import threading

from tests.cli.conftest import Run
from tests.gateway.processes import CHAT, TOKEN, Process, chat_body

HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


class Load:
    """Clients of a gateway, each on its own connection, until `end` or its death."""

    def __init__(self, gateway: Process, model: str, clients: int = 6) -> None:
        self.answered: list[tuple[str, float | None]] = []
        """The invocation of each complete response, and its cost if the response has it."""
        self.unexpected: list[str] = []
        self._gateway = gateway
        self._model = model
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(bool(number % 2),), daemon=True) for number in range(clients)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, stream: bool) -> None:
        request = json.dumps(chat_body(self._model, stream=stream))
        while not self._stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=60)
            try:
                connection.request("POST", CHAT, request, HEADERS)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                return  # the gateway is gone
            finally:
                connection.close()
            if answer.status != 200 or (stream and b"[DONE]" not in body):
                self.unexpected.append(f"{answer.status}: {body[-300:]!r}")
                continue
            cost = answer.headers.get("modelpact-cost-usd")
            dollars = None if cost is None else float(cost)
            self.answered.append((answer.headers["modelpact-invocation"], dollars))

    def end(self) -> None:
        """Stop all clients."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def invocation_outcomes(run: Run, store: str) -> dict[str, str]:
    """Return the outcome of each recorded invocation, as `modelpact audit` prints it."""
    result = run("audit", "tail", "-n", "1000000", "--type", "capability.", "--json", "--store", store)
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    outcomes: dict[str, str] = {}
    for event in events:
        kind = event["type"].removeprefix("capability.")
        if kind in ("invoked", "completed", "failed", "cancelled"):
            outcomes[event["id"] if kind == "invoked" else event["cause"]] = kind
    return outcomes


def verify_ledger(run: Run, store: str) -> None:
    """Verify the whole ledger."""
    result = run("audit", "verify", "--store", store)
    assert result.returncode == 0, result.stdout + result.stderr


def total_spent(run: Run, store: str) -> float:
    """Return the recorded cost, in dollars."""
    result = run("costs", "--by", "provider", "--json", "--store", store)
    assert result.returncode == 0, result.stderr
    totals = json.loads(result.stdout)["totals"]
    return float(sum(total["amount_nano"] for total in totals if total["currency"] == "USD")) / 1e9
