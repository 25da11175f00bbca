"""Processes of the bench: each pinned to a core, with the processor time that it has used."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_BENCHMARKS = Path(__file__).resolve().parent.parent


class Started:
    """A server in a process of its own, that has said its port."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    def url(self, path: str = "/v1/chat/completions") -> str:
        """Return an URL on this server."""
        return f"http://127.0.0.1:{self.port}{path}"

    def processor_seconds(self) -> float:
        """Return what the process and those that it started have used so far, in the kernel too."""
        used, ids = 0, [self._process.pid]
        for identifier in ids:
            for task in Path(f"/proc/{identifier}/task").iterdir():
                used += int((task / "schedstat").read_text().split()[0])
                ids += map(int, (task / "children").read_text().split())
        return used / 1e9


def pinned(command: Sequence[str], core: int | None) -> list[str]:
    """Return a command that runs on one core, where that is wanted and can be had."""
    taskset = shutil.which("taskset")
    if core is None or taskset is None or core >= (os.cpu_count() or 1):
        return list(command)
    return [taskset, "-c", str(core), *command]


@contextmanager
def listening(
    command: Sequence[str],
    port: int,
    *,
    core: int | None,
    patience: float,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Started]:
    """Start a server that does not say its port, and wait until it answers there."""
    log = subprocess.DEVNULL
    env = {**os.environ, **(environment or {})}
    process = subprocess.Popen(pinned(command, core), stdout=log, stderr=log, text=True, env=env)
    try:
        ends = time.monotonic() + patience
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > ends or process.poll() is not None:
                    raise SystemExit(f"{command[0]} did not start") from None
                time.sleep(0.1)
        yield Started(process, port)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def started(module: str, *arguments: str, core: int | None) -> Iterator[Started]:
    """Start a module of the bench as a server, and kill it at the end."""
    command = pinned([sys.executable, "-m", module, *arguments], core)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_BENCHMARKS)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said:
            raise SystemExit(f"{module} did not start: see its message above")
        yield Started(process, int(said))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
