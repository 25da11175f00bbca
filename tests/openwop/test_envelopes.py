"""The host's own envelopes, held to its own linter (seed 001 §A and the static scenario)."""

from typing import Any

import pytest

from modelpact.openwop.builtin import ENVELOPES
from modelpact.schemas import lint_schema


@pytest.mark.parametrize("kind", ENVELOPES)
def test_every_supported_envelope_passes_the_linter(kind: str) -> None:
    """ "For every kind in the host's `supportedEnvelopes` advertisement, statically asserts" """
    report = lint_schema(ENVELOPES[kind], ["variants", "tier1"])
    assert report.ok, report.findings


def test_the_linter_would_object_to_an_envelope_that_is_not_strict() -> None:
    loose: dict[str, Any] = {**ENVELOPES["error"], "additionalProperties": True}
    assert not lint_schema(loose, ["tier1"]).ok
    several = {**ENVELOPES["error"], "oneOf": [{"type": "object"}]}
    assert not lint_schema(several, ["variants"]).ok
