"""A session inside an agent: its needs are negotiated first, and the ledger records everything."""

import sys

import modelpact as mp
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.providers.runtime.runtime import Runtime

with mp.Ledger.open(f"sqlite:{sys.argv[1]}") as ledger:
    models = ModelCaller(Runtime(ledger))
    with mp.Session.open("mock/demo", ledger=ledger, models=models) as session:
        session.attach({"name": "review", "needs": ["streaming:preferred"]})
        print(session.send("Hello").text)
        print(session.needs, "on", session.target)
