"""The documents that ship with the host: the core pack, the schemas, and the OpenAPI document."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact._version import __version__
from modelpact.needs.dialects import Pack, read_pack

CONFORMANCE_PREFIX: Final = "/v1/host/sample/test/"
"""The paths that exist only with `modelpact serve --conformance`."""
FIXTURE: Final = "conformance-model-capability-insufficient"
"""The workflow of the core pack that no model can run: it needs what no model has."""
_FOLDER: Final = Path(__file__).parent
_ENVELOPE_KINDS: Final = ("clarification.request", "schema.request", "schema.response", "error")
_SHARED_SCHEMAS: Final = {"NodeModule": "node-module", "ModelCapabilities": "model-capabilities"}
"""Components of the OpenAPI document that are schema files of their own, by name."""


def core_pack() -> Pack:
    """Return the pack that every host has: the core nodes and the conformance fixture."""
    return read_pack(_read("core-pack.json"), "modelpact-core")


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema that ships with the host."""
    return _read(f"schemas/{name}.schema.json")


@cache
def envelope_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of the envelopes that the host supports, by kind."""
    return {kind: read_schema(f"envelopes/{kind}") for kind in _ENVELOPE_KINDS}


def openapi(*, conformance: bool) -> dict[str, Any]:
    """Return the OpenAPI document of the host, with the conformance endpoints if they are on."""
    document = _read("openapi.json")
    document["info"]["version"] = __version__
    for name, file in _SHARED_SCHEMAS.items():
        schema = read_schema(file)
        schema.pop("$schema")
        document["components"]["schemas"][name] = schema
    if not conformance:
        paths = document["paths"]
        for path in [path for path in paths if path.startswith(CONFORMANCE_PREFIX)]:
            del paths[path]
    return document


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode((_FOLDER / name).read_bytes())
    return document
