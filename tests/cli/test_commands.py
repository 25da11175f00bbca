"""The commands of the engine, as processes: output for people, JSON, exit codes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


def data(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_show_has_claims_with_evidence(run: Run) -> None:
    done = run("show", "anthropic/claude-opus-4-5")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines() if "tool-calling" in line]
    assert lines[0][0] == "✓"
    assert "models-dev" in lines[0]


def test_show_trace_names_each_layer_in_order(run: Run) -> None:
    done = run("show", "anthropic/claude-opus-4-5", "--trace", "--json")
    layers = [entry["layer"] for entry in data(done)["trace"]]
    assert layers[0] == "defaults"
    assert layers.index("rule") < layers.index("facts")
    assert done.returncode == 0


def test_show_json_has_the_model_capabilities(run: Run) -> None:
    """S004-4-1 to S004-4-9: the nine fields."""
    capabilities = data(run("show", "openai/gpt-4o", "--json"))["modelCapabilities"]
    assert set(capabilities) == {
        "token_limit_param",
        "input_modalities",
        "output_modalities",
        "tool_calling",
        "parallel_tool_calls",
        "streaming",
        "json_mode",
        "caching",
        "supported_parameters",
    }


def test_show_of_an_unlisted_model_says_so(run: Run) -> None:
    done = run("show", "openai/nobody-knows-this-one")
    assert done.returncode == 0
    assert "No public catalog lists this model" in done.stdout


def test_an_unknown_provider_is_an_input_error_with_a_hint(run: Run) -> None:
    done = run("show", "anthropc/claude")
    assert done.returncode == 2
    assert "did you mean anthropic" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "args",
    [
        ("show",),
        ("show", "no-slash"),
        ("show", "/"),
        ("nonsense",),
        ("models", "--need", "nonsense-need"),
        ("models", "--provider", "nonsense-provider"),
        ("models", "--sort", "nonsense"),
        ("negotiate",),
        ("negotiate", "--target", "openai/gpt-5"),
        ("negotiate", "--dialect", "stud", "--need", "tools"),
        ("negotiate", "--dialect", "stud", "--report"),
        ("catalog", "diff", "no-such-file"),
        ("catalog", "update", "--from", "no-such-file.json"),
        ("catalog", "update", "--from", "http://example.org/x.json"),
        ("check",),
        ("check", "no-such-file.toml"),
    ],
)
def test_wrong_usage_exits_with_2_and_no_traceback(run: Run, args: tuple[str, ...]) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_models_lists_real_models_with_prices_cheapest_first(run: Run) -> None:
    matches = data(run("models", "--need", "tools,structured-output,context>=200k", "--sort", "price", "--json"))
    prices = [model["price"]["input"] + model["price"]["output"] for model in matches["models"]]
    assert matches["total"] > 100
    assert prices == sorted(prices)
    assert all(price > 0 for price in prices)
    assert all(model["claims"]["tool-calling"] == "native" for model in matches["models"])


def test_models_by_capability(run: Run) -> None:
    """S004-8-2: "A query by capability"."""
    matches = data(run("models", "--provider", "anthropic", "--capability", "computer-use", "--json"))
    names = [model["model"] for model in matches["models"]]
    assert "anthropic/claude-opus-4-5" in names
    assert all(name.startswith("anthropic/") for name in names)


def test_models_exits_with_1_and_counts_the_models_of_each_need(run: Run) -> None:
    done = run("models", "--need", "tools,context>=900M")
    assert done.returncode == 1
    assert "tool-calling" in done.stdout


def test_diff_shows_losses_and_gains(run: Run) -> None:
    changes = {
        change["capability"]: change["change"]
        for change in data(run("diff", "openai/gpt-4o", "openai/gpt-5", "--json"))["changes"]
    }
    assert changes["temperature"] == "lost"
    assert changes["reasoning"] == "gained"
    assert changes["context-window"] == "more"


def test_the_exit_code_of_negotiate_is_its_answer(run: Run) -> None:
    yes = run("negotiate", "--target", "anthropic/claude-opus-4-5", "--need", "tools")
    no = run("negotiate", "--target", "openai/gpt-4o-mini", "--need", "tools,context>=200k")
    assert (yes.returncode, no.returncode) == (0, 1)
    assert "fits" in yes.stdout
    assert "128,000, needs 200,000" in no.stdout
    assert "Suggestion: openai/" in no.stdout


def test_negotiate_in_the_stud_dialect(run: Run) -> None:
    """MP-J1: the JSON of `negotiate --dialect stud`."""
    request = {
        "requirements": [
            {"name": "toolCalling", "level": "hard", "requiredBy": "sm"},
            {"name": "promptCaching", "level": "preferred"},
        ],
        "claims": {"toolCalling": False, "promptCaching": "absent"},
    }
    done = run("negotiate", "--dialect", "stud", stdin=json.dumps(request))
    answer = data(done)
    assert done.returncode == 1
    assert answer["ok"] is False
    assert answer["missing"] == [{"capability": "toolCalling", "requiredBy": ["sm"], "reason": "unsupported"}]
    assert answer["warnings"] == [{"name": "promptCaching", "reason": "preferred-unmet"}]
    assert answer["error"]["class"] == "ProviderCapability"
    assert answer["error"]["code"] == "MissingCapability"


def test_negotiate_in_the_abp_dialect(run: Run) -> None:
    """MP-J2, S002-6-7: an incompatible result exits with 1 and `CAPABILITY_UNSUPPORTED`."""
    request = {
        "manifest": {"streaming": "native"},
        "requirements": {"required": [{"capability": "tool_edit", "min_support": "emulated"}]},
    }
    done = run("negotiate", "--dialect", "abp", stdin=json.dumps(request))
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"native": [], "emulatable": [], "unsupported": ["tool_edit"]}
    assert "CAPABILITY_UNSUPPORTED" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "{",
        '{"requirements": []}',
        '{"requirements": [], "claims": {}, "target": "a/b"}',
        '{"requirements": [], "claims": {"streaming": "yes"}}',
        '{"requirements": [], "claims": {"streaming": 1}}',
        '{"requirements": [], "claims": {"contextWindow": "many"}}',
        '{"requirements": [], "claims": {"contextWindow": -1}}',
        '{"requirements": [], "claims": {"contextWindow": NaN}}',
        '{"requirements": [], "claims": {"nonsense": true}}',
        '{"requirements": [{"name": "streaming", "level": "must"}], "claims": {}}',
        '{"requirements": [{"name": "streaming"}], "claims": {}}',
        '{"requirements": [], "requirements": [], "claims": {}}',
        "[" * 100_000,
    ],
)
def test_negotiate_in_the_stud_dialect_rejects_bad_input(run: Run, text: str) -> None:
    done = run("negotiate", "--dialect", "stud", stdin=text)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("modelpact: ")


def test_completion_scripts(run: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_MODELPACT_COMPLETE" in run("completion", shell).stdout


def test_completion_of_a_target(run: Run) -> None:
    done = run(
        _MODELPACT_COMPLETE="bash_complete", COMP_WORDS="modelpact show anthropic/claude-opus-4-5", COMP_CWORD="2"
    )
    assert "anthropic/claude-opus-4-5" in done.stdout


def test_every_command_has_help_that_says_what_it_does(run: Run) -> None:
    listing = run("--help")
    for name in ("show", "models", "diff", "check", "negotiate", "emulate", "catalog"):
        assert name in listing.stdout
        assert "Usage:" in run(name, "--help").stdout


def test_colour_only_on_a_terminal_or_when_forced(run: Run) -> None:
    plain = run("show", "openai/gpt-5", NO_COLOR="")
    forced = run("show", "openai/gpt-5", NO_COLOR="", FORCE_COLOR="1")
    assert "\x1b[" not in plain.stdout
    assert "\x1b[" in forced.stdout


WORKLOADS = """
[providers.local]
kind = "vllm"

[models."local/tuned"]
tool_calling = true
context_window = 32768

[workloads.good]
model = "anthropic/claude-opus-4-5"
needs = ["tools", "structured-output", "context>=200k"]
fallback = "openai/gpt-5"

[workloads.own]
model = "local/tuned"
needs = ["tools", "context>=32k"]

[workloads.bad]
model = "openai/gpt-4o-mini"
needs = ["reasoning", "context>=200k"]

[workloads.saved]
model = "openai/gpt-4o-mini"
needs = ["reasoning"]
fallback = "openai/gpt-5"
"""


@pytest.fixture
def workloads(tmp_path: Path) -> Path:
    path = tmp_path / "modelpact.toml"
    path.write_text(WORKLOADS, encoding="utf-8")
    return path


def test_check_diagnoses_every_workload(run: Run, workloads: Path) -> None:
    done = run("check")
    assert done.returncode == 1
    assert "good: anthropic/claude-opus-4-5 fits" in done.stdout
    assert "own: local/tuned fits" in done.stdout
    assert "bad: openai/gpt-4o-mini does not fit" in done.stdout
    assert "every call will go to the fallback" in done.stdout


def test_check_finds_the_file_upward(run: Run, workloads: Path, tmp_path: Path) -> None:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    done = run("check", str(workloads), "--json")
    names = {workload["name"]: workload["problem"] for workload in data(done)["workloads"]}
    assert names["good"] is None
    assert names["bad"]


def test_check_sarif_points_at_the_line(run: Run, workloads: Path) -> None:
    log = data(run("check", "--format", "sarif"))
    results = log["runs"][0]["results"]
    lines = WORKLOADS.splitlines()
    for result in results:
        place = result["locations"][0]["physicalLocation"]
        name = result["message"]["text"].split(":")[0]
        assert lines[place["region"]["startLine"] - 1] == f"[workloads.{name}]"
    assert {result["level"] for result in results} == {"error", "warning"}


def test_check_junit_is_xml_with_a_case_for_each(run: Run, workloads: Path) -> None:
    from xml.etree import ElementTree

    suite = ElementTree.fromstring(run("check", "--format", "junit").stdout)
    assert suite.get("tests") == "4"
    assert suite.get("failures") == "2"


def test_check_reports_line_and_key_of_every_problem(run: Run, tmp_path: Path) -> None:
    (tmp_path / "modelpact.toml").write_text(
        '[policy]\nunknown = "maybe"\n[workloads.x]\nmodel = "openai/gpt-5"\nneds = []\n'
    )
    done = run("check")
    assert done.returncode == 2
    assert "modelpact.toml:2: policy.unknown" in done.stderr
    assert "modelpact.toml:5: workloads.x.neds" in done.stderr
