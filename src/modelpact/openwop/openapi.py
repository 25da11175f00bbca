"""The OpenAPI document of the host's surface."""

from typing import Any, Final

from modelpact._version import __version__
from modelpact.openwop.builtin import read_schema
from modelpact.openwop.workflows import MOST_NODES, MOST_RETRIES

_TEXT: Final = {"type": "string"}
_OBJECT: Final = {"type": "object"}


def openapi(*, conformance: bool) -> dict[str, Any]:
    """Return the document; the conformance seams stand in it where they are on."""
    paths: dict[str, Any] = {
        "/.well-known/openwop": {
            "get": {
                "summary": "What this host is and can do",
                "security": [],
                "responses": {"200": _answer("The discovery document", _ref("Discovery"))},
            }
        },
        "/openapi.json": {
            "get": {
                "summary": "This document",
                "responses": {"200": _answer("An OpenAPI document", _OBJECT), **_errors(401)},
            }
        },
        "/v1/runs": {
            "post": {
                "summary": "Start a run of a named workflow, or of the nodes given",
                "requestBody": _body(_ref("RunRequest")),
                "responses": {
                    "201": _answer("The run was kept and begins", _ref("RunStarted")),
                    **_errors(400, 401, 403, 404, 413, 429, 503),
                },
            }
        },
        "/v1/runs/{runId}": {
            "parameters": [_RUN_ID],
            "get": {
                "summary": "How a run stands",
                "responses": {
                    "200": _answer("The run", _ref("Run")),
                    **_errors(400, 401, 404, 503),
                },
            },
        },
        "/v1/runs/{runId}/events": {
            "parameters": [_RUN_ID],
            "get": {
                "summary": "A run's events, as JSON or as a stream",
                "parameters": [_LAST_EVENT],
                "responses": {
                    "200": {
                        "description": "The events",
                        "content": {
                            "application/json": {"schema": _ref("Events")},
                            "text/event-stream": {},
                        },
                    },
                    **_errors(400, 401, 404, 406, 503),
                },
            },
        },
        "/v1/host/sample/node-catalog": {
            "get": {
                "summary": "The node modules that this host has",
                "responses": {"200": _answer("The modules", _ref("Nodes")), **_errors(401)},
            }
        },
    }
    if conformance:
        for name in ("evaluate-model-capability-gate", "synthesize-model-capability-event"):
            paths[f"/v1/host/sample/test/{name}"] = {
                "post": {
                    "summary": "One decision of the gate",
                    "requestBody": _body(_ref("GateRequest")),
                    "responses": {
                        "200": _answer("The decision", _ref("GateDecision")),
                        **_errors(400, 401, 413),
                    },
                }
            }
    return {
        "openapi": "3.1.0",
        "info": {"title": "modelpact as an OpenWOP host", "version": __version__},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


_RUN_ID: Final = {"name": "runId", "in": "path", "required": True, "schema": _TEXT}
_LAST_EVENT: Final = {"name": "Last-Event-ID", "in": "header", "schema": _TEXT}


def _schemas() -> dict[str, Any]:
    module = {key: value for key, value in read_schema("node-module").items() if key != "$schema"}
    capabilities = read_schema("model-capabilities")
    capabilities.pop("$schema")
    needs = module["properties"]["requiredModelCapabilities"]
    fallback = module["properties"]["fallbackModel"]
    target = _closed({"provider": _TEXT, "model": _TEXT}, "provider", "model")
    node = _closed(
        {
            "nodeId": _TEXT,
            "typeId": _TEXT,
            "config": _OBJECT,
            "requiredModelCapabilities": needs,
            "fallbackModel": fallback,
        },
        "nodeId",
        "typeId",
    )
    error = _closed({"code": _TEXT, "message": _TEXT, "details": _OBJECT}, "code", "message")
    event = {
        name: ({"type": "integer"} if name == "sequence" else _TEXT)
        for name in ("eventId", "runId", "type", "timestamp", "sequence")
    }
    return {
        "Discovery": {
            "type": "object",
            "required": ["protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"],
            "properties": {"protocolVersion": _TEXT, "modelCapabilities": capabilities},
        },
        "RunRequest": {
            "type": "object",
            "properties": {
                "workflowId": _TEXT,
                "nodes": {"type": "array", "items": node, "minItems": 1, "maxItems": MOST_NODES},
                "inputs": _OBJECT,
                "configurable": {
                    "type": "object",
                    "properties": {
                        "ai": {
                            "type": "object",
                            "properties": {"provider": _TEXT, "model": _TEXT},
                        }
                    },
                },
                "retryPolicy": {
                    "type": "object",
                    "properties": {
                        "onCapabilityNotProvided": {
                            "type": "array",
                            "items": target,
                            "maxItems": MOST_RETRIES,
                        }
                    },
                },
            },
            "anyOf": [{"required": ["workflowId"]}, {"required": ["nodes"]}],
        },
        "RunStarted": _closed({"runId": _TEXT, "status": _TEXT}, "runId", "status"),
        "Run": _closed(
            {
                "runId": _TEXT,
                "workflowId": _TEXT,
                "status": {"enum": ["pending", "running", "completed", "failed"]},
                "error": error,
            },
            "runId",
            "status",
        ),
        "Event": _closed({**event, "payload": _OBJECT}, *event, "payload"),
        "Events": _closed({"events": {"type": "array", "items": _ref("Event")}}, "events"),
        "NodeModule": module,
        "Nodes": _closed({"nodes": {"type": "array", "items": _ref("NodeModule")}}, "nodes"),
        "GateRequest": _gate_request(needs, fallback),
        "GateDecision": _closed(
            {"outcome": _OBJECT, "event": {"type": ["object", "null"]}}, "outcome", "event"
        ),
        "Error": _closed(
            {
                "error": {"type": "string", "pattern": "^[a-z_]+$"},
                "message": _TEXT,
                "details": _OBJECT,
            },
            "error",
            "message",
        ),
    }


def _gate_request(needs: Any, fallback: Any) -> dict[str, Any]:
    names = {"type": "array", "items": _TEXT}
    flag = {"type": "boolean"}
    module = {
        "type": "object",
        "properties": {"requiredModelCapabilities": needs, "fallbackModel": fallback},
    }
    return _closed(
        {
            "module": module,
            "activeProvider": {"type": "string", "minLength": 1},
            "activeModel": {"type": "string", "minLength": 1},
            "substitutionSupported": flag,
            "supportedProviders": names,
            "credentials": names,
            "redact": flag,
            "nodeId": {"type": "string", "minLength": 1},
            "claims": {"type": "object", "additionalProperties": names},
        },
        "module",
        "activeProvider",
        "activeModel",
    )


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(one): _answer("What is wrong", _ref("Error")) for one in statuses}
