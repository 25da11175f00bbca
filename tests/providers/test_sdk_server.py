"""The server of a provider: what it refuses, and with which status."""

from typing import Any

import pytest

from modelpact.ledger import Ledger
from tests.providers.support import ECHO, World, call, echo_provider, on_loop


def invocation(**fields: Any) -> dict[str, Any]:
    message = {"invocationId": "i", "capability": ECHO, "semantics": "sync", "input": {}}
    return {**message, **fields}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (invocation(capability="urn:none"), f"echo does not offer 'urn:none'; it offers {ECHO}"),
        (invocation(semantics="later"), "invocation: Invalid enum value 'later'"),
        ({"invocationId": "i"}, "invocation: Object missing required field `capability`"),
    ],
)
@on_loop
async def test_an_invocation_that_does_not_fit_is_refused_with_400(
    lite: World, lite_ledger: Ledger, message: dict[str, Any], reason: str
) -> None:
    provider = echo_provider()
    async with (
        lite.hosting(lite_ledger) as host,
        provider.running(lite.settings("echo", host.url)) as registration,
        lite.client("main") as client,
    ):
        url = f"{registration.base_url}/invocations"
        status, body = await call(client, "POST", url, message)
        assert status == 400
        assert body.decode().startswith(reason)
