"""Strict fakes of the APIs that modelpact calls: they refuse what the real ones refuse.

`tests.fakes.openai.FakeOpenAI` and `tests.fakes.anthropic.FakeAnthropic` are real servers on this
machine, for tests of adapters, sessions and the gateway.
"""

from tests.fakes.replies import Call, Fail, Fault, Reply, cut, drip, flood, garbage, hang
from tests.fakes.server import Seen

__all__ = ["Call", "Fail", "Fault", "Reply", "Seen", "cut", "drip", "flood", "garbage", "hang"]
