"""The command line: one `modelpact show` from the shell beside `python -c pass`."""

import importlib.util
import sys
from pathlib import Path

from rows import Row, emit, emit_skipped
from timing import median, processes

COMMAND = [str(Path(sys.executable).parent / "modelpact"), "show", "anthropic/claude-opus-4-5"]
COUNT = 31


def main() -> None:
    if importlib.util.find_spec("modelpact.cli") is None:
        emit_skipped("there is no `modelpact show` yet")
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
