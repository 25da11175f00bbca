"""Helpers of the tests of the ledger."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from modelpact.ledger import (
    CostLine,
    CostRecord,
    Draft,
    Event,
    Ledger,
    LedgerReader,
    Transaction,
    VerifyReport,
    export_lines,
    verify_export,
)
from modelpact.ledger.cost_tables import CostTotal


def draft(envelope: str = "run-1", number: int = 0, **more: Any) -> Draft:
    return Draft(envelope, "run.started", {"number": number, **more})


def fill(ledger: Ledger, envelope: str = "run-1", count: int = 5) -> list[Event]:
    """Append a number of events in one transaction."""
    return ledger.append(*(draft(envelope, number) for number in range(count)))


def verified(reader: LedgerReader, envelope: str = "run-1") -> VerifyReport:
    """Verify an envelope, which must be intact, and return the report."""
    report = verify_export(export_lines(reader, envelope))
    assert report.ok, report.broken
    return report


def usd(nano: int) -> CostLine:
    """Return a cost of nano-dollars."""
    return CostLine("currency", nano, "USD")


def spend(ledger: Ledger, record: CostRecord, envelope: str = "run-1") -> Event:
    """Append an event that embeds a record."""
    kind = "cost.corrected" if record.corrects else "capability.completed"

    def work(tx: Transaction) -> Event:
        event = tx.append(Draft(envelope, kind, {"cost": record.to_json()}))
        tx.record_cost(event, record)
        return event

    return ledger.write(work)


def only(totals: list[CostTotal]) -> CostTotal:
    """Return the only total of a list."""
    (total,) = totals
    return total


PROGRAM = """
import os, signal, sys, threading
from modelpact.ledger import Draft, Ledger, LedgerUnavailable
from modelpact.ledger.stores.base import open_store

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def say(text):
    os.write(1, (text + "\\n").encode())
"""
"""The start of every program of these tests. `say` writes a line at once."""


@contextlib.contextmanager
def process(code: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a program. It is killed at the end if it still runs."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, *arguments], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def finished(started: "subprocess.Popen[str]", code: int = 0) -> list[str]:
    """Wait for a process and return the lines that it wrote."""
    output, _ = started.communicate(timeout=60)
    assert started.returncode == code, output
    return output.splitlines()


KILLED = -signal.SIGKILL
