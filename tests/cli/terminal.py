"""A terminal in memory: a program on a real pseudo-terminal, and what its screen shows."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte

COLUMNS, ROWS = 180, 60
PATIENCE = 60.0
_START = (
    "import fcntl, runpy, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "sys.argv = ['modelpact', *sys.argv[1:]]; runpy.run_module('modelpact', run_name='__main__')"
)
"""Takes the terminal as its own, so that Ctrl-C there is an interrupt here."""


_OURS = ("_API_KEY", "_BASE_URL")
"""Ends of the variables that would lead the program to a real provider."""


class _Screen(pyte.Screen):
    """A screen that answers where its cursor is, as real ones do."""

    def __init__(self, reply: Callable[[bytes], None]) -> None:
        super().__init__(COLUMNS, ROWS)
        self._reply = reply

    def write_process_input(self, data: str) -> None:
        self._reply(data.encode())


class Terminal:
    """`modelpact` with arguments on a terminal of its own."""

    def __init__(self, *args: str, cwd: Path, **env: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        surroundings: Mapping[str, str] = {
            **{name: value for name, value in os.environ.items() if not name.endswith(_OURS)},
            "TERM": "xterm-256color",
            "PYTHONIOENCODING": "utf-8",
            "MODELPACT_DATA": str(cwd / "data"),
            **env,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=surroundings,
            start_new_session=True,
        )
        os.close(slave)
        self.raw = b""
        self._screen = _Screen(self._write)
        self._stream = pyte.ByteStream(self._screen)
        self._news = threading.Condition()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:  # the last one at the other end has gone
                data = b""
            with self._news:
                self.raw += data
                self._stream.feed(data)
                self._news.notify_all()
            if not data:
                return

    def _write(self, data: bytes) -> None:
        os.write(self._master, data)

    @property
    def text(self) -> str:
        """What the screen shows."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def style(self, text: str) -> Any:
        """Return the first character of a text on the screen, with how it is drawn."""
        for row, line in enumerate(self._screen.display):
            if text in line:
                return self._screen.buffer[row][line.index(text)]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def type(self, text: str) -> None:
        """Type a text, as it is."""
        self._write(text.encode())

    def enter(self, text: str) -> None:
        """Wait for a prompt, and type a line there."""
        self.at_prompt()
        self.type(text + "\r")

    def at_prompt(self) -> None:
        """Wait until the cursor stands behind an empty prompt."""

        def there() -> bool:
            line = self._screen.display[self._screen.cursor.y].rstrip()
            return line.endswith("❯") and self._screen.cursor.x == len(line) + 1

        self._until(there, "a prompt")

    def expect(self, text: str) -> str:
        """Wait until a text is on the screen; return the screen."""
        return self._until(lambda: text in self.text, repr(text))

    def expect_match(self, pattern: str) -> "re.Match[str]":
        """Wait until a pattern is on the screen."""
        self._until(lambda: bool(re.search(pattern, self.text)), pattern)
        matched = re.search(pattern, self.text)
        assert matched is not None
        return matched

    def _until(self, there: Callable[[], bool], what: str) -> str:
        with self._news:
            matched = self._news.wait_for(there, PATIENCE)
            assert matched, f"{what} did not come; the screen shows:\n{self.text}"
            return self.text

    def ended(self) -> int:
        """Wait for the end of the program; return its exit code."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill the program as a crash does."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
