"""A strict fake of Anthropic's API: messages, counted tokens and models.

async with FakeAnthropic(["Hello", Reply(calls=(Call("now"),)), Fail(529)]) as fake:
    adapter = AnthropicAdapter(fake.base_url)
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from modelpact.wire import HttpRequest, HttpResponse
from tests.fakes.anthropic_rules import MODELS, SIGNATURE, Model, blocks, check_model, prompt_tokens, tokens
from tests.fakes.anthropic_shapes import COUNT, MESSAGES, check, refusal
from tests.fakes.behaviours import Behaviour
from tests.fakes.replies import Call, Fail, Reply, Script
from tests.fakes.schema_examples import instance
from tests.fakes.server import JSON, FakeServer

_WORDS = {
    400: ("invalid_request_error", "The request is invalid."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


class FakeAnthropic(FakeServer):
    """The fake. Without a script it says back what the user said, or what a schema wants."""

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = "",
        piece: int = 7,
        models: Iterable[Model] = MODELS,
        behaviour: Behaviour | None = None,
        cache_from: int = 1_024,
    ) -> None:
        """`key`: the only key that is taken; `cache_from`: the fewest tokens that are cached."""
        super().__init__(script, key=key, piece=piece, behaviour=behaviour)
        self.models = {model.id: model for model in models}
        self._cache_from = cache_from
        self._cached: set[str] = set()

    async def answer(self, request: HttpRequest, body: Any, readable: bool) -> HttpResponse:
        """Answer a request."""
        self._check_key(request)
        path = request.path
        if request.method == "GET" and path.startswith("/v1/models"):
            return self._listed(path.removeprefix("/v1/models").strip("/"))
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            raise refusal("Not found", "not_found_error", 404)
        if request.method != "POST":
            raise refusal("Method Not Allowed", "invalid_request_error", 405)
        if not readable:
            raise refusal("The request body is not valid JSON: unexpected character")
        if not isinstance(body, dict):
            raise refusal("Input should be a valid dictionary")
        body = self.believed(body, self.models)
        counting = path.endswith("count_tokens")
        check(COUNT if counting else MESSAGES, body)
        model = self._model(body["model"])
        if counting:
            return self._sent({"input_tokens": prompt_tokens(body)})
        check_model(body, model)
        return self._message(body, await self.next_reply(body))

    def refuse(self, fail: Fail, param: str | None = None) -> HttpResponse:
        """Write an error as Anthropic does."""
        kind, message = _WORDS.get(fail.status, ("api_error", "Something failed."))
        identity = f"req_{self.number():024x}"
        error = {"type": fail.kind or kind, "message": fail.message or message}
        headers = {**JSON, "request-id": identity, **fail.headers}
        if fail.retry_after is not None:
            headers["retry-after"] = f"{fail.retry_after:g}"
        content = json.dumps({"type": "error", "error": error, "request_id": identity}).encode()
        return HttpResponse(fail.status, headers, content if fail.body is None else fail.body)

    def _check_key(self, request: HttpRequest) -> None:
        # The documentation says x-api-key; the SDK sends the key as a bearer since its 2.x.
        bearer = (request.headers.get("authorization") or "").removeprefix("Bearer ")
        key = request.headers.get("x-api-key") or bearer
        if self.key and not key:
            raise refusal("x-api-key header is required", "authentication_error", 401)
        if self.key and key != self.key:
            # The real one does not show the key; this one does, to see that nobody passes it on.
            raise refusal(f"invalid x-api-key {key}", "authentication_error", 401)
        if not request.headers.get("anthropic-version"):
            raise refusal("anthropic-version: header is required")

    def _model(self, name: str) -> Model:
        if name not in self.models:
            raise refusal(f"model: {name}", "not_found_error", 404)
        return self.models[name]

    def _sent(self, data: Any) -> HttpResponse:
        return HttpResponse(200, JSON, json.dumps(data).encode())

    def _listed(self, name: str) -> HttpResponse:
        rows = [
            {"type": "model", "id": model, "display_name": model, "created_at": "2026-01-01T00:00:00Z"}
            for model in self.models
        ]
        if name:
            self._model(name)
            return self._sent(next(row for row in rows if row["id"] == name))
        ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"], "has_more": False}
        return self._sent({"data": rows, **ends})

    def _message(self, body: dict[str, Any], reply: Reply) -> HttpResponse:
        content, reason, stopped = self._content(body, reply)
        made = tokens(json.dumps(content))
        limit = body["max_tokens"]
        last = content[-1] if content else {}
        if reply.text is not None and last.get("type") == "text" and made > limit:
            last["text"], made, reason, stopped = (last["text"][: limit * 4], limit, "max_tokens", None)
        usage = dict(reply.usage) if reply.usage is not None else self._usage(body, made)
        whole = {
            "id": f"msg_{self.number():024x}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reply.stop or reason,
            "stop_sequence": stopped,
            "usage": usage,
        }
        headers = {"request-id": f"req_{self.number():024x}"}
        if body.get("stream"):
            return self.streamed(reply, list(self._events(whole)), headers)
        return self.whole(reply, whole, headers)

    def _content(self, body: dict[str, Any], reply: Reply) -> tuple[list[dict[str, Any]], str, str | None]:
        """Return blocks, stop reason and stop sequence: those of the reply, or made up."""
        thinking = body.get("thinking", {"type": "disabled"})["type"] != "disabled"
        blocks_: list[dict[str, Any]] = []
        if reply.thinking or thinking:
            said = reply.thinking or "Let me think."
            signature = f"{SIGNATURE}{len(said)}"
            blocks_.append({"type": "thinking", "thinking": said, "signature": signature})
        choice = body.get("tool_choice", {"type": "auto"})
        calls = reply.calls
        if not calls and reply.text is None and choice["type"] in ("any", "tool"):
            calls = (_forced(body, choice),)
        if choice.get("disable_parallel_tool_use"):
            calls = calls[:1]
        text = reply.refusal or reply.text
        if text is None:
            text = "" if calls else _made_up(body)
        stopped = None
        for stop in body.get("stop_sequences", []):
            if stop in text:
                text, stopped = text.partition(stop)[0], stop
        if text:
            blocks_.append({"type": "text", "text": text})
        for call in calls:
            identity = call.id or f"toolu_{self.number():024x}"
            blocks_.append({"type": "tool_use", "id": identity, "name": call.name, "input": call.input})
        if reply.refusal:
            return blocks_, "refusal", None
        reason = "tool_use" if calls else "stop_sequence" if stopped else "end_turn"
        return blocks_, reason, stopped

    def _events(self, whole: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        def named(kind: str, **fields: Any) -> tuple[str, Any]:
            return kind, {"type": kind, **fields}

        begun = {**whole["usage"], "output_tokens": 1}
        start = {**whole, "content": [], "stop_reason": None, "stop_sequence": None, "usage": begun}
        yield named("message_start", message=start)
        for index, block in enumerate(whole["content"]):
            opened, deltas = self._pieces(block)
            yield named("content_block_start", index=index, content_block=opened)
            if index == 0:
                yield named("ping")
            for delta in deltas:
                yield named("content_block_delta", index=index, delta=delta)
            yield named("content_block_stop", index=index)
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]}
        used = {"output_tokens": whole["usage"].get("output_tokens", 0)}
        yield named("message_delta", delta=delta, usage=used)
        yield named("message_stop")

    def _pieces(self, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        def cut(text: str) -> list[str]:
            return [text[at : at + self.piece] for at in range(0, len(text), self.piece)]

        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": one} for one in cut(block["text"])]
            return {"type": "text", "text": ""}, deltas
        if block["type"] == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": o} for o in cut(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        pieces = ["", *cut(json.dumps(block["input"]))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]

    def _usage(self, body: dict[str, Any], made: int) -> dict[str, Any]:
        prompt = prompt_tokens(body)
        marked = [place for place, (_, one) in enumerate(blocks(body)) if one.get("cache_control")]
        read = written = 0
        if marked:
            prefix = json.dumps([body["model"], *list(blocks(body))[: marked[-1] + 1]])
            size = min(tokens(prefix), prompt)
            if size >= self._cache_from:
                read, written = (size, 0) if prefix in self._cached else (0, size)
                self._cached.add(prefix)
        return {
            "input_tokens": prompt - read - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": made,
            "service_tier": "standard",
        }


def _forced(body: dict[str, Any], choice: dict[str, Any]) -> Call:
    named = [tool for tool in body["tools"] if choice["type"] == "any" or tool["name"] == choice["name"]]
    return Call(named[0]["name"], instance(named[0]["input_schema"]))


def _made_up(body: dict[str, Any]) -> str:
    form = body.get("output_config", {}).get("format")
    if form is not None:
        return json.dumps(instance(form["schema"]))
    thinking = next((message for message in reversed(body["messages"]) if message["role"] == "user"), None)
    words: Any = thinking["content"] if thinking is not None else ""
    if isinstance(words, list):
        words = "".join(part.get("text", f"[{part['type']}]") for part in words)
    return f"You said: {words}"
