"""The host's envelopes pass its own linter (section A of docs/spec/openwop.md)."""

from typing import Any

import pytest

from modelpact.openwop.builtin import ENVELOPES
from modelpact.schemas import lint_schema


@pytest.mark.parametrize("kind", ENVELOPES)
def test_every_supported_envelope_passes_the_linter(kind: str) -> None:
    """S001-A4, S001-A5, S001-A11, S001-T1, S001-W23, S001-W24: every kind in
    `supportedEnvelopes` follows section A of the specification.
    """
    report = lint_schema(ENVELOPES[kind], ["variants", "tier1"])
    assert report.ok, report.findings


def test_the_linter_rejects_an_envelope_that_is_not_strict() -> None:
    loose: dict[str, Any] = {**ENVELOPES["error"], "additionalProperties": True}
    assert not lint_schema(loose, ["tier1"]).ok
    several = {**ENVELOPES["error"], "oneOf": [{"type": "object"}]}
    assert not lint_schema(several, ["variants"]).ok
