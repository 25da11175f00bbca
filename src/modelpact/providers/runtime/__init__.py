"""The runtime of the provider contract.

`runtime` routes an invocation to its provider; `lifecycle` and `streaming` follow it to its end, and
`validation` judges the response. `recorder` records its opening and its settlement, through one of
two storages: `row_storage` (rows that persist, see `rows`) or `event_storage` (events only, for the
gateway). Both write the settlements and cost records of `records`.
Beside that path: `registry` and `registration` (providers), `Subscriptions` in `streaming` (followers
of an invocation), `maintenance` (deadlines, reminders, pruning), `signals` (signal sources), `human`
(the inbox), `lookup` (reads for the command line).
"""
