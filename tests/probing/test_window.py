"""The context window, found by filling it."""

from pathlib import Path

from modelpact.probing import Budget
from tests.fakes.behaviours import forgetful, obedient
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI
from tests.fakes.openai_rules import Model
from tests.fakes.replies import Fail, Reply, Step
from tests.probing.support import probe


@on_loop
async def test_the_window_matches_the_catalog(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-3.5-turbo", tmp_path, ["context-window"])
    (result,) = report.results
    assert (result.value, result.contradicts) == (16_385, False)


@on_loop
async def test_a_smaller_window_than_claimed_contradicts(tmp_path: Path) -> None:
    async with FakeOpenAI(models=[Model("gpt-4o", context=9_000)], behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["context-window"])
    (result,) = report.results
    assert (result.value, result.contradicts) == (9_000, True)
    assert "server says so" in result.detail


@on_loop
async def test_a_server_that_silently_drops_the_start_is_detected(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=forgetful(9_000)) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["context-window"])
    (result,) = report.results
    assert isinstance(result.value, int)
    assert 7_000 <= result.value <= 9_000
    assert "lose their start" in result.detail


@on_loop
async def test_the_window_is_searched_if_the_server_states_no_limit(tmp_path: Path) -> None:
    def behaviour(body: dict[str, list[dict[str, str]]]) -> Step:
        if len(body["messages"][-1]["content"]) > 40_000:
            return Fail(400, "Input is too long for requested model.")
        return obedient(body)

    async with FakeOpenAI(behaviour=behaviour) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["context-window"])
    (result,) = report.results
    assert isinstance(result.value, int)
    assert 8_000 <= result.value <= 10_000
    assert "longer ones are refused" in result.detail


@on_loop
async def test_a_budget_ends_the_search_without_a_verdict(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        budget = Budget(money=50_000_000)
        report = await probe(fake, "gpt-4o", tmp_path, ["context-window"], budget=budget)
    (result,) = report.results
    assert result.verdict == "inconclusive"
    assert report.observations == ()
    assert "budget" in report.stopped
    assert report.spent is not None
    assert report.spent <= 50_000_000


@on_loop
async def test_a_model_that_never_answers_right_is_inconclusive(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=lambda _: Reply(text="hm")) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["context-window"])
    (result,) = report.results
    assert result.verdict == "inconclusive"
