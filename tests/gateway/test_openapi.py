"""The OpenAPI document names what the code sends."""

import json
import re
from pathlib import Path
from typing import Any

import modelpact.gateway
from modelpact.gateway.plan.plan import POLICY_HEADER, RESPONSE_HEADERS
from modelpact.gateway.request import REPORT_HEADER, WORKLOAD_HEADER
from modelpact.gateway.routes import OPENAPI_FILE, openapi
from modelpact.openwop.documents import openapi as host_openapi
from modelpact.vocabulary.capability import CAPABILITIES

DOCUMENT: dict[str, Any] = json.loads(OPENAPI_FILE.read_text(encoding="utf-8"))
COMPONENTS: dict[str, Any] = DOCUMENT["components"]
REQUEST_HEADERS = {POLICY_HEADER, REPORT_HEADER, WORKLOAD_HEADER}


def test_the_document_has_every_header_that_the_code_can_send() -> None:
    folder = Path(modelpact.gateway.__file__).parent
    source = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    literals = set(re.findall(r'b?"(modelpact-[a-z]+(?:-[a-z]+)*)(?:"|: )', source))
    assert literals - REQUEST_HEADERS == set(RESPONSE_HEADERS)
    assert set(COMPONENTS["headers"]) == set(RESPONSE_HEADERS)


def test_every_header_belongs_to_a_response() -> None:
    used = {name for response in COMPONENTS["responses"].values() for name in response.get("headers", ())}
    assert used - {"retry-after"} == set(RESPONSE_HEADERS)


def test_request_headers_are_documented() -> None:
    assert {parameter["name"] for parameter in COMPONENTS["parameters"].values()} == REQUEST_HEADERS


def test_the_vocabulary_is_that_of_the_package() -> None:
    item = COMPONENTS["schemas"]["Capabilities"]["properties"]["data"]["items"]
    assert item["properties"]["id"]["enum"] == list(CAPABILITIES)


def test_descriptions_are_sentences() -> None:
    for text in _descriptions(DOCUMENT):
        assert len(text.split()) >= 2, text
        assert text.endswith("."), text


def test_references_lead_somewhere() -> None:
    for reference in set(_references(DOCUMENT)):
        _, _, kind, name = reference.split("/")
        assert name in COMPONENTS[kind], reference


def test_no_component_is_defined_by_both_parts() -> None:
    host = host_openapi(conformance=True)["components"]
    for kind, components in COMPONENTS.items():
        assert not set(components) & set(host.get(kind, {})), kind
    assert set(DOCUMENT["paths"]) <= set(openapi(conformance=False)["paths"])


def _descriptions(node: Any) -> list[str]:
    if isinstance(node, list):
        return [text for item in node for text in _descriptions(item)]
    if not isinstance(node, dict):
        return []
    own = [node["description"]] if isinstance(node.get("description"), str) else []
    return own + [text for value in node.values() for text in _descriptions(value)]


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [reference for item in node for reference in _references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if "$ref" in node else []
    return own + [reference for value in node.values() for reference in _references(value)]
