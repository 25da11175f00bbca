"""Node modules and packs: the schema of the openwop specification (S001-B1..5, S001-B15)."""

from typing import Any

import pytest

from modelpact.needs.dialects import FallbackModel, ManifestError, read_module, read_pack

MODULE = {
    "typeId": "vendor.acme.extract",
    "title": "Extract",
    "requires": ["secrets.byok"],
    "requiredModelCapabilities": ["structured-output", "x-host-acme-citations"],
    "fallbackModel": {"provider": "openai", "model": "gpt-5"},
}


def pack(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"name": "acme", "version": "1.0.0", "nodes": list(nodes)}


def problems(node: dict[str, Any]) -> str:
    with pytest.raises(ManifestError) as caught:
        read_pack(pack({"typeId": "vendor.acme.x", **node}))
    return str(caught.value)


def test_a_module_is_read_and_written_back() -> None:
    module = read_module(MODULE)
    assert module.required == ("structured-output", "x-host-acme-citations")
    assert module.fallback == FallbackModel("openai", "gpt-5")
    assert module.data() == MODULE


def test_host_capabilities_stay_apart_from_model_capabilities() -> None:
    """§B: "Distinct from `requires`, which gates on host capabilities"."""
    module = read_module(MODULE)
    assert module.requires == ("secrets.byok",)
    assert "secrets.byok" not in module.required


def test_no_requirements_and_an_empty_list_are_the_same() -> None:
    """§B: "Empty array (or absent field) means no model-capability requirements"."""
    assert read_module({"typeId": "a.b"}).required == ()
    assert read_module({"typeId": "a.b", "requiredModelCapabilities": []}).required == ()


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (["Structured-Output"], "is not an identifier"),
        (["structured_output"], "is not an identifier"),
        (["9lives"], "is not an identifier"),
        ([""], "is not an identifier"),
        (["reasoning", "reasoning"], "occurs twice"),
        (["vision-input"], "neither reserved nor x-host-<host>-<key>"),
        (["x-host-acme"], "neither reserved"),
        (["structured-outputs"], "did you mean structured-output?"),
        ([f"x-host-acme-k{n}" for n in range(33)], "at most 32 are allowed"),
        ([1], "expected a list of strings"),
        ("reasoning", "expected a list of strings"),
        (None, "expected a list of strings"),
    ],
)
def test_required_capabilities_are_checked(listed: Any, message: str) -> None:
    """§B: the pattern, `uniqueItems`, `maxItems: 32`; §C: reserved or `x-host-…`."""
    assert message in problems({"requiredModelCapabilities": listed})


def test_thirty_two_capabilities_are_taken() -> None:
    """§B: `maxItems: 32`."""
    listed = [f"x-host-acme-k{n}" for n in range(32)]
    assert len(read_module({"typeId": "a.b", "requiredModelCapabilities": listed}).required) == 32


@pytest.mark.parametrize(
    ("fallback", "message"),
    [
        ({"provider": "OpenAI", "model": "gpt-5"}, "is not a provider id"),
        ({"provider": "openai", "model": ""}, "fallbackModel.model"),
        ({"provider": "openai"}, "fallbackModel.model: is missing"),
        ({"provider": "openai", "model": "gpt-5", "effort": "high"}, "no field 'effort'"),
        (None, "leave it out if there is none"),
        ("openai/gpt-5", "expected {provider, model}"),
    ],
)
def test_a_fallback_is_a_closed_pair(fallback: Any, message: str) -> None:
    """§B: `fallbackModel` is closed, both fields required, patterns kept."""
    assert message in problems({"fallbackModel": fallback})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ManifestError) as caught:
        read_pack({"nodes": [{"requiredModelCapabilities": ["A"]}, 7]})
    message = str(caught.value)
    for place in ("name", "version", "nodes[0].typeId", "nodes[0].requiredModel", "nodes[1]"):
        assert place in message


def test_two_modules_of_one_type_are_refused() -> None:
    with pytest.raises(ManifestError, match="occurs twice"):
        read_pack(pack({"typeId": "a.b"}, {"typeId": "a.b"}))


def test_core_ai_modules_that_declare_nothing_are_warned_of() -> None:
    """Conformance: "every NodeModule … in the `core.ai.*` namespace declares" (SHOULD)."""
    read = read_pack(pack({"typeId": "core.ai.callPrompt"}, {"typeId": "core.files.read"}))
    assert [str(warning) for warning in read.warnings] == [
        "manifest: nodes[0]: core.ai.callPrompt calls a model and should declare "
        "requiredModelCapabilities"
    ]


def test_where_the_host_does_not_gate_the_fields_are_opaque() -> None:
    """§E: "the fields are treated as opaque metadata"."""
    node = {"typeId": "a.b", "requiredModelCapabilities": ["NOT AN ID"], "fallbackModel": 5}
    (module,) = read_pack(pack(node), gating=False).nodes
    assert module.required == ()
    assert module.fallback is None
    assert module.data() == node


@pytest.mark.parametrize("manifest", [None, [], 5, "x", {"nodes": {}}, {}])
def test_what_is_no_manifest_is_refused(manifest: Any) -> None:
    with pytest.raises(ManifestError):
        read_pack(manifest)
