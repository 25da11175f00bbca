"""Providers with invalid streams: valid partials stay, an invalid one ends the invocation."""

import pytest

from modelpact.ledger import Ledger
from modelpact.providers.contract import Invocation
from tests.providers import faulty_behaviours as bad
from tests.providers.fake_provider import Behaviour, faking
from tests.providers.support import ECHO, World, assert_whole, flags, on_loop


@pytest.mark.parametrize(
    ("behaviour", "error", "flagged", "stored"),
    [
        (bad.reorders, "reordered_response", True, 1),
        (bad.renumbers, "reordered_partial", True, 1),
        (bad.drops_one, "reordered_response", True, 1),
        (bad.repeats, "reordered_response", True, 1),
        (bad.stops, "cut_off", False, 1),
        (bad.unsigned_events, "invalid_response", True, 0),
        (bad.other_events, "invalid_response", True, 0),
        (bad.garbage_events, "invalid_response", True, 0),
        (bad.another_partial, "foreign_response", True, 0),
        (bad.vanishes, "unreachable", False, 1),
        (bad.hangs, "deadline", False, 0),
        (bad.stalls, "deadline", False, 1),
        (bad.drips_events, "deadline", False, 1),
        (bad.floods_events, "oversized_response", True, 0),
    ],
)
@on_loop
async def test_an_invalid_stream_fails_its_invocation(
    world: World, ledger: Ledger, behaviour: Behaviour, error: str, flagged: bool, stored: int
) -> None:
    """MP-P6: reorders partial responses, hangs, drips, sends 100 MB, garbage, vanishes."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        runtime = host.runtime
        runtime.registry.register(fake.registration)
        fake.behaviour = behaviour
        patience = 1.0 if error == "deadline" else 20.0
        opened = await runtime.invoke("fake", ECHO, {}, semantics="streaming", deadline_s=patience)
        came = [item async for item in runtime.stream(opened)]
        end = came[-1]
        assert isinstance(end, Invocation)
        assert (end.state, len(came) - 1) == ("failed", end.partials)
        # What a provider that vanishes has sent may not have left its buffers.
        assert end.partials == stored or (behaviour is bad.vanishes and end.partials < stored)
        assert str(end.error).startswith(error), end.error
        assert flags(ledger) == ([("fake", error)] if flagged else [])
        assert fake.sent < bad.FLOOD / 4, "it was cut off, not swallowed"
        if error == "deadline":
            assert set(fake.cancelled) == {end.id}
    assert_whole(ledger)


@on_loop
async def test_data_after_the_final_response_is_not_read(world: World, ledger: Ledger) -> None:
    """MP-P6: of two final responses in one stream the first counts."""
    async with world.hosting(ledger) as host, faking(world) as fake:
        host.runtime.registry.register(fake.registration)
        fake.behaviour = bad.answers_twice
        opened = await host.runtime.invoke("fake", ECHO, {}, semantics="streaming")
        came = [item async for item in host.runtime.stream(opened)]
        assert len(came) == 2
        end = came[-1]
        assert isinstance(end, Invocation)
        assert (end.state, end.output) == ("completed", {"done": True})
    assert_whole(ledger)
