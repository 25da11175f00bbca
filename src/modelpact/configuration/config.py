"""The values of a `modelpact.toml`."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog
from modelpact.needs.need import Needs
from modelpact.negotiation.verdict import Policy

FILE_NAME: Final = "modelpact.toml"
STANDARD_PROFILE: Final = "standard"
"""The profile that is there without being written down."""


class SecretRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a secret comes from: an environment variable or a file, never the file itself."""

    env: str = ""
    file: str = ""


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where records are kept."""

    url: str = "sqlite:modelpact.db"


class ProviderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a provider is reached. `kind` names the provider whose rules hold for this one."""

    kind: str = ""
    base_url: str = ""
    api_key: SecretRef | None = None
    timeout: float = 600.0
    """Seconds that an answer may take to begin."""
    connections: int = 1_000
    """Connections to it at most; as many requests again may wait for one."""
    stream_usage: bool = True
    """Whether streams are asked for their usage; few servers refuse that."""


class ProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A compliance profile: a named bundle of policy towards providers."""

    on_deregistration: Literal["drain", "cancel"] = "drain"
    on_violation: Literal["flag", "deregister"] = "flag"
    require_identity: bool = False


class ContractSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The provider contract: the profile in force, and hosts that may be reached without TLS."""

    profile: str = STANDARD_PROFILE
    plain_http: tuple[str, ...] = ()


class HostSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The OpenWOP host: its packs, its gate, and what a run that chooses no model runs on."""

    name: str = ""
    """Hosts that share a store have names of their own, by default the gateway's: each takes up
    what it left."""
    model: str = "mock/demo"
    packs: tuple[str, ...] = ()
    gating: bool = True
    substitution: bool = True
    redact_fallback: bool = False
    token: SecretRef | None = None
    """What the operator shows, beside the clients that have keys."""


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The gateway: what names mean there, and what is kept of what passes through."""

    name: str = "gateway"
    """Gateways that share a store have names of their own."""
    aliases: dict[str, str] = {}
    """Names that clients use for a PROVIDER/MODEL."""
    provider: str = ""
    """Where a name without a provider is looked for; by default at its vendor."""
    lossy: bool = False
    """Whether what an API cannot say may be left out, with a label."""
    keep_content: bool = False
    """Whether prompts and answers are kept in the ledger."""
    telemetry: str = ""
    """Where OpenTelemetry data goes: the address of an OTLP collector."""


class StageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of a state machine, and what it needs of the model."""

    name: str
    needs: tuple[str, ...] = ()


class MachineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state machine that sessions may attach: its contract, its stages, what they need."""

    contract: str = "^1.0"
    needs: tuple[str, ...] = ()
    stages: tuple[StageSettings, ...] = ()


FallbackOn = Literal["capability", "outage", "429", "5xx"]


class Workload(msgspec.Struct, frozen=True):
    """A named piece of work: what it needs, the model it runs on, the declared fallback."""

    name: str
    model: str
    needs: Needs
    fallback: str | None = None
    line: int | None = None
    """Where it stands in the file."""
    fallback_on: tuple[FallbackOn, ...] = ("capability",)
    """On what the fallback is used; it is negotiated anew every time."""
    policy: Policy | None = None
    """Its own policy, where it has one."""


class Configuration(msgspec.Struct, frozen=True):
    """Everything that a `modelpact.toml` says."""

    path: Path | None = None
    store: StoreSettings = StoreSettings()
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
        """Return the catalog with this configuration's providers and models over it."""
        base = base or default_catalog()
        configured = {name: one.kind for name, one in self.providers.items() if one.kind}
        if not configured and not self.models:
            return base
        return base.extended(overlay=self.models, configured=configured)
