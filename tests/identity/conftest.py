"""Clocks that stand where they are put, and writers that die on the way."""

import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from modelpact.identity import Authority, Keyring
from modelpact.identity.files import write_file


class Killed(BaseException):
    """An error that stands for a killed process."""


class DyingWriter:
    """Write a number of files, then fail before the next."""

    def __init__(self, lives: int) -> None:
        self.lives = lives

    def __call__(self, path: Path, data: bytes, mode: int) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        write_file(path, data, mode)


def run_and_die(code: str, lives: int) -> None:
    """Run code in a process that exits without clean-up when `write` is called once more."""
    script = f"""
import os
from pathlib import Path
from modelpact.identity import Authority, Keyring
from modelpact.identity.files import write_file

lives = {lives}

def write(path, data, mode):
    global lives
    if lives == 0:
        os._exit(9)
    lives -= 1
    write_file(path, data, mode)

{code}
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == 9


def days_ago(days: float) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - timedelta(days=days)


def der(path: Path) -> bytes:
    """Return the certificate in a PEM file, which may also contain a key."""
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :])


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files except locks and temporary ones."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring.init(tmp_path / "keyring")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.init(tmp_path / "authority")
