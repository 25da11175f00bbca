"""Reading a `modelpact.toml`: typed values, and errors that name line and key."""

from pathlib import Path

import pytest

from modelpact.configuration import find_configuration, load_configuration, read_configuration
from modelpact.configuration.reader import KeyLines
from modelpact.vocabulary.errors import ConfigurationError

EXAMPLE = """\
[store]
url = "sqlite:modelpact.db"
[policy]
unknown = "refuse"
emulate = false
unsupported_params = "refuse"
[providers.openai]
api_key = { env = "OPENAI_API_KEY" }
[providers.local]
kind = "vllm"
base_url = "http://127.0.0.1:8000/v1"
[models."local/my-finetune"]
tool_calling = true
context_window = 32768
[models."azure/prod-chat"]
same_as = "openai/gpt-4o"
seed = { restricted = "best effort" }
x-host-acme-fast = true
[workloads.extract]
model = "anthropic/claude-opus-4-5"
needs = ["tools", "structured-output", "context>=200k", "prompt-caching:preferred"]
fallback = "openai/gpt-5"
[workloads.tables]
model = "claude/claude-opus-4-5"
needs = [{ capability = "context", minimum = "1M", level = "preferred", required_by = "reader" }]
"""


def test_the_example_is_read() -> None:
    configuration = read_configuration(EXAMPLE)
    workload = configuration.workloads["extract"]
    assert str(workload.needs) == ("tool-calling, structured-output, context-window>=200000, prompt-caching:preferred")
    assert workload.needs[0].required_by == ("extract",)
    assert configuration.workloads["tables"].model == "anthropic/claude-opus-4-5"
    assert configuration.workloads["tables"].needs[0].required_by == ("reader",)
    secret = configuration.providers["openai"].api_key
    assert secret is not None
    assert secret.env == "OPENAI_API_KEY"


def test_operator_facts_override_the_catalog_and_are_evidence() -> None:
    catalog = read_configuration(EXAMPLE).catalog()
    claim = catalog.resolve("local", "my-finetune").claim("context-window")
    assert (claim.support, claim.value) == ("native", 32768)
    assert claim.evidence is not None
    assert claim.evidence.layer == "overlay"


def test_same_as_gives_a_deployment_the_facts_of_its_model() -> None:
    catalog = read_configuration(EXAMPLE).catalog()
    resolution = catalog.resolve("azure", "prod-chat")
    assert resolution.claim("image-input").support == "native"
    assert resolution.claim("seed").reason == "best effort"
    assert resolution.claim("x-host-acme-fast").support == "native"


CONTRACT = """\
[profiles.strict]
on_deregistration = "cancel"
on_violation = "deregister"
require_identity = true
[profiles.lenient]
[contract]
profile = "strict"
plain_http = ["models.lan"]
"""


def test_compliance_profiles_are_named_sets_of_policy() -> None:
    configuration = read_configuration(CONTRACT)
    assert configuration.profiles["strict"].on_violation == "deregister"
    assert configuration.profiles["strict"].require_identity
    assert configuration.profiles["lenient"].on_deregistration == "drain"
    assert (configuration.contract.profile, configuration.contract.plain_http) == ("strict", ("models.lan",))
    assert read_configuration("").contract.profile == "standard"


def test_an_unknown_profile_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'strict'") as caught:
        read_configuration(CONTRACT.replace('profile = "strict"', 'profile = "strikt"'))
    assert caught.value.problems[0].where == "contract.profile"
    assert caught.value.problems[0].line == 7


def test_all_problems_are_reported_in_the_order_of_their_lines() -> None:
    text = '[policy]\nunknown = 1\nemulate = 2\n[workloads.w]\nmodel = "nobody/x"\n'
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 5]


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(ConfigurationError, match="line 1"):
        read_configuration("= nonsense")


def test_a_secret_in_the_file_is_not_shown(tmp_path: Path) -> None:
    secret = "s" + "k-" + "a1" * 16
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(f'[providers.openai]\napi_key = "{secret}"')
    assert secret not in str(caught.value)


def test_the_file_is_found_in_a_parent_folder(tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text('[policy]\nunknown = "probe"\n')
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_configuration(deep) == (tmp_path / "modelpact.toml").resolve()
    assert load_configuration(start=deep).policy.unknown == "probe"


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_configuration(tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_configuration(tmp_path / "bytes.toml")


def test_lines_of_dotted_and_quoted_keys() -> None:
    text = 'a.b = 1\n\n["x.y".z]\nk = 2 # c\n"q r" = 3\n'
    lines = KeyLines(text)
    assert lines.line_of(["a", "b"]) == 1
    assert lines.line_of(["x.y", "z", "k"]) == 4
    assert lines.line_of(["x.y", "z", "q r"]) == 5
    assert lines.line_of(["x.y", "z", "missing"]) == 3
    assert lines.line_of(["nothing"]) is None


def test_a_secret_in_the_wrong_place_is_not_shown() -> None:
    secret = "s" + "k-" + "a1" * 16
    for text in (
        f'[providers.openai]\nkind = "{secret}"',
        f'[providers."{secret}"]',
        f'[models."openai/x"]\njson_mode = "{secret}"',
        f'[workloads.w]\nmodel = "{secret}"',
        f'[providers.openai]\napi_key = {{ env = "{secret}" }}',
    ):
        with pytest.raises(ConfigurationError) as caught:
            read_configuration(text)
        assert secret not in str(caught.value)


def test_huge_numbers_and_deep_nesting_are_rejected() -> None:
    for text in ("a = " + "9" * 5000, "a = " + "[" * 5000):
        with pytest.raises(ConfigurationError):
            read_configuration(text)


def test_a_provider_alias_in_the_file_means_the_provider() -> None:
    text = '[providers.google]\napi_key = { env = "K" }\n[models."google/gemini-2.5-pro"]\n'
    catalog = read_configuration(text + "tool_calling = false\n").catalog()
    for provider, model in (("google", "gemini-2.5-pro"), ("gemini", "Gemini-2.5-Pro")):
        assert catalog.resolve(provider, model).claim("tool-calling").support == "unsupported"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[workloads."a\\u001b[2J"]\nmodel = "mock/demo"', 'workloads."a\\U0000001b[2J"'),
        ('[models."mock/\\u009b2J"]\ntool_calling = true', 'models."mock/\\U0000009b2J"'),
        ('[workloads.a]\nmodel = "mock/\\u202ex"', "workloads.a.model"),
        ('[workloads.a]\nmodel = "mock/x"\nneeds = ["tools\\u001b[2J"]', "workloads.a.needs"),
        ('[models."mock/x"]\nseed = { restricted = "\\u0007" }', '"mock/x".seed.restricted'),
    ],
)
def test_control_characters_are_rejected_and_not_shown(text: str, where: str) -> None:
    """A file may come with somebody else's repository, and a terminal shows its strings."""
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    (problem,) = caught.value.problems
    assert problem.where.endswith(where)
    assert "a character that cannot be seen" in problem.message
    assert problem.line
    assert str(caught.value).replace("\n", "").isprintable()


def test_line_ends_and_joiners_are_allowed() -> None:
    text = '[models."mock/x"]\nseed = { restricted = "one\\n\\ttwo \\u200d" }'
    assert read_configuration(text).models


def test_the_ledger_is_beside_the_file_or_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELPACT_DATA", str(tmp_path / "data"))
    file = tmp_path / "modelpact.toml"
    own = f"sqlite:{tmp_path / 'data' / 'modelpact.db'}"
    assert read_configuration("").store_url() == own
    assert read_configuration("[policy]\n", path=file).store_url() == own
    beside = f"sqlite:{tmp_path / 'modelpact.db'}"
    assert read_configuration("[store]\n", path=file).store_url() == beside
    for url in ("sqlite:/var/x.db", "postgresql://db/x"):
        assert read_configuration(f'[store]\nurl = "{url}"', path=file).store_url() == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[providers.openai]\ntimeout = 0", "expected a number > 0"),
        ("[providers.openai]\nbase_url = 7", "expected a string, got an integer"),
        ("[gateway]\nlossy = 1", "expected true or false, got an integer"),
        ('[workloads.w]\nmodel = "mock/x"\nfallback_on = ["429"]', "there is no fallback"),
    ],
)
def test_a_wrong_type_is_reported_in_the_terms_of_toml(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    assert message in caught.value.problems[0].message
