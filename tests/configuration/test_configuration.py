"""`modelpact.toml`: typed, with a JSON Schema, and errors that name line and key."""

import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from modelpact.configuration import find_configuration, load_configuration, read_configuration
from modelpact.configuration.schema import SHIPPED, configuration_schema
from modelpact.configuration.toml_reader import KeyLines
from modelpact.vocabulary import ConfigurationError

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


def test_the_design_example_is_read() -> None:
    read = read_configuration(EXAMPLE)
    workload = read.workloads["extract"]
    assert str(workload.needs) == (
        "tool-calling, structured-output, context-window>=200000, prompt-caching:preferred"
    )
    assert workload.needs[0].required_by == ("extract",)
    assert read.workloads["tables"].model == "anthropic/claude-opus-4-5"
    assert read.workloads["tables"].needs[0].required_by == ("reader",)
    secret = read.providers["openai"].api_key
    assert secret is not None
    assert secret.env == "OPENAI_API_KEY"


def test_the_overlay_has_the_last_word_and_is_evidence() -> None:
    """DESIGN, the catalog: layer 6, the operator's overlay."""
    catalog = read_configuration(EXAMPLE).catalog()
    claim = catalog.resolve("local", "my-finetune").claim("context-window")
    assert (claim.support, claim.value) == ("native", 32768)
    assert claim.evidence is not None
    assert claim.evidence.layer == "overlay"


def test_an_azure_deployment_is_the_model_it_is_said_to_be() -> None:
    catalog = read_configuration(EXAMPLE).catalog()
    found = catalog.resolve("azure", "prod-chat")
    assert found.claim("image-input").support == "native"
    assert found.claim("seed").reason == "best effort"
    assert found.claim("x-host-acme-fast").support == "native"


def test_the_schema_accepts_the_example_and_is_a_schema() -> None:
    validator = jsonschema_rs.validator_for(configuration_schema())
    validator.validate(tomllib.loads(EXAMPLE))


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


def test_a_compliance_profile_is_a_named_bundle_of_policy() -> None:
    """DESIGN, provider contract: "Compliance profiles are named bundles of policy"."""
    read = read_configuration(CONTRACT)
    assert read.profiles["strict"].on_violation == "deregister"
    assert read.profiles["strict"].require_identity
    assert read.profiles["lenient"].on_deregistration == "drain"
    assert (read.contract.profile, read.contract.plain_http) == ("strict", ("models.lan",))
    assert read_configuration("").contract.profile == "standard"
    jsonschema_rs.validator_for(configuration_schema()).validate(tomllib.loads(CONTRACT))


def test_a_profile_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'strict'") as caught:
        read_configuration(CONTRACT.replace('profile = "strict"', 'profile = "strikt"'))
    assert caught.value.problems[0].where == "contract.profile"
    assert caught.value.problems[0].line == 7


MISTAKES = [
    ('[profiles.p]\non_violation = "shrug"', "profiles.p.on_violation"),
    ("[profiles.p]\nrequire_identity = 1", "profiles.p.require_identity"),
    ("[profiles.p]\nother = 1", "profiles.p.other"),
    ("[profiles]\np = 5", "profiles.p"),
    ('[contract]\nplain_http = "lan"', "contract.plain_http"),
    ("[contract]\nother = 1", "contract.other"),
    ('[stor]\nurl = "x"', "stor"),
    ('[policy]\nunknown = "maybe"', "policy.unknown"),
    ("[policy]\nemulate = 1", "policy.emulate"),
    ('[providers.openai]\napi_key = "sk"', "providers.openai.api_key"),
    ("[providers.openai]\napi_key = {}", "providers.openai.api_key"),
    ('[providers.openai]\nnonsense = "x"', "providers.openai.nonsense"),
    ('[models."openai/x"]\ntool_calling = "maybe"', 'models."openai/x".tool_calling'),
    ('[models."openai/x"]\ncontext_window = -1', 'models."openai/x".context_window'),
    ('[models."openai/x"]\nnonsense = true', 'models."openai/x".nonsense'),
    ('[models."openai/x"]\ninput_modalities = ["image"]', 'models."openai/x".input_modalities'),
    ("[workloads.w]\nneeds = []", "workloads.w"),
    ('[workloads.w]\nmodel = "gpt-5"', "workloads.w.model"),
    ('[workloads.w]\nmodel = "openai/gpt-5"\nneeds = [7]', "workloads.w.needs"),
    ('[workloads.w]\nmodel = "openai/gpt-5"\nother = 1', "workloads.w.other"),
    ("store = 5", "store"),
    ("workloads = 5", "workloads"),
    ("[workloads]\nw = 5", "workloads.w"),
]


@pytest.mark.parametrize(("text", "where"), MISTAKES)
def test_mistakes_are_named_by_loader_and_schema_alike(text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    problem = caught.value.problems[0]
    assert problem.where == where
    assert problem.line is not None
    assert not jsonschema_rs.validator_for(configuration_schema()).is_valid(tomllib.loads(text))


def test_all_mistakes_at_once_in_the_order_of_their_lines() -> None:
    text = '[policy]\nunknown = 1\nemulate = 2\n[workloads.w]\nmodel = "nobody/x"\n'
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 5]


def test_not_toml_says_where() -> None:
    with pytest.raises(ConfigurationError, match="line 1"):
        read_configuration("= nonsense")


def test_a_key_in_the_file_is_never_shown(tmp_path: Path) -> None:
    secret = "s" + "k-" + "a1" * 16
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(f'[providers.openai]\napi_key = "{secret}"')
    assert secret not in str(caught.value)


def test_found_upward(tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text('[policy]\nunknown = "probe"\n')
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_configuration(deep) == (tmp_path / "modelpact.toml").resolve()
    assert load_configuration(start=deep).policy.unknown == "probe"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_configuration(tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_configuration(tmp_path / "bytes.toml")


def test_lines_of_dotted_and_quoted_keys() -> None:
    text = 'a.b = 1\n\n["x.y".z]\nk = 2 # c\n"q r" = 3\n'
    lines = KeyLines(text)
    assert lines.of(["a", "b"]) == 1
    assert lines.of(["x.y", "z", "k"]) == 4
    assert lines.of(["x.y", "z", "q r"]) == 5
    assert lines.of(["x.y", "z", "missing"]) == 3
    assert lines.of(["nothing"]) is None


def test_a_key_in_the_wrong_place_is_never_shown() -> None:
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


def test_numbers_and_nesting_that_no_reader_takes() -> None:
    for text in ("a = " + "9" * 5000, "a = " + "[" * 5000):
        with pytest.raises(ConfigurationError):
            read_configuration(text)


def test_an_alias_in_the_file_is_the_provider_it_names() -> None:
    text = '[providers.google]\napi_key = { env = "K" }\n[models."google/gemini-2.5-pro"]\n'
    catalog = read_configuration(text + "tool_calling = false\n").catalog()
    for provider, model in (("google", "gemini-2.5-pro"), ("gemini", "Gemini-2.5-Pro")):
        assert catalog.resolve(provider, model).claim("tool-calling").support == "unsupported"


def test_the_shipped_schema_is_the_one_that_the_loader_stands_for() -> None:
    """Write it anew with `modelpact check --schema`."""
    assert json.loads(SHIPPED.read_text(encoding="utf-8")) == configuration_schema()


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
def test_what_a_terminal_would_obey_is_refused_and_not_shown(text: str, where: str) -> None:
    """A file may come with a stranger's repository; its texts are shown in many places."""
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    (problem,) = caught.value.problems
    assert problem.where.endswith(where)
    assert "cannot be seen" in problem.message
    assert problem.line
    assert str(caught.value).replace("\n", "").isprintable()


def test_lines_and_joiners_are_texts_like_any_other() -> None:
    noted = '[models."mock/x"]\nseed = { restricted = "one\\n\\ttwo \\u200d" }'
    assert read_configuration(noted).models
