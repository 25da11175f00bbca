"""Loading pack manifests from JSON and TOML files, and the problems with them."""

import json
from pathlib import Path

import pytest

from modelpact.configuration.load import load_pack
from modelpact.needs.dialects import ManifestError

PACK = {
    "name": "acme",
    "version": "1.0.0",
    "nodes": [{"typeId": "vendor.acme.think", "requiredModelCapabilities": ["reasoning"]}],
}
TOML = """
name = "acme"
version = "1.0.0"
[[nodes]]
typeId = "vendor.acme.think"
requiredModelCapabilities = ["reasoning"]
"""


def test_json_and_toml_give_the_same_pack(tmp_path: Path) -> None:
    (tmp_path / "pack.json").write_text(json.dumps(PACK))
    (tmp_path / "pack.toml").write_text(TOML)
    assert load_pack("pack.json", tmp_path) == load_pack("pack.toml", tmp_path)
    assert load_pack(tmp_path / "pack.json").nodes[0].required == ("reasoning",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pack.json", "{", "not a manifest"),
        ("pack.json", '{"name": "a", "name": "b"}', "occurs twice"),
        ("pack.toml", "= 1", "not a manifest"),
        ("pack.json", '{"name": "a", "version": "1", "nodes": [7]}', r"nodes\[0\]"),
    ],
)
def test_an_invalid_manifest_is_reported_with_its_file(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ManifestError, match=message) as caught:
        load_pack(name, tmp_path)
    assert name in str(caught.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be read"):
        load_pack("nowhere.json", tmp_path)
