"""Read needs from the JSON of the dialects. Every error names its place."""

from collections.abc import Mapping, Sequence
from typing import Any

from modelpact.needs.need import LEVELS, Need, Needs, need
from modelpact.vocabulary.capability import MIN_SUPPORTS
from modelpact.vocabulary.dialects import ABP, OPENWOP, STUD
from modelpact.vocabulary.errors import InputError, brief


def read_stud(requirements: Any) -> Needs:
    """Read `[{"name","level","minimum"?,"requiredBy"?}]`: minimum support is native."""
    needs: list[Need] = []
    for where, entry in _entries(requirements, "requirements"):
        _check_fields(entry, where, "name", "level", "minimum", "requiredBy")
        info = STUD.read(_string(entry, "name", where))
        level = _string(entry, "level", where)
        if level not in LEVELS:
            raise InputError(
                f"{where}.level: expected hard, preferred or probed, not {brief(level)}"
            )
        minimum = entry.get("minimum")
        if minimum is not None and info.kind != "limit":
            raise InputError(f"{where}.minimum: only contextWindow has one")
        if minimum is not None and (isinstance(minimum, bool) or not isinstance(minimum, int)):
            raise InputError(f"{where}.minimum: expected an integer, not {brief(minimum)}")
        needs.append(
            need(
                info.id,
                level=level,
                min_support="native",
                minimum=minimum,
                required_by=_strings(entry.get("requiredBy", ()), f"{where}.requiredBy"),
            )
        )
    return Needs(needs)


def read_abp(requirements: Any) -> Needs:
    """Read `{"required":[{"capability","min_support"}]}`."""
    if not isinstance(requirements, Mapping):
        raise InputError(f"requirements: expected an object, not {type(requirements).__name__}")
    _check_fields(requirements, "requirements", "required")
    needs: list[Need] = []
    for where, entry in _entries(requirements.get("required", []), "requirements.required"):
        _check_fields(entry, where, "capability", "min_support")
        info = ABP.read(_string(entry, "capability", where))
        minimum = _string(entry, "min_support", where)
        if minimum not in MIN_SUPPORTS:
            raise InputError(
                f"{where}.min_support: expected native or emulated, not {brief(minimum)}"
            )
        needs.append(need(info.id, min_support=minimum))
    return Needs(needs)


def read_openwop(identifiers: Any, *, required_by: str = "") -> Needs:
    """Read `requiredModelCapabilities`: hard needs, minimum support native."""
    if not isinstance(identifiers, Sequence) or isinstance(identifiers, (str, bytes)):
        raise InputError("requiredModelCapabilities: expected a list of capability ids")
    return Needs(
        need(
            OPENWOP.read(name).id,
            min_support="native",
            required_by=(required_by,) if required_by else (),
        )
        for name in identifiers
    )


def _entries(value: Any, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the objects of a list, each with its place."""
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{name}: expected a list, not {type(value).__name__}")
    entries: list[tuple[str, Mapping[str, Any]]] = []
    for index, entry in enumerate(value):
        where = f"{name}[{index}]"
        if not isinstance(entry, Mapping):
            raise InputError(f"{where}: expected an object, not {type(entry).__name__}")
        entries.append((where, entry))
    return entries


def _string(entry: Mapping[str, Any], name: str, where: str) -> str:
    if name not in entry:
        raise InputError(f"{where}: {name} is missing")
    value = entry[name]
    if not isinstance(value, str):
        raise InputError(f"{where}.{name}: expected a string, not {type(value).__name__}")
    return value


def _check_fields(entry: Mapping[str, Any], where: str, *allowed: str) -> None:
    for name in entry:
        if name not in allowed:
            raise InputError(f"{where}: no field {brief(name)}; there are {', '.join(allowed)}")


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise InputError(f"{where}: expected a string or a list of strings")
