"""What every host has: the core node, and the fixture that conformance suites run."""

from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.needs.node_modules import Pack, read_pack

FIXTURE: Final = "conformance-model-capability-insufficient"
UNPROVIDED: Final = "x-host-modelpact-unprovided"
"""A capability that nothing provides."""
CALL_PROMPT: Final = "core.ai.callPrompt"


def core_pack() -> Pack:
    """Return the host's own pack."""
    return read_pack(
        {
            "name": "modelpact-core",
            "version": "1.0.0",
            "nodes": [
                {
                    "typeId": CALL_PROMPT,
                    "title": "Call a model with a prompt",
                    "description": "Resolves a prompt, calls the run's model, and gives its answer "
                    "as text, as JSON of a schema, or as an envelope.",
                    "requiredModelCapabilities": ["structured-output"],
                },
                {
                    "typeId": "conformance.modelCapability.insufficient",
                    "title": "Needs what nothing provides",
                    "requiredModelCapabilities": [UNPROVIDED],
                },
            ],
            "workflows": [
                {
                    "workflowId": FIXTURE,
                    "nodes": [
                        {
                            "nodeId": "insufficient-node",
                            "typeId": "conformance.modelCapability.insufficient",
                            "config": {"prompt": "This is never sent."},
                        }
                    ],
                }
            ],
        },
        "modelpact-core",
    )


SCHEMAS: Final = Path(__file__).parent / "schemas"


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema that ships with the host."""
    found: dict[str, Any] = msgspec.json.decode((SCHEMAS / f"{name}.schema.json").read_bytes())
    return found


_KINDS: Final = ("clarification.request", "schema.request", "schema.response", "error")
ENVELOPES: Final[dict[str, dict[str, Any]]] = {
    kind: read_schema(f"envelopes/{kind}") for kind in _KINDS
}
