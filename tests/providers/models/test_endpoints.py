"""Where a provider is: the configuration's word, the environment's, the catalog's."""

import pytest

from modelpact import default_catalog
from modelpact.configuration import ProviderSettings, read_configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger import Ledger
from modelpact.providers.models.credentials import NO_KEY, ApiKey, resolve_key
from modelpact.providers.models.endpoints import ProviderAddress, find_address
from modelpact.providers.models.factory import adapter_for
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import InputError

HERE = "http://127.0.0.1:9/v1"
KEY = "-".join("abc")
OPENAI = default_catalog().find_provider("openai")


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_the_environment_leads_elsewhere_as_it_does_the_sdks(name: str) -> None:
    provider = default_catalog().find_provider(name)
    assert provider is not None
    variable = f"{name.upper()}_BASE_URL"
    assert find_address(None, provider, {}) == ProviderAddress(provider.base_url)
    assert find_address(None, provider, {variable: "  "}) == ProviderAddress(provider.base_url)
    assert find_address(None, provider, {variable: HERE}) == ProviderAddress(HERE, variable)
    assert "http://127.0.0.1:9" in repr(adapter_for(name, environment={variable: HERE}))


def test_the_configuration_wins() -> None:
    settings = ProviderSettings(base_url="https://gpt.example/v1")
    said = {"OPENAI_BASE_URL": HERE}
    assert find_address(settings, OPENAI, said) == ProviderAddress("https://gpt.example/v1")
    assert "https://gpt.example/v1" in repr(adapter_for("openai", settings, environment=said))


def test_others_are_not_led_by_it() -> None:
    mistral = default_catalog().find_provider("mistral")
    assert find_address(None, mistral, {"OPENAI_BASE_URL": HERE, "": HERE}).variable == ""


def test_plain_http_is_for_this_machine_only() -> None:
    said = {"OPENAI_BASE_URL": "http://gpu.lan/v1"}
    with pytest.raises(InputError, match=r"openai: OPENAI_BASE_URL: http://gpu\.lan would send"):
        adapter_for("openai", environment=said)
    allowed = adapter_for("openai", environment=said, plain_http={"gpu.lan"})
    assert "http://gpu.lan/v1" in repr(allowed)
    with pytest.raises(InputError, match="OPENAI_BASE_URL"):
        adapter_for("openai", environment={"OPENAI_BASE_URL": "not an address"})


def test_the_key_of_the_same_environment_goes_along_and_none_is_needed() -> None:
    said = {"OPENAI_BASE_URL": HERE}
    assert resolve_key(None, OPENAI, environment={**said, "OPENAI_API_KEY": KEY}) == ApiKey(KEY)
    assert resolve_key(None, OPENAI, environment=said) == NO_KEY
    elsewhere = ProviderSettings(base_url="https://gpt.example/v1")
    given = {**said, "OPENAI_API_KEY": KEY}
    assert resolve_key(elsewhere, OPENAI, environment=given) == NO_KEY


def test_what_is_led_elsewhere_can_be_called(ledger: Ledger) -> None:
    models = ModelCaller(Runtime(ledger), environment={"OPENAI_BASE_URL": HERE})
    assert models.env_overrides() == {"openai": ProviderAddress(HERE, "OPENAI_BASE_URL")}
    assert "openai" in models.supported_providers()
    configured = read_configuration(f'[providers.openai]\nbase_url = "{HERE}"\n')
    settled = ModelCaller(
        Runtime(ledger), configuration=configured, environment={"OPENAI_BASE_URL": "https://x.y"}
    )
    assert settled.env_overrides() == {}
