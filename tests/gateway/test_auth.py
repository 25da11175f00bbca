"""Authentication: callers are found by their key, and remembered by the head of their requests."""

import pytest

from modelpact.gateway.keys import ClientKey, ClientKeys, KeySettings, digest
from modelpact.gateway.request import Authenticator
from modelpact.gateway.responses import GatewayError
from modelpact.vocabulary.errors import InputError
from modelpact.wire.headers import Headers

SECRET = "mp-secret"
KEY = ClientKey("key_1", "app", KeySettings(), 0)


def authenticator() -> Authenticator:
    return Authenticator(ClientKeys({digest(SECRET): KEY}))


def headers(secret: str = SECRET, **more: str) -> Headers:
    fields = {"x-api-key": secret, **{name.replace("_", "-"): more[name] for name in more}}
    return Headers([(name.encode(), value.encode()) for name, value in fields.items()])


def test_requests_with_the_same_head_share_one_caller() -> None:
    auth = authenticator()
    caller = auth.caller(headers())
    assert caller.key is KEY
    assert auth.caller(headers()) is caller
    assert auth.caller(headers(content_length="7")) is caller, "the length of a body is no matter"


def test_another_head_is_another_caller() -> None:
    auth = authenticator()
    plain = auth.caller(headers())
    strict = auth.caller(headers(modelpact_policy="emulate=off"))
    assert (plain.policy, strict.policy) == ("", "emulate=off")
    assert auth.caller(headers(modelpact_workload="extract")).workload == "extract"
    assert auth.caller(headers(modelpact_report="body")).report


def test_an_unknown_key_is_refused_each_time() -> None:
    auth = authenticator()
    auth.caller(headers())
    for _ in range(2):
        with pytest.raises(GatewayError) as refused:
            auth.caller(headers("mp-other"))
        assert refused.value.status == 401


def test_a_new_authenticator_forgets_revoked_keys() -> None:
    authenticator().caller(headers())
    with pytest.raises(GatewayError):
        Authenticator(ClientKeys({})).caller(headers())


def test_a_very_long_head_is_not_remembered() -> None:
    auth = authenticator()
    long = headers(x_padding="x" * 10_000)
    assert auth.caller(long) is not auth.caller(long)


@pytest.mark.parametrize("value", ["head", "", "bodies"])
def test_an_unknown_report_option_is_an_error(value: str) -> None:
    with pytest.raises(InputError, match="modelpact-report: expected body"):
        authenticator().caller(headers(modelpact_report=value))


def test_values_of_one_header_do_not_look_like_another() -> None:
    """A head is remembered as one text: no two heads may have the same."""
    first = Headers([(b"a", b"1"), (b"b", b"2")])
    other = Headers([(b"a", b"1b:2")])
    assert first.cache_key != other.cache_key
