"""Read models.dev from its folder, or from a tar archive of it (in memory)."""

from __future__ import annotations

import os
import posixpath
import re
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
    pico_per_million,
    text_list,
    token_count,
    typed_bool,
)
from modelpact.catalog.statement import EFFORTS

URL = "https://models.dev"

_FLAGS = {
    "reasoning": "reasoning",
    "structured_output": "structured_output",
    "temperature": "temperature",
    "tool_call": "tool_calling",
}
_LIMITS = {"context": "context_window", "input": "max_input", "output": "max_output"}
_INPUTS = ("text", "image", "audio", "video", "pdf")
_OUTPUTS = {"text": "text", "image": "image-gen", "audio": "audio", "video": "video"}
_PRICES = ("input", "output", "cache_read", "cache_write")
_STATUSES = ("alpha", "beta", "deprecated")
_OVER_200K = 200_000
_MAX_HOPS = 8


@dataclass
class Tree:
    """The TOML files of a models.dev tree, and its symbolic links as path to path."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    date: str = ""

    def link(self, path: str, target: str) -> None:
        """Record a symbolic link; its target is relative to the folder of the link."""
        self.links[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))

    def load(self, path: str) -> Row | None:
        """Parse a file, following links; return None if they lead nowhere."""
        for _ in range(_MAX_HOPS):
            if path in self.files:
                try:
                    return tomllib.loads(self.files[path].decode(), parse_float=Decimal)
                except (tomllib.TOMLDecodeError, UnicodeDecodeError):
                    raise BadRowError("not TOML") from None
            if path not in self.links:
                return None
            path = self.links[path]
        return None


def extract(path: Path, providers: Mapping[str, str], *, date: str = "") -> Extraction:
    """Read every provider's models; `providers` maps models.dev's names to canonical ids."""
    tree = _read_folder(path) if path.is_dir() else _read_archive(path)
    named = re.search(r"20\d\d-\d\d-\d\d", path.name)
    order = {name: index for index, name in enumerate(providers)}
    out, updated = Collector(providers), [""]
    for file in sorted({*tree.files, *tree.links}):
        match = re.fullmatch(r"providers/([^/]+)/models/(.+)\.toml", file)
        if match is None:
            continue
        source, model = match[1], match[2]
        name = f"{source}/{model}"
        provider = out.provider(source)
        if provider is None:
            continue
        try:
            entry = _resolved(tree, file)
            row = _row(provider, model, entry)
        except BadRowError as reason:
            out.skip(name, str(reason))
            continue
        updated.append(str(entry.get("last_updated", ""))[:10])
        out.add(name, row, (order[source], name))
    stamp = date or (named[0] if named else "") or tree.date or max(updated)
    header = {"lineage": "models-dev", "version": stamp, "date": stamp, "licence": "MIT", "url": URL}
    return out.finish(header)


def _resolved(tree: Tree, file: str) -> Row:
    """Load a model file and merge it over the model that it inherits from."""
    entry = tree.load(file)
    if entry is None:
        raise BadRowError("dangling link")
    parent = entry.get("base_model")
    if parent is None:
        return entry
    inherited = tree.load(f"models/{parent}.toml")
    if inherited is None:
        raise BadRowError("base model not found")
    for dotted in text_list(entry.get("base_model_omit", []), "base_model_omit"):
        *folders, last = dotted.split(".")
        table: Any = inherited
        for folder in folders:
            table = table.get(folder, {})
        table.pop(last, None)
    return _merged(inherited, entry)


def _merged(base: Row, over: Row) -> Row:
    """Merge tables field by field; lists and scalars are replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        mergeable = isinstance(old, dict) and isinstance(value, dict)
        result[key] = _merged(old, value) if mergeable else value  # type: ignore[arg-type]
    return result


def _row(provider: str, model: str, entry: Row) -> Row:
    row: Row = {"provider": provider, "model": model, "caps": _caps(model, entry)}
    price = _price(_table(entry, "cost"))
    if price:
        row["price"] = price
    if "release_date" in entry:
        released = iso_date(entry["release_date"], "release_date")
        if released:
            row["released"] = released
    status = entry.get("status")
    if status is not None:
        if status not in _STATUSES:
            raise BadRowError(f"status is {status!r}")
        row["status"] = status
    if "base_model" in entry:
        row["base"] = entry["base_model"]
    return row


def _caps(model: str, entry: Row) -> Row:
    caps: Row = {}
    # models.dev has no embedding modality: for these models, "text" output and the output limit
    # describe the vector.
    embedding = "embed" in model.lower() or "embed" in str(entry.get("family", ""))
    modalities = _table(entry, "modalities")
    if "input" in modalities:
        inputs = text_list(modalities["input"], "modalities.input")
        if "text" not in inputs:
            raise BadRowError("no text input")
        caps["input_modalities"] = [modality for modality in _INPUTS if modality in inputs]
    if embedding:
        caps["output_modalities"] = ["embedding"]
    elif "output" in modalities:
        made = text_list(modalities["output"], "modalities.output")
        outputs = [known for name, known in _OUTPUTS.items() if name in made]
        if outputs:
            caps["output_modalities"] = outputs
    for name, flag in _FLAGS.items():
        if name in entry:
            caps[flag] = typed_bool(entry[name], name)
    limit = _table(entry, "limit")
    for name, field_name in _LIMITS.items():
        if name in limit and not (embedding and name == "output"):
            count = token_count(limit[name], f"limit.{name}")
            if count:
                caps[field_name] = count
    _reasoning_options(entry.get("reasoning_options", []), caps)
    return caps


def _reasoning_options(options: object, caps: Row) -> None:
    if not isinstance(options, list) or not all(isinstance(option, dict) for option in options):
        raise BadRowError("reasoning_options is not a list of tables")
    levels: set[str] = set()
    for option in options:
        if option.get("type") == "effort":
            levels.update(text_list(option.get("values", []), "reasoning_options.values"))
        elif option.get("type") == "budget_tokens":
            caps["thinking_budget"] = True
    known = [level for level in EFFORTS if level in levels]
    if known:
        caps["reasoning_effort"] = known


def _prices(cost: Mapping[str, Any]) -> Prices:
    return {name: pico_per_million(cost[name], f"cost.{name}") for name in _PRICES if name in cost}


def _price(cost: Row) -> Row | None:
    tiers: dict[int, Prices] = {}
    if "context_over_200k" in cost:
        tiers[_OVER_200K] = _prices(_table(cost, "context_over_200k"))
    for tier in cost.get("tiers", []):
        kind = _table(tier, "tier")
        size = token_count(kind.get("size"), "cost.tiers.size")
        if kind.get("type", "context") != "context" or not size:
            raise BadRowError("cost.tiers is not by context size")
        tiers[size] = _prices(tier)
    return join_prices(_prices(cost), tiers)


def _table(entry: Row, name: str) -> Row:
    value = entry.get(name, {})
    if not isinstance(value, dict):
        raise BadRowError(f"{name} is {type(value).__name__}")
    return value


def _read_folder(root: Path) -> Tree:
    tree = Tree()
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            inner = path.relative_to(root).as_posix()
            if path.is_symlink():
                tree.link(inner, path.readlink().as_posix())
            elif name.endswith(".toml"):
                tree.files[inner] = path.read_bytes()
    return tree


def _read_archive(path: Path) -> Tree:
    tree, newest = Tree(), 0
    with tarfile.open(path) as archive:
        for member in archive:
            inner = re.sub(r"^(\./|[^/]+/(?=(?:providers|models)/))", "", member.name)
            newest = max(newest, int(member.mtime))
            if member.issym():
                tree.link(inner, member.linkname)
            elif member.isfile() and inner.endswith(".toml"):
                reader = archive.extractfile(member)
                tree.files[inner] = reader.read() if reader else b""
    tree.date = datetime.fromtimestamp(newest, UTC).date().isoformat() if newest else ""
    return tree
