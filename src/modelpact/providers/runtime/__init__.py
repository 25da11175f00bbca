"""The runtime of the provider contract.

- The path of an invocation: `runtime` routes it, `lifecycle` and `streaming` follow it to its end,
  and `validation` judges the response. `recorder` records its opening and its settlement, in
  `row_storage` (persistent, see `rows`) or in `event_storage` (events only, for the gateway);
  `records` makes the events and costs of both, and `lookup` finds invocations in either.
- Providers: `registration` checks what they declare, `registry` stores it, `human` is the inbox of
  people. `signals` receives what signal sources send.
- In the background: `Subscriptions` in `streaming` follows invocations for other callers,
  `maintenance` applies deadlines, sends reminders and deletes old partials.
"""
