"""Writers that conflict on PostgreSQL: both finish, and their callers do not notice."""

import threading
from concurrent.futures import ThreadPoolExecutor

from modelpact.ledger import Ledger, Transaction
from tests.ledger.support import draft, fill, verified

BUMP = "UPDATE meta SET value = value || '!' WHERE key = ?"


def test_writers_in_a_deadlock_both_finish(postgres_url: str) -> None:
    with Ledger.open(postgres_url) as ledger_a, Ledger.open(postgres_url) as ledger_b:
        ledger_a.write(lambda tx: tx.execute("INSERT INTO meta VALUES ('a', ''), ('b', '')"))
        both_hold = threading.Barrier(2)

        def bump(ledger: Ledger, first: str, second: str) -> int:
            tries = []

            def work(tx: Transaction) -> int:
                tries.append(tx)
                tx.execute(BUMP, (first,))
                if len(tries) == 1:
                    both_hold.wait(30)  # each holds the lock that the other needs next
                tx.execute(BUMP, (second,))
                return len(tries)

            return ledger.write(work)

        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(bump, ledger_a, "a", "b"), pool.submit(bump, ledger_b, "b", "a")]
            assert sorted(future.result(60) for future in futures) == [1, 2]
        rows = ledger_a.read("SELECT value FROM meta WHERE key IN ('a', 'b')")
        assert rows == [("!!",), ("!!",)]


def test_what_was_read_cannot_change_before_the_event_that_depends_on_it(postgres_url: str) -> None:
    """After `tx.head`, work sees the events of a faster writer, or runs again."""
    with Ledger.open(postgres_url) as ledger_a, Ledger.open(postgres_url) as ledger_b:
        fill(ledger_b, count=1)  # an envelope that the first ledger has not cached
        seen = []

        def work(tx: Transaction) -> None:
            tx.head("run-1")
            seen.append(len(tx.execute("SELECT 1 FROM events WHERE envelope = 'run-1'")))
            if len(seen) == 1:
                fill(ledger_b, count=1)
            tx.append(draft(number=seen[-1]))

        ledger_a.write(work)
        assert seen == [1, 2], "it ran again and saw the event of the other"
        assert verified(ledger_a).events == 3
        assert ledger_a.events("run-1")[-1].payload == {"number": 2}
