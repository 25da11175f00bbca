"""What follows from a configuration; replaced as a whole when that changes."""

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.plan.policy import RequestPolicy
from modelpact.gateway.upstream.endpoints import Endpoints


class GatewayState(msgspec.Struct, frozen=True):
    """A configuration at work. A request ends under the state that it began under."""

    configuration: Configuration
    models: ModelCaller
    planner: Planner
    upstreams: Endpoints
    policy: RequestPolicy
