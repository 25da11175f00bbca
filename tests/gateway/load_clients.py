"""Clients that send requests without pause and remember every complete response."""

import http.client
import json
import threading

from tests.cli.conftest import Run
from tests.gateway.processes import CHAT, TOKEN, Process, chat_body

HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


class Load:
    """So many clients of a gateway, each on a connection of its own, until it is gone or told."""

    def __init__(self, gateway: Process, model: str, clients: int = 6) -> None:
        self.answered: list[tuple[str, float | None]] = []
        """The invocation of each answer that came to its end, and its cost where that was told."""
        self.wrong: list[str] = []
        self._gateway = gateway
        self._model = model
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(bool(number % 2),), daemon=True)
            for number in range(clients)
        ]
        for one in self._threads:
            one.start()

    def _ask(self, stream: bool) -> None:
        asked = json.dumps(chat_body(self._model, stream=stream))
        while not self._stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=60)
            try:
                connection.request("POST", CHAT, asked, HEADERS)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                return  # the gateway is gone
            finally:
                connection.close()
            if answer.status != 200 or (stream and b"[DONE]" not in body):
                self.wrong.append(f"{answer.status}: {body[-300:]!r}")
                continue
            cost = answer.headers.get("modelpact-cost-usd")
            told = None if cost is None else float(cost)
            self.answered.append((answer.headers["modelpact-invocation"], told))

    def end(self) -> None:
        """Wait until all have stopped."""
        self._stop.set()
        for one in self._threads:
            one.join(60)
            assert not one.is_alive()


def ended(run: Run, store: str) -> dict[str, str]:
    """Return how each invocation on the record ended, as `modelpact audit` tells it."""
    told = run(
        "audit", "tail", "-n", "1000000", "--type", "capability.", "--json", "--store", store
    )
    assert told.returncode == 0, told.stderr
    events = [json.loads(line) for line in told.stdout.splitlines()]
    found: dict[str, str] = {}
    for event in events:
        kind = event["type"].removeprefix("capability.")
        if kind in ("invoked", "completed", "failed", "cancelled"):
            found[event["id"] if kind == "invoked" else event["cause"]] = kind
    return found


def verified(run: Run, store: str) -> None:
    """Have the whole ledger proved."""
    told = run("audit", "verify", "--store", store)
    assert told.returncode == 0, told.stdout + told.stderr


def spent(run: Run, store: str) -> float:
    """Return what the ledger says was spent, in dollars."""
    told = run("costs", "--by", "provider", "--json", "--store", store)
    assert told.returncode == 0, told.stderr
    totals = json.loads(told.stdout)["totals"]
    return float(sum(one["amount_nano"] for one in totals if one["currency"] == "USD")) / 1e9
