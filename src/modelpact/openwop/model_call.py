"""Prompts: a node's configuration made into a request, for the model that will really be called."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.request import JsonSchema, Request
from modelpact.dispatch.model_caller import CallFailed, ModelCaller, ModelResult
from modelpact.emulation.validation import Schema
from modelpact.ledger.costs import Attribution, CostRecord, embedded_cost, money_of
from modelpact.ledger.ledger import Ledger
from modelpact.openwop.clients import Allowance, RunClient
from modelpact.openwop.prompts import LONGEST_PROMPT, resolve_prompt
from modelpact.openwop.runs import Run, Runs
from modelpact.openwop.workflows import WorkflowNode
from modelpact.providers.contract import Invocation
from modelpact.providers.models.json_codec import write_request
from modelpact.vocabulary.errors import InputError, ModelpactError

LONGEST_OUTPUT: Final = 1_000_000
"""Characters that a node's output may have."""
STAND_IN: Final = "the model that stood in"


class Step(msgspec.Struct, frozen=True):
    """A node that is to be executed on a model that the gate let through."""

    run: Run
    node: WorkflowNode
    provider: str
    model: str
    values: Mapping[str, Any]
    """The run's inputs, and the outputs of the nodes before."""
    cause: str
    """The event that led to this."""
    client: RunClient
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


class PromptCaller:
    """The executor of nodes that have none of their own: calls a model with a prompt."""

    def __init__(self, ledger: Ledger, runs: Runs, models: ModelCaller) -> None:
        self._ledger = ledger
        self._runs = runs
        self._models = models

    async def __call__(self, step: Step) -> Any:
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
            await self._runs.append(
                step.run,
                "envelope.emitted",
                {**payload, **storable(value, allowance)},
                step.cause,
            )
        return value

    async def _call(self, step: Step, request: Request) -> ModelResult:
        """Call the model at the client's cost, and tell what was used."""
        run, client = step.run, step.client
        provider = self._models.provider(step.provider)
        estimate = money_of(provider.estimate(write_request(request))) or 0
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
        money = money_of(lines) or 0
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
        await self._runs.append(step.run, "provider.usage", payload, invocation.settled_by)
        return money

    async def _cost(self, invocation: Invocation) -> CostRecord | None:
        if invocation.settled_by is None:
            return None
        event = await asyncio.to_thread(self._ledger.event, invocation.settled_by)
        return None if event is None else embedded_cost(event)


def _failure(failed: CallFailed) -> str:
    """Tell how a model failed that is not to be named: by the class of its status."""
    if failed.status is None:
        return f"{STAND_IN} failed, or was not reached"
    return f"{STAND_IN} failed with a status of {failed.status // 100}xx"


def _json(called: ModelResult, wanted: JsonSchema) -> Any:
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


def storable(output: Any, allowance: Allowance) -> dict[str, Any]:
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
