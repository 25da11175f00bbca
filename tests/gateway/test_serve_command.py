"""`modelpact serve` prints its address and a curl line that works."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CURL = re.compile(r"""  curl (\S+) -H "([^"]+)" \\\n    -d '(.+)'\n""")


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Serve without a token; give the process and all that it says when it has started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "modelpact", "serve", "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "MODELPACT_DATA": str(folder / "data"), "MODELPACT_TOKEN": ""},
    )
    try:
        assert process.stdout is not None
        reported = ""
        for line in process.stdout:
            reported += line
            if line.startswith("Stop"):
                break
        yield process, reported
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.parametrize("options", [(), ("--key",)])
def test_the_printed_curl_line_works(options: tuple[str, ...], tmp_path: Path) -> None:
    """Without options on an empty store; with `--key` on one that has keys already as well."""
    for _ in range(2 if options else 1):
        with served(tmp_path, *options) as (process, output):
            result = CURL.search(output)
            assert result is not None, output
            url, header, body = result.groups()
            name, _, value = header.partition(": ")
            sent = {name: value, "content-type": "application/json"}
            request = urllib.request.Request(url, body.encode(), sent)
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200
            process.terminate()
            assert process.wait(30) == 0


def test_an_occupied_port_creates_no_key(tmp_path: Path, run: Run) -> None:
    """The first key is told once: whoever could not listen has not made it."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        failed = run("serve", "--port", port, MODELPACT_TOKEN="")
    assert failed.returncode == 2
    assert f"127.0.0.1:{port} is already in use" in failed.stderr
    assert "--port" in failed.stderr
    assert "There are no keys." in run("keys", "list").stdout


def test_a_store_with_keys_prints_how_to_create_another(tmp_path: Path, run: Run) -> None:
    assert run("keys", "create", "app").returncode == 0
    with served(tmp_path) as (_, output):
        assert "`modelpact keys create NAME` creates another" in output
        assert "shown only once" not in output
