"""The adapter of a configured provider."""

import pytest

from modelpact.configuration import read_configuration
from modelpact.providers import MockProvider
from modelpact.providers.models import AnthropicAdapter, MissingKey, OpenAIChatAdapter, adapter_for
from modelpact.vocabulary.errors import InputError
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI
from tests.providers.models.adapter_fixtures import ask

KEYS = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2", "GEMINI_API_KEY": "k"}


def test_known_providers() -> None:
    openai = adapter_for("openai", environment=KEYS)
    assert repr(openai) == "<OpenAIChatAdapter openai https://api.openai.com/v1>"
    anthropic = adapter_for("claude", environment=KEYS)
    assert isinstance(anthropic, AnthropicAdapter)
    assert "https://api.anthropic.com" in repr(anthropic)
    assert isinstance(adapter_for("mock"), MockProvider)


def test_errors_name_what_is_missing() -> None:
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY"):
        adapter_for("anthropic", environment={})
    with pytest.raises(InputError, match="did you mean openai"):
        adapter_for("opena", environment=KEYS)
    with pytest.raises(InputError, match="no adapter for its API gemini"):
        adapter_for("gemini", environment=KEYS)
    with pytest.raises(InputError, match=r"no address: set base_url under \[providers.azure\]"):
        adapter_for("azure", environment={"AZURE_OPENAI_API_KEY": "k"})


@on_loop
async def test_a_configured_server() -> None:
    async with FakeOpenAI(key="local-key") as fake:
        text = f"""
            [providers.house]
            kind = "openai"
            base_url = "{fake.base_url}"
            api_key = {{ env = "HOUSE_KEY" }}
        """
        configuration = read_configuration(text)
        port = adapter_for(
            "house",
            configuration.providers["house"],
            catalog=configuration.catalog(),
            environment={"HOUSE_KEY": "local-key", **KEYS},
        )
        assert isinstance(port, OpenAIChatAdapter)
        response = await port.complete(ask("openai", model="gpt-5"))
        await port.aclose()
    assert response.text == "You said: Hi"
    assert fake.bodies[0]["max_completion_tokens"] == 4_000


@on_loop
async def test_azure_gets_the_key_in_its_own_header() -> None:
    async with FakeOpenAI() as fake:
        settings = read_configuration(f'[providers.azure]\nbase_url = "{fake.base_url}"')
        plain = adapter_for("azure", settings.providers["azure"], environment={})
        assert isinstance(plain, OpenAIChatAdapter)
        await plain.complete(ask("openai"))
        await plain.aclose()
        text = f'[providers.azure]\nbase_url = "{fake.base_url}"\napi_key = {{ env = "K" }}'
        settings = read_configuration(text)
        port = adapter_for("azure", settings.providers["azure"], environment={"K": "azure-key"})
        assert isinstance(port, OpenAIChatAdapter)
        await port.complete(ask("openai"))
        await port.aclose()
    assert "api-key" not in fake.requests[0].headers
    assert fake.requests[1].headers["api-key"] == "azure-key"
