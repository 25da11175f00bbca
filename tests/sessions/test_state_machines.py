"""State machines by name."""

from pathlib import Path

import pytest

from modelpact.configuration import Configuration, read_configuration
from modelpact.sessions import LoadError, find_machine, list_machines, required_set
from modelpact.vocabulary.errors import ConfigurationError, InputError

CONFIGURED = read_configuration(
    """
[machines.triage]
needs = ["streaming:preferred"]

[[machines.triage.stages]]
name = "sort"
needs = ["structured-output", "context>=32k"]

[[machines.triage.stages]]
name = "answer"
"""
)


def test_configured_and_bundled_machines_are_listed() -> None:
    assert [machine.name for machine in list_machines(CONFIGURED)] == ["triage", "review"]
    assert [machine.name for machine in list_machines(Configuration())] == ["review"]


def test_stages_contribute_what_they_need() -> None:
    needs = required_set(find_machine("triage", CONFIGURED))
    assert {need.capability: need.required_by for need in needs} == {
        "tool-calling": ("state-machine:triage",),
        "streaming": ("state-machine:triage",),
        "structured-output": ("state-machine:triage/sort",),
        "context-window": ("state-machine:triage/sort",),
    }


def test_a_configured_machine_replaces_a_bundled_one() -> None:
    own = read_configuration('[machines.review]\nneeds = ["audio"]\n')
    assert find_machine("review", own).needs == ("audio",)
    assert len(list_machines(own)) == 1


def test_a_machine_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('needs = ["tools"]\n[[stages]]\nname = "think"\n')
    machine = find_machine(str(path), Configuration())
    assert (machine.name, machine.stages[0].name) == ("plan", "think")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"not = = toml", "is not TOML"),
        (b"\xff", "is not TOML"),
        (b"stages = 3", "state machine"),
        (b"color = 'red'", "color"),
        (b"x" * 300_000, "larger than"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=error):
        find_machine(str(path), Configuration())


def test_the_contract_is_checked_when_a_machine_is_loaded() -> None:
    other = read_configuration('[machines.old]\ncontract = "^9.0"\n')
    assert [machine.name for machine in list_machines(other)] == ["old", "review"]
    with pytest.raises(LoadError):
        find_machine("old", other)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean review"):
        find_machine("reviev", Configuration())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[machines.m]\nneeds = ["tols"]', "machines.m.needs"),
        ('[[machines.m.stages]]\nname = "s"\nneeds = ["tols"]', "machines.m.stages.needs"),
        ("[machines.m]\nstages = 3", "machines.m.stages"),
        ("[[machines.m.stages]]\nneeds = []", "name"),
        ("[machines.m]\ncolor = 3", "unknown key 'color'"),
        ("[machines]\nm = 3", "expected a section"),
    ],
)
def test_a_wrong_machine_in_the_configuration_is_rejected(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        read_configuration(text)
