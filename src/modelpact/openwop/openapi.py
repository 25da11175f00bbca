"""The OpenAPI document of the host: the file `openapi.json`, completed at run time."""

from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact._version import __version__
from modelpact.openwop.builtin import read_schema

CONFORMANCE_PREFIX: Final = "/v1/host/sample/test/"
"""The paths that exist only with `modelpact serve --conformance`."""
_DOCUMENT: Final = Path(__file__).with_name("openapi.json")
_SHARED_SCHEMAS: Final = {
    "NodeModule": "node-module",
    "ModelCapabilities": "model-capabilities",
}
"""Components that are schema files of their own, by name."""


def openapi(*, conformance: bool) -> dict[str, Any]:
    """Return the document, with the conformance endpoints if they are on."""
    document: dict[str, Any] = msgspec.json.decode(_DOCUMENT.read_bytes())
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
