"""A strict fake of OpenAI's API: chat completions, responses, embeddings and models.

async with FakeOpenAI(["Hello", Reply(calls=(Call("now"),)), Fail(429)]) as fake:
    adapter = OpenAIChatAdapter(fake.base_url)
"""

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from modelpact.wire import HttpRequest, HttpResponse
from tests.fakes.behaviours import Behaviour
from tests.fakes.openai_defaults import CREATED, arguments, content, vector_of
from tests.fakes.openai_responses import Responses
from tests.fakes.openai_rules import MODELS, REASONED, Model, check_model, prompt_tokens, tokens
from tests.fakes.openai_shapes import CHAT, EMBEDDINGS, check, refusal
from tests.fakes.replies import Fail, Reply, Script
from tests.fakes.server import JSON, FakeServer

_WORDS = {
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", None, "The engine is currently overloaded, please try again later."),
}


class FakeOpenAI(FakeServer):
    """The fake. Without a script it says back what the user said, or what a schema wants."""

    prefix = "/v1"

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = "",
        piece: int = 7,
        models: Iterable[Model] = MODELS,
        behaviour: Behaviour | None = None,
    ) -> None:
        """`key`: the only key that is taken; without one, any is."""
        super().__init__(script, key=key, piece=piece, behaviour=behaviour)
        self.models = {model.id: model for model in models}
        self._prompts: list[str] = []
        self._responses = Responses(self)

    async def answer(self, request: HttpRequest, body: Any, readable: bool) -> HttpResponse:
        """Answer a request."""
        path = request.path.removeprefix("/v1")
        self._check_key(request)
        if request.method == "GET" and path.startswith("/models"):
            return self._listed(path)
        if path not in ("/chat/completions", "/responses", "/embeddings"):
            raise refusal(f"Invalid URL ({request.method} {request.path})", status=404)
        if request.method != "POST":
            message = f"Not allowed to {request.method} on {request.path}."
            raise refusal(message, None, "method_not_supported", 405)
        if not readable or not isinstance(body, dict):
            raise refusal(
                "We could not parse the JSON body of your request. (HINT: This likely means you "
                "aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, "
                "but what was sent was not valid JSON.)"
            )
        body = self.believed(body, self.models)
        if path == "/responses":
            return await self._responses.answer(body)
        check(CHAT if path == "/chat/completions" else EMBEDDINGS, body)
        model = self.model(body["model"])
        if path == "/embeddings":
            return self._embedded(body, model)
        check_model(body, model)
        return self._completed(body, model, await self.next_reply(body))

    def refuse(self, fail: Fail, param: str | None = None) -> HttpResponse:
        """Write an error as OpenAI does."""
        kind, code, message = _WORDS.get(fail.status, ("server_error", None, "Something failed."))
        error = {
            "message": fail.message or message,
            "type": fail.kind or kind,
            "param": param,
            "code": fail.code if fail.message or fail.code else code,
        }
        headers = {**JSON, "x-request-id": f"req_{self.number():032x}", **fail.headers}
        if fail.retry_after is not None:
            headers["retry-after"] = f"{fail.retry_after:g}"
            headers["retry-after-ms"] = f"{fail.retry_after * 1000:.0f}"
        content = json.dumps({"error": error}, indent=2).encode()
        return HttpResponse(fail.status, headers, content if fail.body is None else fail.body)

    def _check_key(self, request: HttpRequest) -> None:
        key = (request.headers.get("authorization") or "").removeprefix("Bearer ").strip()
        if not key and self.key:
            raise refusal(
                "You didn't provide an API key. You need to provide your API key in an "
                "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
                status=401,
            )
        if self.key and key != self.key:
            # The real one shows a part of the key; this one all, to see that nobody passes it on.
            raise refusal(
                f"Incorrect API key provided: {key}. You can find your API key at "
                "https://platform.openai.com/account/api-keys.",
                None,
                "invalid_api_key",
                401,
            )

    def model(self, name: str) -> Model:
        """Return the model of that name."""
        model = self.models.get(name)
        if model is None:
            raise refusal(
                f"The model `{name}` does not exist or you do not have access to it.", None, "model_not_found", 404
            )
        return model

    def _listed(self, path: str) -> HttpResponse:
        rows = [{"id": model, "object": "model", "created": CREATED, "owned_by": "fake"} for model in self.models]
        if path == "/models":
            return HttpResponse(200, JSON, json.dumps({"object": "list", "data": rows}).encode())
        self.model(path.removeprefix("/models/"))
        row = next(row for row in rows if row["id"] == path.removeprefix("/models/"))
        return HttpResponse(200, JSON, json.dumps(row).encode())

    # Chat completions.

    def _completed(self, body: dict[str, Any], model: Model, reply: Reply) -> HttpResponse:
        text, calls, refused, finish = content(body, reply)
        made = tokens(text + refused + "".join(arguments(call) for call in calls))
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        if limit is not None and made > limit and not calls:
            text, made, finish = text[: limit * 4], limit, "length"
        ids = [call.id or f"call_{self.number():024x}" for call in calls]
        usage = reply.usage or self._usage(body, model, made)
        head = {
            "id": f"chatcmpl-{self.number():029x}",
            "created": CREATED,
            "model": body["model"],
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
        }
        headers = {"x-request-id": f"req_{self.number():032x}", "openai-version": "2020-10-01"}
        written = [
            {"id": ids[place], "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}
            for place, call in enumerate(calls)
        ]
        finish = reply.stop or finish
        if body.get("stream"):
            chunks = self._chunks(body, head, reply, text, refused, written, finish, usage)
            return self.streamed(reply, list(chunks), headers)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if (calls or refused) and not text else text,
            "refusal": refused or None,
            "annotations": [],
        }
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if written:
            message["tool_calls"] = written
        token = {"token": text, "logprob": -0.25, "bytes": None, "top_logprobs": []}
        odds = {"content": [token], "refusal": None} if body.get("logprobs") else None
        choices = [
            {"index": place, "message": message, "logprobs": odds, "finish_reason": finish}
            for place in range(body.get("n") or 1)
        ]
        whole = {**head, "object": "chat.completion", "choices": choices, "usage": usage}
        return self.whole(reply, whole, headers)

    def _chunks(
        self,
        body: dict[str, Any],
        head: dict[str, Any],
        reply: Reply,
        text: str,
        refused: str,
        calls: list[dict[str, Any]],
        finish: str,
        usage: Any,
    ) -> Iterator[tuple[str, Any]]:
        counted = (body.get("stream_options") or {}).get("include_usage")
        null = {"usage": None} if counted else {}

        def chunk(delta: dict[str, Any], reason: str | None = None) -> tuple[str, Any]:
            one = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            made = {**head, "object": "chat.completion.chunk", "choices": [one], **null}
            return "", {**made, "obfuscation": "x" * (self.number() % 9)}

        yield chunk({"role": "assistant", "content": None if calls else "", "refusal": None})
        for field, token in (("reasoning_content", reply.thinking), ("content", text), ("refusal", refused)):
            for at in range(0, len(token), self.piece):
                yield chunk({field: token[at : at + self.piece]})
        for index, call in enumerate(calls):
            given = call["function"]["arguments"]
            function = {**call["function"], "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, **call, "function": function}]})
            for at in range(0, len(given), self.piece):
                piece = {"arguments": given[at : at + self.piece]}
                yield chunk({"tool_calls": [{"index": index, "function": piece}]})
        yield chunk({}, finish)
        if counted:
            yield "", {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
        yield "", "[DONE]"

    def cached(self, prompt: str, prompt_size: int) -> int:
        """Count the tokens of a prompt that an earlier one began with."""
        cached = 0
        for before in self._prompts:
            same = next(
                (at for at, (a, b) in enumerate(zip(before, prompt, strict=False)) if a != b),
                min(len(before), len(prompt)),
            )
            cached = max(cached, tokens(prompt[:same]) // 128 * 128)
        self._prompts.append(prompt)
        return min(cached, prompt_size) if cached >= 1_024 else 0

    def _usage(self, body: dict[str, Any], model: Model, made: int) -> dict[str, Any]:
        prompt = json.dumps([body["model"], body.get("tools"), body["messages"]])
        prompt_size = prompt_tokens(body)
        reasoned = REASONED if model.reasoning else 0
        return {
            "prompt_tokens": prompt_size,
            "completion_tokens": made + reasoned,
            "total_tokens": prompt_size + made + reasoned,
            "prompt_tokens_details": {"cached_tokens": self.cached(prompt, prompt_size), "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": reasoned,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }

    # Embeddings.

    def _embedded(self, body: dict[str, Any], model: Model) -> HttpResponse:
        if not model.dimensions:
            raise refusal("You are not allowed to generate embeddings from this model", status=403)
        dimensions = body.get("dimensions", model.dimensions)
        if dimensions > model.dimensions:
            raise refusal(
                f"Invalid value for 'dimensions' = {dimensions}. Must be less than or equal to {model.dimensions}.",
                "dimensions",
            )
        given = body["input"]
        many = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
        rows = []
        for place, item in enumerate(many):
            vector = vector_of(json.dumps(item), dimensions)
            embedding: Any = vector
            if body.get("encoding_format") == "base64":
                embedding = base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode()
            rows.append({"object": "embedding", "index": place, "embedding": embedding})
        used = sum(tokens(item) if isinstance(item, str) else len(item) for item in many)
        usage = {"prompt_tokens": used, "total_tokens": used}
        answer = {"object": "list", "data": rows, "model": body["model"], "usage": usage}
        return HttpResponse(200, JSON, json.dumps(answer).encode())
