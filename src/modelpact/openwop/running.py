"""Running: each node through the gate, then to the model that the gate decided on."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.request import JsonSchema, Request
from modelpact.dispatch.gate import CapabilityNotProvided, Gate, GateEvent
from modelpact.dispatch.models import Called, CallFailed, Models
from modelpact.emulation.validation import Schema
from modelpact.ledger.costs import Attribution, CostLine, CostRecord, embedded_cost
from modelpact.ledger.event import Event
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.store import LedgerError
from modelpact.needs.modules import NodeModule
from modelpact.openwop.clients import Allowance, Client, ClientRefused, FindClient
from modelpact.openwop.prompts import LONGEST_PROMPT, resolve_prompt
from modelpact.openwop.runs import NotOurs, Run, Runs
from modelpact.openwop.workflows import Library, Node, Target
from modelpact.providers.adapters.values import write_request
from modelpact.providers.contract import Invocation
from modelpact.vocabulary.errors import InputError, ModelpactError

LONGEST_OUTPUT: Final = 1_000_000
"""Characters that a node's output may have."""
_LONGEST_MESSAGE: Final = 2_000


class Step(msgspec.Struct, frozen=True):
    """A node that is to be executed on a model that the gate let through."""

    run: Run
    node: Node
    provider: str
    model: str
    values: Mapping[str, Any]
    """The run's inputs, and the outputs of the nodes before."""
    cause: str
    """The event that led to this."""
    client: Client
    """Who pays."""
    allowance: Allowance
    """What the run may still do."""
    hidden: bool = False
    """Whether the model stands in for another and is not to be named."""


Executor = Callable[[Step], Awaitable[Any]]


class NodeFailed(ModelpactError):
    """A node that did not do its work."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.code = code
        self.details = details
        super().__init__(message)


class Runner:
    """Executes runs. Every step is on the record before the next one is taken."""

    def __init__(
        self,
        ledger: Ledger,
        library: Library,
        gate: Gate,
        models: Models,
        executors: Mapping[str, Executor] | None = None,
    ) -> None:
        self.runs = Runs(ledger)
        self._ledger = ledger
        self._library = library
        self._gate = gate
        self._models = models
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
                done = {"nodeId": node.node_id, **_storable(output, allowance)}
            except NotOurs:
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
        with contextlib.suppress(NotOurs):
            cause = None
            if begun is not None:
                failed = {"nodeId": begun.payload["nodeId"], **ended}
                cause = (await self.runs.append(run, "node.failed", failed, begun.id)).id
            await self.runs.append(run, "run.failed", ended, cause, status="failed", error=error)

    async def _failed(self, run: Run, node: Node, error: Exception, cause: str) -> None:
        told = _told(error)
        brief = {"code": told["code"], "message": told["message"]}
        payload = {"nodeId": node.node_id, "error": brief}
        event = await self.runs.append(run, "node.failed", payload, cause)
        ended = {"error": brief}
        await self.runs.append(run, "run.failed", ended, event.id, status="failed", error=told)

    async def _node(
        self, run: Run, node: Node, values: Mapping[str, Any], cause: str, allowance: Allowance
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
        node: Node,
        module: NodeModule,
        active: Target,
        values: Mapping[str, Any],
        cause: str,
        allowance: Allowance,
    ) -> Any:
        last = cause

        async def tell(event: GateEvent) -> None:
            nonlocal last
            last = (await self.runs.append(run, event.type, event.payload, cause)).id

        async def call(provider: str, model: str) -> Any:
            hidden = self._gate.redact and Target(provider, model) != active
            target = f"{provider}/{model}"
            client = await allowance.before_call(target, _STAND_IN if hidden else target)
            step = Step(run, node, provider, model, values, last, client, allowance, hidden)
            executor = self._executors.get(node.type_id, self._call_prompt)
            try:
                return await executor(step)
            except (NodeFailed, ClientRefused, LedgerError, NotOurs):
                raise
            except ModelpactError as error:
                if hidden:  # its words may name the model; the record of the call has them
                    raise NodeFailed("node_failed", f"{_STAND_IN} failed") from error
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

    async def _call_prompt(self, step: Step) -> Any:
        """Resolve the prompt for this model, call it, and return its answer."""
        config, allowance = step.node.config, step.allowance
        try:
            most = min(LONGEST_PROMPT, allowance.room)
            request = resolve_prompt(config, step.values, step.model, most)
        except InputError as error:
            raise NodeFailed("prompt_not_resolved", str(error)) from None
        allowance.room -= sum(len(one.text) for one in request.messages)
        called = await self._call(step, request)
        if not isinstance(request.output, JsonSchema):
            return called.response.text
        value = _json(called, request.output)
        if "envelope" in config:
            payload = {"nodeId": step.node.node_id, "kind": config["envelope"]}
            await self.runs.append(
                step.run,
                "envelope.emitted",
                {**payload, **_storable(value, allowance)},
                step.cause,
            )
        return value

    async def _call(self, step: Step, request: Request) -> Called:
        """Call the model at the client's cost, and tell what was used."""
        run, client = step.run, step.client
        provider = self._models.provider(step.provider)
        estimate = _money(provider.estimate(write_request(request)))
        who = Attribution(
            worker=run.tenant, role=step.node.node_id, intent=run.id, function=run.workflow
        )
        spent = estimate
        client.opened(estimate)
        try:
            called = await self._models.call(
                step.provider,
                request,
                envelope=f"invocations/{run.id}",
                cause=step.cause,
                attribution=who,
            )
            spent = await self._usage(step, called.invocation)
        except CallFailed as failed:
            spent = await self._usage(step, failed.invocation)
            told = _failure(failed) if step.hidden else str(failed)
            raise NodeFailed("provider_failed", told) from None
        finally:
            client.settled(estimate, spent)
        return called

    async def _usage(self, step: Step, invocation: Invocation) -> int:
        """Tell what a call used, of the model that was charged; return its cost.

        A call that took no tokens is not told of. Where the provider did not count, the estimate is
        told, and that it is one.
        """
        record = await self._cost(invocation)
        lines = () if record is None else record.lines
        tokens = {line.unit: line.amount for line in lines if line.unit.startswith("tokens.")}
        money = _money(lines)
        if not tokens and invocation.state != "completed":
            return money
        payload: dict[str, Any] = {
            "nodeId": step.node.node_id,
            "provider": step.provider,
            "model": step.model,
            "inputTokens": tokens.get("tokens.input", 0),
            "outputTokens": tokens.get("tokens.output", 0),
            "invocationId": invocation.id,
        }
        if record is None or record.estimate:
            payload["estimated"] = True
        for line in lines:
            if line.unit == "currency":
                payload["cost"] = {"currency": line.currency, "nanoUnits": line.amount}
        await self.runs.append(step.run, "provider.usage", payload, invocation.settled_by)
        return money

    async def _cost(self, invocation: Invocation) -> CostRecord | None:
        if invocation.settled_by is None:
            return None
        event = await asyncio.to_thread(self._ledger.event, invocation.settled_by)
        return None if event is None else embedded_cost(event)


_STAND_IN: Final = "the model that stood in"


def _failure(failed: CallFailed) -> str:
    """Tell how a model failed that is not to be named: by the class of its status."""
    if failed.status is None:
        return f"{_STAND_IN} failed, or was not reached"
    return f"{_STAND_IN} failed with a status of {failed.status // 100}xx"


def _money(lines: tuple[CostLine, ...]) -> int:
    return sum(line.amount for line in lines if line.unit == "currency")


def _json(called: Called, wanted: JsonSchema) -> Any:
    try:
        value = msgspec.json.decode(called.response.text)
        wrong = Schema(wanted.schema, "config.schema").findings(value)
    except (msgspec.DecodeError, InputError) as error:
        raise NodeFailed(
            "invalid_output", f"the answer is not JSON of the schema: {error}"
        ) from None
    if wrong:
        raise NodeFailed("invalid_output", f"the answer is not of the schema: {'; '.join(wrong)}")
    return value


def _storable(output: Any, allowance: Allowance) -> dict[str, Any]:
    """Return an output as events have it, if it is not too long, alone or with those before."""
    name, text = (
        ("output", output)
        if isinstance(output, str)
        else ("outputJson", msgspec.json.encode(output).decode())
    )
    most = min(LONGEST_OUTPUT, allowance.room)
    if len(text) > most:
        raise NodeFailed(
            "output_too_large", f"the output has {len(text):,} characters; {most:,} are the most"
        )
    allowance.room -= len(text)
    return {name: text}


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
