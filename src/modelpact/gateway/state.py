"""What follows from a configuration; replaced as a whole when that changes."""

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.dispatch.models import Models
from modelpact.gateway.planning import Planner
from modelpact.gateway.policy import RequestPolicy
from modelpact.gateway.upstreams import Upstreams


class State(msgspec.Struct, frozen=True):
    """A configuration at work. A request ends under the state that it began under."""

    configuration: Configuration
    models: Models
    planner: Planner
    upstreams: Upstreams
    policy: RequestPolicy
