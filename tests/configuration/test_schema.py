"""The JSON Schema of `modelpact.toml` and the loader accept and reject the same files."""

import json
import tomllib

import jsonschema_rs
import pytest

from modelpact.configuration import read_configuration
from modelpact.configuration.load import SECTIONS
from modelpact.configuration.schema import SCHEMA_FILE, ConfigurationFile, configuration_schema
from modelpact.vocabulary.errors import ConfigurationError
from tests.configuration.test_configuration import CONTRACT, EXAMPLE

ACCEPTED = [
    "",
    EXAMPLE,
    CONTRACT,
    "[store]",
    '[providers.openai]\napi_key = { file = "/run/key" }\ntimeout = 2.5\nconnections = 1',
    '[models."openai/x"]\nreasoning_effort = ["low", "high"]\nmax_output = "unknown"',
    '[models."openai/x"]\nseed = { restricted = { reason = "best effort" } }\njson_mode = "object"',
    '[models."openai/x"]\ninput_modalities = ["text", "image"]\nlogprobs = "emulated"',
    '[workloads.w]\nmodel = "openai/gpt-5"\nfallback = "openai/gpt-4o"\nfallback_on = ["429"]\n'
    'policy = { unknown = "probe" }\n'
    'needs = [{ capability = "tools", min_support = "native", required_by = ["a", "b"] }]',
    '[machines.m]\ncontract = "^1.1"\nneeds = ["tools"]\nstages = [{ name = "a", needs = [] }]',
    '[host]\nmodel = "openai/gpt-5"\npacks = ["p.json"]\ntoken = { env = "TOKEN" }\ngating = false',
    '[gateway]\naliases = { fast = "openai/gpt-5" }\nlossy = true\ntelemetry = "http://127.0.0.1:4318"',
]

REJECTED = [
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
    ("[providers.openai]\ntimeout = 0", "providers.openai.timeout"),
    ("[providers.openai]\nconnections = 0", "providers.openai.connections"),
    ("[providers.openai]\nbase_url = 7", "providers.openai.base_url"),
    ('[providers.openai]\napi_key = { env = "A", file = "b" }', "providers.openai.api_key"),
    ('[providers.openai]\napi_key = { env = "not a name" }', "providers.openai.api_key"),
    ('[models."openai/x"]\nmax_output = 0', 'models."openai/x".max_output'),
    ('[models."openai/x"]\nseed = { restricted = " " }', 'models."openai/x".seed'),
    ('[models."openai/x"]\nreasoning_effort = []', 'models."openai/x".reasoning_effort'),
    ('[models."openai"]\nseed = true', "models.openai"),
    ('[workloads.w]\nmodel = "openai/gpt-5"\nfallback_on = ["never"]', "workloads.w.fallback_on"),
    ('[workloads.w]\nmodel = "openai/gpt-5"\npolicy = 5', "workloads.w.policy"),
    ('[workloads.w]\nmodel = "openai/gpt-5"\nneeds = [{ level = "hard" }]', "workloads.w.needs"),
    ("[host]\ngating = 1", "host.gating"),
    ('[host]\nmodel = "gpt-5"', "host.model"),
    ('[gateway]\naliases = { fast = "gpt-5" }', "gateway.aliases.fast"),
    ("[gateway]\nother = 1", "gateway.other"),
    ("[machines.m]\nstages = [{ needs = [] }]", "machines.m.stages"),
]


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(configuration_schema())


@pytest.mark.parametrize("text", ACCEPTED)
def test_loader_and_schema_accept(text: str, validator: jsonschema_rs.Validator) -> None:
    read_configuration(text)
    validator.validate(tomllib.loads(text))


@pytest.mark.parametrize(("text", "where"), REJECTED)
def test_loader_and_schema_reject(text: str, where: str, validator: jsonschema_rs.Validator) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    problem = caught.value.problems[0]
    assert problem.where == where
    assert problem.line is not None
    assert not validator.is_valid(tomllib.loads(text))


def test_loader_and_schema_know_the_same_sections() -> None:
    assert ConfigurationFile.__struct_fields__ == SECTIONS


def test_the_shipped_file_is_the_generated_schema() -> None:
    """Write it again with `modelpact check --schema > FILE`."""
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == configuration_schema()
