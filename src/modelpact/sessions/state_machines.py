"""State machines by name: those of the configuration, those that come along, those in a file."""

import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.sessions.extensions import StateMachine, load
from modelpact.vocabulary.errors import InputError, UnknownName

_BUNDLED: Final = Path(__file__).parent / "bundled"
_LARGEST: Final = 256 * 1024


def list_machines(configuration: Configuration) -> tuple[StateMachine, ...]:
    """Return the state machines that have names, the configuration's first; none is loaded yet."""
    found = {
        name: msgspec.convert({"name": name, **msgspec.to_builtins(one)}, StateMachine)
        for name, one in configuration.machines.items()
    }
    for path in sorted(_BUNDLED.glob("*.toml")):
        if path.stem not in found:
            found[path.stem] = msgspec.convert(_fields(path), StateMachine)
    return tuple(found.values())


def find_machine(name: str, configuration: Configuration) -> StateMachine:
    """Return the state machine of a name, or of a TOML file; `LoadError` as `load` has it."""
    known = {one.name: one for one in list_machines(configuration)}
    if name in known:
        return load(StateMachine, known[name])
    if name.endswith(".toml"):
        return load(StateMachine, _fields(Path(name).expanduser()))
    raise UnknownName("state machine", name, known, "or name a TOML file")


def _fields(path: Path) -> dict[str, Any]:
    """Read a file with the keys of a [machines.NAME]; its name is the file's unless it says one."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise InputError(f"{path} is larger than {_LARGEST // 1024} KiB")
        return {"name": path.stem, **tomllib.loads(data.decode("utf-8"))}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
