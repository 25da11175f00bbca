"""The state of a gateway: everything that follows from one configuration.

A reload replaces it as a whole. A request is served to its end under the state it started with.
"""

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.upstream.endpoints import Endpoints
from modelpact.negotiation.verdict import Policy


class GatewayState(msgspec.Struct, frozen=True):
    """A configuration, and what was made of it."""

    configuration: Configuration
    models: ModelCaller
    planner: Planner
    upstreams: Endpoints
    policy: Policy
    """The policy of requests without a workload or a header."""
