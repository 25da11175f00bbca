"""Workflows and run requests: which nodes run, on which model, with which inputs."""

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from modelpact.emulation.validation import Schema
from modelpact.needs.dialects import FallbackModel, NodeModule, Pack, read_module
from modelpact.openwop.documents import envelope_schemas
from modelpact.vocabulary.errors import InputError, UnknownName, brief

MAX_NODES: Final = 100
MAX_RETRIES: Final = 8
_NODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NODE_FIELDS: Final = ("nodeId", "typeId", "config", "requiredModelCapabilities", "fallbackModel")
_CONFIG_FIELDS: Final = ("prompt", "system", "schema", "envelope", "maxTokens", "temperature")
_MAX_TOKENS: Final = 2**31


class WorkflowNode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node of a workflow: its module, its configuration, and its own requirements."""

    node_id: str
    type_id: str
    config: dict[str, Any] = {}
    required_model_capabilities: tuple[str, ...] = ()
    fallback_model: FallbackModel | None = None

    def extend(self, module: NodeModule) -> NodeModule:
        """Return the module with this node's requirements added, and its fallback if it has one."""
        return msgspec.structs.replace(
            module,
            required=tuple(dict.fromkeys((*module.required, *self.required_model_capabilities))),
            fallback=self.fallback_model or module.fallback,
        )


class Workflow(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that run one after the other."""

    workflow_id: str
    nodes: tuple[WorkflowNode, ...]


class ModelTarget(msgspec.Struct, frozen=True):
    """A provider and a model."""

    provider: str
    model: str


class RunRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The request for a run. It is stored with the run, so that another process can read it."""

    workflow: Workflow
    active: ModelTarget
    inputs: dict[str, Any] = {}
    retry_on: tuple[ModelTarget, ...] = ()
    """Models to try in turn when the gate refuses a node."""


class UnknownWorkflow(UnknownName):
    """The host has no workflow of that name."""

    def __init__(self, name: str, known: Mapping[str, Workflow]) -> None:
        super().__init__("workflow", name, known)


class WorkflowLibrary:
    """The modules and workflows of a host.

    `custom_types` are node types with executors of their own: only these know what a configuration
    means. Without `gating`, the requirements of nodes are not checked.
    """

    def __init__(self, packs: tuple[Pack, ...], *, custom_types: Collection[str] = (), gating: bool = True) -> None:
        self._custom_types = custom_types
        self._gating = gating
        self.warnings = [warning for pack in packs for warning in pack.warnings]
        self.modules: dict[str, NodeModule] = {}
        self.workflows: dict[str, Workflow] = {}
        for pack in packs:
            for module in pack.nodes:
                if module.type_id in self.modules:
                    raise InputError(f"{pack.name}: {module.type_id} is in another pack too")
                self.modules[module.type_id] = module
        for pack in packs:
            for index, data in enumerate(_list(pack.rest, "workflows", pack.name)):
                workflow = self._workflow(data, f"workflows[{index}]", pack.name)
                if workflow.workflow_id in self.workflows:
                    raise InputError(f"{pack.name}: {workflow.workflow_id} is there twice")
                self.workflows[workflow.workflow_id] = workflow

    def read_run(self, body: Any, default: ModelTarget) -> RunRequest:
        """Read the body of `POST /v1/runs`. Fields of other parts of the protocol are ignored."""
        if not isinstance(body, Mapping):
            raise InputError("expected an object with workflowId, or with nodes")
        named = body.get("workflowId")
        if "nodes" in body:
            name = named if isinstance(named, str) and named else "inline"
            workflow = self._workflow({"workflowId": name, "nodes": body["nodes"]}, "", "")
        elif not isinstance(named, str):
            raise InputError(f"workflowId: expected a text, not {brief(named)}; or give a list of nodes")
        elif named not in self.workflows:
            raise UnknownWorkflow(named, self.workflows)
        else:
            workflow = self.workflows[named]
        inputs = _object(body, "inputs")
        ai = _object(_object(body, "configurable"), "ai", "configurable.")
        active = ModelTarget(
            _text(ai, "provider", "configurable.ai.", default.provider),
            _text(ai, "model", "configurable.ai.", default.model),
        )
        if "provider" in ai and "model" not in ai and active.provider != default.provider:
            raise InputError("configurable.ai.model: is missing; name the model together with its provider")
        retry = _object(body, "retryPolicy")
        others = _list(retry, "onCapabilityNotProvided", "retryPolicy")
        if len(others) > MAX_RETRIES:
            raise InputError(
                f"retryPolicy.onCapabilityNotProvided: expected at most {MAX_RETRIES} models, not {len(others)}"
            )
        return RunRequest(
            workflow,
            active,
            dict(inputs),
            tuple(
                _target(other, f"retryPolicy.onCapabilityNotProvided[{index}]") for index, other in enumerate(others)
            ),
        )

    def _workflow(self, data: Any, where: str, pack: str) -> Workflow:
        place = f"{pack}: {where}" if pack else where
        prefix = f"{place}." if place else ""
        if not isinstance(data, Mapping):
            raise InputError(f"{place}: expected an object with workflowId and nodes")
        name = _text(data, "workflowId", prefix)
        listed = _list(data, "nodes", place)
        if not listed:
            raise InputError(f"{prefix}nodes: expected at least one node")
        if len(listed) > MAX_NODES:
            raise InputError(f"{prefix}nodes: expected at most {MAX_NODES}, not {len(listed)}")
        inside = f"{where}." if where else ""
        nodes = tuple(self._node(node, f"{inside}nodes[{index}]", pack) for index, node in enumerate(listed))
        node_ids = [node.node_id for node in nodes]
        for node_id in node_ids:
            if node_ids.count(node_id) > 1:
                raise InputError(f"{prefix}nodes: {node_id} is there twice")
        return Workflow(name, nodes)

    def _node(self, data: Any, where: str, pack: str) -> WorkflowNode:
        place = f"{pack}: {where}" if pack else where
        if not isinstance(data, Mapping):
            raise InputError(f"{place}: expected an object, not {brief(data)}")
        for key in data:
            if key not in _NODE_FIELDS:
                raise InputError(f"{place}: unknown field {brief(key)}; the fields are {', '.join(_NODE_FIELDS)}")
        node_id = _text(data, "nodeId", f"{place}.")
        if not _NODE_ID.fullmatch(node_id):
            raise InputError(
                f"{place}.nodeId: {brief(node_id)} is not a node's name: "
                "use letters, digits, dots, underscores and dashes"
            )
        type_id = _text(data, "typeId", f"{place}.")
        if type_id not in self.modules:
            raise UnknownName(f"node type at {place}.typeId:", type_id, self.modules)
        declared = {key: data[key] for key in _NODE_FIELDS[3:] if key in data}
        own = read_module({"typeId": type_id, **declared}, pack or "the run", where, gating=self._gating)
        config = dict(_object(data, "config", f"{place}."))
        if type_id not in self._custom_types:
            _check_config(config, f"{place}.config")
        return WorkflowNode(node_id, type_id, config, own.required, own.fallback)


def _check_config(config: Mapping[str, Any], where: str) -> None:
    """Raise if no run could use a node's configuration.

    A missing prompt is accepted here. It is an error only when the node is executed.
    """
    for key in config:
        if key not in _CONFIG_FIELDS:
            raise InputError(f"{where}: unknown field {brief(key)}; the fields are {', '.join(_CONFIG_FIELDS)}")
    for name in ("prompt", "system"):
        if not isinstance(config.get(name, ""), str):
            raise InputError(f"{where}.{name}: expected a text, not {brief(config[name])}")
    limit, temperature = config.get("maxTokens"), config.get("temperature")
    if limit is not None and (type(limit) is not int or not 0 < limit < _MAX_TOKENS):
        raise InputError(f"{where}.maxTokens: expected a number above zero, not {brief(limit)}")
    if temperature is not None and (type(temperature) not in (int, float) or not math.isfinite(temperature)):
        raise InputError(f"{where}.temperature: expected a number, not {brief(temperature)}")
    if "envelope" in config and "schema" in config:
        raise InputError(f"{where}: envelope and schema exclude each other; leave one out")
    if "envelope" in config:
        kind = config["envelope"]
        known = envelope_schemas()
        if not isinstance(kind, str) or kind not in known:
            raise UnknownName(f"envelope at {where}.envelope:", kind, known)
    if "schema" in config:
        if not isinstance(config["schema"], dict):
            value = brief(config["schema"])
            raise InputError(f"{where}.schema: expected a JSON Schema, not {value}")
        Schema(config["schema"], f"{where}.schema")


def _target(data: Any, where: str) -> ModelTarget:
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: expected an object with provider and model")
    return ModelTarget(_text(data, "provider", f"{where}."), _text(data, "model", f"{where}."))


def _text(data: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str) or not 0 < len(value) <= 512 or not value.isprintable():
        problem = "is missing" if value is None else f"expected a text, not {brief(value)}"
        raise InputError(f"{where}{name}: {problem}")
    return value


def _object(data: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    value = data.get(name, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{where}{name}: expected an object, not {brief(value)}")
    return value


def _list(data: Mapping[str, Any], name: str, where: str = "") -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        dot = f"{where}." if where else ""
        raise InputError(f"{dot}{name}: expected a list, not {brief(value)}")
    return value
