"""Reports: verdicts as a line, as Markdown and as data; diagnostics for people."""

import json

import msgspec
import pytest

from modelpact import Catalog, Policy, Price, Strategies, Verdict, diagnose, need, negotiate
from modelpact.gateway.plan.plan import Plan
from modelpact.negotiation.stud import diagnostic_json, missing_json
from modelpact.negotiation.verdict import markdown, missing_data, one_line, verdict_data
from modelpact.sessions import SwitchRejected
from tests.conftest import catalog, claims, fact, lineage

CLAIMED = {
    "tool-calling": "native",
    "context-window": 8_000,
    "seed": "unsupported",
    "top-k": "restricted",
    "top-p": "emulated",
}


def ask(text: str, policy: Policy | None = None) -> Verdict:
    strategies = Strategies({"seed": "pretend"})
    return negotiate(text, claims(CLAIMED), policy or Policy(), strategies=strategies)


def test_the_one_line_form_of_a_plain_yes() -> None:
    assert one_line(ask("tools,context>=5k")) == "acme/model: yes, 2 of 2 needs met"


def test_the_one_line_form_of_a_yes_with_labels() -> None:
    line = one_line(ask("tools,top-k,logprobs:preferred"))
    assert line.startswith("acme/model: yes, with labels: ")
    assert "top-k restricted: by policy" in line
    assert "logprobs is not known of this model" in line
    assert "tool-calling" not in line


def test_the_one_line_form_of_a_no_names_every_missing_need_and_its_requirers() -> None:
    needs = [
        need("context", minimum="200k", required_by=["planner", "reader"]),
        need("top-p", min_support="native"),
        need("n"),
    ]
    assert one_line(negotiate(needs, claims(CLAIMED))) == (
        "acme/model: no: context-window has 8,000, needs 200,000 (required by planner, reader); "
        "top-p is only emulated; the need asks for native; n is not known of this model"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed", "is not supported"),
        ("n", "is not known of this model"),
        ("context>=9k", "has 8,000, needs 9,000"),
        ("top-k>=native", "is only restricted: by policy; the need asks for native"),
        ("tools:probed", "is checked when it is used"),
        ("tools", "is met"),
    ],
)
def test_every_finding_says_why(text: str, sentence: str) -> None:
    (finding,) = ask(text).findings
    assert finding.sentence() == sentence


def test_a_conflict_names_the_other_capability() -> None:
    claimed = claims({"seed": "native", "n": "native"}, excludes=[("n", "seed")])
    first, second = negotiate("seed,n", claimed).findings
    assert first.sentence() == "cannot be had together with n on this model"
    assert second.sentence() == "cannot be had together with seed on this model"


@pytest.mark.parametrize(
    ("text", "words"), [("tools", "fits"), ("tools,top-k", "fits, with labels"), ("seed", "does not fit")]
)
def test_markdown_says_it_in_the_heading(text: str, words: str) -> None:
    assert markdown(ask(text)).splitlines()[0] == f"### `acme/model` {words}"


def test_markdown_has_a_row_for_every_need() -> None:
    text = markdown(ask("tools,seed:preferred,n:probed,context>=9k"))
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0] for row in rows] == ["| ✓", "| !", "| ?", "| ✗"]
    assert "`context-window>=9000`" in rows[3]


def test_a_refusal_says_when_emulation_would_have_helped() -> None:
    """MP-N11: a refusal says when emulation or a fallback would have helped."""
    assert "emulation could help: pretend" in markdown(ask("seed"))
    assert "emulated by us: pretend" in markdown(ask("seed", Policy(emulate=True)))


def test_pipes_do_not_break_the_table() -> None:
    claimed = claims({"seed": "native"}, target="acme/a|b")
    table = markdown(negotiate([need("seed")], claimed))
    assert table.count("\n| ✓ |") == 1


def test_data_is_plain_json_and_says_everything() -> None:
    verdict = ask("tools,seed:preferred,top-k")
    data = json.loads(msgspec.json.encode(verdict_data(verdict, diagnose(verdict))))
    assert (data["target"], data["answer"], data["ok"]) == ("acme/model", "labelled", True)
    assert [finding["outcome"] for finding in data["findings"]] == ["met", "preferred-unmet", "met"]
    assert data["findings"][2]["claim"] == {"capability": "top-k", "support": "restricted", "reason": "by policy"}
    assert data["diagnostic"]["target"] == "acme/model"
    assert "diagnostic" not in verdict_data(ask("tools"))


def small() -> Catalog:
    rules = """
    [[rules]]
    match = { kind = "exact", model = "gpt-small" }
    caps.tool_calling = false
    caps.temperature = false
    """
    good = {"tool_calling": True, "output_modalities": ["text"]}
    facts = [fact("openai/gpt-small", Price(1, 1)), fact("openai/gpt-big", Price(1, 1), **good)]
    return catalog(rules, lineage("one", *facts), lineage("two", *facts))


def test_a_diagnosis_adds_what_the_session_knows() -> None:
    """S000-9-1..5: the five fields of a diagnostic."""
    source = small()
    target = source.resolve("openai", "gpt-small")
    verdict = negotiate([need("tools", required_by="sm")], target)
    diagnostic = diagnose(
        verdict, previous="openai/gpt-big", params={"launch": {"temperature": 0.5}}, target=target, catalog=source
    )
    assert diagnostic is not None
    assert diagnostic.target == "openai/gpt-small"
    assert [(miss.capability, miss.required_by) for miss in diagnostic.missing] == [("tool-calling", ("sm",))]
    assert diagnostic.previous == "openai/gpt-big"
    assert diagnostic.suggestion == "openai/gpt-big"
    assert [param.param_path for param in diagnostic.params_affected] == [("temperature",)]
    text = markdown(verdict, diagnostic)
    assert "Suggestion: `openai/gpt-big`" in text
    assert "- `temperature`: " in text


def test_the_diagnostic_of_a_verdict_is_the_one_that_diagnose_makes() -> None:
    """A rejected verdict carries a diagnostic, and its suggestion is one that fits."""
    source = small()
    verdict = negotiate("tools", "openai/gpt-small", catalog=source)
    assert verdict.diagnostic == diagnose(verdict, catalog=source)
    assert verdict.diagnostic is not None
    assert verdict.diagnostic.suggestion == "openai/gpt-big"


def test_a_verdict_that_is_a_plain_yes_has_no_diagnostic() -> None:
    assert negotiate("tools", "openai/gpt-big", catalog=small()).diagnostic is None


def test_a_plain_yes_has_no_diagnosis() -> None:
    source = small()
    assert diagnose(negotiate("tools", "openai/gpt-big", catalog=source), catalog=source) is None


def test_a_verdict_with_warnings_gets_no_suggestion() -> None:
    source = small()
    verdict = negotiate("tools:preferred", "openai/gpt-small", catalog=source)
    diagnostic = diagnose(verdict, previous="a/b", catalog=source)
    assert diagnostic is not None
    assert (diagnostic.missing, diagnostic.suggestion, diagnostic.previous) == ((), None, "a/b")


def test_every_format_writes_the_same_missing_capabilities() -> None:
    """`--json`, the gateway's plan and `stud` differ only in names and in the message."""
    verdict = negotiate([need("tools", required_by="sm")], "openai/gpt-small", catalog=small())
    diagnostic = verdict.diagnostic
    assert diagnostic is not None
    (item,) = missing_data(diagnostic.missing)
    assert item == {
        "capability": "tool-calling",
        "requiredBy": ["sm"],
        "reason": "unsupported",
        "message": "is not supported",
    }
    assert verdict_data(verdict, diagnostic)["diagnostic"]["missing"] == [item]
    plan = Plan("refuse", "no", "gpt-small", diagnostic=diagnostic)
    assert plan.data()["diagnostic"]["missing"] == [item]
    in_stud = {"capability": "toolCalling", "requiredBy": ["sm"], "reason": "unsupported"}
    assert missing_json(diagnostic.missing) == [in_stud]
    assert diagnostic_json(diagnostic)["missing"] == [in_stud]
    assert SwitchRejected(verdict, diagnostic, "/model").context["missing"] == [in_stud]
