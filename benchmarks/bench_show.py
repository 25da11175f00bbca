"""The command line: one `modelpact show` from the shell beside `python -c pass`."""

import subprocess
import sys
from pathlib import Path

from rows import Row, emit, emit_skipped
from timing import median, processes

COMMAND = [str(Path(sys.executable).parent / "modelpact"), "show", "anthropic/claude-opus-4-5"]
COUNT = 31


def main() -> None:
    tried = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        last = (tried.stderr.strip().splitlines() or ["no message"])[-1]
        emit_skipped(f"`modelpact show` does not run yet: {last[:100]}")
        return
    commands = {"show": COMMAND, "pass": [sys.executable, "-c", "pass"]}
    times = processes(commands, dict.fromkeys(commands, COUNT))
    emit(
        Row(
            "`modelpact show anthropic/claude-opus-4-5`",
            median(times["show"]),
            median(times["pass"]),
            "python -c pass",
            "s",
            "at most",
            12,
        ),
        note=f"Wall time of whole processes; medians of {COUNT} interleaved runs.",
    )


if __name__ == "__main__":
    main()
