"""Model names: aliases, providers, workloads and vendors."""

from pathlib import Path

import pytest

from modelpact.gateway.plan.model_names import ModelNameResolver, UnknownModel
from tests.gateway.planners import make_planner

MORE = """
[gateway.aliases]
fast = "openai/gpt-4o-mini"
"openai/gpt-4" = "anthropic/claude-opus-4-5"
[workloads.extract]
model = "anthropic/claude-opus-4-5"
needs = ["tools"]
"""


def names(folder: Path, more: str = MORE) -> ModelNameResolver:
    return make_planner(folder, more).names


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("gpt-4o", "openai/gpt-4o"),
        ("claude-opus-4-5", "anthropic/claude-opus-4-5"),
        ("fast", "openai/gpt-4o-mini"),
        ("text-embedding-3-small", "openai/text-embedding-3-small"),
        ("openai/gpt-4", "anthropic/claude-opus-4-5"),
        ("local/acme/finetune", "local/acme/finetune"),
        ("mock/demo", "mock/demo"),
        ("workload/extract", "anthropic/claude-opus-4-5"),
    ],
)
def test_names_resolve_to_targets(name: str, target: str, tmp_path: Path) -> None:
    assert names(tmp_path).resolve(name).target == target


def test_a_configured_provider_can_be_the_default(tmp_path: Path) -> None:
    result = names(tmp_path, '[gateway]\nprovider = "local"\n').resolve("acme/finetune")
    assert result.target == "local/acme/finetune"


def test_a_workload_resolves_by_name_and_by_header(tmp_path: Path) -> None:
    resolver = names(tmp_path)
    by_name = resolver.resolve("workload/extract")
    by_header = resolver.resolve("gpt-4o", "extract")
    assert by_name.workload is by_header.workload is not None
    assert by_header.target == "openai/gpt-4o", "the header adds needs, not another model"


@pytest.mark.parametrize(
    ("name", "workload", "expected"),
    [
        ("nobodys", "", "no provider of this gateway is known to have it; write PROVIDER/MODEL"),
        ("groq/llama-3.3-70b-versatile", "", "this gateway has no key for groq; set GROQ_API_KEY"),
        ("workload/extrct", "", "did you mean extract?"),
        ("gpt-4o", "nothing", "unknown workload"),
    ],
)
def test_names_that_cannot_be_called_are_errors(name: str, workload: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownModel) as caught:
        names(tmp_path).resolve(name, workload)
    assert expected in str(caught.value)
