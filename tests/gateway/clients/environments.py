"""Environments for other people's clients: made when first wanted, kept beside the tests' own."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
NPM_PACKAGE = "openai@7"
_SECONDS = 1_200


def python_with_clients() -> Path:
    """Return an interpreter that has the clients of `requirements.txt`, or skip and say why."""
    folder = Path(sys.prefix) / "clients"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    with _alone(folder):
        if not (stamp.is_file() and stamp.read_text() == wanted):
            _run([sys.executable, "-m", "venv", str(folder)], "an environment for clients")
            pip = [str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)]
            _run(pip, "the clients of requirements.txt")
            stamp.write_text(wanted)
    return python


def node_with_openai() -> Path:
    """Return a folder in which node finds the `openai` package, or skip and say why."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not here: install them to test the openai npm package")
    folder = Path(sys.prefix) / "node-clients"
    with _alone(folder):
        installed = folder / "node_modules" / "openai" / "package.json"
        if not installed.is_file():
            folder.mkdir(exist_ok=True)
            (folder / "package.json").write_text(json.dumps({"private": True}))
            npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
            _run([*npm, NPM_PACKAGE], "the openai npm package")
    shutil.copy(HERE / "node_client.mjs", folder)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other test processes out while something is made."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], what: str) -> None:
    made = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if made.returncode:
        last = (made.stderr.strip() or made.stdout.strip() or "no reason given").splitlines()[-1]
        pytest.skip(f"{what} cannot be had here: {last}")
