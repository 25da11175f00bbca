"""A provider that cannot start prints the reason in one line and does not wait in vain."""

import asyncio
import logging
import socket
from pathlib import Path

import msgspec
import pytest

from modelpact.identity import Authority
from modelpact.ledger import Ledger
from modelpact.wire import Client, WireError
from tests.providers.processes.starting import providing
from tests.providers.support import World, call, echo_provider, on_loop, until


async def ended(world: World, url: str, folder: Path, **env: str) -> tuple[int, str]:
    """Run the echo provider until it exits; return its exit code and its last line."""
    with providing(world, url, folder / "worked", **env) as process:
        code = await asyncio.to_thread(process.wait, 60)
    output = (folder / "worked.log").read_text()
    assert "Traceback" not in output
    return code, output.strip().splitlines()[-1]


@on_loop
async def test_an_error_that_the_operator_can_fix_is_one_line(lite: World, lite_ledger: Ledger, tmp_path: Path) -> None:
    other = Authority.init(tmp_path / "other")
    async with lite.hosting(lite_ledger) as host:
        port = str(host.server.port)
        for env, message in (
            ({"MODELPACT_RUNTIME": f"http://127.0.0.1:{port}"}, "expected https://HOST:PORT"),
            ({"MODELPACT_PORT": "x"}, "MODELPACT_PORT: expected 0 to 65535"),
            ({"MODELPACT_PORT": port}, "address already in use"),
            ({"MODELPACT_IDENTITY": str(tmp_path / "none.pem")}, "cannot be read: No such file"),
            ({"MODELPACT_IDENTITY": str(other.certificate)}, "contains no private key in PEM"),
            ({"MODELPACT_AUTHORITIES": str(other.certificate)}, "trust its issuer"),
            ({"MODELPACT_RUNTIME_PIN": f"sha256:{'0' * 64}"}, "compare the key with its owner"),
            ({"PROVIDER": "somebody"}, "403 identity_mismatch"),
        ):
            code, output = await ended(lite, host.url, tmp_path, **env)
            assert code == 2, output
            assert message in output


@on_loop
async def test_the_advice_matches_the_problem_of_the_certificate(
    lite: World, lite_ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """The error says why a certificate is not accepted, and what to do."""
    lite.authority.issue("elsewhere", "runtime", ["elsewhere.example"])
    lite.authority.issue("fallen", "runtime", ["127.0.0.1"])
    for name, message in (
        ("elsewhere", "reissue it with `--host 127.0.0.1`"),
        ("fallen", "its owner must use a new one"),
    ):
        async with lite.hosting(lite_ledger, name=name) as host:
            settings = lite.settings("echo", host.url)
            if name == "fallen":
                lite.authority.revoke("fallen")
                settings = msgspec.structs.replace(settings, crl=lite.authority.crl)
            async with Client(tls=settings.client_tls()) as client:
                with pytest.raises(WireError, match=message) as caught:
                    await call(client, "GET", f"{host.url}/v1/signals/x")
            assert "trust its issuer" not in str(caught.value)


@on_loop
async def test_the_runtime_logs_rejected_clients(
    lite: World, lite_ledger: Ledger, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """S003-8.5-5: a client whose authentication is not valid is refused, and the log says why."""
    strangers = World(tmp_path, Authority.init(tmp_path / "strangers"), lite.store)
    async with lite.hosting(lite_ledger) as host:
        caplog.clear()
        with socket.create_connection(("127.0.0.1", host.server.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await until(lambda: "HTTP_REQUEST" in caplog.text)
        settings = msgspec.structs.replace(strangers.settings("echo", host.url), authorities=lite.authority.certificate)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            trying = asyncio.create_task(_run(settings))
            await until(lambda: "rejected a client: " in caplog.text)
            await until(lambda: "may have refused this certificate" in caplog.text)
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)


async def _run(settings: object) -> None:
    async with echo_provider().running(settings):  # type: ignore[arg-type]
        pass
