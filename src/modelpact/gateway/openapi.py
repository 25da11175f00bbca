"""The OpenAPI document of everything that is served on one address.

The gateway's part is the file `openapi.json` beside this module; the OpenWOP host adds its own.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact._version import __version__
from modelpact.openwop.documents import openapi as host_openapi

OPENAPI_FILE: Final = Path(__file__).with_name("openapi.json")


def openapi(*, conformance: bool) -> dict[str, Any]:
    """Return the document; `conformance` adds the host's paths for conformance tests."""
    document = host_openapi(conformance=conformance)
    gateway = msgspec.json.decode(OPENAPI_FILE.read_bytes())
    document["info"] = {"title": "modelpact", "version": __version__}
    document["security"] = [{"bearer": []}, {"key": []}]
    document["paths"] |= gateway["paths"]
    for kind, components in gateway["components"].items():
        document["components"].setdefault(kind, {}).update(components)
    return document
