"""Read LiteLLM's model map from its JSON file or from its wheel."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from modelpact.catalog.lineages.rows import (
    BadRowError,
    Collector,
    Extraction,
    Prices,
    Row,
    iso_date,
    join_prices,
    pico_per_token,
    text_list,
    token_count,
    typed_bool,
)
from modelpact.catalog.statement import EFFORTS

URL = "https://github.com/BerriAI/litellm"
_MAP_NAME = "litellm/model_prices_and_context_window_backup.json"

_MODES = {
    "chat": None,
    "completion": None,
    "responses": None,
    "embedding": "embedding",
    "image_generation": "image-gen",
    "audio_speech": "speech",
}
_FLAGS = {
    "supports_assistant_prefill": "assistant_prefill",
    "supports_audio_input": "audio_input",
    "supports_audio_output": "audio_output",
    "supports_computer_use": "computer_use",
    "supports_function_calling": "tool_calling",
    "supports_native_streaming": "streaming",
    "supports_parallel_function_calling": "parallel_tool_calls",
    "supports_pdf_input": "pdf_input",
    "supports_prompt_caching": "prompt_caching",
    "supports_reasoning": "reasoning",
    "supports_response_schema": "structured_output",
    "supports_system_messages": "system_messages",
    "supports_tool_choice": "tool_choice",
    "supports_video_input": "video_input",
    "supports_vision": "image_input",
    "supports_web_search": "web_search",
}
_LIMITS = {"max_input_tokens": "max_input", "max_output_tokens": "max_output"}
_OUTPUTS = {"text": "text", "image": "image-gen", "audio": "audio", "video": "video"}
_PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
_TIER = re.compile(rf"({'|'.join(_PRICES)})_above_(\d+)k_tokens")
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")

# Providers whose keys are routed by another provider's prefix.
_ROUTES = {"azure_text": "azure"}
_ROUTE_ONLY = ("invoke", "converse")
_NOT_A_MODEL = (
    (re.compile(r"^(sample_spec|fallback_generalizations)$"), "documentation, not a model"),
    (re.compile(r"(^|/)container$"), "a tool session price, not a model"),
    (re.compile(r"^(together|fireworks)-ai-"), "a price class by size, not a model"),
    (re.compile(r"/\d+-month-commitment/"), "a commitment price, not a model"),
    (re.compile(r"(^|/)(\d+-x-\d+|max-x-max|(\d+|max)-steps)/"), "an image size price, not a model"),
)


def extract(path: Path, providers: Mapping[str, str], *, version: str = "") -> Extraction:
    """Read the map; `providers` maps LiteLLM's provider names to canonical ids."""
    text, shipped_version, shipped_date = _read(path)
    table = json.loads(text, parse_float=Decimal)
    out = Collector(providers)
    for key, entry in table.items():
        try:
            _read_entry(key, entry, out)
        except BadRowError as reason:
            out.skip(key, f"bad row: {reason}")
    header = {
        "lineage": "litellm",
        "version": version or shipped_version,
        "date": shipped_date or _newest_date(table),
        "licence": "MIT",
        "url": URL,
    }
    return out.finish(header)


def _read_entry(key: str, entry: object, out: Collector) -> None:
    for pattern, reason in _NOT_A_MODEL:
        if pattern.search(key):
            return out.skip(key, reason)
    if not isinstance(entry, dict):
        raise BadRowError(f"entry is {type(entry).__name__}")
    mode, source = entry.get("mode"), entry.get("litellm_provider")
    if mode is not None and not isinstance(mode, str):
        raise BadRowError(f"mode is {type(mode).__name__}")
    if mode not in _MODES:
        return out.skip(key, f"mode {mode}")
    if not isinstance(source, str):
        raise BadRowError(f"litellm_provider is {type(source).__name__}")
    provider = out.provider(source)
    if provider is None:
        return None
    row: Row = {"provider": provider, "model": _model(key, source), "caps": _caps(mode, entry)}
    price = _price(entry)
    if price:
        row["price"] = price
    if "deprecation_date" in entry:
        retires = iso_date(entry["deprecation_date"], "deprecation_date")
        if retires:
            row["retires"] = retires
    return out.add(key, row, (key.count("/"), len(key), key))


def _model(key: str, source: str) -> str:
    """Remove LiteLLM's routing prefix from a key, once."""
    first, _, rest = key.partition("/")
    prefixes = {source, source.replace("_", "-"), source.split("-")[0], _ROUTES.get(source, source)}
    if not rest or first not in prefixes:
        return key
    route, _, bare = rest.partition("/")
    return bare if bare and first == "bedrock" and route in _ROUTE_ONLY else rest


def _caps(mode: str, entry: Mapping[str, Any]) -> Row:
    caps: Row = {}
    _modalities(mode, entry, caps)
    for name, field in _FLAGS.items():
        if name in entry:
            caps[field] = typed_bool(entry[name], name)
    for name, field in _LIMITS.items():
        count = token_count(entry[name], name) if name in entry else None
        if count:
            caps[field] = count
    if "supports_sampling_params" in entry:
        sampling = typed_bool(entry["supports_sampling_params"], "supports_sampling_params")
        # LiteLLM refuses all three where this is false; true does not promise top_k.
        for field in ("temperature", "top_p") if sampling else ("temperature", "top_p", "top_k"):
            caps[field] = sampling
    effort = _effort(entry)
    if effort is not None:
        caps["reasoning_effort"] = effort
    return caps


def _modalities(mode: str, entry: Mapping[str, Any], caps: Row) -> None:
    """Read modalities; an explicit supports_* flag is read later and wins."""
    if "supported_modalities" in entry:
        accepted = text_list(entry["supported_modalities"], "supported_modalities")
        if "text" not in accepted:
            raise BadRowError("no text input")
        for modality in ("image", "audio", "video"):
            caps[f"{modality}_input"] = modality in accepted
    fixed = _MODES[mode]
    if "supported_output_modalities" in entry:
        made = text_list(entry["supported_output_modalities"], "supported_output_modalities")
        names = {**_OUTPUTS, "audio": "speech"} if mode == "audio_speech" else _OUTPUTS
        outputs = [names[modality] for modality in made if modality in names]
        if outputs and mode != "embedding":
            caps["output_modalities"] = sorted(outputs, key=lambda name: (name != "text", name))
            return
    if fixed:
        caps["output_modalities"] = [fixed]


def _effort(entry: Mapping[str, Any]) -> list[str] | bool | None:
    """Read effort levels if the map determines them.

    A declared list is complete. Flags determine the list only if all levels other than low, medium
    and high have one: medium and high are then always included, low unless it is refused.
    """
    if "reasoning_effort_levels" in entry:
        declared = text_list(entry["reasoning_effort_levels"], "reasoning_effort_levels")
        return [level for level in EFFORTS if level in declared] or False
    flags = {
        level: typed_bool(entry[name], name)
        for level in EFFORTS
        if (name := f"supports_{level}_reasoning_effort") in entry
    }
    if {"none", "minimal", "xhigh", "max"} <= flags.keys():
        return [level for level in EFFORTS if flags.get(level, True)]
    return True if any(flags.values()) else None


def _prices(entry: Mapping[str, Any]) -> Prices:
    return {field: pico_per_token(entry[name], name) for name, field in _PRICES.items() if name in entry}


def _price(entry: Mapping[str, Any]) -> Row | None:
    base, tiers = _prices(entry), dict[int, Prices]()
    for name, value in entry.items():
        if match := _TIER.fullmatch(name):
            above = int(match[2]) * 1000
            tiers.setdefault(above, {})[_PRICES[match[1]]] = pico_per_token(value, name)
    if not base and not tiers and "tiered_pricing" in entry:
        base, tiers = _ranges(entry["tiered_pricing"])
    return join_prices(base, tiers)


def _ranges(value: object) -> tuple[Prices, dict[int, Prices]]:
    """Read prices given by ranges of input tokens: the range from zero is the base."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise BadRowError("tiered_pricing is not a list of tables")
    base: Prices = {}
    tiers: dict[int, Prices] = {}
    for entry in value:
        if "range" not in entry:
            return {}, {}
        limits = entry["range"]
        if not isinstance(limits, list) or not limits:
            raise BadRowError("tiered_pricing range is not a list")
        start = limits[0]
        if isinstance(start, bool) or not isinstance(start, int | Decimal) or start != int(start):
            raise BadRowError("tiered_pricing range is not an integer")
        if start == 0:
            base = _prices(entry)
        else:
            tiers[int(start)] = _prices(entry)
    return base, tiers


def _read(path: Path) -> tuple[str, str, str]:
    """Return the text of the map and, from a wheel, its version and build date."""
    if path.suffix != ".whl":
        return path.read_text(encoding="utf-8"), "", ""
    with zipfile.ZipFile(path) as wheel:
        text = wheel.read(_MAP_NAME).decode()
        stamps = [
            str(json.loads(wheel.read(name))["metadata"]["timestamp"])[:10]
            for name in wheel.namelist()
            if re.search(r"\.dist-info/sboms/[^/]+\.json$", name)
        ]
    return text, path.name.split("-")[1], max(stamps, default="")


def _newest_date(table: Mapping[str, Any]) -> str:
    """Return the newest date in the map that is not an announced retirement."""
    dates: list[str] = []
    for key, entry in table.items():
        fields = entry.items() if isinstance(entry, dict) else ()
        values = [str(value) for name, value in fields if name != "deprecation_date"]
        dates.extend(_DATE.findall(" ".join([key, *values])))
    return max(dates, default="")
