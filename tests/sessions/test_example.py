"""The example runs: a session in ten lines."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "session.py"


def test_a_session_in_ten_lines(tmp_path: Path) -> None:
    """The Python API is the same thing without a terminal, in ten lines."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "x.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "You said: Hello",
        "tool-calling>=native, streaming>=native:preferred on mock/demo",
    ]
    body = EXAMPLE.read_text().partition('"""\n\n')[2].splitlines()
    assert len([line for line in body if line.strip() and "import" not in line]) <= 10
