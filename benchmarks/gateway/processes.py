"""Processes of the bench: each pinned to a core, with the processor time that it has used."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
        """Return what the process has used so far, in the kernel as well."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def pinned(command: Sequence[str], core: int) -> list[str]:
    """Return a command that runs on one core, where that can be had."""
    taskset = shutil.which("taskset")
    if taskset is None or core >= (os.cpu_count() or 1):
        return list(command)
    return [taskset, "-c", str(core), *command]


@contextmanager
def started(module: str, *arguments: str, core: int) -> Iterator[Started]:
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
