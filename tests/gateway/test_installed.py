"""The wheel in an empty environment without extras: it starts, serves and verifies."""

import json
import os
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it alone, and return its `modelpact`."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    bin_folder = folder / "venv" / "bin"
    install = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return bin_folder / "modelpact"


def test_the_gateway_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "MODELPACT_DATA": str(tmp_path / "data")}
    environment.pop("PYTHONPATH", None)
    command = [str(installed), "serve", "--port", "0", "--json", "--key"]
    subprocess.run([installed, "--version"], check=True, capture_output=True)  # compiled once
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        data = json.loads("".join(lines))
        body = {"model": "mock/demo", "messages": [{"role": "user", "content": "Hi"}]}
        request = urllib.request.Request(
            f"{data['url']}/v1/chat/completions",
            json.dumps(body).encode(),
            {"authorization": f"Bearer {data['token']}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"]
            assert answer.headers["modelpact-verdict"] == "yes"
        print(f"start to first answer: {time.monotonic() - began:.2f} s")
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate(timeout=30)
    verified = subprocess.run(
        [installed, "audit", "verify"], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert verified.returncode == 0, verified.stderr
