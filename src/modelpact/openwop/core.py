"""What every host has: the core node, and the fixture that conformance suites run."""

from typing import Final

from modelpact.needs.modules import Pack, read_pack

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
