"""API keys: their sources, and that they never appear in text."""

import base64
import pickle
from pathlib import Path

import pytest

from modelpact.catalog.provider import ProviderEntry
from modelpact.configuration import ProviderSettings, SecretRef
from modelpact.providers.models import ApiKey, MissingKey, OpenAIChatAdapter, resolve_key
from modelpact.providers.models.upstream import redact_upstream

SECRET = "-".join(("sk", "proj", "0123456789abcdef0123456789"))
OPENAI = ProviderEntry(
    "openai",
    "OpenAI",
    "cloud",
    "own",
    ("openai-chat",),
    base_url="https://api.openai.com/v1",
    key_env=("OPENAI_API_KEY", "OPENAI_KEY"),
)
LOCAL = ProviderEntry("vllm", "vLLM", "local", "weights", ("openai-chat",))


def settings(**ref: str) -> ProviderSettings:
    return ProviderSettings(api_key=SecretRef(**ref))


def test_a_key_from_a_variable() -> None:
    env = {"MY_KEY": f"  {SECRET}\n"}
    assert resolve_key(settings(env="MY_KEY"), OPENAI, environment=env).reveal() == SECRET


def test_a_key_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{SECRET}\n\n")
    assert resolve_key(settings(file=str(path)), OPENAI, environment={}).reveal() == SECRET


def test_variables_of_the_catalog_are_tried_in_order() -> None:
    env = {"OPENAI_API_KEY": " ", "OPENAI_KEY": SECRET}
    assert resolve_key(None, OPENAI, environment=env).reveal() == SECRET


def test_an_error_says_where_to_put_the_key(tmp_path: Path) -> None:
    with pytest.raises(MissingKey, match=r"openai: no key: set OPENAI_API_KEY or OPENAI_KEY, or"):
        resolve_key(None, OPENAI, environment={})
    with pytest.raises(MissingKey, match="the variable MY_KEY is not set"):
        resolve_key(settings(env="MY_KEY"), OPENAI, environment={"OPENAI_API_KEY": SECRET})
    with pytest.raises(MissingKey, match="the variable MY_KEY is empty"):
        resolve_key(settings(env="MY_KEY"), OPENAI, environment={"MY_KEY": " \n"})
    with pytest.raises(MissingKey, match="cannot be read: No such file"):
        resolve_key(settings(file=str(tmp_path / "none")), OPENAI)
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(MissingKey, match="is empty; put the key there"):
        resolve_key(settings(file=str(tmp_path / "empty")), OPENAI)
    (tmp_path / "long").write_text("x" * 20_000)
    with pytest.raises(MissingKey, match="too long"):
        resolve_key(settings(file=str(tmp_path / "long")), OPENAI)


@pytest.mark.parametrize("value", [f"{SECRET}\r\nx-evil: 1", f"{SECRET} two", f"{SECRET}é"])
def test_an_invalid_key_is_rejected_without_showing_it(value: str) -> None:
    with pytest.raises(MissingKey, match="characters that a key cannot have") as raised:
        resolve_key(settings(env="K"), OPENAI, environment={"K": value})
    assert SECRET not in str(raised.value)


def test_local_servers_need_no_key() -> None:
    assert not resolve_key(None, LOCAL, environment={})
    assert not resolve_key(None, None, environment={})


def test_a_key_is_never_sent_to_another_address() -> None:
    env = {"OPENAI_API_KEY": SECRET}
    elsewhere = ProviderSettings(kind="openai", base_url="https://proxy.example/v1")
    assert not resolve_key(elsewhere, OPENAI, environment=env)
    same = ProviderSettings(base_url="https://api.openai.com/v1/")
    assert resolve_key(same, OPENAI, environment=env)


def test_a_key_is_not_shown() -> None:
    key = ApiKey(SECRET)
    assert SECRET not in f"{key} {key!r} {OpenAIChatAdapter('https://x.example', key)!r}"
    with pytest.raises(TypeError):
        pickle.dumps(key)


@pytest.mark.parametrize(
    "echoed",
    [
        SECRET,
        SECRET.upper(),
        SECRET[:-4],
        SECRET[4:],
        f"{SECRET[:12]}\n  {SECRET[12:]}",
        "".join(f"%{ord(character):02X}" for character in SECRET),
        SECRET.replace("-", "\\u002d"),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"x:{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"ab{SECRET}cd".encode()).decode(),
    ],
)
def test_a_key_is_redacted_in_every_spelling(echoed: str) -> None:
    redacted = redact_upstream(f"bad key: {echoed} was refused", SECRET)
    assert "[REDACTED]" in redacted
    assert redacted.startswith("bad key: ")
    assert redacted.endswith(" was refused")
    left = "".join(redacted.removeprefix("bad key: ").removesuffix(" was refused").split())
    whole = "".join(echoed.split())
    assert not any(whole[at : at + 8] in left for at in range(len(whole) - 7))


def test_a_key_is_redacted_at_the_cut_of_a_long_text() -> None:
    for before in range(2_360, 2_410):
        redacted = redact_upstream("a" * before + SECRET, SECRET)
        assert SECRET[:8] not in redacted
