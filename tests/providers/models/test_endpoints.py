"""Addresses of providers: their sources, plain HTTP, and the header of the key."""

import pytest

from modelpact import default_catalog
from modelpact.configuration import ProviderSettings, read_configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger import Ledger
from modelpact.providers.contract import ContractError
from modelpact.providers.models.adapters import adapter_for
from modelpact.providers.models.credentials import NO_KEY, ApiKey, resolve_key
from modelpact.providers.models.endpoints import (
    ProviderAddress,
    authentication_header,
    check_base_url,
    check_plain_http,
    find_address,
    key_header_name,
)
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import InputError

LOCAL_URL = "http://127.0.0.1:9/v1"
KEY = "-".join("abc")
OPENAI = default_catalog().find_provider("openai")


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_the_environment_sets_the_address_as_in_the_official_sdks(name: str) -> None:
    provider = default_catalog().find_provider(name)
    assert provider is not None
    variable = f"{name.upper()}_BASE_URL"
    assert find_address(None, provider, {}) == ProviderAddress(provider.base_url)
    assert find_address(None, provider, {variable: "  "}) == ProviderAddress(provider.base_url)
    assert find_address(None, provider, {variable: LOCAL_URL}) == ProviderAddress(LOCAL_URL, variable)
    assert "http://127.0.0.1:9" in repr(adapter_for(name, environment={variable: LOCAL_URL}))


def test_the_configuration_wins() -> None:
    settings = ProviderSettings(base_url="https://gpt.example/v1")
    environment = {"OPENAI_BASE_URL": LOCAL_URL}
    assert find_address(settings, OPENAI, environment) == ProviderAddress("https://gpt.example/v1")
    assert "https://gpt.example/v1" in repr(adapter_for("openai", settings, environment=environment))


def test_other_providers_ignore_the_variable() -> None:
    mistral = default_catalog().find_provider("mistral")
    assert find_address(None, mistral, {"OPENAI_BASE_URL": LOCAL_URL, "": LOCAL_URL}).variable == ""


def test_plain_http_is_only_for_this_machine() -> None:
    environment = {"OPENAI_BASE_URL": "http://gpu.lan/v1"}
    with pytest.raises(InputError, match=r"openai: OPENAI_BASE_URL: http://gpu\.lan would send"):
        adapter_for("openai", environment=environment)
    allowed = adapter_for("openai", environment=environment, plain_http={"gpu.lan"})
    assert "http://gpu.lan/v1" in repr(allowed)
    with pytest.raises(InputError, match="OPENAI_BASE_URL"):
        adapter_for("openai", environment={"OPENAI_BASE_URL": "not an address"})


def test_an_address_of_the_environment_gets_its_key_and_needs_none() -> None:
    environment = {"OPENAI_BASE_URL": LOCAL_URL}
    assert resolve_key(None, OPENAI, environment={**environment, "OPENAI_API_KEY": KEY}) == ApiKey(KEY)
    assert resolve_key(None, OPENAI, environment=environment) == NO_KEY
    elsewhere = ProviderSettings(base_url="https://gpt.example/v1")
    with_key = {**environment, "OPENAI_API_KEY": KEY}
    assert resolve_key(elsewhere, OPENAI, environment=with_key) == NO_KEY


def test_a_provider_with_an_address_of_the_environment_can_be_called(ledger: Ledger) -> None:
    models = ModelCaller(Runtime(ledger), environment={"OPENAI_BASE_URL": LOCAL_URL})
    assert models.env_overrides() == {"openai": ProviderAddress(LOCAL_URL, "OPENAI_BASE_URL")}
    assert "openai" in models.supported_providers()
    configured = read_configuration(f'[providers.openai]\nbase_url = "{LOCAL_URL}"\n')
    settled = ModelCaller(Runtime(ledger), configuration=configured, environment={"OPENAI_BASE_URL": "https://x.y"})
    assert settled.env_overrides() == {}


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "http://localhost:8000/v1",
        "http://127.0.0.1:8000",
        "http://127.8.8.8",
        "http://[::1]:80/v1",
    ],
)
def test_https_and_local_addresses_are_accepted(url: str) -> None:
    assert check_base_url(f"{url}/", "x") == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://10.0.0.5/v1", "would send prompts and keys unencrypted"),
        ("http://localhost.evil.com/v1", "unencrypted"),
        ("http://evil.localhost/v1", "unencrypted"),
        ("http://127.0.0.1.evil.com/v1", "unencrypted"),
        ("", "no address: set base_url"),
        ("ftp://x", "cannot be requested"),
        ("https://user:pw@x.example", "user name"),
        ("https://x.example/v1?key=1", "without query"),
    ],
)
def test_other_addresses_are_rejected(url: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as raised:
        check_base_url(url, "x")
    assert "key=1" not in str(raised.value)
    assert "pw" not in str(raised.value)


def test_the_operator_may_allow_a_host_by_name() -> None:
    assert check_base_url("http://GPU.lan:8000/v1", "x", {"gpu.lan"}) == "http://GPU.lan:8000/v1"
    with pytest.raises(InputError):
        check_base_url("http://gpu2.lan", "x", {"gpu.lan"})


@pytest.mark.parametrize("url", ["https://x.example", "http://localhost:1", "http://[::1]", ""])
def test_https_and_this_machine_need_no_permission(url: str) -> None:
    assert check_plain_http(url, ()) is None


def test_a_plain_http_host_must_be_allowed_by_name() -> None:
    assert check_plain_http("http://GPU.lan:8000", ["gpu.lan"]) == "gpu.lan"
    with pytest.raises(ContractError, match="without TLS") as raised:
        check_plain_http("http://gpu2.lan", ["gpu.lan"])
    assert raised.value.code == "plain_http"


def test_each_provider_gets_its_key_in_its_own_header() -> None:
    assert key_header_name("anthropic", "anthropic") == "x-api-key"
    assert key_header_name("openai-chat", "azure") == "api-key"
    assert key_header_name("openai-responses", "openai") == "authorization"
    assert authentication_header("api-key", "k") == ("api-key", "k")
    assert authentication_header("authorization", "k") == ("authorization", "Bearer k")
