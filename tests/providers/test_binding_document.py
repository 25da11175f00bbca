"""The OpenAPI document matches the code: paths, fields and messages."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from modelpact.ledger.costs import UNITS
from modelpact.providers.contract import Offer, Rate, Registration
from modelpact.providers.http import messages
from modelpact.providers.http.runtime_server import RuntimeRoutes
from modelpact.providers.runtime.human import human_registration
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.runtime.signals import Receipt
from tests.providers.fake_provider import COST
from tests.providers.support import ROOT

DOCUMENT = json.loads((ROOT / "docs" / "provider-binding.openapi.json").read_text())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Registration", Registration),
        ("Offer", Offer),
        ("Rate", Rate),
        ("Invocation", messages.InvocationMessage),
        ("Accepted", messages.AcceptedMessage),
        ("Response", messages.ResponseMessage),
        ("Partial", messages.PartialMessage),
        ("Correction", messages.CorrectionMessage),
        ("Signal", messages.SignalMessage),
        ("Deregistered", messages.DeregisteredMessage),
    ],
)
def test_the_fields_are_those_of_the_code(name: str, kind: Any) -> None:
    fields = msgspec.structs.fields(kind)
    assert set(SCHEMAS[name]["properties"]) == {field.encode_name for field in fields}
    needed = {field.encode_name for field in fields if field.required}
    assert set(SCHEMAS[name]["required"]) == needed


def test_the_units_are_those_of_the_ledger() -> None:
    assert tuple(SCHEMAS["CostLine"]["properties"]["unit"]["enum"]) == UNITS


def test_the_paths_are_those_of_the_routes(lite_ledger: Any) -> None:
    routes = RuntimeRoutes(Runtime(lite_ledger))
    served = set(routes._routes)
    described = {
        (method.upper(), path.replace("{id}", "{}").replace("{source}", "{}"))
        for path, ways in DOCUMENT["paths"].items()
        for method, way in ways.items()
        if way["tags"] == ["runtime"]
    }
    assert served == described


def valid(name: str, message: Any) -> bool:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    data = json.loads(msgspec.json.encode(message))
    return bool(jsonschema_rs.validator_for(schema).is_valid(data))


def test_messages_of_the_code_are_valid_by_the_document() -> None:
    assert valid("Registration", human_registration())
    assert valid("Invocation", messages.InvocationMessage("i", "urn:x", "sync", {}, 5))
    assert valid("Response", messages.ResponseMessage("i", COST, {}))
    assert valid("Response", messages.ResponseMessage("i", COST, error="no"))
    assert not valid("Response", messages.ResponseMessage("i", COST))
    assert not valid("Response", messages.ResponseMessage("i", COST, {}, "both"))
    assert not valid("Response", messages.ResponseMessage("i", [], {}))
    assert valid("Signal", messages.SignalMessage("s", "i", 1, "a.b", 2, {}, COST))
    assert valid("Receipt", Receipt("e:1", 1, 3))
    assert valid("Deregistered", messages.DeregisteredMessage("p", "e:1", "expelled", "why"))
    assert not valid("Deregistered", messages.DeregisteredMessage("p", "e:1", "active"))
