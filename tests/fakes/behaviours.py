"""Behaviours of the fakes: how a model responds to any request, instead of a script."""

import base64
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes.replies import Call, Reply, Step

Behaviour = Callable[[dict[str, Any]], Step]

_COLOURS = {(220, 20, 20): "red", (20, 160, 40): "green", (20, 40, 220): "blue", (250, 220, 20): "yellow"}
_READING = re.compile(r"station (\w+) reads (\d+)")


def obedient(body: dict[str, Any]) -> Step:
    """Answer as a good model does: it sees, obeys, calls tools, repeats, counts, remembers."""
    text = "\n".join(part["text"] for part in _parts(body, "user") if part["type"] == "text")
    if _forced(body) or body.get("response_format") or "format" in body.get("output_config", {}):
        return Reply()
    order = re.search(r"the single word (\w+)", _system(body))
    if order:
        return Reply(text=order[1])
    for part in _parts(body, "user"):
        if part["type"] in ("image", "image_url"):
            return Reply(text=_colour(part))
    if body.get("tools"):
        readings = [(name, int(degrees)) for name, degrees in _READING.findall(text)]
        return Reply(
            calls=tuple(Call("record_reading", {"station": name, "celsius": degrees}) for name, degrees in readings)
        )
    if "code word" in text:
        match = re.search(r"The code word is (\w+)", text)
        return Reply(text=match[1] if match else "I was not told.")
    repeated = re.search(r"exactly: (.*)", text)
    if repeated:
        return Reply(text=repeated[1])
    if text.startswith("Count"):
        return Reply(text=" ".join(str(number) for number in range(1, 31)))
    return Reply(text="ok")


def forgetful(tokens: int) -> Behaviour:
    """Answer as a server does that cuts long prompts at their start without a word."""

    def behaviour(body: dict[str, Any]) -> Step:
        kept = {**body, "messages": [dict(message) for message in body["messages"]]}
        last = kept["messages"][-1]
        if isinstance(last["content"], str):
            last["content"] = last["content"][-4 * tokens :]
        return obedient(kept)

    return behaviour


def _parts(body: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    for message in body["messages"]:
        if message["role"] == role:
            content = message["content"]
            yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _system(body: dict[str, Any]) -> str:
    system = body.get("system", "")
    return str(system) + "".join(part.get("text", "") for part in _parts(body, "system"))


def _forced(body: dict[str, Any]) -> bool:
    choice = body.get("tool_choice", "auto")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    return kind in ("required", "any", "tool", "function")


def _colour(part: dict[str, Any]) -> str:
    """Look at the first dot of a PNG whose lines are not filtered."""
    source = part.get("source") or {"data": part["image_url"]["url"].partition("base64,")[2]}
    content = base64.b64decode(source["data"])
    start = content.index(b"IDAT") + 4
    size = int.from_bytes(content[start - 8 : start - 4])
    dots = zlib.decompress(content[start : start + size])
    return _COLOURS[dots[1], dots[2], dots[3]]
