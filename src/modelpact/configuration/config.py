"""The settings of a `modelpact.toml` as types.

The loader converts each section to its type, and `schema` derives the JSON Schema from the types.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog
from modelpact.catalog.snapshot import user_folder
from modelpact.needs.need import Needs
from modelpact.negotiation.verdict import Policy, PolicySettings

FILE_NAME: Final = "modelpact.toml"
STANDARD_PROFILE: Final = "standard"
"""The compliance profile that exists without being configured."""

FallbackOn = Literal["capability", "outage", "429", "5xx"]

# The loader checks these two itself, with better messages; the annotations are for the schema.
Target = Annotated[str, Meta(extra_json_schema={"pattern": "^[^/]+/.+$", "description": "PROVIDER/MODEL"})]
EnvName = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"})]


class SecretRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a secret comes from: an environment variable or a file, exactly one of them."""

    env: EnvName = ""
    file: Annotated[str, Meta(extra_json_schema={"minLength": 1})] = ""


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger: `sqlite:FILE` or `postgresql://…`."""

    url: str = "sqlite:modelpact.db"


class ProviderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a provider is reached. `kind` names the provider whose API and rules it shares."""

    kind: str = ""
    base_url: str = ""
    api_key: SecretRef | None = None
    timeout: Annotated[float, Meta(gt=0)] = 600.0
    """Seconds to wait for the first byte of a response."""
    connections: Annotated[int, Meta(ge=1)] = 1_000
    """The most open connections; as many more requests may queue."""
    stream_usage: bool = True
    """Whether to request usage figures in streams; a few servers reject that."""


class ProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A compliance profile: a named set of policies towards providers."""

    on_deregistration: Literal["drain", "cancel"] = "drain"
    on_violation: Literal["flag", "deregister"] = "flag"
    require_identity: bool = False


class ContractSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The provider contract: the profile in force, and hosts that may be called without TLS."""

    profile: str = STANDARD_PROFILE
    plain_http: tuple[str, ...] = ()


class HostSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The OpenWOP host: its packs, its dispatch gate, and the default model of a run."""

    name: str = ""
    """Hosts that share a store need different names, since each resumes its own runs after a
    restart. By default the gateway's name."""
    model: Target = "mock/demo"
    packs: tuple[str, ...] = ()
    gating: bool = True
    substitution: bool = True
    redact_fallback: bool = False
    token: SecretRef | None = None
    """The operator's token. Clients have their own keys."""


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The gateway: its model names, and how much of each request it records."""

    name: str = "gateway"
    """Gateways that share a store need different names."""
    aliases: dict[str, Target] = {}
    """Client-side model names, each for a PROVIDER/MODEL."""
    provider: str = ""
    """The provider for model names that name none; by default the model's vendor."""
    lossy: bool = False
    """Whether to drop, with a label, what the provider's API cannot express."""
    keep_content: bool = False
    """Whether the ledger keeps the text of prompts and responses."""
    telemetry: str = ""
    """The address of an OpenTelemetry collector (OTLP)."""


class StageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of a state machine, and what it needs of the model."""

    name: str
    needs: tuple[str, ...] = ()


class MachineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state machine that a session can attach: its contract versions, stages and needs."""

    contract: str = "^1.0"
    needs: tuple[str, ...] = ()
    stages: tuple[StageSettings, ...] = ()


class NeedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A need written as a table. As a string it would be `context>=200k:preferred`."""

    capability: str
    level: Literal["hard", "preferred", "probed"] = "hard"
    minimum: int | str | None = None
    min_support: Literal["native", "emulated"] = "emulated"
    required_by: str | tuple[str, ...] = ""


class WorkloadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A workload as it is written in the file."""

    model: Target
    needs: tuple[str | NeedSettings, ...] = ()
    fallback: Target | None = None
    fallback_on: tuple[FallbackOn, ...] = ("capability",)
    policy: PolicySettings | None = None


class Workload(msgspec.Struct, frozen=True):
    """A workload: a named kind of work with its needs, its model and its fallback."""

    name: str
    model: str
    needs: Needs
    fallback: str | None = None
    line: int | None = None
    """The line of its section in the file."""
    fallback_on: tuple[FallbackOn, ...] = ("capability",)
    """When the gateway uses the fallback; it negotiates the fallback each time."""
    policy: Policy | None = None
    """Its own policy, or None to use the `[policy]` section."""


class Configuration(msgspec.Struct, frozen=True):
    """A checked `modelpact.toml`, or the defaults where there is none."""

    path: Path | None = None
    store: StoreSettings | None = None
    policy: Policy = Policy()
    providers: dict[str, ProviderSettings] = {}
    models: dict[tuple[str, str], Overlay] = {}
    workloads: dict[str, Workload] = {}
    profiles: dict[str, ProfileSettings] = {}
    contract: ContractSettings = ContractSettings()
    host: HostSettings = HostSettings()
    gateway: GatewaySettings = GatewaySettings()
    machines: dict[str, MachineSettings] = {}

    def catalog(self, base: Catalog | None = None) -> Catalog:
        """Return the catalog, extended by the configured providers and models."""
        base = base or default_catalog()
        kinds = {name: settings.kind for name, settings in self.providers.items() if settings.kind}
        if not kinds and not self.models:
            return base
        return base.extended(overlay=self.models, configured=kinds)

    def store_url(self) -> str:
        """Return the URL of the ledger: that of `[store]`, else one in the user's data folder.

        A relative SQLite path is relative to the folder of the file.
        """
        if self.path is None or self.store is None:
            return f"sqlite:{user_folder() / 'modelpact.db'}"
        url = self.store.url
        if url.startswith("sqlite:") and not url.startswith("sqlite:/"):
            return f"sqlite:{self.path.resolve().parent / url.removeprefix('sqlite:')}"
        return url
