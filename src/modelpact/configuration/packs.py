"""Loads pack manifests: the JSON or TOML files that `[host] packs` names."""

import tomllib
from pathlib import Path
from typing import Any, Final

from modelpact.needs.dialects import ManifestError, Pack, read_pack
from modelpact.vocabulary.errors import InputError, Problem
from modelpact.vocabulary.strict_json import parse_json

_MAX_BYTES: Final = 4 * 1024 * 1024


def load_pack(name: str | Path, folder: Path | None = None, *, gating: bool = True) -> Pack:
    """Load a pack manifest. A relative name is relative to the folder."""
    path = Path(name) if folder is None else folder / name
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise _error(path, f"is larger than {_MAX_BYTES // 1024 // 1024} MiB")
    try:
        content = _parse(path, data)
    except (InputError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _error(path, f"not a manifest: {error}") from None
    return read_pack(content, str(path), gating=gating)


def _parse(path: Path, data: bytes) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(data.decode("utf-8"))
    return parse_json(data, path.name)


def _error(path: Path, message: str) -> ManifestError:
    return ManifestError([Problem(str(path), "", message)])
