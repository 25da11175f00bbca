"""State machines by name: from the configuration, bundled with modelpact, or from a file."""

import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.sessions.extensions import StateMachine, load
from modelpact.vocabulary.errors import InputError, UnknownName

_BUNDLED: Final = Path(__file__).parent / "bundled"
_MAX_BYTES: Final = 256 * 1024


def list_machines(configuration: Configuration) -> tuple[StateMachine, ...]:
    """Return the configured and the bundled state machines. Their contracts are not checked."""
    machines = {
        name: msgspec.convert({"name": name, **msgspec.to_builtins(settings)}, StateMachine)
        for name, settings in configuration.machines.items()
    }
    for path in sorted(_BUNDLED.glob("*.toml")):
        if path.stem not in machines:
            machines[path.stem] = msgspec.convert(_read_file(path), StateMachine)
    return tuple(machines.values())


def find_machine(name: str, configuration: Configuration) -> StateMachine:
    """Load a state machine by its name, or by the path of a TOML file.

    Raise `LoadError` if it was written for another contract version.
    """
    known = {machine.name: machine for machine in list_machines(configuration)}
    if name in known:
        return load(StateMachine, known[name])
    if name.endswith(".toml"):
        return load(StateMachine, _read_file(Path(name).expanduser()))
    raise UnknownName("state machine", name, known, "or name a TOML file")


def _read_file(path: Path) -> dict[str, Any]:
    """Read a file with the keys of `[machines.NAME]`. The name defaults to that of the file."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise InputError(f"{path} is larger than {_MAX_BYTES // 1024} KiB")
        return {"name": path.stem, **tomllib.loads(data.decode("utf-8"))}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
