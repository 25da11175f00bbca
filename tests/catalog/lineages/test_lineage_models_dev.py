"""Reading models.dev, as a folder and as an archive."""

import io
import tarfile
from pathlib import Path

import pytest

from modelpact.catalog.lineages.models_dev import extract
from modelpact.catalog.lineages.rows import Extraction, Row, encode

PROVIDERS = {"acme": "acme", "acme-twin": "acme", "other": "other"}
PLAIN = 'tool_call = true\n[modalities]\ninput = ["text"]\noutput = ["text"]\n'


def plant(root: Path, files: dict[str, str], links: dict[str, str] | None = None) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, target in (links or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    return root


def only_row(tmp_path: Path, text: str, model: str = "m", **files: str) -> Row:
    root = plant(tmp_path, {f"providers/acme/models/{model}.toml": text, **files})
    result = extract(root, PROVIDERS)
    assert not result.skipped
    return result.rows[0]


def reasons(result: Extraction) -> dict[str, str]:
    return {each.name: each.reason for each in result.skipped}


def test_every_field_of_a_model_file_is_read(tmp_path: Path) -> None:
    row = only_row(
        tmp_path,
        """
release_date = "2026-01-02"
status = "beta"
tool_call = true
structured_output = false
reasoning = true
temperature = false
reasoning_options = [
  { type = "toggle" },
  { type = "effort", values = ["high", "low", "default", "null"] },
  { type = "budget_tokens", min = 1024 },
]
[limit]
context = 200_000
input = 0
output = 64_000
[modalities]
input = ["image", "text", "pdf"]
output = ["image", "text"]
[cost]
input = 3
output = 15.00
cache_read = 0.30
reasoning = 15
[[cost.tiers]]
tier = { type = "context", size = 200_000 }
input = 6
output = 22.5
""",
        "vendor/m",
    )
    base = {"input": 3_000_000, "output": 15_000_000, "cache_read": 300_000}
    assert row == {
        "provider": "acme",
        "model": "vendor/m",
        "caps": {
            "context_window": 200_000,
            "max_output": 64_000,
            "input_modalities": ["text", "image", "pdf"],
            "output_modalities": ["text", "image-gen"],
            "tool_calling": True,
            "structured_output": False,
            "reasoning": True,
            "temperature": False,
            "reasoning_effort": ["low", "high"],
            "thinking_budget": True,
        },
        "price": {**base, "tiers": [[200_000, {**base, "input": 6_000_000, "output": 22_500_000}]]},
        "released": "2026-01-02",
        "status": "beta",
    }


def test_the_older_form_of_a_tier_is_read_too(tmp_path: Path) -> None:
    cost = "[cost]\ninput = 1\n[cost.context_over_200k]\ninput = 2\n"
    price = only_row(tmp_path, PLAIN + cost)["price"]
    assert price == {"input": 1_000_000, "tiers": [[200_000, {"input": 2_000_000}]]}


def test_a_model_inherits_and_omits(tmp_path: Path) -> None:
    base = "reasoning = true\nstructured_output = true\n" + PLAIN + "[limit]\ncontext = 9\noutput = 4\n"
    over = (
        'base_model = "vendor/m"\nbase_model_omit = ["structured_output", "limit.input"]\n'
        "reasoning = false\n[limit]\noutput = 3\n"
    )
    row = only_row(tmp_path, over, **{"models/vendor/m.toml": base})
    assert row["base"] == "vendor/m"
    assert row["caps"] == {
        "context_window": 9,
        "max_output": 3,
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "reasoning": False,
        "tool_calling": True,
    }


def test_embeddings_are_told_apart_and_their_vector_is_no_output_limit(tmp_path: Path) -> None:
    text = 'family = "text-embedding"\n' + PLAIN + "[limit]\ncontext = 512\noutput = 1024\n"
    caps = only_row(tmp_path, text)["caps"]
    assert caps["output_modalities"] == ["embedding"]
    assert caps["context_window"] == 512
    assert "max_output" not in caps


def test_an_output_outside_the_vocabulary_is_dropped(tmp_path: Path) -> None:
    text = '[modalities]\ninput = ["text"]\noutput = ["image", "pdf"]\n'
    assert only_row(tmp_path, text)["caps"]["output_modalities"] == ["image-gen"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[modalities]\ninput = ["audio"]\noutput = ["text"]\n', "no text input"),
        ('base_model = "no/such"\n', "base model not found"),
        ("tool_call = 1\n", "tool_call is int"),
        ('[limit]\ncontext = "big"\n', "limit.context is str"),
        ("[cost]\ninput = -1\n", "cost.input is -1"),
        ('release_date = "2025-25-11"\n', "release_date is not a date"),
        ('status = "gone"\n', "status is 'gone'"),
        ("limit = 3\n", "limit is int"),
        ("= nothing", "not TOML"),
    ],
)
def test_a_bad_row_is_skipped_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    files = {"providers/acme/models/bad.toml": text, "providers/acme/models/good.toml": PLAIN}
    result = extract(plant(tmp_path, files), PROVIDERS)
    assert [row["model"] for row in result.rows] == ["good"]
    assert reasons(result) == {"acme/bad": reason}


def test_links_are_followed_and_dangling_ones_reported(tmp_path: Path) -> None:
    links = {
        "providers/other/models/v/linked.toml": "../../../acme/models/m.toml",
        "providers/other/models/twice.toml": "v/linked.toml",
        "providers/other/models/lost.toml": "../../acme/models/none.toml",
        "providers/other/models/loop.toml": "loop.toml",
    }
    root = plant(tmp_path, {"providers/acme/models/m.toml": PLAIN}, links)
    result = extract(root, PROVIDERS)
    models = [(row["provider"], row["model"]) for row in result.rows]
    assert models == [("acme", "m"), ("other", "twice"), ("other", "v/linked")]
    assert reasons(result) == {"other/lost": "dangling link", "other/loop": "dangling link"}


def test_of_two_sources_of_one_provider_the_first_listed_wins(tmp_path: Path) -> None:
    files = {
        "providers/acme-twin/models/m.toml": PLAIN.replace("true", "false"),
        "providers/acme/models/m.toml": PLAIN,
        "providers/stranger/models/m.toml": PLAIN,
        "providers/acme/provider.toml": 'name = "Acme"\n',
    }
    result = extract(plant(tmp_path, files), PROVIDERS)
    assert [row["caps"]["tool_calling"] for row in result.rows] == [True]
    assert reasons(result) == {"acme-twin/m": "duplicate of acme/m, differs in tool_calling"}
    assert result.unmapped == {"stranger": 1}


def archive_of(path: Path, names: list[str], prefix: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"{prefix}providers/{name}")
            member.mtime = 1_767_225_600
            if name.startswith("other"):
                member.type, member.linkname = tarfile.SYMTYPE, "../../acme/models/m.toml"
                archive.addfile(member)
            else:
                member.size = len(PLAIN)
                archive.addfile(member, io.BytesIO(PLAIN.encode()))
    return path


def test_an_archive_gives_the_same_bytes_whatever_its_order_or_folder(tmp_path: Path) -> None:
    names = ["other/models/m.toml", "acme/models/m.toml", "acme/models/n.toml"]
    results = [
        extract(archive_of(tmp_path / "a-2026-07-02.tar.gz", names), PROVIDERS),
        extract(archive_of(tmp_path / "b-2026-07-02.tar.gz", names[::-1], "top/"), PROVIDERS),
    ]
    first, second = (encode(each.header, each.rows) for each in results)
    assert first == second
    assert len(results[0].rows) == 3
    assert results[0].header["date"] == "2026-07-02"


def test_an_archive_without_a_date_in_its_name_is_as_old_as_its_newest_file(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "snapshot.tar.gz", ["acme/models/m.toml"])
    assert extract(path, PROVIDERS).header["date"] == "2026-01-01"
    assert extract(path, PROVIDERS, date="2026-02-03").header["date"] == "2026-02-03"
