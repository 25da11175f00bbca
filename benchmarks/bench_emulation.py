"""Emulation: preparing long conversations, finding JSON in long answers, scanning for stops."""

import json
import time
from collections.abc import Callable
from typing import Any

import json_repair

from modelpact.conversation.message import Conversation, Message, TextBlock, write_conversation
from modelpact.conversation.request import JsonSchema, Reasoning, Request, Tool
from modelpact.emulation.emulator import Emulator, emulator_strategies
from modelpact.emulation.json_text import find_json
from modelpact.emulation.strategies import EmulationEngine
from modelpact.emulation.streaming import StopScanner
from modelpact.emulation.validation import Schema
from rows import Row, emit
from timing import per_call, per_round, settle

ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "tags": {"type": "array"}},
    "required": ["id", "name", "tags"],
}
SCHEMA = {"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}}
LINE = "The quick brown fox jumps over the lazy dog, and then it rests.\n"
STOPS = ("\nObservation:", "</answer>")
CHUNKS = (16, 256, 4096)
ROUNDS = 15
ROOM = 1.25
"""How much a character may cost in a text ten times as long, to call that linear."""


def messages(count: int) -> list[Message]:
    roles = ("user", "assistant")
    return [Message(roles[n % 2], (TextBlock(LINE * 8),)) for n in range(count)]


def answer(size: int) -> str:
    """Return JSON of about that many characters."""
    item = {"id": 7, "name": 'a name with "quotes" and {brackets}', "tags": ["x", "y", None, 1.5]}
    each = len(json.dumps(item)) + 2
    return json.dumps({"items": [item] * (size // each)})


def texts() -> dict[str, str]:
    body = answer(100_000)
    return {
        "alone": body,
        "in prose": f"Certainly! Here is what you asked for:\n\n{body}\n\nAnything else?",
        "in a fence": f"Here you are:\n```json\n{body}\n```\nAnything else?",
        "after 50 KB of prose with brackets": LINE.replace("fox", "[fox] {n}") * 700 + body,
    }


def scan(text: str, size: int) -> None:
    scanner = StopScanner(STOPS)
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])
    scanner.finish()


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """Return a round of one call: these take milliseconds."""

    def one_round() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return one_round


def main() -> None:
    hundred = messages(100)
    engine = EmulationEngine.with_defaults()
    wanted = ["extended_thinking", "structured_output_json_schema", "code_execution"]
    request = Request(
        "m",
        tuple(hundred),
        tools=tuple(Tool(f"tool_{n}", ITEM) for n in range(5)),
        output=JsonSchema(SCHEMA),
        reasoning=Reasoning("low"),
        stop=STOPS,
        stream=True,
    )
    emulator, every = Emulator(), list(emulator_strategies().labels)
    schema = Schema(SCHEMA, "schema")
    long, short = LINE * 16_000, LINE * 1_600
    quick: dict[str, Any] = {
        "apply": lambda: engine.apply(wanted, Conversation(list(hundred))),
        "prepare": lambda: emulator.prepare(request, every),
        "send": lambda: json.dumps(write_conversation(Conversation(hundred))),
    }
    work: dict[str, Any] = {
        "find": lambda: [long.find(stop) for stop in STOPS],
        "iterate": lambda: [long[start : start + 16] for start in range(0, len(long), 16)],
    }
    for name, text in texts().items():
        work[f"ours {name}"] = lambda text=text: find_json(text, schema.accepts)
        work[f"repair {name}"] = lambda text=text: json_repair.loads(text)
        assert find_json(text, schema.accepts).value == json.loads(answer(100_000))
    for size in CHUNKS:
        work[f"scan {size}"] = lambda size=size: scan(long, size)
        work[f"short {size}"] = lambda size=size: scan(short, size)
    settle()
    found = per_call(quick, ROUNDS)
    found |= per_round({name: timed(call) for name, call in work.items()}, ROUNDS)
    rows = [
        Row("the default strategies, 100 messages", found["apply"], found["send"], "json.dumps of them"),
        Row("the whole set, 100 messages", found["prepare"], found["send"], "json.dumps of them"),
    ]
    rows += [
        Row(
            f"100 KB of JSON {name}, found and validated",
            found[f"ours {name}"],
            found[f"repair {name}"],
            "json-repair, not validated",
        )
        for name in texts()
    ]
    for size in CHUNKS:
        each = found[f"scan {size}"]
        rows.append(Row(f"two stops, 1 MB in pieces of {size}", each, found["find"], "str.find", kind="at most"))
    for size in CHUNKS:
        each = found[f"scan {size}"] / len(long)
        peer = found[f"short {size}"] / len(short)
        what = f"a character of 1 MB in pieces of {size}"
        rows.append(Row(what, each, peer, "a character of 100 KB", "s", "at most", ROOM))
    emit(
        *rows,
        note=(
            f"Least of {ROUNDS} interleaved rounds. Stops are looked for in prose in which one "
            "often begins and never comes. `str.find` looks for both in the whole; "
            f"cutting the megabyte into pieces of 16 alone takes {found['iterate'] * 1e3:.1f} ms."
        ),
    )


if __name__ == "__main__":
    main()
