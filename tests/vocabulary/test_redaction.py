"""Redaction: secrets go, everything else stays. Fake keys are put together at run time."""

import base64
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from modelpact.vocabulary.redaction import REDACTED, redact, redact_text

MIXED = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z"
UPPER = "A1B2C3D4E5F6G7H8"
B64 = "eyJ" + "hbGciOiJIUzI1NiJ9"
DASHES = "-" * 5


def pem(kind: str, *, ended: bool = True) -> str:
    """A private key's armour around nothing much."""
    name = " ".join(part for part in (kind, "PRIVATE", "KEY") if part)
    end = f"\n{DASHES}END {name}{DASHES}" if ended else ""
    return f"{DASHES}BEGIN {name}{DASHES}\nMIIB{MIXED}\n{MIXED}{end}"


SECRETS = {
    "openai": "sk-" + MIXED,
    "openai project": "sk-" + "proj-" + MIXED + "_" + MIXED,
    "openai service account": "sk-" + "svcacct-" + MIXED,
    "openai admin": "sk-" + "admin-" + MIXED,
    "anthropic": "sk-" + "ant-" + "api03-" + MIXED,
    "openrouter": "sk-" + "or-" + "v1-" + MIXED,
    "github classic": "gh" + "p_" + MIXED,
    "github oauth": "gh" + "o_" + MIXED,
    "github app": "gh" + "s_" + MIXED,
    "github refresh": "gh" + "r_" + MIXED,
    "github user": "gh" + "u_" + MIXED,
    "github fine-grained": "github" + "_pat_" + MIXED + "_" + MIXED,
    "google api": "AI" + "za" + MIXED + "abcd",
    "google oauth": "ya" + "29." + MIXED,
    "google client secret": "GOC" + "SPX-" + MIXED,
    "aws": "AK" + "IA" + UPPER,
    "aws session": "AS" + "IA" + UPPER,
    "slack bot": "xo" + "xb-" + "123456789012-" + MIXED,
    "slack user": "xo" + "xp-" + "123456789012-" + MIXED,
    "slack app": "xa" + "pp-" + "1-" + MIXED,
    "jwt": f"{B64}.{MIXED}.{MIXED}",
    "pem": pem(""),
    "pem rsa": pem("RSA"),
    "pem ec": pem("EC"),
    "pem openssh": pem("OPENSSH"),
    "pem cut off": pem("RSA", ended=False),
    "bearer": "Bearer " + MIXED,
    "bearer lower": "bearer " + MIXED + "==",
    "huggingface": "h" + "f_" + MIXED,
    "groq": "g" + "sk_" + MIXED,
    "xai": "x" + "ai-" + MIXED,
    "stripe": "sk" + "_live_" + MIXED,
    "gitlab": "gl" + "pat-" + MIXED,
}


@pytest.mark.parametrize("family", SECRETS)
def test_every_family_of_secrets_goes(family: str) -> None:
    secret = SECRETS[family]
    assert redact_text(secret) == REDACTED
    assert redact(secret) == REDACTED


@pytest.mark.parametrize("family", [name for name in SECRETS if name != "pem cut off"])
@pytest.mark.parametrize("frame", ["{}", "key={}", 'say "{}" twice', "({})", "a: {}, b", "\n{}\n"])
def test_the_text_around_a_secret_stays(family: str, frame: str) -> None:
    assert redact_text(frame.format(SECRETS[family])) == frame.format(REDACTED)


def test_two_secrets_in_one_text_both_go() -> None:
    text = f"{SECRETS['aws']} and {SECRETS['anthropic']}"
    assert redact_text(text) == f"{REDACTED} and {REDACTED}"


def test_two_secrets_without_a_gap_both_go() -> None:
    assert MIXED[:20] not in redact_text(SECRETS["aws"] + SECRETS["openai"])


def test_a_password_in_an_address_goes_and_the_address_stays() -> None:
    redacted = redact_text("postgresql://" + "user:" + "hunter2" + "@db.example/app")
    assert redacted == f"postgresql://{REDACTED}@db.example/app"


@pytest.mark.parametrize(
    "words",
    [
        "sk-learn",
        "scikit-learn and sk-learn pipelines",
        "sk-",
        "max_tokens",
        "stop_token",
        "the bearer of bad news",
        "a basic understanding",
        "bearer authentication-is-required",
        "gpt-4o-mini-2024-07-18",
        "claude-opus-4-5-20251101",
        "meta-llama/Llama-3.3-70B-Instruct",
        "https://example.com/v1/chat?model=o3",
        "2026-11-16T03:44:48Z",
        "AKIA is a prefix",
        "eyJ is how they begin",
        "xoxb-",
        "-----BEGIN CERTIFICATE-----",
        "ghp_ is a prefix",
        "naïve café ✓ 你好",
        "",
    ],
)
def test_ordinary_words_stay(words: str) -> None:
    assert redact_text(words) == words


@pytest.mark.parametrize("words", ["asiapacificnortheastregion", "Accademiadellacruscaitaliana"])
def test_long_words_that_begin_like_a_key_in_capitals_stay(words: str) -> None:
    assert redact_text(words) == words


@pytest.mark.parametrize("words", ["a basic claude-opus-4-5 request", "the basic gpt-4o-mini plan"])
def test_a_basic_model_is_no_basic_credential(words: str) -> None:
    assert redact_text(words) == words


@pytest.mark.parametrize(
    "name",
    [
        *["api_key", "apiKey", "API_KEY", "x-api-key", "apikey", "APIKey", "OPENAI_API_KEY"],
        *["password", "dbPassword", "passwd", "passphrase", "client_secret", "clientSecret"],
        *["secret", "secrets", "credentials", "Authorization", "Cookie", "Set-Cookie"],
        *["token", "access_token", "accessToken", "refresh_token", "id_token", "sessionToken"],
        *["private_key", "privateKey", "aws_secret_access_key", "signing_key"],
        *["key", "openai_key", "openaiKey", "my-litellm-key", "auth", "proxy_auth"],
    ],
)
def test_whatever_stands_under_a_secret_name_goes(name: str) -> None:
    assert redact({name: "hunter2"}) == {name: REDACTED}
    assert redact({name: 12345}) == {name: REDACTED}
    assert redact({name: ["a", {"b": "c"}]}) == {name: REDACTED}
    assert redact("hunter2", name=name) == REDACTED


@pytest.mark.parametrize(
    "name",
    [
        *["max_tokens", "maxTokens", "stop_token", "eos_token", "tokenizer", "token_limit_param"],
        *["keyboard", "monkey", "author", "secretary", "prompt_cache_key", "temperature"],
        *["idempotency-key", "publicKey", "key_id", "authors"],
        *["", "名前"],
    ],
)
def test_ordinary_names_keep_their_values(name: str) -> None:
    assert redact({name: "hunter2"}) == {name: "hunter2"}


def test_absence_and_truth_are_told_even_under_a_secret_name() -> None:
    assert redact({"api_key": None, "password": False}) == {"api_key": None, "password": False}


def test_secrets_are_found_however_deep() -> None:
    given = {"headers": [{"note": f"use {SECRETS['github classic']}"}, ("a", {"token": "b"})]}
    expected = {"headers": [{"note": f"use {REDACTED}"}, ["a", {"token": REDACTED}]]}
    assert redact(given) == expected


def test_a_secret_that_is_a_key_goes_too() -> None:
    assert redact({SECRETS["openai"]: 1}) == {REDACTED: 1}


def test_bytes_and_bottomless_nests_are_not_looked_into() -> None:
    nest: list[Any] = []
    nest.append(nest)
    assert redact(b"anything") == REDACTED
    assert REDACTED in str(redact(nest))


def test_the_value_handed_in_is_left_alone() -> None:
    given = {"password": "hunter2", "inner": {"token": "x"}}
    redact(given)
    assert given == {"password": "hunter2", "inner": {"token": "x"}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(JSON)
def test_never_raises_and_twice_is_once(value: object) -> None:
    once = redact(value)
    assert repr(redact(once)) == repr(once)


@given(st.lists(st.sampled_from([*SECRETS.values(), " ", "word", ",", "sk-learn"]), max_size=6))
def test_twice_is_once_for_any_run_of_secrets(parts: list[str]) -> None:
    once = redact_text(" ".join(parts))
    assert redact_text(once) == once
    assert MIXED not in once


@given(st.text(alphabet=st.characters(exclude_characters="-_.:@", exclude_categories=["Nd"])))
def test_text_without_secrets_is_unchanged(text: str) -> None:
    """What has no digit, dash, dot or colon is no key that chance would write."""
    assert redact_text(text) == text


@given(st.text(), st.text())
def test_a_secret_is_found_wherever_it_stands(before: str, after: str) -> None:
    secret = SECRETS["openai"]
    assert secret not in redact_text(f"{before} {secret} {after}")


@given(st.binary(min_size=16, max_size=48))
def test_keys_of_proxies_go_whatever_chance_wrote(chosen: bytes) -> None:
    """What `secrets.token_urlsafe` makes: base64 with dashes and underscores in any place."""
    token = base64.urlsafe_b64encode(chosen).rstrip(b"=").decode()
    assume(any(character.isdigit() or character.isupper() for character in token))
    assert token not in redact_text("the key sk-" + token + " is wrong")


def test_words_that_begin_like_a_proxys_key_stay() -> None:
    words = "sk-learn-compatible-estimators on a disk-0123456789abcdef01 and task-2026-11-16-morning"
    assert redact_text(words) == words
