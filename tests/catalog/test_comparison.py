"""Comparing two models: each kind of difference, and their order."""

import pytest

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog
from modelpact.catalog.comparison import compare_models
from modelpact.catalog.resolution import Resolution

YES, NO, UNKNOWN = True, False, "unknown"


def resolve(**fields: object) -> Resolution:
    catalog: Catalog = default_catalog().extended(
        overlay={("local", "model"): Overlay(fields, "test", "")}, configured={"local": "vllm"}
    )
    return catalog.resolve("local", "model")


def differences(before: Resolution, after: Resolution) -> dict[str, str]:
    return {difference.capability: difference.kind for difference in compare_models(before, after)}


def test_a_model_does_not_differ_from_itself() -> None:
    model = resolve(tool_calling=YES, context_window=8192)
    assert compare_models(model, model) == []


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (YES, NO, "lost"),
        (NO, YES, "gained"),
        (UNKNOWN, YES, "gained"),
        (YES, UNKNOWN, "unsure"),
        (YES, {"restricted": "one at a time"}, "other"),
        ({"restricted": "one at a time"}, NO, "lost"),
        (NO, UNKNOWN, None),
        (UNKNOWN, NO, None),
    ],
)
def test_support_is_lost_gained_unsure_or_other(before: object, after: object, kind: str | None) -> None:
    found = differences(resolve(tool_calling=before), resolve(tool_calling=after))
    assert found.get("tool-calling") == kind


@pytest.mark.parametrize(("after", "kind"), [(4096, "less"), (16384, "more"), (8192, None)])
def test_limits_are_compared_as_numbers(after: int, kind: str | None) -> None:
    found = differences(resolve(context_window=8192), resolve(context_window=after))
    assert found.get("context-window") == kind


def test_losses_come_first_and_gains_last() -> None:
    before = resolve(tool_calling=YES, reasoning=NO, context_window=8192, logprobs=YES)
    after = resolve(tool_calling=NO, reasoning=YES, context_window=4096, logprobs=UNKNOWN)
    kinds = [difference.kind for difference in compare_models(before, after)]
    assert kinds == sorted(kinds, key=("lost", "less", "unsure", "gained").index)
    assert set(kinds) == {"lost", "less", "unsure", "gained"}


def test_a_difference_has_both_claims() -> None:
    (difference,) = [
        difference
        for difference in compare_models(resolve(tool_calling=YES), resolve(tool_calling=NO))
        if difference.capability == "tool-calling"
    ]
    assert (difference.before.support, difference.after.support) == ("native", "unsupported")
