"""Writers that get in each other's way on PostgreSQL: both finish, and neither is told of it."""

import threading
from concurrent.futures import ThreadPoolExecutor

from modelpact.ledger import Ledger, Transaction
from tests.ledger.support import draft, fill, verified

BUMP = "UPDATE meta SET value = value || '!' WHERE key = ?"


def test_writers_that_wait_for_each_other_both_finish(postgres_url: str) -> None:
    with Ledger.open(postgres_url) as one, Ledger.open(postgres_url) as two:
        one.write(lambda tx: tx.execute("INSERT INTO meta VALUES ('a', ''), ('b', '')"))
        both_hold = threading.Barrier(2)

        def bump(ledger: Ledger, first: str, second: str) -> int:
            tries = []

            def work(tx: Transaction) -> int:
                tries.append(tx)
                tx.execute(BUMP, (first,))
                if len(tries) == 1:
                    both_hold.wait(30)  # each has what the other needs next
                tx.execute(BUMP, (second,))
                return len(tries)

            return ledger.write(work)

        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(bump, one, "a", "b"), pool.submit(bump, two, "b", "a")]
            assert sorted(future.result(60) for future in futures) == [1, 2]
        rows = one.read("SELECT value FROM meta WHERE key IN ('a', 'b')")
        assert rows == [("!!",), ("!!",)]


def test_what_was_read_cannot_change_before_the_event_that_depends_on_it(
    postgres_url: str,
) -> None:
    """After `tx.head` a writer who was first is seen, or the work is done again."""
    with Ledger.open(postgres_url) as one, Ledger.open(postgres_url) as two:
        fill(two, count=1)  # an envelope that the first does not know yet
        seen = []

        def work(tx: Transaction) -> None:
            tx.head("run-1")
            seen.append(len(tx.execute("SELECT 1 FROM events WHERE envelope = 'run-1'")))
            if len(seen) == 1:
                fill(two, count=1)
            tx.append(draft(number=seen[-1]))

        one.write(work)
        assert seen == [1, 2], "it was done again, and saw the other's event"
        assert verified(one).events == 3
        assert one.events("run-1")[-1].payload == {"number": 2}
