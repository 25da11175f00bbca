"""Derives the JSON Schema of `modelpact.toml`, for editors, from the types of the loader."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from modelpact.catalog.statement import FIELDS, LARGEST_LIMIT, LIST_FIELDS
from modelpact.configuration.config import (
    ContractSettings,
    GatewaySettings,
    HostSettings,
    MachineSettings,
    ProfileSettings,
    ProviderSettings,
    StoreSettings,
    Target,
    WorkloadSettings,
)
from modelpact.negotiation.verdict import PolicySettings
from modelpact.vocabulary.capability import CAPABILITIES

SCHEMA_FILE: Final = Path(__file__).parent / "modelpact.schema.json"
"""The schema as a file; `modelpact check --schema` prints the same."""

_HOST_EXTENSION: Final = "^x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*$"
_Reason = Annotated[str, Meta(pattern=r"\S")]


class RestrictionReason(msgspec.Struct, forbid_unknown_fields=True):
    """The reason of a restriction, as a table."""

    reason: _Reason


class Restriction(msgspec.Struct, forbid_unknown_fields=True):
    """A capability that holds only in part, and why."""

    restricted: _Reason | RestrictionReason


Flag = bool | Literal["native", "emulated", "unsupported", "unknown"] | Restriction
_EffortLevels = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)]


def _field_type(field: str) -> Any:
    """Return the type of a model's field, from the vocabulary."""
    if field in LIST_FIELDS:
        rules: dict[str, Any] = {"uniqueItems": True}
        if field == "input_modalities":
            rules["contains"] = {"const": "text"}
        names = Literal[LIST_FIELDS[field]]  # type: ignore[valid-type]
        return Annotated[tuple[names, ...], Meta(extra_json_schema=rules)]
    info = CAPABILITIES[field.replace("_", "-")]
    if info.kind == "limit":
        return Annotated[int, Meta(ge=1, le=LARGEST_LIMIT)] | Literal["unknown"]
    if info.kind == "choice":
        return Literal[info.choices]
    return Flag | _EffortLevels if field == "reasoning_effort" else Flag


ModelSettings = msgspec.defstruct(
    "ModelSettings",
    [("same_as", Target, ""), *((field, _field_type(field), None) for field in sorted(FIELDS))],
    forbid_unknown_fields=True,
    namespace={"__doc__": "What the operator knows about a model. It overrides the catalog."},
)


class ConfigurationFile(msgspec.Struct, forbid_unknown_fields=True):
    """A `modelpact.toml`."""

    store: StoreSettings = StoreSettings()
    policy: PolicySettings = PolicySettings()
    providers: dict[str, ProviderSettings] = {}
    models: dict[Target, ModelSettings] = {}  # type: ignore[valid-type]
    workloads: dict[str, WorkloadSettings] = {}
    profiles: dict[str, ProfileSettings] = {}
    contract: ContractSettings = ContractSettings()
    host: HostSettings = HostSettings()
    gateway: GatewaySettings = GatewaySettings()
    machines: dict[str, MachineSettings] = {}


def configuration_schema() -> dict[str, Any]:
    """Return the JSON Schema as data."""
    schema = _for_toml(msgspec.json.schema(ConfigurationFile))
    definitions = schema["$defs"]
    definitions["SecretRef"] |= {"minProperties": 1, "maxProperties": 1}
    model = definitions["ModelSettings"]
    flag, flag_ref = model["properties"]["tool_calling"], {"$ref": "#/$defs/Flag"}
    definitions["Flag"] = flag
    model["properties"] = {name: flag_ref if field == flag else field for name, field in model["properties"].items()}
    model["patternProperties"] = {_HOST_EXTENSION: flag_ref}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "modelpact.toml"}


def _for_toml(schema: Any) -> Any:
    """Return a schema without null, which TOML does not have, and with all tables closed."""
    if isinstance(schema, (list, tuple)):
        return [_for_toml(item) for item in schema if item != {"type": "null"}]
    if not isinstance(schema, dict):
        return schema
    result = {key: _for_toml(value) for key, value in schema.items()}
    for key in ("default", "required"):
        if result.get(key) in (None, "", []) or isinstance(result.get(key), dict):
            result.pop(key, None)
    if "properties" in result:
        result["additionalProperties"] = False
    if len(result.get("anyOf", ())) == 1:
        (only,) = result.pop("anyOf")
        result |= only
    return result
