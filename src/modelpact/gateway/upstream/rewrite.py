"""Rewrites the bodies of forwarded requests: byte for byte, but for what the plan changes."""

from typing import Any, Final

import msgspec

from modelpact.gateway.plan.plan import Plan

USAGE_OPTION: Final = "stream_options.include_usage"
"""The option by which the gateway asks for the usage of a stream."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def rewrite_body(raw: bytes, body: dict[str, Any], plan: Plan, *, ask_usage: bool) -> bytes:
    """Return the body to send. Fields that the plan does not change keep their bytes."""
    if body["model"] == plan.model and not (plan.renames or plan.drops or ask_usage):
        return raw
    fields: dict[str, Any] = _FIELDS.decode(raw)
    fields["model"] = plan.model
    for name in plan.drops:
        fields.pop(name, None)
    for old, new in plan.renames:
        if old in fields:
            fields = {new if name == old else name: value for name, value in fields.items()}
    if ask_usage:
        fields["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return msgspec.json.encode(fields)
