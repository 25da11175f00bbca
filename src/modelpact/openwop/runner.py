"""The runner: sends each node through the gate, then to the model that the gate decided on."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from modelpact.dispatch.gate import CapabilityNotProvided, Gate, GateEvent
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.needs.dialects import NodeModule
from modelpact.openwop.clients import ClientRefused, FindClient, RunAllowance
from modelpact.openwop.executor import FALLBACK, Executor, NodeFailed, NodeStep, PromptCaller, storable
from modelpact.openwop.runs import Run, RunOwnedElsewhere, Runs
from modelpact.openwop.workflows import ModelTarget, WorkflowLibrary, WorkflowNode
from modelpact.vocabulary.errors import ModelpactError

_MAX_MESSAGE: Final = 2_000


class Runner:
    """Executes runs. Every step is recorded before the next one begins."""

    def __init__(
        self,
        ledger: Ledger,
        library: WorkflowLibrary,
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
        """Execute the nodes in turn. The first that fails ends the run."""
        allowance = RunAllowance(clients, run.tenant)
        active = run.request.active
        payload = {"workflowId": run.workflow, "provider": active.provider, "model": active.model}
        started = await self.runs.append(run, "run.started", payload, status="running")
        values: dict[str, Any] = dict(run.request.inputs)
        cause = started.id
        for node in run.request.workflow.nodes:
            payload = {"nodeId": node.node_id, "typeId": node.type_id}
            event = await self.runs.append(run, "node.started", payload, cause)
            try:
                output = await self._execute_node(run, node, values, event.id, allowance)
                done = {"nodeId": node.node_id, **storable(output, allowance)}
            except RunOwnedElsewhere:
                raise
            except Exception as error:
                await self._fail(run, node, error, event.id)
                return
            values[node.node_id] = output
            cause = (await self.runs.append(run, "node.completed", done, event.id)).id
        await self.runs.append(run, "run.completed", {}, cause, status="completed")

    async def fail_interrupted(self, run: Run) -> None:
        """Fail a run that its process left in the middle. Its calls are not repeated.

        A run that another process has ended stays as it is.
        """
        error = {
            "code": "run_interrupted",
            "message": "the host stopped, or lost its store, while this ran; start it again",
        }
        payload: dict[str, Any] = {"error": error}
        started: Event | None = None
        for event in await self.runs.events(run):
            if event.type == "node.started":
                started = event
            elif event.type in ("node.completed", "node.failed"):
                started = None
        with contextlib.suppress(RunOwnedElsewhere):
            cause = None
            if started is not None:
                failed = {"nodeId": started.payload["nodeId"], **payload}
                cause = (await self.runs.append(run, "node.failed", failed, started.id)).id
            await self.runs.append(run, "run.failed", payload, cause, status="failed", error=error)

    async def _fail(self, run: Run, node: WorkflowNode, error: Exception, cause: str) -> None:
        data = _error_data(error)
        brief = {"code": data["code"], "message": data["message"]}
        payload = {"nodeId": node.node_id, "error": brief}
        event = await self.runs.append(run, "node.failed", payload, cause)
        payload = {"error": brief}
        await self.runs.append(run, "run.failed", payload, event.id, status="failed", error=data)

    async def _execute_node(
        self, run: Run, node: WorkflowNode, values: Mapping[str, Any], cause: str, allowance: RunAllowance
    ) -> Any:
        """Dispatch a node, and if it is refused, again on the models of the retry policy."""
        module = node.extend(self._library.modules[node.type_id])
        targets = (run.request.active, *run.request.retry_on)
        for attempt, active in enumerate(targets, start=1):
            try:
                return await self._dispatch(run, node, module, active, values, cause, allowance)
            except CapabilityNotProvided:
                if attempt == len(targets):
                    raise
                other = targets[attempt]
                payload = {
                    "nodeId": node.node_id,
                    "attempt": attempt + 1,
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
        allowance: RunAllowance,
    ) -> Any:
        last_event = cause

        async def record(event: GateEvent) -> None:
            nonlocal last_event
            last_event = (await self.runs.append(run, event.type, event.payload, cause)).id

        async def call(provider: str, model: str) -> Any:
            hidden = self._gate.redact and ModelTarget(provider, model) != active
            target = f"{provider}/{model}"
            client = await allowance.before_call(target, FALLBACK if hidden else target)
            step = NodeStep(run, node, provider, model, values, last_event, client, allowance, hidden)
            executor = self._executors.get(node.type_id, self._caller)
            try:
                return await executor(step)
            except (NodeFailed, ClientRefused, LedgerError, RunOwnedElsewhere):
                raise
            except ModelpactError as error:
                if hidden:  # the message may name the model; the record of the call has it
                    raise NodeFailed("node_failed", f"{FALLBACK} failed") from error
                raise

        return await self._gate.dispatch_async(
            module,
            active.provider,
            active.model,
            call,
            tell=record,
            node_id=node.node_id,
            allows=lambda fallback: allowance.allows(fallback.provider, fallback.model),
        )


def _error_data(error: Exception) -> dict[str, Any]:
    """Return the error of a run as plain data. Unexpected errors are named, not described."""
    if isinstance(error, CapabilityNotProvided):
        decision = error.decision
        details: dict[str, Any] = {
            "nodeId": error.node_id,
            "missingCapabilities": list(decision.missing),
            "fallbackAttempted": decision.fallback_attempted,
        }
        return {"code": error.code, "message": str(error), "details": details}
    if isinstance(error, NodeFailed):
        data = {"code": error.code, "message": str(error)[:_MAX_MESSAGE]}
        return {**data, "details": error.details} if error.details else data
    if isinstance(error, ClientRefused):
        return {"code": error.code, "message": str(error)}
    if isinstance(error, ModelpactError):
        return {"code": "node_failed", "message": str(error)[:_MAX_MESSAGE]}
    return {"code": "internal_error", "message": f"the node failed: {type(error).__name__}"}
