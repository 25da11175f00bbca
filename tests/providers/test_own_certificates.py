"""Certificates of another authority, pinned by the operator on both sides."""

from pathlib import Path

import msgspec

from modelpact.identity import Identity, Keyring, Trust, fingerprint
from modelpact.ledger import Ledger
from modelpact.providers.contract import Registration
from modelpact.providers.http import HttpTransport, serve_runtime
from modelpact.providers.runtime.runtime import Runtime
from tests.providers.processes.starting import providing
from tests.providers.support import ECHO, World, assert_whole, on_loop, until
from tests.wire.certificates import Authority

REFUSED = "an operator registers you first"


@on_loop
async def test_certificates_of_another_authority_work(world: World, ledger: Ledger, tmp_path: Path) -> None:
    """S003-8.5-1: certificates from another authority work too."""
    authority = Authority(tmp_path, "company")
    runtime_file, runtime_der = authority.issue("runtime", "127.0.0.1")
    provider_file, provider_der = authority.issue("provider", "127.0.0.1")
    for file in (runtime_file, provider_file):
        file.chmod(0o600)
    ring = Keyring.init(tmp_path / "ring")
    me, trust = Identity(runtime_file), Trust(authority.file)
    carrier = HttpTransport(me, trust)
    runtime = Runtime(ledger, default_transport=carrier)
    env = {
        "MODELPACT_IDENTITY": str(provider_file),
        "MODELPACT_AUTHORITIES": str(authority.file),
        "MODELPACT_KEYRING": str(tmp_path / "ring"),
        "MODELPACT_RUNTIME_PIN": fingerprint(runtime_der),
    }
    worked = tmp_path / "worked"
    async with serve_runtime(runtime, me, trust) as host:
        with providing(world, host.url, worked, **env) as process:
            # Its certificate says nothing of a name: whoever has one could take any.
            assert await until(process.poll) == 2
        assert REFUSED in worked.with_suffix(".log").read_text()
        runtime.registry.register(
            msgspec.structs.replace(
                world.registration("echo", "https://127.0.0.1:1"),
                identity=fingerprint(provider_der),
                signing_key=ring.public_keys.current.raw.hex(),
            )
        )
        with providing(world, host.url, worked, **env):
            await until(lambda: address(runtime) != "https://127.0.0.1:1")
            assert (await runtime.invoke("echo", ECHO, {"a": 1})).output == {"a": 1}
            late = await runtime.invoke("echo", ECHO, {"b": 2}, semantics="async")
            assert (await runtime.wait(late.id)).output == {"b": 2}
    await carrier.aclose()
    assert_whole(ledger)


def address(runtime: Runtime) -> str:
    registered: Registration = runtime.registry.active("echo").registration
    return registered.base_url
