"""The envelopes that a node may have its model emit, and the schemas of what they carry."""

from pathlib import Path
from typing import Any, Final

import msgspec

SCHEMAS: Final = Path(__file__).parent / "schemas"


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema that ships with the host."""
    found: dict[str, Any] = msgspec.json.decode((SCHEMAS / f"{name}.schema.json").read_bytes())
    return found


_KINDS: Final = ("clarification.request", "schema.request", "schema.response", "error")
ENVELOPES: Final[dict[str, dict[str, Any]]] = {
    kind: read_schema(f"envelopes/{kind}") for kind in _KINDS
}
