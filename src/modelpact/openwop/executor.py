"""Executors of nodes. The default one calls a model with a prompt."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import JsonSchema, Request
from modelpact.dispatch.model_caller import CallFailed, ModelCaller, ModelResult
from modelpact.emulation.validation import Schema
from modelpact.ledger.costs import Attribution, CostRecord, money_of
from modelpact.ledger.event import embedded_cost
from modelpact.ledger.ledger import Ledger
from modelpact.openwop.clients import RunAllowance, RunClient
from modelpact.openwop.documents import envelope_schemas
from modelpact.openwop.runs import Run, Runs
from modelpact.openwop.workflows import WorkflowNode
from modelpact.providers.contract import Invocation
from modelpact.providers.models.json_codec import write_request
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName

MAX_PROMPT: Final = 4_000_000
"""Characters that the texts of a node's request may have once their values are filled in."""
MAX_OUTPUT: Final = 1_000_000
"""Characters that the output of a node may have."""
FALLBACK: Final = "the fallback model"
"""What messages call a fallback model that must not be named."""
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}")


class NodeStep(msgspec.Struct, frozen=True):
    """A node to execute, on the model that the gate decided on."""

    run: Run
    node: WorkflowNode
    provider: str
    model: str
    values: Mapping[str, Any]
    """The inputs of the run, and the outputs of earlier nodes."""
    cause: str
    """The event that led to this step."""
    client: RunClient
    """The client that pays."""
    allowance: RunAllowance
    """What the run may still do."""
    hidden: bool = False
    """Whether the model is a fallback that must not be named."""


Executor = Callable[[NodeStep], Awaitable[Any]]
"""Executes a node and returns its output."""


class NodeFailed(ModelpactError):
    """A node failed."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.code = code
        self.details = details
        super().__init__(message)


def storable(output: Any, allowance: RunAllowance) -> dict[str, Any]:
    """Return an output as the payload of an event, or raise if it is too long for its run."""
    name, text = ("output", output) if isinstance(output, str) else ("outputJson", msgspec.json.encode(output).decode())
    limit = min(MAX_OUTPUT, allowance.characters_left)
    if len(text) > limit:
        raise NodeFailed("output_too_large", f"the output has {len(text):,} characters; at most {limit:,} fit")
    allowance.characters_left -= len(text)
    return {name: text}


class PromptCaller:
    """The default executor of nodes: calls a model with a prompt."""

    def __init__(self, ledger: Ledger, runs: Runs, models: ModelCaller) -> None:
        self._ledger = ledger
        self._runs = runs
        self._models = models

    async def __call__(self, step: NodeStep) -> Any:
        """Resolve the prompt, call the model, and return its answer."""
        config, allowance = step.node.config, step.allowance
        try:
            limit = min(MAX_PROMPT, allowance.characters_left)
            request = _resolve_prompt(config, step.values, step.model, limit)
        except InputError as error:
            raise NodeFailed("prompt_not_resolved", str(error)) from None
        allowance.characters_left -= sum(len(message.text) for message in request.messages)
        result = await self._call(step, request)
        if not isinstance(request.output, JsonSchema):
            return result.response.text
        value = _read_json(result, request.output)
        if "envelope" in config:
            payload = {"nodeId": step.node.node_id, "kind": config["envelope"]}
            await self._runs.append(step.run, "envelope.emitted", {**payload, **storable(value, allowance)}, step.cause)
        return value

    async def _call(self, step: NodeStep, request: Request) -> ModelResult:
        """Call the model at the client's cost, and record what it used."""
        run, client = step.run, step.client
        provider = self._models.provider(step.provider)
        estimate = money_of(provider.estimate(write_request(request))) or 0
        attribution = Attribution(worker=run.tenant, role=step.node.node_id, intent=run.id, function=run.workflow)
        cost = estimate
        client.opened(estimate)
        try:
            result = await self._models.call(
                step.provider, request, envelope=f"invocations/{run.id}", cause=step.cause, attribution=attribution
            )
            cost = await self._record_usage(step, result.invocation)
        except CallFailed as failed:
            cost = await self._record_usage(step, failed.invocation)
            message = _hidden_failure(failed) if step.hidden else str(failed)
            raise NodeFailed("provider_failed", message) from None
        finally:
            client.settled(estimate, cost)
        return result

    async def _record_usage(self, step: NodeStep, invocation: Invocation) -> int:
        """Record what a call used of the model that was charged, and return its cost.

        A failed call without tokens is not recorded. If the provider did not count, the estimate is
        recorded and marked as one.
        """
        record = await self._cost_record(invocation)
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

    async def _cost_record(self, invocation: Invocation) -> CostRecord | None:
        if invocation.settled_by is None:
            return None
        event = await asyncio.to_thread(self._ledger.event, invocation.settled_by)
        return None if event is None else embedded_cost(event)


def _resolve_prompt(config: Mapping[str, Any], values: Mapping[str, Any], model: str, limit: int) -> Request:
    """Return the request of a node for the model that will be called.

    `{{name}}` in a prompt is replaced by an input of the run, or by the output of the node of that
    name. Raise if the texts exceed `limit` characters.
    """
    if not config.get("prompt"):
        raise InputError("config.prompt: expected the text of the prompt")
    prompt = _fill(config["prompt"], values, "prompt", limit)
    messages = [Message("user", (TextBlock(prompt),))]
    if config.get("system"):
        system = _fill(config["system"], values, "system", limit - len(prompt))
        messages.insert(0, Message("system", (TextBlock(system),)))
    return Request(
        model,
        tuple(messages),
        output=_output(config),
        max_tokens=config.get("maxTokens"),
        temperature=config.get("temperature"),
    )


def _output(config: Mapping[str, Any]) -> JsonSchema | None:
    if "envelope" in config:
        kind: str = config["envelope"]
        return JsonSchema(envelope_schemas()[kind], kind.replace(".", "_"), strict=True)
    return JsonSchema(config["schema"], strict=True) if "schema" in config else None


def _fill(text: str, values: Mapping[str, Any], where: str, limit: int) -> str:
    """Replace the placeholders of a text. The length is checked before the text is built."""
    texts: dict[str, str] = {}
    length = len(text)
    for match in _PLACEHOLDER.finditer(text):
        name = match[1]
        if name not in texts:
            if name not in values:
                raise UnknownName(f"name in config.{where}:", name, values)
            value = values[name]
            is_text = isinstance(value, str)
            texts[name] = value if is_text else msgspec.json.encode(value).decode()
        length += len(texts[name]) - len(match[0])
    if length > limit:
        raise InputError(
            f"config.{where}: has {length:,} characters with its values; {limit:,} are left of the "
            f"{MAX_PROMPT:,} that a node may have and of what its run may have"
        )
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], text)


def _hidden_failure(failed: CallFailed) -> str:
    """Describe the failure of a model that must not be named by the class of its status."""
    if failed.status is None:
        return f"{FALLBACK} failed, or was not reached"
    return f"{FALLBACK} failed with a status of {failed.status // 100}xx"


def _read_json(result: ModelResult, output: JsonSchema) -> Any:
    try:
        value = msgspec.json.decode(result.response.text)
        problems = Schema(output.schema, "config.schema").findings(value)
    except (msgspec.DecodeError, InputError) as error:
        raise NodeFailed("invalid_output", f"the answer is not JSON of the schema: {error}") from None
    if problems:
        message = f"the answer does not match the schema: {'; '.join(problems)}"
        raise NodeFailed("invalid_output", message)
    return value
