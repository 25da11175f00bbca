"""Transports that estimate: the expected cost and the attribution are recorded before a call."""

from typing import Any

import msgspec

from modelpact.ledger import Attribution, CostLine, Ledger
from tests.providers.in_process_providers import Echo, echoing
from tests.providers.support import ECHO, on_loop


class Prophet(Echo):
    def estimate(self, value: Any) -> tuple[CostLine, ...]:
        return (CostLine("discrete", value["much"]),)

    def attributed(self, value: Any, attribution: Attribution) -> Attribution:
        return msgspec.structs.replace(attribution, model=value["model"])


@on_loop
async def test_a_transport_that_estimates_costs_is_asked(lite_ledger: Ledger) -> None:
    runtime = echoing(lite_ledger, Prophet())
    value = {"much": 7, "model": "m"}
    mine = (CostLine("discrete", 1),)
    for estimate, expected in ((None, 7), (mine, 1), ((), None)):
        attribution = Attribution(worker="w", provider="a liar")
        done = await runtime.invoke("echo", ECHO, value, attribution=attribution, estimate=estimate)
        assert done.attribution == Attribution(provider="echo", model="m", capability=ECHO, worker="w")
        opened = lite_ledger.event(done.event)
        assert opened is not None
        assert [line["amount"] for line in opened.payload["estimate"]] == ([] if expected is None else [expected])
        assert opened.payload["attribution"]["model"] == "m"


@on_loop
async def test_other_transports_leave_the_estimate_empty(lite_ledger: Ledger) -> None:
    done = await echoing(lite_ledger).invoke("echo", ECHO, {})
    opened = lite_ledger.event(done.event)
    assert opened is not None
    assert opened.payload["estimate"] == []
    assert done.attribution == Attribution(provider="echo", capability=ECHO)
