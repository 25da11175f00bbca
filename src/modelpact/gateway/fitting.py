"""Fitting: whether a prompt and the answer that it asks for have room in the model's window.

A fast estimate decides, and where it comes near the limit an exact count, if there can be one.
"""

import asyncio
from typing import Any, Final

import msgspec

from modelpact.conversation.response import Usage
from modelpact.gateway.bodies import USUAL_OUTPUT, estimated, prompt_tokens
from modelpact.gateway.counting import count_prompt
from modelpact.gateway.plan import HeaderPairs, Plan
from modelpact.needs.need import Needs, need
from modelpact.needs.sizes import measure

SIZE_HEADER: Final = "modelpact-prompt-tokens"
_ESTIMATED: Final = "estimated"
_BYTES_A_TOKEN: Final = 4
_FEWEST_BYTES_A_TOKEN: Final = 2
"""A prompt with fewer bytes than this for every token of room fits without a closer look."""
_NEAR: Final = 0.75
"""The part of the room from which on an estimate is too rough to decide."""


_NONE: Final = Needs()


class Expected(msgspec.Struct, frozen=True):
    """What a request is expected to use, and what its answer says of that."""

    usage: Usage
    told: HeaderPairs = ()
    too_long: Needs = _NONE
    """What the request needs that the model is too small for."""


def expected_at_once(plan: Plan, raw: bytes, body: dict[str, Any]) -> Expected | None:
    """Estimate what a request uses by its length; None where that is too rough to decide.

    Also say what it needs that the model is too small for.
    """
    if plan.how == "refuse":
        return Expected(Usage())
    window, asked = plan.window, _output(body)
    if asked is not None and plan.longest_output is not None and asked > plan.longest_output:
        return Expected(Usage(), too_long=_size("max-output", asked, "max_tokens"))
    room = None if window is None else window - (asked or 0)
    if room is None or len(raw) // _FEWEST_BYTES_A_TOKEN < room:
        output = min(plan.longest_output or USUAL_OUTPUT, USUAL_OUTPUT) if asked is None else asked
        return Expected(Usage(-(-len(raw) // _BYTES_A_TOKEN), output))
    return None


async def expected(plan: Plan, raw: bytes, body: dict[str, Any]) -> Expected:
    """Estimate what a request uses, with a closer look at a prompt that may not fit."""
    found = expected_at_once(plan, raw, body)
    if found is not None:
        return found
    assert plan.window is not None
    asked = _output(body) or 0
    room = plan.window - asked
    sizes = measure(body)
    tokens, how = prompt_tokens(sizes), _ESTIMATED
    if tokens > room * _NEAR:
        tokens, how = await prompt_size(body, plan.encoding)
    if tokens > room:
        needed = _size("context-window", tokens + asked, f"messages, {how}")
        return Expected(Usage(), too_long=needed)
    usage = msgspec.structs.replace(estimated(sizes, plan), input=tokens)
    return Expected(usage, ((SIZE_HEADER, f"{tokens} {how}"),))


async def prompt_size(body: dict[str, Any], encoding: str) -> tuple[int, str]:
    """Return the tokens of a prompt and how they were found: counted with a vocabulary, or not."""
    sizes = measure(body)
    counted = await asyncio.to_thread(count_prompt, body, encoding) if encoding else None
    if counted is None:
        return prompt_tokens(sizes), _ESTIMATED
    images = ", media estimated" if sizes.images else ""
    return counted, f"counted with {encoding}{images}"


def _size(capability: str, least: int, place: str) -> Needs:
    return Needs([need(capability, minimum=least, required_by=(f"request: {place}",))])


def _output(body: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        value = body.get(name)
        if type(value) is int and value > 0:
            return value
    return None
