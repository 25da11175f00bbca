"""`modelpact catalog`: build, verify, diff, update, conflicts, extract."""

import json
from pathlib import Path

from modelpact.catalog.build import LINEAGES
from modelpact.catalog.snapshot import BUNDLED
from tests.cli.conftest import Run


def test_build_makes_the_shipped_bytes_again(run: Run, tmp_path: Path) -> None:
    done = run("catalog", "build", "--out", str(tmp_path / "again.msgpack"))
    assert done.returncode == 0
    assert (tmp_path / "again.msgpack").read_bytes() == BUNDLED.read_bytes()


def test_verify_finds_no_errors_in_what_is_shipped(run: Run) -> None:
    done = run("catalog", "verify", "--json")
    conflicts = json.loads(done.stdout)
    assert done.returncode == 0
    assert conflicts["errors"] == []
    assert conflicts["models"] > 5_000


def test_conflicts_show_the_votes_and_the_value_used(run: Run) -> None:
    done = run("catalog", "conflicts", "--capability", "context-window", "--json")
    conflicts = json.loads(done.stdout)
    assert conflicts
    for entry in conflicts:
        if entry["taken"]["evidence"]["layer"] == "facts":
            assert entry["taken"]["value"] == min(vote["value"] for vote in entry["votes"])


def test_diff_of_a_snapshot_with_itself_is_empty(run: Run) -> None:
    done = run("catalog", "diff", str(BUNDLED), str(BUNDLED))
    assert done.returncode == 0
    assert "No difference" in done.stdout


LITELLM = {
    "brand-new-model": {
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": 777_000,
        "supports_function_calling": True,
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 2e-06,
        "source": "https://example.org/2099-01-01",
    }
}


def test_update_merges_a_newer_file_for_one_user(run: Run, tmp_path: Path) -> None:
    lines = (LINEAGES / "litellm.jsonl").read_text(encoding="utf-8").splitlines()
    header = json.loads(lines[0]) | {"date": "2099-01-01", "version": "99"}
    fact = {"provider": "openai", "model": "brand-new-model", "caps": {"tool_calling": True, "context_window": 777_000}}
    newer = tmp_path / "litellm.jsonl"
    rows = [header, *map(json.loads, lines[1:200]), fact]
    newer.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert run("catalog", "update", "--from", str(newer)).returncode == 2, "far fewer models"
    assert run("catalog", "update", "--from", str(newer), "--force").returncode == 0
    output = json.loads(run("show", "openai/brand-new-model", "--json").stdout)
    assert output["listed"] is True
    assert output["claims"]["context-window"]["value"] == 777_000
    changed = run("catalog", "diff", str(BUNDLED), "--json")
    assert {"target": "openai/brand-new-model", "kind": "added"}.items() <= next(
        entry for entry in json.loads(changed.stdout) if entry["target"] == "openai/brand-new-model"
    ).items()


def test_an_older_update_does_not_hide_the_bundled_catalog(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "model_prices.json"
    source.write_text(json.dumps(LITELLM), encoding="utf-8")
    done = run("catalog", "extract", "litellm", str(source), "--out", str(tmp_path / "x.jsonl"))
    assert done.returncode == 0
    rows = (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(rows[1])["caps"]["max_input"] == 777_000


def test_extract_of_rubbish_is_an_input_error(run: Run, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.json"
    rubbish.write_text("not json at all")
    done = run("catalog", "extract", "litellm", str(rubbish), "--out", str(tmp_path / "x.jsonl"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
