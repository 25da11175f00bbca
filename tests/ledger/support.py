"""What the tests of the ledger share."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from modelpact.ledger import (
    Draft,
    Event,
    Ledger,
    LedgerReader,
    VerifyReport,
    export_lines,
    verify_export,
)


def draft(envelope: str = "run-1", number: int = 0, **more: Any) -> Draft:
    return Draft(envelope, "run.started", {"number": number, **more})


def fill(ledger: Ledger, envelope: str = "run-1", count: int = 5) -> list[Event]:
    """Append so many events in one transaction."""
    return ledger.append(*(draft(envelope, number) for number in range(count)))


def verified(reader: LedgerReader, envelope: str = "run-1") -> VerifyReport:
    """Return what the store's envelope verifies to; it must hold."""
    report = verify_export(export_lines(reader, envelope))
    assert report.ok, report.broken
    return report


PROGRAM = """
import os, signal, sys, threading
from modelpact.ledger import Draft, Ledger, LedgerUnavailable
from modelpact.ledger.stores.base import open_store

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def told(text):
    os.write(1, (text + "\\n").encode())
"""
"""What every process of these tests begins with; `told` is seen at once by whoever started it."""


@contextlib.contextmanager
def process(code: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run code in a process of its own; it is killed if it is still there in the end."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def finished(started: "subprocess.Popen[str]", code: int = 0) -> list[str]:
    """Wait for a process and return the lines that it told."""
    said, _ = started.communicate(timeout=60)
    assert started.returncode == code, said
    return said.splitlines()


KILLED = -signal.SIGKILL
