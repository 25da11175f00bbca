"""Reading LiteLLM's model map."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from modelpact.catalog.lineages.litellm import extract
from modelpact.catalog.lineages.rows import Extraction, Row, encode

PROVIDERS = {
    "acme": "acme",
    "azure": "azure",
    "azure_text": "azure",
    "bedrock": "bedrock",
    "fireworks_ai-embedding-models": "fireworks",
    "amazon_nova": "nova",
}


def read(tmp_path: Path, table: dict[str, Any]) -> Extraction:
    source = tmp_path / "map.json"
    source.write_text(json.dumps(table))
    return extract(source, PROVIDERS)


def only_row(tmp_path: Path, **entry: Any) -> Row:
    table = {"acme/m": {"litellm_provider": "acme", "mode": "chat", **entry}}
    result = read(tmp_path, table)
    assert not result.skipped
    return result.rows[0]


def test_flags_are_votes_only_where_present(tmp_path: Path) -> None:
    row = only_row(
        tmp_path,
        supports_vision=False,
        supports_function_calling=True,
        supports_response_schema=True,
        supports_native_streaming=True,
        max_input_tokens=1000,
        max_output_tokens=0,
        max_tokens=77,
    )
    assert row["caps"] == {
        "image_input": False,
        "max_input": 1000,
        "streaming": True,
        "structured_output": True,
        "tool_calling": True,
    }


@pytest.mark.parametrize(
    ("key", "source", "provider", "model"),
    [
        ("acme/vendor/m", "acme", "acme", "vendor/m"),
        ("acme/acme/m", "acme", "acme", "acme/m"),
        ("m", "acme", "acme", "m"),
        ("other/m", "acme", "acme", "other/m"),
        ("azure/eu/gpt", "azure", "azure", "eu/gpt"),
        ("azure/gpt-instruct", "azure_text", "azure", "gpt-instruct"),
        ("bedrock/us-east-1/v.m", "bedrock", "bedrock", "us-east-1/v.m"),
        ("bedrock/invoke/v.m", "bedrock", "bedrock", "v.m"),
        ("fireworks_ai/e", "fireworks_ai-embedding-models", "fireworks", "e"),
        ("amazon-nova/n", "amazon_nova", "nova", "n"),
    ],
)
def test_the_routing_prefix_is_removed_once(tmp_path: Path, key: str, source: str, provider: str, model: str) -> None:
    result = read(tmp_path, {key: {"litellm_provider": source, "mode": "chat"}})
    assert [(row["provider"], row["model"]) for row in result.rows] == [(provider, model)]


def test_modalities_vote_both_ways_but_not_on_pdf(tmp_path: Path) -> None:
    row = only_row(
        tmp_path, supported_modalities=["text", "image"], supported_output_modalities=["image", "text", "code"]
    )
    assert row["caps"] == {
        "audio_input": False,
        "image_input": True,
        "video_input": False,
        "output_modalities": ["text", "image-gen"],
    }


@pytest.mark.parametrize(
    ("mode", "declared", "outputs"),
    [
        ("embedding", None, ["embedding"]),
        ("image_generation", None, ["image-gen"]),
        ("image_generation", ["text", "image"], ["text", "image-gen"]),
        ("audio_speech", ["audio"], ["speech"]),
        ("chat", ["text", "audio"], ["text", "audio"]),
        ("chat", ["code"], None),
    ],
)
def test_outputs_follow_the_mode(
    tmp_path: Path, mode: str, declared: list[str] | None, outputs: list[str] | None
) -> None:
    more = {} if declared is None else {"supported_output_modalities": declared}
    assert only_row(tmp_path, mode=mode, **more)["caps"].get("output_modalities") == outputs


@pytest.mark.parametrize(
    ("entry", "effort"),
    [
        ({"reasoning_effort_levels": ["max", "low"]}, ["low", "max"]),
        ({"reasoning_effort_levels": []}, False),
        ({"supports_xhigh_reasoning_effort": True}, True),
        ({"supports_minimal_reasoning_effort": False}, None),
        (
            {
                "supports_none_reasoning_effort": True,
                "supports_minimal_reasoning_effort": False,
                "supports_xhigh_reasoning_effort": True,
                "supports_max_reasoning_effort": False,
            },
            ["none", "low", "medium", "high", "xhigh"],
        ),
    ],
)
def test_effort_is_a_list_only_when_determined(tmp_path: Path, entry: dict[str, Any], effort: object) -> None:
    assert only_row(tmp_path, **entry)["caps"].get("reasoning_effort") == effort


def test_refused_sampling_refuses_every_sampling_parameter(tmp_path: Path) -> None:
    refused = {"temperature": False, "top_p": False, "top_k": False}
    assert only_row(tmp_path, supports_sampling_params=False)["caps"] == refused
    accepted = {"temperature": True, "top_p": True}
    assert only_row(tmp_path, supports_sampling_params=True)["caps"] == accepted


def test_prices_with_tiers_leave_service_classes_out(tmp_path: Path) -> None:
    row = only_row(
        tmp_path,
        input_cost_per_token=1.25e-06,
        output_cost_per_token=1e-05,
        cache_read_input_token_cost=1.25e-07,
        input_cost_per_token_above_200k_tokens=2.5e-06,
        input_cost_per_token_above_200k_tokens_priority=9,
        input_cost_per_token_batches=9,
        deprecation_date="2027-01-31",
    )
    base = {"input": 1_250_000, "output": 10_000_000, "cache_read": 125_000}
    assert row["price"] == {**base, "tiers": [[200_000, {**base, "input": 2_500_000}]]}
    assert row["retires"] == "2027-01-31"


def test_prices_by_range_become_base_and_tiers(tmp_path: Path) -> None:
    ranges = [
        {"range": [0, 32000.0], "input_cost_per_token": 1e-06},
        {"range": [32000.0, 128000.0], "input_cost_per_token": 2e-06},
    ]
    price = only_row(tmp_path, tiered_pricing=ranges)["price"]
    assert price == {"input": 1_000_000, "tiers": [[32_000, {"input": 2_000_000}]]}


def test_bad_rows_and_rows_that_are_no_models_are_reported(tmp_path: Path) -> None:
    chat = {"litellm_provider": "acme", "mode": "chat"}
    table = {
        "sample_spec": {"mode": "one of"},
        "acme/limit": {**chat, "max_input_tokens": "many"},
        "acme/price": {**chat, "input_cost_per_token": "free"},
        "acme/flag": {**chat, "supports_vision": "yes"},
        "acme/image-only": {**chat, "supported_modalities": ["image"]},
        "acme/shape": ["list"],
        "acme/rerank": {**chat, "mode": "rerank"},
        "bedrock/*/1-month-commitment/m": {**chat, "litellm_provider": "bedrock"},
        "low/1024-x-1024/m": {**chat, "mode": "image_generation"},
        "openai/container": chat,
        "x/m": {**chat, "litellm_provider": "x"},
    }
    result = read(tmp_path, table)
    assert result.rows == []
    assert {each.name: each.reason for each in result.skipped} == {
        "sample_spec": "documentation, not a model",
        "acme/limit": "bad row: max_input_tokens is str",
        "acme/price": "bad row: input_cost_per_token is str",
        "acme/flag": "bad row: supports_vision is str",
        "acme/image-only": "bad row: no text input",
        "acme/shape": "bad row: entry is list",
        "acme/rerank": "mode rerank",
        "bedrock/*/1-month-commitment/m": "a commitment price, not a model",
        "low/1024-x-1024/m": "an image size price, not a model",
        "openai/container": "a tool session price, not a model",
    }
    assert result.unmapped == {"x": 1}


def test_the_key_without_a_routing_prefix_wins(tmp_path: Path) -> None:
    entry = {"litellm_provider": "acme", "mode": "chat"}
    table = {"acme/m": {**entry, "supports_vision": True}, "m": {**entry, "supports_vision": False}}
    result = read(tmp_path, table)
    assert [row["caps"] for row in result.rows] == [{"image_input": False}]
    assert [each.name for each in result.skipped] == ["acme/m"]


def test_a_wheel_gives_version_and_build_date(tmp_path: Path) -> None:
    wheel = tmp_path / "litellm-9.8.7-py3-none-any.whl"
    table = {"acme/m": {"litellm_provider": "acme", "mode": "chat"}}
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("litellm/model_prices_and_context_window_backup.json", json.dumps(table))
        stamp = {"metadata": {"timestamp": "2026-11-09T22:40:32Z"}}
        archive.writestr("litellm-9.8.7.dist-info/sboms/x.cyclonedx.json", json.dumps(stamp))
    header = extract(wheel, PROVIDERS).header
    assert (header["version"], header["date"]) == ("9.8.7", "2026-11-09")


def test_without_a_wheel_the_newest_date_that_is_no_retirement_counts(tmp_path: Path) -> None:
    entry = {"litellm_provider": "acme", "mode": "chat", "deprecation_date": "2030-01-01"}
    table = {"acme/m-2026-03-01": entry, "acme/n": {**entry, "comment": "seen 2026-04-02"}}
    assert read(tmp_path, table).header["date"] == "2026-04-02"


def test_the_order_of_the_source_does_not_change_a_byte(tmp_path: Path) -> None:
    entry = {"litellm_provider": "acme", "mode": "chat"}
    table = {f"acme/m{number}": entry for number in range(20)}
    first = read(tmp_path, table)
    second = read(tmp_path, dict(reversed(table.items())))
    assert encode(first.header, first.rows) == encode(second.header, second.rows)
