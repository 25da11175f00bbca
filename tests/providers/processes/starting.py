"""Starts providers and runtimes as processes of their own, and says what became of them."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.providers.processes.runtime import Task
from tests.providers.support import PATIENCE, ROOT, World

_HERE = Path(__file__).parent


def free_port() -> int:
    """Return a port that is free, and stays so while a runtime that has it is away.

    Not one that the system gives to outgoing connections: those come and go meanwhile.
    """
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def providing(
    world: World, runtime: str, worked: Path, name: str = "echo", **env: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the echo as a process that outlives the runtime; `worked` gets a line for each work."""
    settings = world.settings(name, runtime)
    with worked.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(_HERE / "echo_provider.py")],
            stderr=log,
            env={
                **os.environ,
                "PROVIDER": name,
                "WORKED": str(worked),
                "MODELPACT_RUNTIME": settings.runtime,
                "MODELPACT_IDENTITY": str(settings.identity),
                "MODELPACT_AUTHORITIES": str(settings.authorities),
                "MODELPACT_KEYRING": str(settings.keyring),
                **env,
            },
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


class Ended(msgspec.Struct):
    """How a runtime's process ended, and what it had told its callers until then."""

    code: int
    told: list[list[str]]
    wrong: str

    def of(self, word: str) -> list[list[str]]:
        """Return what was told under a word."""
        return [line[1:] for line in self.told if line[0] == word]


class Started:
    """A runtime as a process."""

    def __init__(self, world: World, name: str, port: int, **more: Any) -> None:
        identity = world.identity(name, "runtime").certificate
        authority = world.authority.certificate
        task = Task(world.store, name, str(identity), str(authority), port, **more)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.providers.processes.runtime", msgspec.json.encode(task).decode()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ended(self) -> Ended:
        """Wait for its end; one that hangs is killed, and that is an end too."""
        try:
            output, wrong = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, wrong = self._process.communicate()
            raise AssertionError(f"the runtime hung; it had said:\n{output}\n{wrong}") from None
        # A process that is killed while it prints leaves a part of a line: nobody was told that.
        whole = output[: output.rfind("\n") + 1]
        log = [line.split(" ", 3) for line in whole.splitlines()]
        return Ended(self._process.returncode, log, wrong)
