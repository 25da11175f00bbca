"""Commands run as users run them: as processes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `modelpact` in an empty folder; give input as `stdin`."""

    def call(*args: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "modelpact", *args],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={
                **os.environ,
                "NO_COLOR": "1",
                "PYTHONIOENCODING": "utf-8",
                "MODELPACT_DATA": str(tmp_path / "data"),
                **env,
            },
            timeout=120,
            check=False,
        )

    return call
