"""Update: merge newer public facts with the bundled ones, for one user."""

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
from modelpact.catalog.snapshot import user_folder
from modelpact.catalog.sources import SOURCES, read_sources
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact_text

READERS: Final[Mapping[str, Callable[[Path, Mapping[str, str]], Extraction]]] = {
    "genai-prices": genai_prices.extract,
    "litellm": litellm.extract,
    "models-dev": models_dev.extract,
}
_MAX_BYTES: Final = 256 * 1024 * 1024
_TIMEOUT: Final = 30.0


class UpdateResult(msgspec.Struct, frozen=True):
    """What an update read, and where the result is."""

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
        extraction = READERS[name](source, provider_names(SOURCES / "providers.toml", name))
    except InputError:
        raise
    except Exception as error:  # a file of another form can fail in any way
        raise InputError(f"{source} cannot be read as {name}: {brief(error)}") from None
    if not extraction.header["date"]:  # a source without a date is as old as its file
        day = datetime.fromtimestamp(source.stat().st_mtime, UTC).date()
        extraction.header["date"] = day.isoformat()
    return extraction


def guess_lineage(source: Path) -> str:
    """Return the lineage of a file, judged by its name and form."""
    name = source.name.lower()
    if "genai" in name:
        return "genai-prices"
    if "litellm" in name or name.endswith(".json"):
        return "litellm"
    if "models.dev" in name or "models-dev" in name or name.endswith((".tar.gz", ".tgz")):
        return "models-dev"
    if source.is_dir() and (source / "providers").is_dir():
        return "models-dev"
    raise InputError(f"the lineage of {source.name} is not clear: name it with --lineage")


def update(source: str, lineage: str | None = None, folder: Path | None = None, *, force: bool = False) -> UpdateResult:
    """Merge a newer file of one lineage with the bundled others, for this user.

    A file with far fewer models than the bundled one is refused unless `force` is set: without
    their votes, disagreements would disappear unnoticed.
    """
    folder = folder or user_folder()
    with tempfile.TemporaryDirectory(prefix="modelpact-") as scratch:
        path = _fetch(source, Path(scratch)) if "://" in source else Path(source)
        if not path.exists():
            raise InputError(f"{redact_text(source)} does not exist")
        if path.suffix == ".jsonl":
            if not path.is_file():
                raise InputError(f"{source} is not a file")
            data = path.read_bytes()
            facts = read_lineage(data, path.name)
            name, rows, skipped, unmapped = facts.lineage.name, len(facts.facts), 0, 0
        else:
            name = lineage or guess_lineage(path)
            extraction = extract(name, path)
            data = encode(extraction.header, extraction.rows)
            rows, skipped = len(extraction.rows), len(extraction.skipped)
            unmapped = sum(extraction.unmapped.values())
    if name not in READERS:
        raise InputError(f"unknown lineage {brief(name)}; there are {', '.join(READERS)}")
    fresh = read_lineage(data, f"{name}.jsonl")
    _check_size(name, len(fresh.facts), force)
    lineages = folder / "lineages"
    try:
        lineages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from None
    files = {path.stem: path for path in LINEAGES.glob("*.jsonl")}
    files |= {path.stem: path for path in lineages.glob("*.jsonl")}
    files.pop(name, None)
    others = [read_lineage(path.read_bytes(), path.name) for path in files.values()]
    built = build(read_sources(), [fresh, *others])
    _write(lineages / f"{name}.jsonl", data)
    _write(folder / snapshot.BUNDLED.name, built)
    return UpdateResult(name, fresh.lineage.date, rows, skipped, unmapped, folder)


def _write(path: Path, data: bytes) -> None:
    """Replace a file atomically, so that no reader sees a part of it."""
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
            f"the file has only {rows:,} models of {name}, {before:,} are bundled; use --force to take it anyway"
        )


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            raise InputError(f"a redirect to {redact_text(newurl)!r:.200} is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(url: str, scratch: Path) -> Path:
    safe_url = redact_text(url)[:200]
    try:
        parts = urlsplit(url)
        loopback = parts.hostname in ("127.0.0.1", "localhost", "::1")
        allowed = parts.scheme == "https" or (parts.scheme == "http" and loopback)
        name = Path(parts.path).name or "download"
    except ValueError as error:
        raise InputError(f"{safe_url} is not a URL: {error}") from None
    if not allowed:
        raise InputError(f"{safe_url}: only https URLs are fetched (http only from this machine)")
    try:
        opener = urllib.request.build_opener(_HttpsRedirects)
        with opener.open(url, timeout=_TIMEOUT) as response:
            data: bytes = response.read(_MAX_BYTES + 1)
            announced = response.headers.get("Content-Length")
    except InputError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InputError(f"{safe_url} cannot be fetched: {redact_text(str(error))}") from None
    if announced is not None and announced.isdecimal() and int(announced) > len(data):
        raise InputError(f"{safe_url} was cut off: {len(data):,} of {int(announced):,} bytes")
    if len(data) > _MAX_BYTES:
        raise InputError(f"{safe_url} is larger than {_MAX_BYTES // 1024 // 1024} MiB")
    target = scratch / name
    target.write_bytes(data)
    return target
