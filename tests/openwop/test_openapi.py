"""The OpenAPI document says what the host does."""

from collections.abc import Iterator
from typing import Any

import pytest

from modelpact.openwop.documents import CONFORMANCE_PREFIX, openapi, read_schema
from modelpact.openwop.workflows import MAX_NODES, MAX_RETRIES
from tests.openwop.support import HostClient

DOCUMENT = openapi(conformance=True)
SCHEMAS = DOCUMENT["components"]["schemas"]


def described(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield every description in the document with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "description" and isinstance(inner, str):
                yield path, inner
            else:
                yield from described(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from described(inner, f"{path}/{index}")


def test_its_paths_are_the_routes(host: HostClient) -> None:
    """Every documented operation is routed: no 404 for the path, no 405 for the method."""
    for path, operations in DOCUMENT["paths"].items():
        for method in operations.keys() & {"get", "post"}:
            status, answer, _ = host.ask(method.upper(), path.replace("{runId}", "x"), {})
            unrouted = status == 405 or (status == 404 and "no run" not in answer["message"])
            assert not unrouted, (method, path, answer)


def test_limits_are_those_of_the_code() -> None:
    properties = SCHEMAS["RunRequest"]["properties"]
    assert properties["nodes"]["maxItems"] == MAX_NODES
    retries = properties["retryPolicy"]["properties"]["onCapabilityNotProvided"]
    assert retries["maxItems"] == MAX_RETRIES


def test_shared_schemas_come_from_their_files() -> None:
    for name, file in (("NodeModule", "node-module"), ("ModelCapabilities", "model-capabilities")):
        assert {**SCHEMAS[name], "$schema": read_schema(file)["$schema"]} == read_schema(file)


def test_conformance_endpoints_are_documented_only_where_they_are_on() -> None:
    without = openapi(conformance=False)["paths"]
    extra = DOCUMENT["paths"].keys() - without.keys()
    assert len(extra) == 2
    assert all(path.startswith(CONFORMANCE_PREFIX) for path in extra)


def test_descriptions_are_sentences() -> None:
    descriptions = list(described(DOCUMENT, ""))
    assert len(descriptions) > 60
    for path, text in descriptions:
        assert text[0].isupper(), path
        assert text.endswith("."), path
        assert len(text.split()) > 1, path


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_used(name: str) -> None:
    reference = f"#/components/schemas/{name}"
    assert reference in str(DOCUMENT), name
