"""Read needs from the JSON of the dialects, and node modules of the openwop specification.

A node module states what a node of a workflow requires of its model. Every error names its place.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from modelpact.needs.need import LEVELS, Need, Needs, need
from modelpact.vocabulary.capability import MIN_SUPPORTS
from modelpact.vocabulary.dialects import ABP, OPENWOP, STUD
from modelpact.vocabulary.errors import InputError, Problem, ProblemsError, brief, nearest

MAX_CAPABILITIES: Final = 32
_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9-]*|x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*")
_PROVIDER: Final = re.compile(r"[a-z][a-z0-9-]*")
_TYPE_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9][A-Za-z0-9_-]*)+")
_AI_PREFIX: Final = "core.ai."
_PACK_FIELDS: Final = ("name", "version", "nodes")
_MODULE_FIELDS: Final = ("typeId", "requires", "requiredModelCapabilities", "fallbackModel")


class ManifestError(ProblemsError):
    """A pack manifest is not valid."""

    title = "manifest problems"


class FallbackModel(msgspec.Struct, frozen=True):
    """The model that may replace the active one if that lacks a capability."""

    provider: str
    model: str


class NodeModule(msgspec.Struct, frozen=True):
    """A node module with its model requirements; other fields are kept as they stand.

    `requires` are capabilities of the host; `required` are capabilities of the model.
    """

    type_id: str
    required: tuple[str, ...] = ()
    fallback: FallbackModel | None = None
    requires: tuple[str, ...] = ()
    rest: dict[str, Any] = {}
    """All other fields; if the host does not gate, the model requirements too."""

    def data(self) -> dict[str, Any]:
        """Return the module as it stands in a manifest."""
        data: dict[str, Any] = {"typeId": self.type_id, **self.rest}
        if self.requires:
            data["requires"] = list(self.requires)
        if self.required:
            data["requiredModelCapabilities"] = list(self.required)
        if self.fallback is not None:
            data["fallbackModel"] = msgspec.to_builtins(self.fallback)
        return data


class Pack(msgspec.Struct, frozen=True):
    """A pack of node modules, and warnings about it."""

    name: str
    version: str
    nodes: tuple[NodeModule, ...]
    warnings: tuple[Problem, ...] = ()
    rest: dict[str, Any] = {}
    """All other fields of the manifest."""


def read_stud(requirements: Any) -> Needs:
    """Read `[{"name","level","minimum"?,"requiredBy"?}]`: minimum support is native."""
    needs: list[Need] = []
    for where, entry in _entries(requirements, "requirements"):
        _check_fields(entry, where, "name", "level", "minimum", "requiredBy")
        info = STUD.read(_string(entry, "name", where))
        level = _string(entry, "level", where)
        if level not in LEVELS:
            raise InputError(f"{where}.level: expected hard, preferred or probed, not {brief(level)}")
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
            raise InputError(f"{where}.min_support: expected native or emulated, not {brief(minimum)}")
        needs.append(need(info.id, min_support=minimum))
    return Needs(needs)


def read_openwop(identifiers: Any, *, required_by: str = "") -> Needs:
    """Read `requiredModelCapabilities`: hard needs, minimum support native."""
    if not isinstance(identifiers, Sequence) or isinstance(identifiers, (str, bytes)):
        raise InputError("requiredModelCapabilities: expected a list of capability ids")
    return Needs(
        need(OPENWOP.read(name).id, min_support="native", required_by=(required_by,) if required_by else ())
        for name in identifiers
    )


def read_pack(data: Any, file: str = "manifest", *, gating: bool = True) -> Pack:
    """Read a pack manifest `{"name","version","nodes":[…]}`; raise with all of its problems.

    If the host does not gate, model requirements are kept but not read.
    """
    reader = _ManifestReader(file, gating)
    pack = reader.pack(data)
    if reader.problems:
        raise ManifestError(reader.problems)
    return pack


def read_module(data: Any, file: str = "module", where: str = "", *, gating: bool = True) -> NodeModule:
    """Read one node module, which is at `where` in its file; raise with all of its problems."""
    reader = _ManifestReader(file, gating)
    module = reader.module(data, where)
    if reader.problems:
        raise ManifestError(reader.problems)
    return module


def is_registered(name: str) -> bool:
    """Whether the openwop specification reserves a capability id, or it is a host's extension."""
    return name in OPENWOP.ids or OPENWOP.knows(name)


class _ManifestReader:
    """Reads a manifest and collects its problems."""

    def __init__(self, file: str, gating: bool) -> None:
        self.file = file
        self.gating = gating
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def problem(self, where: str, message: str) -> None:
        self.problems.append(Problem(self.file, where, message))

    def pack(self, data: Any) -> Pack:
        if not isinstance(data, Mapping):
            self.problem("", f"expected an object with name, version and nodes, not {_type_name(data)}")
            return Pack("", "", ())
        entries = data.get("nodes")
        if not isinstance(entries, (list, tuple)):
            self.problem("nodes", "expected a list of node modules")
            entries = ()
        nodes = [self.module(entry, f"nodes[{index}]") for index, entry in enumerate(entries)]
        seen: set[str] = set()
        for index, node in enumerate(nodes):
            if node.type_id in seen:
                self.problem(f"nodes[{index}].typeId", f"{node.type_id} occurs twice")
            seen.add(node.type_id)
            if self.gating and node.type_id.startswith(_AI_PREFIX) and not node.required:
                self.warn(f"nodes[{index}]", node.type_id)
        name = self.string(data, "name", "")
        rest = {key: value for key, value in data.items() if key not in _PACK_FIELDS}
        return Pack(name, self.string(data, "version", ""), tuple(nodes), tuple(self.warnings), rest)

    def warn(self, where: str, type_id: str) -> None:
        message = f"{type_id} calls a model and should declare requiredModelCapabilities"
        self.warnings.append(Problem(self.file, where, message))

    def module(self, data: Any, where: str) -> NodeModule:
        if not isinstance(data, Mapping):
            self.problem(where, f"expected an object, not {_type_name(data)}")
            return NodeModule("")
        type_id = self.string(data, "typeId", where)
        if type_id and not _TYPE_ID.fullmatch(type_id):
            self.problem(_at(where, "typeId"), f"{brief(type_id)} is not a name such as core.ai.call")
        requires = self.strings(data.get("requires", ()), _at(where, "requires"))
        if not self.gating:
            opaque = {key: value for key, value in data.items() if key not in _MODULE_FIELDS[:2]}
            return NodeModule(type_id, requires=requires, rest=opaque)
        rest = {key: value for key, value in data.items() if key not in _MODULE_FIELDS}
        required = self.required(data, _at(where, "requiredModelCapabilities"))
        fallback = self.fallback(data, _at(where, "fallbackModel"))
        return NodeModule(type_id, required, fallback, requires, rest)

    def required(self, data: Mapping[str, Any], where: str) -> tuple[str, ...]:
        names = self.strings(data.get("requiredModelCapabilities", ()), where)
        if len(names) > MAX_CAPABILITIES:
            self.problem(where, f"has {len(names)} capabilities; at most {MAX_CAPABILITIES} are allowed")
        seen: set[str] = set()
        for index, name in enumerate(names):
            at = f"{where}[{index}]"
            if name in seen:
                self.problem(at, f"{name} occurs twice")
            seen.add(name)
            if not _IDENTIFIER.fullmatch(name):
                self.problem(at, f"{brief(name)} is not an identifier: use a-z, 0-9 and hyphens")
            elif not is_registered(name):
                close = nearest(name, OPENWOP.ids)
                suggestion = f"; did you mean {' or '.join(close)}?" if close else ""
                self.problem(at, f"{name} is neither reserved nor x-host-<host>-<key>{suggestion}")
        return names

    def fallback(self, data: Mapping[str, Any], where: str) -> FallbackModel | None:
        if "fallbackModel" not in data:
            return None
        fallback = data["fallbackModel"]
        if not isinstance(fallback, Mapping):
            self.problem(where, "expected {provider, model}; leave it out if there is none")
            return None
        for key in fallback:
            if key not in ("provider", "model"):
                self.problem(where, f"no field {brief(key)}; there are provider and model")
        provider = self.string(fallback, "provider", where)
        if provider and not _PROVIDER.fullmatch(provider):
            self.problem(_at(where, "provider"), f"{brief(provider)} is not a provider id: use a-z, 0-9 and hyphens")
        return FallbackModel(provider, self.string(fallback, "model", where))

    def string(self, data: Mapping[str, Any], name: str, where: str) -> str:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
        problem = "is missing" if name not in data else f"expected a string, not {brief(value)}"
        self.problem(_at(where, name), problem)
        return ""

    def strings(self, value: Any, where: str) -> tuple[str, ...]:
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.problem(where, "expected a list of strings")
        return ()


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


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _type_name(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
