"""Pack manifests: node modules in a JSON or TOML file."""

import tomllib
from pathlib import Path
from typing import Any, Final

from modelpact.needs.modules import ManifestError, Pack, read_pack
from modelpact.vocabulary.errors import InputError, Problem
from modelpact.vocabulary.strict_json import parse_json

_LARGEST: Final = 4 * 1024 * 1024


def load_pack(name: str | Path, folder: Path | None = None, *, gating: bool = True) -> Pack:
    """Load a pack manifest; a relative name is looked up from the folder."""
    path = Path(name) if folder is None else folder / name
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise _wrong(path, f"is larger than {_LARGEST // 1024 // 1024} MiB")
    try:
        content = _parsed(path, data)
    except (InputError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, f"not a manifest: {error}") from None
    return read_pack(content, str(path), gating=gating)


def _parsed(path: Path, data: bytes) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(data.decode("utf-8"))
    return parse_json(data, path.name)


def _wrong(path: Path, message: str) -> ManifestError:
    return ManifestError([Problem(str(path), "", message)])
