"""The nika specification (docs/spec/nika.md): resolution, match kinds, fields and its example."""

from typing import Any

import pytest

from modelpact import find_models, resolve
from modelpact.catalog.catalog import default_catalog
from modelpact.catalog.resolution import ModelCapabilities, Resolution
from modelpact.vocabulary.capability import MODALITIES, PARAMETERS
from tests.conftest import catalog

DEFAULTS = """
[defaults]
token_limit_param    = "max-tokens"
input_modalities     = ["text", "image"]
output_modalities    = ["text"]
supported_parameters = []
"""
EXAMPLE = """
[defaults]
input_modalities     = ["text", "image"]
output_modalities    = ["text"]
supported_parameters = []

# Rule 1 — all Claude models get prompt caching + 200k context
[[rules]]
scope.providers = ["anthropic", "bedrock"]
match = { kind = "prefix_any", prefixes = ["claude", "anthropic.claude"] }
caps.streaming            = true
caps.tool_calling         = true
caps.parallel_tool_calls  = true
caps.json_mode            = "schema"
caps.caching              = "prompt-caching"
caps.token_limit_param    = "max-tokens"
caps.supported_parameters = ["prompt-caching", "thinking-budget"]

# Rule 2 — claude-opus-4 adds computer-use on top
[[rules]]
scope.providers = ["anthropic"]
match = { kind = "prefix_any", prefixes = ["claude-opus-4"] }
caps.supported_parameters = ["prompt-caching", "thinking-budget", "computer-use", "citations"]
"""


def rule(match: str, caps: str = "caps.streaming = true", scope: str = "") -> str:
    return f"\n[[rules]]\n{scope}\nmatch = {{ {match} }}\n{caps}\n"


def streams(rules: str, model: str, provider: str = "openai", api: str | None = None) -> bool:
    return catalog(rules).resolve(provider, model, api).claim("streaming").support == "native"


def rules_of(resolution: Resolution) -> list[str]:
    return [entry.rule for entry in resolution.trace if entry.layer == "rule"]


def test_the_example_resolves_to_its_own_result() -> None:
    """S004-7-1, S004-7-2: the example resolves to its own result."""
    resolution = catalog(EXAMPLE).resolve("anthropic", "claude-opus-4-5-20260201")
    assert resolution.capabilities == ModelCapabilities(
        input_modalities=("text", "image"),
        output_modalities=("text",),
        streaming=True,
        tool_calling=True,
        parallel_tool_calls=True,
        json_mode="schema",
        caching="prompt-caching",
        token_limit_param="max-tokens",
        supported_parameters=("prompt-caching", "thinking-budget", "computer-use", "citations"),
    )


def test_the_example_at_other_providers() -> None:
    """S004-7-3: rule 1 applies at bedrock by its second prefix, rule 2 does not; neither applies at
    openai.
    """
    source = catalog(EXAMPLE)
    bedrock = source.resolve("bedrock", "anthropic.claude-opus-4-v1:0").capabilities
    assert bedrock.supported_parameters == ("prompt-caching", "thinking-budget")
    assert bedrock.streaming is True
    elsewhere = source.resolve("openai", "claude-opus-4").capabilities
    assert (elsewhere.streaming, elsewhere.supported_parameters) == (None, ())


def test_step_1_starts_from_the_defaults() -> None:
    """S004-2-1, S004-1-2: start from the defaults."""
    resolution = catalog(DEFAULTS).resolve("openai", "whatever")
    assert resolution.capabilities == ModelCapabilities(
        token_limit_param="max-tokens",
        input_modalities=("text", "image"),
        output_modalities=("text",),
        tool_calling=None,
        parallel_tool_calls=None,
        streaming=None,
        json_mode=None,
        caching=None,
        supported_parameters=(),
    )
    assert [entry.layer for entry in resolution.trace] == ["defaults"]


def test_the_bundled_catalog_has_the_specified_defaults() -> None:
    """S004-2-2: the four defaults; they are only assumed."""
    entry = resolve("nobody", "nothing").trace[0]
    assert (entry.layer, entry.assumed) == ("defaults", True)
    assert entry.fields == {
        "token_limit_param": "max-tokens",
        "input_modalities": ["text", "image"],
        "output_modalities": ["text"],
        "supported_parameters": [],
    }


def test_step_2_scans_rules_in_file_order() -> None:
    """S004-2-3, S004-2-6: rules in file order; the later one wins, whatever its match kind."""
    first = rule('kind = "exact", model = "m"', "name = 'exact'\ncaps.streaming = true")
    last = rule('kind = "any"', "name = 'any'\ncaps.streaming = false")
    assert catalog(first + last).resolve("openai", "m").claim("streaming").support == "unsupported"
    assert catalog(last + first).resolve("openai", "m").claim("streaming").support == "native"
    assert rules_of(catalog(first + last).resolve("openai", "m")) == ["exact", "any"]
    assert rules_of(catalog(last + first).resolve("openai", "m")) == ["any", "exact"]


@pytest.mark.parametrize(
    ("scope", "provider", "api", "applies"),
    [
        ("", "openai", None, True),
        ("scope.providers = []", "openai", None, True),
        ('scope.providers = ["openai"]', "openai", None, True),
        ('scope.providers = ["openai"]', "OpenAI", None, True),
        ('scope.providers = ["openai"]', "azure", None, False),
        ('scope.providers = ["openai"]', "nobody", None, False),
        ('scope.providers = ["anthropic"]', "claude", None, True),
        ('scope.api_dialect = ["openai-chat"]', "openai", None, True),
        ('scope.api_dialect = "openai-chat"', "openai", None, True),
        ('scope.api_dialect = ["openai-chat"]', "openai", "openai-responses", False),
        ('scope.api_dialect = ["openai-responses"]', "openai", "openai-responses", True),
        ('scope.api_dialect = ["anthropic"]', "nobody", "anthropic", True),
        ('scope.api_dialect = ["anthropic"]', "nobody", None, False),
        ('scope.providers = ["gemini"]\nscope.api_dialect = ["gemini"]', "gemini", None, True),
        ('scope.providers = ["gemini"]\nscope.api_dialect = ["gemini"]', "gemini", "openai-chat", False),
    ],
)
def test_step_2_scopes(scope: str, provider: str, api: str | None, applies: bool) -> None:
    """S004-2-4, S004-2-5: a rule is skipped outside its providers and API dialects."""
    assert streams(rule('kind = "any"', scope=scope), "m", provider, api) is applies


def test_step_3_absent_fields_keep_their_value() -> None:
    """S004-2-7: a field that a rule does not set keeps its value."""
    rules = rule('kind = "any"', "caps.streaming = true\ncaps.tool_calling = true")
    rules += rule('kind = "any"', "caps.tool_calling = false")
    capabilities = catalog(rules).resolve("openai", "m").capabilities
    assert (capabilities.streaming, capabilities.tool_calling) == (True, False)


LISTS = {
    "input_modalities": (["text", "image", "pdf"], ["text", "audio"]),
    "output_modalities": (["text", "speech"], ["image-gen"]),
    "supported_parameters": (["batch-api", "context-caching", "parallel-tool-calls", "prompt-caching"], ["citations"]),
}


@pytest.mark.parametrize("field", LISTS)
def test_step_3_lists_are_assigned_wholesale(field: str) -> None:
    """S004-2-8: lists are replaced, not merged."""
    first, last = LISTS[field]
    rules = rule('kind = "any"', f"caps.{field} = {first}")
    assert list(getattr(catalog(rules).resolve("openai", "m").capabilities, field)) == first
    rules += rule('kind = "any"', f"caps.{field} = {last}")
    assert list(getattr(catalog(rules).resolve("openai", "m").capabilities, field)) == last


def test_step_4_returns_the_accumulated_state_for_any_names() -> None:
    """S004-2-9: any pair of names has an answer."""
    for provider, model in (("", ""), ("nobody", "nothing"), ("模", "型"), ("a" * 999, "b" * 999)):
        capabilities = catalog(DEFAULTS).resolve(provider, model).capabilities
        assert capabilities.input_modalities == ("text", "image")


@pytest.mark.parametrize(
    ("match", "model", "matches"),
    [
        ('kind = "any"', "whatever", True),
        ('kind = "exact", model = "deepseek-reasoner"', "deepseek-reasoner", True),
        ('kind = "exact", model = "deepseek-reasoner"', "deepseek-reasoner-2", False),
        ('kind = "exact", model = "deepseek-reasoner"', "deepseek", False),
        ('kind = "exact_any", models = ["o1", "o3", "o4"]', "o3", True),
        ('kind = "exact_any", models = ["o1", "o3", "o4"]', "o3-mini", False),
        ('kind = "prefix_any", prefixes = ["gpt-4o", "gpt-4.1"]', "gpt-4o", True),
        ('kind = "prefix_any", prefixes = ["gpt-4o", "gpt-4.1"]', "gpt-4.1-mini", True),
        ('kind = "prefix_any", prefixes = ["gpt-4o", "gpt-4.1"]', "gpt-4", False),
        ('kind = "prefix_any", prefixes = ["gpt-4o", "gpt-4.1"]', "xgpt-4o", False),
        ('kind = "prefix_any", prefixes = ["gpt-4"]', "gpt-45", True),
        ('kind = "prefix_any", prefixes = ["gpt-4"]', "GPT-4-Turbo", True),
        ('kind = "prefix_any", prefixes = ["GPT-4"]', "gpt-4-turbo", True),
        ('kind = "prefix_any", prefixes = ["gpt.4"]', "gpt-4", False),
        ('kind = "prefix_any", prefixes = ["k"]', "\u212a-model", False),
    ],
)
def test_the_four_match_kinds(match: str, model: str, matches: bool) -> None:
    """S004-3-1..4, S004-1-3: the four match kinds; a literal prefix, ASCII case ignored, no regular
    expressions.
    """
    assert streams(rule(match), model) is matches


FIELD_ROWS = [
    *[("token_limit_param", value) for value in ("max-tokens", "max-completion-tokens")],
    ("token_limit_param", "max-output-tokens"),
    ("input_modalities", ["text", "image", "audio", "pdf"]),
    *[("output_modalities", [value]) for value in ("text", "speech", "image-gen")],
    *[("tool_calling", value) for value in (True, False)],
    *[("parallel_tool_calls", value) for value in (True, False)],
    *[("streaming", value) for value in (True, False)],
    *[("json_mode", value) for value in ("unavailable", "object", "schema")],
    *[("caching", value) for value in ("none", "prompt-caching", "context-caching")],
    *[("supported_parameters", [value]) for value in PARAMETERS],
    *[("input_modalities", ["text", value]) for value in MODALITIES if value != "text"],
    *[("output_modalities", [value]) for value in MODALITIES],
]


@pytest.mark.parametrize(("field", "value"), FIELD_ROWS, ids=str)
def test_every_field_and_every_word_can_be_set(field: str, value: Any) -> None:
    """S004-4-1..9, S004-5-2..14, S004-6-1: every field and every word can be set."""
    written = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value)
    resolution = catalog(rule('kind = "any"', f"caps.{field} = {written}")).resolve("openai", "m")
    expected = tuple(value) if isinstance(value, list) else value
    assert getattr(resolution.capabilities, field) == expected


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_of_the_list_is_a_capability(name: str) -> None:
    """S004-4-9: each parameter is a capability of its own."""
    rules = rule('kind = "any"', f'caps.supported_parameters = ["{name}"]')
    assert catalog(rules).resolve("openai", "m").claim(name).support == "native"


@pytest.mark.parametrize(
    ("mode", "structured", "objects"),
    [
        ("unavailable", "unsupported", "unsupported"),
        ("object", "unsupported", "native"),
        ("schema", "native", "native"),
    ],
)
def test_json_mode_decides_structured_output_and_json_object(mode: str, structured: str, objects: str) -> None:
    """S004-4-7: `schema` includes `object`."""
    resolution = catalog(rule('kind = "any"', f'caps.json_mode = "{mode}"')).resolve("openai", "m")
    assert resolution.claim("structured-output").support == structured
    assert resolution.claim("json-object").support == objects


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("caps.prompt_caching = true", "context-caching"),
        ("caps.prompt_caching = true\ncaps.context_caching = false", "prompt-caching"),
        ("caps.context_caching = false", "none"),
        ('caps.caching = "none"', "none"),
    ],
)
def test_the_kind_of_caching_stays_while_it_is_supported(later: str, expected: str) -> None:
    """S004-4-8: `caching` is one of three words."""
    rules = rule('kind = "any"', 'caps.caching = "context-caching"') + rule('kind = "any"', later)
    assert catalog(rules).resolve("openai", "m").capabilities.caching == expected


def test_the_query_in_code_holds_in_the_bundled_catalog() -> None:
    """S004-8-3, S004-1-1: the query in code."""
    caps = resolve("anthropic", "claude-opus-4-5-20260201").capabilities
    assert caps.streaming
    assert caps.tool_calling
    assert caps.json_mode == "schema"
    assert "computer-use" in caps.supported_parameters


def test_the_query_by_provider_holds_in_the_bundled_catalog() -> None:
    """S004-8-1: streaming, tools, `json=schema` and caching."""
    listed = find_models(provider="anthropic")
    assert "anthropic/claude-sonnet-4-6" in listed
    assert "anthropic/claude-haiku-4-5-20251001" in listed
    for target in ("claude-sonnet-4-6", "claude-haiku-4-5-20251001"):
        caps = resolve("anthropic", target).capabilities
        assert (caps.streaming, caps.tool_calling, caps.json_mode) == (True, True, "schema")
        assert caps.caching == "prompt-caching"


def test_the_query_by_capability_holds_in_the_bundled_catalog() -> None:
    """S004-8-2: `computer-use` finds Claude Opus 4.5."""
    assert "anthropic/claude-opus-4-5" in find_models("computer-use")


CANONICAL = ["mistral", "anthropic", "openai", "gemini", "deepseek", "xai", "groq", "openrouter"]
CANONICAL += ["ollama", "lmstudio", "llamacpp", "localai", "vllm", "mock"]


@pytest.mark.parametrize("provider", CANONICAL)
def test_the_canonical_providers_are_in_the_bundled_catalog(provider: str) -> None:
    """S004-1-5: eight providers in the cloud, five local ones and one for tests."""
    known = default_catalog().providers.find(provider)
    assert known is not None
    assert known.id == provider
