"""Node modules: what a node of a workflow declares that it needs of its model (seed 001 §B)."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.vocabulary.dialects import OPENWOP
from modelpact.vocabulary.errors import Problem, ProblemsError, brief, nearest

MOST_CAPABILITIES: Final = 32
_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9-]*|x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*")
_PROVIDER: Final = re.compile(r"[a-z][a-z0-9-]*")
_TYPE_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9][A-Za-z0-9_-]*)+")
_AI: Final = "core.ai."
_PACK_FIELDS: Final = ("name", "version", "nodes")
_READ_HERE: Final = ("typeId", "requires", "requiredModelCapabilities", "fallbackModel")


class ManifestError(ProblemsError):
    """A pack manifest that cannot be used."""

    title = "manifest problems"


class FallbackModel(msgspec.Struct, frozen=True):
    """The model that may stand in when the active one lacks something."""

    provider: str
    model: str


class NodeModule(msgspec.Struct, frozen=True):
    """A node module: its model requirements, and the rest of what it declares as it stands.

    `requires` are capabilities of the host, `required` those of the model: two different things.
    """

    type_id: str
    required: tuple[str, ...] = ()
    fallback: FallbackModel | None = None
    requires: tuple[str, ...] = ()
    rest: dict[str, Any] = {}
    """Fields that say nothing of the model, and all of them where the host does not gate."""

    def data(self) -> dict[str, Any]:
        """Return the module as a manifest has it; what it does not declare is left out."""
        found: dict[str, Any] = {"typeId": self.type_id, **self.rest}
        if self.requires:
            found["requires"] = list(self.requires)
        if self.required:
            found["requiredModelCapabilities"] = list(self.required)
        if self.fallback is not None:
            found["fallbackModel"] = msgspec.to_builtins(self.fallback)
        return found


class Pack(msgspec.Struct, frozen=True):
    """A pack of node modules, and what is worth a warning in it."""

    name: str
    version: str
    nodes: tuple[NodeModule, ...]
    warnings: tuple[Problem, ...] = ()
    rest: dict[str, Any] = {}
    """What else the manifest has, as it stands."""


def read_pack(data: Any, file: str = "manifest", *, gating: bool = True) -> Pack:
    """Read a pack manifest `{"name","version","nodes":[…]}`; raise with all of its problems.

    Where the host does not gate, model requirements are opaque: kept, not looked at.
    """
    reader = _Reader(file, gating)
    pack = reader.pack(data)
    if reader.problems:
        raise ManifestError(reader.problems)
    return pack


def read_module(
    data: Any, file: str = "module", where: str = "", *, gating: bool = True
) -> NodeModule:
    """Read one node module, which stands at a place of its file; raise with all of its problems."""
    reader = _Reader(file, gating)
    module = reader.module(data, where)
    if reader.problems:
        raise ManifestError(reader.problems)
    return module


class _Reader:
    """Reads and collects what is wrong."""

    def __init__(self, file: str, gating: bool) -> None:
        self.file = file
        self.gating = gating
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def wrong(self, where: str, message: str) -> None:
        self.problems.append(Problem(self.file, where, message))

    def pack(self, data: Any) -> Pack:
        if not isinstance(data, Mapping):
            self.wrong("", f"expected an object with name, version and nodes, not {_kind(data)}")
            return Pack("", "", ())
        listed = data.get("nodes")
        if not isinstance(listed, (list, tuple)):
            self.wrong("nodes", "expected a list of node modules")
            listed = ()
        nodes = [self.module(one, f"nodes[{place}]") for place, one in enumerate(listed)]
        seen: set[str] = set()
        for place, node in enumerate(nodes):
            if node.type_id in seen:
                self.wrong(f"nodes[{place}].typeId", f"{node.type_id} stands here twice")
            seen.add(node.type_id)
            if self.gating and node.type_id.startswith(_AI) and not node.required:
                self.warn(f"nodes[{place}]", node.type_id)
        name = self.text(data, "name", "")
        rest = {key: value for key, value in data.items() if key not in _PACK_FIELDS}
        return Pack(name, self.text(data, "version", ""), tuple(nodes), tuple(self.warnings), rest)

    def warn(self, where: str, type_id: str) -> None:
        told = f"{type_id} calls a model and should declare requiredModelCapabilities"
        self.warnings.append(Problem(self.file, where, told))

    def module(self, data: Any, where: str) -> NodeModule:
        if not isinstance(data, Mapping):
            self.wrong(where, f"expected an object, not {_kind(data)}")
            return NodeModule("")
        type_id = self.text(data, "typeId", where)
        if type_id and not _TYPE_ID.fullmatch(type_id):
            self.wrong(_at(where, "typeId"), f"{brief(type_id)} is not a name such as core.ai.call")
        requires = self.texts(data.get("requires", ()), _at(where, "requires"))
        if not self.gating:
            opaque = {key: value for key, value in data.items() if key not in _READ_HERE[:2]}
            return NodeModule(type_id, requires=requires, rest=opaque)
        rest = {key: value for key, value in data.items() if key not in _READ_HERE}
        required = self.required(data, _at(where, "requiredModelCapabilities"))
        fallback = self.fallback(data, _at(where, "fallbackModel"))
        return NodeModule(type_id, required, fallback, requires, rest)

    def required(self, data: Mapping[str, Any], where: str) -> tuple[str, ...]:
        named = self.texts(data.get("requiredModelCapabilities", ()), where)
        if len(named) > MOST_CAPABILITIES:
            self.wrong(where, f"has {len(named)} capabilities; {MOST_CAPABILITIES} are the most")
        seen: set[str] = set()
        for place, name in enumerate(named):
            at = f"{where}[{place}]"
            if name in seen:
                self.wrong(at, f"{name} stands here twice")
            seen.add(name)
            if not _IDENTIFIER.fullmatch(name):
                self.wrong(
                    at, f"{brief(name)} is not an identifier: small letters, digits, hyphens"
                )
            elif not is_registered(name):
                close = nearest(name, OPENWOP.ids)
                meant = f"; did you mean {' or '.join(close)}?" if close else ""
                self.wrong(at, f"{name} is neither reserved nor x-host-<host>-<key>{meant}")
        return named

    def fallback(self, data: Mapping[str, Any], where: str) -> FallbackModel | None:
        if "fallbackModel" not in data:
            return None
        given = data["fallbackModel"]
        if not isinstance(given, Mapping):
            self.wrong(where, "expected {provider, model}; leave it out where there is none")
            return None
        for key in given:
            if key not in ("provider", "model"):
                self.wrong(where, f"no field {brief(key)}; there are provider and model")
        provider = self.text(given, "provider", where)
        if provider and not _PROVIDER.fullmatch(provider):
            self.wrong(
                _at(where, "provider"),
                f"{brief(provider)} is not a provider id: small letters, digits, hyphens",
            )
        return FallbackModel(provider, self.text(given, "model", where))

    def text(self, data: Mapping[str, Any], name: str, where: str) -> str:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
        told = "is missing" if name not in data else f"expected a text, not {brief(value)}"
        self.wrong(_at(where, name), told)
        return ""

    def texts(self, value: Any, where: str) -> tuple[str, ...]:
        if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
            return tuple(value)
        self.wrong(where, "expected a list of texts")
        return ()


def is_registered(name: str) -> bool:
    """Tell whether a capability id is reserved by seed 001 §C or a host's extension."""
    return name in OPENWOP.ids or OPENWOP.knows(name)


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
