"""Running: each node through the gate, then to the model that the gate decided on."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from modelpact.dispatch.gate import CapabilityNotProvided, Gate, GateEvent
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import LedgerError
from modelpact.needs.node_modules import NodeModule
from modelpact.openwop.clients import Allowance, ClientRefused, FindClient
from modelpact.openwop.model_call import (
    STAND_IN,
    Executor,
    NodeFailed,
    PromptCaller,
    Step,
    storable,
)
from modelpact.openwop.runs import Run, RunOwnedElsewhere, Runs
from modelpact.openwop.workflows import Library, ModelTarget, WorkflowNode
from modelpact.vocabulary.errors import ModelpactError

_LONGEST_MESSAGE: Final = 2_000


class Runner:
    """Executes runs. Every step is on the record before the next one is taken."""

    def __init__(
        self,
        ledger: Ledger,
        library: Library,
        gate: Gate,
        models: ModelCaller,
        executors: Mapping[str, Executor] | None = None,
    ) -> None:
        self.runs = Runs(ledger)
        self._library = library
        self._gate = gate
        self._caller = PromptCaller(ledger, self.runs, models)
        self._executors = dict(executors or {})

    async def execute(self, run: Run, clients: FindClient) -> None:
        """Run every node in turn; the first that fails ends the run."""
        allowance = Allowance(clients, run.tenant)
        active = run.request.active
        payload = {
            "workflowId": run.workflow,
            "provider": active.provider,
            "model": active.model,
        }
        started = await self.runs.append(run, "run.started", payload, status="running")
        values: dict[str, Any] = dict(run.request.inputs)
        cause = started.id
        for node in run.request.workflow.nodes:
            begun = {"nodeId": node.node_id, "typeId": node.type_id}
            event = await self.runs.append(run, "node.started", begun, cause)
            try:
                output = await self._node(run, node, values, event.id, allowance)
                done = {"nodeId": node.node_id, **storable(output, allowance)}
            except RunOwnedElsewhere:
                raise
            except Exception as error:
                await self._failed(run, node, error, event.id)
                return
            values[node.node_id] = output
            cause = (await self.runs.append(run, "node.completed", done, event.id)).id
        await self.runs.append(run, "run.completed", {}, cause, status="completed")

    async def interrupted(self, run: Run) -> None:
        """End a run that its process left in the middle: what was called is not called again.

        A run that somebody else has ended stays as it is.
        """
        error = {
            "code": "run_interrupted",
            "message": "the host stopped, or lost its store, while this ran; start it again",
        }
        ended: dict[str, Any] = {"error": error}
        begun: Event | None = None
        for event in await self.runs.events(run):
            if event.type == "node.started":
                begun = event
            elif event.type in ("node.completed", "node.failed"):
                begun = None
        with contextlib.suppress(RunOwnedElsewhere):
            cause = None
            if begun is not None:
                failed = {"nodeId": begun.payload["nodeId"], **ended}
                cause = (await self.runs.append(run, "node.failed", failed, begun.id)).id
            await self.runs.append(run, "run.failed", ended, cause, status="failed", error=error)

    async def _failed(self, run: Run, node: WorkflowNode, error: Exception, cause: str) -> None:
        told = _told(error)
        brief = {"code": told["code"], "message": told["message"]}
        payload = {"nodeId": node.node_id, "error": brief}
        event = await self.runs.append(run, "node.failed", payload, cause)
        ended = {"error": brief}
        await self.runs.append(run, "run.failed", ended, event.id, status="failed", error=told)

    async def _node(
        self,
        run: Run,
        node: WorkflowNode,
        values: Mapping[str, Any],
        cause: str,
        allowance: Allowance,
    ) -> Any:
        """Dispatch a node, and again on the models of the run's retry policy if it is refused."""
        module = node.over(self._library.modules[node.type_id])
        actives = (run.request.active, *run.request.retry_on)
        for number, active in enumerate(actives, start=1):
            try:
                return await self._dispatch(run, node, module, active, values, cause, allowance)
            except CapabilityNotProvided:
                if number == len(actives):
                    raise
                other = actives[number]
                payload = {
                    "nodeId": node.node_id,
                    "attempt": number + 1,
                    "provider": other.provider,
                    "model": other.model,
                }
                cause = (await self.runs.append(run, "node.retried", payload, cause)).id
        raise AssertionError("there is at least the active model")

    async def _dispatch(
        self,
        run: Run,
        node: WorkflowNode,
        module: NodeModule,
        active: ModelTarget,
        values: Mapping[str, Any],
        cause: str,
        allowance: Allowance,
    ) -> Any:
        last = cause

        async def tell(event: GateEvent) -> None:
            nonlocal last
            last = (await self.runs.append(run, event.type, event.payload, cause)).id

        async def call(provider: str, model: str) -> Any:
            hidden = self._gate.redact and ModelTarget(provider, model) != active
            target = f"{provider}/{model}"
            client = await allowance.before_call(target, STAND_IN if hidden else target)
            step = Step(run, node, provider, model, values, last, client, allowance, hidden)
            executor = self._executors.get(node.type_id, self._caller)
            try:
                return await executor(step)
            except (NodeFailed, ClientRefused, LedgerError, RunOwnedElsewhere):
                raise
            except ModelpactError as error:
                if hidden:  # its words may name the model; the record of the call has them
                    raise NodeFailed("node_failed", f"{STAND_IN} failed") from error
                raise

        return await self._gate.dispatch_async(
            module,
            active.provider,
            active.model,
            call,
            tell=tell,
            node_id=node.node_id,
            allows=lambda one: allowance.allows(one.provider, one.model),
        )


def _told(error: Exception) -> dict[str, Any]:
    """Return an error as a run's snapshot has it; nobody else's internals are told."""
    if isinstance(error, CapabilityNotProvided):
        decision = error.decision
        details: dict[str, Any] = {
            "nodeId": error.node_id,
            "missingCapabilities": list(decision.missing),
            "fallbackAttempted": decision.fallback_attempted,
        }
        return {"code": error.code, "message": str(error), "details": details}
    if isinstance(error, NodeFailed):
        told = {"code": error.code, "message": str(error)[:_LONGEST_MESSAGE]}
        return {**told, "details": error.details} if error.details else told
    if isinstance(error, ClientRefused):
        return {"code": error.code, "message": str(error)}
    if isinstance(error, ModelpactError):
        return {"code": "node_failed", "message": str(error)[:_LONGEST_MESSAGE]}
    return {"code": "internal_error", "message": f"the node failed: {type(error).__name__}"}
