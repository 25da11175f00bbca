"""Workflows and run requests: which nodes run, on which model, with which inputs."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from modelpact.needs.node_modules import FallbackModel, NodeModule, Pack, read_module
from modelpact.openwop.prompts import check_config
from modelpact.vocabulary.errors import InputError, UnknownName, brief

MOST_NODES: Final = 100
MOST_RETRIES: Final = 8
_NODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NODE_FIELDS: Final = (
    "nodeId",
    "typeId",
    "config",
    "requiredModelCapabilities",
    "fallbackModel",
)


class WorkflowNode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node of a workflow: which module, how configured, and what this one needs beyond it."""

    node_id: str
    type_id: str
    config: dict[str, Any] = {}
    required_model_capabilities: tuple[str, ...] = ()
    fallback_model: FallbackModel | None = None

    def over(self, module: NodeModule) -> NodeModule:
        """Return the module with this node's own requirements; its own fallback comes first."""
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
    """What a run was asked for: kept with it, so that another process can read it."""

    workflow: Workflow
    active: ModelTarget
    inputs: dict[str, Any] = {}
    retry_on: tuple[ModelTarget, ...] = ()
    """Models to try in turn when a node is refused: the run's retry policy."""


class Library:
    """The modules and workflows that a host has.

    `own` are the types of nodes whose configuration only their executors understand. Where the host
    does not gate, what nodes require of a model is opaque.
    """

    def __init__(
        self, packs: tuple[Pack, ...], *, own: Collection[str] = (), gating: bool = True
    ) -> None:
        self._own = own
        self._gating = gating
        self.warnings = [one for pack in packs for one in pack.warnings]
        self.modules: dict[str, NodeModule] = {}
        self.workflows: dict[str, Workflow] = {}
        for pack in packs:
            for module in pack.nodes:
                if module.type_id in self.modules:
                    raise InputError(f"{pack.name}: {module.type_id} is in another pack too")
                self.modules[module.type_id] = module
        for pack in packs:
            for place, data in enumerate(_list(pack.rest, "workflows", pack.name)):
                workflow = self._workflow(data, f"workflows[{place}]", pack.name)
                if workflow.workflow_id in self.workflows:
                    raise InputError(f"{pack.name}: {workflow.workflow_id} stands there twice")
                self.workflows[workflow.workflow_id] = workflow

    def read_run(self, body: Any, default: ModelTarget) -> RunRequest:
        """Read `POST /v1/runs`; fields of other slices of the protocol are let be."""
        if not isinstance(body, Mapping):
            raise InputError("expected an object with workflowId, or with nodes")
        named = body.get("workflowId")
        if "nodes" in body:
            name = named if isinstance(named, str) and named else "inline"
            workflow = self._workflow({"workflowId": name, "nodes": body["nodes"]}, "", "")
        elif not isinstance(named, str):
            raise InputError(
                f"workflowId: expected a text, not {brief(named)}; or give a list of nodes"
            )
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
            raise InputError("configurable.ai.model: is missing; a provider was chosen without it")
        retry = _object(body, "retryPolicy")
        others = _list(retry, "onCapabilityNotProvided", "retryPolicy")
        if len(others) > MOST_RETRIES:
            raise InputError(
                f"retryPolicy.onCapabilityNotProvided: {MOST_RETRIES} models are the most, "
                f"not {len(others)}"
            )
        return RunRequest(
            workflow,
            active,
            dict(inputs),
            tuple(
                _target(one, f"retryPolicy.onCapabilityNotProvided[{place}]")
                for place, one in enumerate(others)
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
        if len(listed) > MOST_NODES:
            raise InputError(f"{prefix}nodes: {MOST_NODES} are the most, not {len(listed)}")
        inside = f"{where}." if where else ""
        nodes = tuple(
            self._node(one, f"{inside}nodes[{at}]", pack) for at, one in enumerate(listed)
        )
        names = [one.node_id for one in nodes]
        for name_ in names:
            if names.count(name_) > 1:
                raise InputError(f"{prefix}nodes: {name_} stands there twice")
        return Workflow(name, nodes)

    def _node(self, data: Any, where: str, pack: str) -> WorkflowNode:
        place = f"{pack}: {where}" if pack else where
        if not isinstance(data, Mapping):
            raise InputError(f"{place}: expected an object, not {brief(data)}")
        for key in data:
            if key not in _NODE_FIELDS:
                raise InputError(f"{place}: no field {brief(key)}; there are {_NODE_FIELDS}")
        node_id = _text(data, "nodeId", f"{place}.")
        if not _NODE_ID.fullmatch(node_id):
            raise InputError(f"{place}.nodeId: {brief(node_id)} is not a name for a node")
        type_id = _text(data, "typeId", f"{place}.")
        if type_id not in self.modules:
            raise UnknownName(f"node type at {place}.typeId:", type_id, self.modules)
        declared = {key: data[key] for key in _NODE_FIELDS[3:] if key in data}
        own = read_module(
            {"typeId": type_id, **declared}, pack or "the run", where, gating=self._gating
        )
        config = dict(_object(data, "config", f"{place}."))
        if type_id not in self._own:
            check_config(config, f"{place}.config")
        return WorkflowNode(node_id, type_id, config, own.required, own.fallback)


class UnknownWorkflow(UnknownName):
    """A workflow that the host does not have."""

    def __init__(self, name: str, known: Mapping[str, Workflow]) -> None:
        super().__init__("workflow", name, known)


def _target(data: Any, where: str) -> ModelTarget:
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: expected an object with provider and model")
    return ModelTarget(_text(data, "provider", f"{where}."), _text(data, "model", f"{where}."))


def _text(data: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str) or not 0 < len(value) <= 512 or not value.isprintable():
        told = "is missing" if value is None else f"expected a text, not {brief(value)}"
        raise InputError(f"{where}{name}: {told}")
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
