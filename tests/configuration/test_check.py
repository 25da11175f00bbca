"""Checking a workload: its model and its fallback are negotiated, and the problem is named."""

import pytest

from modelpact.configuration import read_configuration
from modelpact.configuration.check import WorkloadCheck, check_workload

MODELS = """
[providers.local]
kind = "vllm"
base_url = "http://127.0.0.1:8000/v1"
[models."local/able"]
tool_calling = true
context_window = 200000
[models."local/plain"]
tool_calling = false
context_window = 8192
"""


def check(workload: str, policy: str = "") -> WorkloadCheck:
    configuration = read_configuration(f"{policy}\n{MODELS}\n[workloads.extract]\n{workload}")
    return check_workload(configuration.workloads["extract"], configuration, configuration.catalog())


@pytest.mark.parametrize(
    ("workload", "runs", "problem"),
    [
        ('model = "local/able"', True, ""),
        ('model = "local/able"\nfallback = "local/able"', True, ""),
        ('model = "local/able"\nfallback = "local/plain"', True, "the fallback local/plain does not meet the needs"),
        (
            'model = "local/plain"\nfallback = "local/able"',
            True,
            "local/plain does not fit; every call will go to the fallback",
        ),
        ('model = "local/plain"', False, "local/plain does not meet the needs"),
        ('model = "local/plain"\nfallback = "local/plain"', False, "local/plain does not meet the needs"),
    ],
)
def test_the_model_and_the_fallback_decide(workload: str, runs: bool, problem: str) -> None:
    result = check(f'{workload}\nneeds = ["tools", "context>=100k"]')
    assert (result.runs, result.problem) == (runs, problem)


def test_every_miss_is_reported_with_a_diagnostic_on_the_model() -> None:
    result = check('model = "local/plain"\nneeds = ["tools", "context>=100k"]')
    missing = {finding.capability for finding in result.verdict.missing}
    assert missing == {"tool-calling", "context-window"}
    assert result.diagnostic is not None
    assert result.diagnostic.target == "local/plain"
    assert {miss.capability for miss in result.diagnostic.missing} == missing
    assert result.fallback is None


def test_a_preferred_need_that_is_not_met_is_no_problem() -> None:
    result = check('model = "local/plain"\nneeds = ["tools:preferred"]')
    assert (result.problem, result.verdict.answer) == ("", "labelled")


@pytest.mark.parametrize(("emulate", "fits"), [("true", True), ("false", False)])
def test_emulation_counts_if_the_policy_allows_it(emulate: str, fits: bool) -> None:
    result = check('model = "local/plain"\nneeds = ["tools"]', policy=f"[policy]\nemulate = {emulate}")
    assert result.verdict.ok is fits
