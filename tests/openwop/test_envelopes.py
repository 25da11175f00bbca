"""The host's envelopes pass its own linter (section A of docs/spec/openwop.md)."""

from typing import Any

import pytest

from modelpact.openwop.documents import envelope_schemas
from modelpact.schemas.lint import lint_schema


@pytest.mark.parametrize("kind", envelope_schemas())
def test_every_supported_envelope_passes_the_linter(kind: str) -> None:
    """S001-A4, S001-A5, S001-A11, S001-T1, S001-W23, S001-W24: every kind in
    `supportedEnvelopes` follows section A of the specification.
    """
    report = lint_schema(envelope_schemas()[kind], ["variants", "tier1"])
    assert report.ok, report.findings


def test_the_linter_rejects_an_envelope_that_is_not_strict() -> None:
    loose: dict[str, Any] = {**envelope_schemas()["error"], "additionalProperties": True}
    assert not lint_schema(loose, ["tier1"]).ok
    several = {**envelope_schemas()["error"], "oneOf": [{"type": "object"}]}
    assert not lint_schema(several, ["variants"]).ok
