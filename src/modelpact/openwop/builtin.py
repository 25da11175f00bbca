"""What every host has: the core nodes, the conformance fixture, and the bundled schemas."""

from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.needs.node_modules import Pack, read_pack

FIXTURE: Final = "conformance-model-capability-insufficient"
UNPROVIDED: Final = "x-host-modelpact-unprovided"
"""A capability that no model has."""
CALL_PROMPT: Final = "core.ai.callPrompt"
SCHEMAS: Final = Path(__file__).parent / "schemas"
_ENVELOPE_KINDS: Final = ("clarification.request", "schema.request", "schema.response", "error")


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema that ships with the host."""
    schema: dict[str, Any] = msgspec.json.decode((SCHEMAS / f"{name}.schema.json").read_bytes())
    return schema


ENVELOPES: Final[dict[str, dict[str, Any]]] = {
    kind: read_schema(f"envelopes/{kind}") for kind in _ENVELOPE_KINDS
}
"""The schemas of the envelopes that the host supports, by kind."""


def core_pack() -> Pack:
    """Return the pack that every host has."""
    return read_pack(
        {
            "name": "modelpact-core",
            "version": "1.0.0",
            "nodes": [
                {
                    "typeId": CALL_PROMPT,
                    "title": "Call a model with a prompt",
                    "description": "Resolves a prompt, calls the run's model, and returns its "
                    "answer as text, as JSON of a schema, or as an envelope.",
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
