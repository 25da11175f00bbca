"""The OpenAPI document of the gateway, with that of the OpenWOP host beside it."""

from typing import Any, Final

from modelpact._version import __version__
from modelpact.openwop.openapi import openapi as host_openapi
from modelpact.vocabulary.capability import CAPABILITIES

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_COUNT: Final = {"type": "integer", "minimum": 1}
_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array", "items": _OBJECT}
_REFUSED: Final = (400, 401, 403, 404, 413, 422, 429)
_UPSTREAM: Final = (502, 503, 504)
_HEADERS: Final = {
    "verdict": "yes, labelled or no",
    "requested-model": "the model that was asked for",
    "served-model": "the model that answered",
    "invocation": "the record of this request",
    "emulated": "capabilities that were made up for, and how",
    "carried": "from which API to which, where they differ",
    "substituted": "the declared fallback that answered, and why",
    "dropped": "parameters that were left out",
    "renamed": "parameters that were renamed",
    "added": "parameters that were added: what the provider's API requires, and usage in streams",
    "lossy": "what the provider's API could not be told",
    "warnings": "what is not known to work",
    "prompt-tokens": "the prompt's size near the model's limit: counted or estimated",
    "cost-usd": "what it cost",
}


def openapi(*, conformance: bool) -> dict[str, Any]:
    """Return the document of everything that is served on one address."""
    document = host_openapi(conformance=conformance)
    document["info"] = {"title": "modelpact", "version": __version__}
    document["security"] = [{"bearer": []}, {"key": []}]
    document["paths"] = {**document["paths"], **_paths()}
    components = document["components"]
    components["securitySchemes"]["key"] = {"type": "apiKey", "in": "header", "name": "x-api-key"}
    components["schemas"] |= _schemas()
    return document


def _paths() -> dict[str, Any]:
    return {
        "/v1/chat/completions": {"post": _chat("OpenAI's chat completions", "ChatRequest")},
        "/v1/responses": {"post": _chat("OpenAI's responses", "ResponsesRequest")},
        "/v1/messages": {"post": _chat("Anthropic's messages", "MessagesRequest")},
        "/v1/messages/count_tokens": {
            "post": {
                "summary": "How many tokens a prompt has, estimated or counted; nothing is sent",
                "parameters": list(_POLICY),
                "requestBody": _body(_ref("MessagesRequest")),
                "responses": {"200": _counted(), **_errors(*_REFUSED)},
            }
        },
        "/v1/embeddings": {"post": _chat("OpenAI's embeddings", "EmbeddingsRequest")},
        "/v1/negotiate": {
            "post": {
                "summary": "What would be done with a request; nothing is sent",
                "parameters": [_query("api", {"enum": _APIS}), *_POLICY],
                "requestBody": _body({"anyOf": [_ref(name) for name in _REQUESTS]}),
                "responses": {"200": _answer("The plan", _ref("Plan")), **_errors(*_REFUSED)},
            }
        },
        "/v1/models": {
            "get": {
                "summary": "The models that can be asked for, those that meet needs",
                "parameters": [_query("need", _TEXT)],
                "responses": {
                    "200": _answer("The models", _ref("Models")),
                    **_errors(400, 401, 503),
                },
            }
        },
        "/v1/models/{model}": {
            "parameters": [{"name": "model", "in": "path", "required": True, "schema": _TEXT}],
            "get": {
                "summary": "One model, and what it can do",
                "responses": {"200": _answer("It", _ref("Model")), **_errors(400, 401, 404)},
            },
        },
        "/v1/capabilities": {
            "get": {
                "summary": "The words for what models can do, or what one model can do",
                "parameters": [_query("model", _TEXT)],
                "responses": {
                    "200": _answer(
                        "The words, or the model",
                        {"anyOf": [_ref("Capabilities"), _ref("Model")]},
                    ),
                    **_errors(400, 401, 404),
                },
            }
        },
        "/metrics": {
            "get": {
                "summary": "Counts since the start, for Prometheus",
                "responses": {
                    "200": {
                        "description": "Prometheus' text format",
                        "content": {"text/plain": {"schema": _TEXT}},
                    },
                    **_errors(401),
                },
            }
        },
        "/openapi.json": {
            "get": {
                "summary": "This document",
                "responses": {"200": _answer("An OpenAPI document", _OBJECT), **_errors(401)},
            }
        },
        "/healthz": _open("Whether the process answers"),
        "/readyz": _open("Whether it takes requests: its store works and it is not stopping", 503),
    }


_APIS: Final = ["openai-chat", "openai-responses", "anthropic", "embeddings"]
_REQUESTS: Final = ("ChatRequest", "ResponsesRequest", "MessagesRequest", "EmbeddingsRequest")
_POLICY: Final = [
    {"name": name, "in": "header", "schema": _TEXT, "description": said}
    for name, said in (
        ("modelpact-policy", "stricter policy, such as emulate=off, unknown=refuse"),
        ("modelpact-workload", "the declared workload that this is for"),
    )
]


def _chat(summary: str, name: str) -> dict[str, Any]:
    headers = {
        f"modelpact-{key}": {"schema": _TEXT, "description": said} for key, said in _HEADERS.items()
    }
    answer = {
        "description": "The model's answer, as its API has it",
        "headers": headers,
        "content": {
            "application/json": {"schema": _OBJECT},
            "text/event-stream": {},
        },
    }
    return {
        "summary": summary,
        "parameters": list(_POLICY),
        "requestBody": _body(_ref(name)),
        "responses": {"200": answer, **_errors(*_REFUSED, *_UPSTREAM)},
    }


def _counted() -> dict[str, Any]:
    found = {
        "type": "object",
        "required": ["input_tokens"],
        "properties": {"input_tokens": _COUNT},
    }
    how = {"schema": _TEXT, "description": "the same, and how it was found"}
    return {**_answer("The tokens", found), "headers": {"modelpact-prompt-tokens": how}}


def _open(summary: str, *errors: int) -> dict[str, Any]:
    status = _answer("It is", {"type": "object", "required": ["status"]})
    responses = {"200": status, **_errors(*errors)}
    return {"get": {"summary": summary, "security": [], "responses": responses}}


def _schemas() -> dict[str, Any]:
    model, sampled = {**_TEXT, "minLength": 1}, {"type": "number"}
    shared = {"model": model, "stream": _FLAG, "temperature": sampled, "top_p": sampled}
    messages = {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "required": ["role"], "properties": {"role": _TEXT}},
    }
    text_or_list = {"anyOf": [_TEXT, {"type": "array"}]}
    error = {
        "type": "object",
        "required": ["message", "type"],
        "properties": {"message": _TEXT, "type": _TEXT},
    }
    return {
        "ChatRequest": _request(
            {**shared, "messages": messages, "tools": _LIST, "max_tokens": _COUNT}, "messages"
        ),
        "MessagesRequest": _request(
            {**shared, "messages": messages, "tools": _LIST, "max_tokens": _COUNT}, "messages"
        ),
        "ResponsesRequest": _request(
            {**shared, "input": text_or_list, "tools": _LIST, "max_output_tokens": _COUNT}, "input"
        ),
        "EmbeddingsRequest": _request({"model": model, "input": text_or_list}, "input"),
        "Plan": {
            "type": "object",
            "required": ["verdict", "plan", "requestedModel"],
            "properties": {
                "verdict": {"enum": ["yes", "labelled", "no"]},
                "plan": {"enum": ["forward", "carry", "refuse"]},
                "requestedModel": _TEXT,
                "servedModel": {"type": ["string", "null"]},
                "diagnostic": _OBJECT,
            },
        },
        "Model": {
            "type": "object",
            "required": ["id", "modelpact"],
            "properties": {"id": _TEXT, "modelpact": _OBJECT},
        },
        "Models": _listed(_ref("Model")),
        "Capabilities": _listed(
            {
                "type": "object",
                "required": ["id", "meaning"],
                "properties": {"id": {"enum": list(CAPABILITIES)}, "meaning": _TEXT},
            }
        ),
        "Refusal": {"type": "object", "required": ["error"], "properties": {"error": error}},
    }


def _request(properties: dict[str, Any], required: str) -> dict[str, Any]:
    """Return the schema of a body: what the gateway looks at; the rest is the provider's."""
    return {"type": "object", "required": ["model", required], "properties": properties}


def _listed(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["data"],
        "properties": {"data": {"type": "array", "items": item}},
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema}


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(one): _answer("Why not", _ref("Refusal")) for one in statuses}
