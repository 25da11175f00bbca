"""Contract versions: semver ranges, checked when an extension is loaded."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact import InputError
from modelpact.ledger import Ledger
from modelpact.sessions import ContextProvider, Hook, LoadError, StateMachine, SwitchRejected
from modelpact.sessions.versions import CONTRACT_VERSION, ContractVersion, VersionRange
from tests.sessions.support import opened, seen, small_catalog, stored

NUMBERS = st.integers(0, 3)
VERSIONS = st.builds(ContractVersion, NUMBERS, NUMBERS, NUMBERS)


def holds(text: str, version: str) -> bool:
    return ContractVersion.parse(version) in VersionRange.parse(text)


def test_the_contract_version_is_that_of_the_specification() -> None:
    """S000-1-4: the version of the contract is 1.0.1."""
    assert str(CONTRACT_VERSION) == "1.0.1"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("^1.0", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0", "2.0.0-rc.1"]),
        ("^1.2.3", ["1.2.3", "1.3.0"], ["1.2.2", "2.0.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "1.0.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]),
        ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
        ("^0", ["0.0.0", "0.9.9"], ["1.0.0"]),
        ("^1", ["1.0.0", "1.5.0"], ["2.0.0"]),
        ("~1.2", ["1.2.0", "1.2.9"], ["1.3.0", "1.1.9"]),
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.3.0", "1.2.2"]),
        ("~1", ["1.0.0", "1.9.0"], ["2.0.0"]),
        (">=1.0,<2", ["1.0.0", "1.99.0"], ["0.9.0", "2.0.0"]),
        (">=1.0, <1.0.1", ["1.0.0"], ["1.0.1"]),
        ("1.x", ["1.0.0", "1.7.3"], ["2.0.0", "0.9.0"]),
        ("1.*", ["1.0.0"], ["2.0.0"]),
        ("1.0.x", ["1.0.1"], ["1.1.0"]),
        ("1", ["1.2.3"], ["2.0.0"]),
        ("*", ["0.0.0", "9.9.9"], []),
        ("1.0.1", ["1.0.1"], ["1.0.0", "1.0.2"]),
        ("=1.0", ["1.0.5"], ["1.1.0"]),
        (">1.0", ["1.1.0"], ["1.0.9"]),
        (">1.0.0", ["1.0.1"], ["1.0.0"]),
        ("<=1.0", ["1.0.9"], ["1.1.0"]),
        ("<=1.0.0", ["1.0.0"], ["1.0.1"]),
        (">=1.0.0-rc.1", ["1.0.0-rc.1", "1.0.0-rc.2", "1.0.0"], ["1.0.0-alpha", "1.1.0-rc.1"]),
        ("^1.0.0-rc.1", ["1.0.0-rc.2", "1.5.0"], ["2.0.0"]),
    ],
)
def test_ranges(text: str, inside: list[str], outside: list[str]) -> None:
    assert [version for version in inside if not holds(text, version)] == []
    assert [version for version in outside if holds(text, version)] == []


@pytest.mark.parametrize("text", ["", " ", "^", "1.2.3.4", "v1", "1,,2", ">=", "01.0", "1.x.3", "latest", "1" * 300, 7])
def test_invalid_ranges(text: str) -> None:
    with pytest.raises(InputError, match=r"range of versions|only x may follow an x"):
        VersionRange.parse(text)


@pytest.mark.parametrize("text", ["1", "1.0", "1.0.0.0", "01.0.0", "1.0.0-", "x", "", None])
def test_invalid_versions(text: str) -> None:
    with pytest.raises(InputError, match="is not a version"):
        ContractVersion.parse(text)


@given(VERSIONS)
def test_a_version_round_trips(version: ContractVersion) -> None:
    assert ContractVersion.parse(str(version)) == version
    assert version in VersionRange.parse(str(version))


@given(VERSIONS, VERSIONS)
def test_a_caret_fixes_the_first_nonzero_number(base: ContractVersion, other: ContractVersion) -> None:
    """semver.org: a caret allows changes that do not modify the left-most non-zero number."""
    first = next((place for place, number in enumerate(base.numbers) if number), 2)
    expected = other.numbers >= base.numbers and other.numbers[: first + 1] == base.numbers[: first + 1]
    assert (other in VersionRange.parse(f"^{base}")) is expected


# The two axes.


@pytest.mark.parametrize("what", ["machine", "context_providers", "hooks"])
def test_the_load_time_axis(ledger: Ledger, what: str) -> None:
    """S000-8-3: an incompatible contract version is a failure at load time."""
    session = opened(ledger)
    before = seen(session), stored(ledger, session), len(ledger.events(session.envelope))
    act: dict[str, Callable[[], object]] = {
        "machine": lambda: session.attach(StateMachine("new", contract="^2.0")),
        "hooks": lambda: session.reload(hooks=[Hook("new", "observe", "tokens", contract=">=1.1")]),
        "context_providers": lambda: session.reload(context_providers=[ContextProvider("new", contract="~0.9")]),
    }
    with pytest.raises(LoadError) as caught:
        act[what]()
    assert caught.value.axis == "load"
    assert caught.value.code == "Load/ContractVersionMismatch"
    assert str(caught.value).startswith("load-time contract version:")
    after = seen(session), stored(ledger, session), len(ledger.events(session.envelope))
    assert after == before


def test_the_runtime_axis(ledger: Ledger) -> None:
    """S000-8-2, S000-8-1: a missing capability is a failure at run time."""
    session = opened(ledger, known=small_catalog(weak={"tool_calling": False}), machine=StateMachine("good"))
    with pytest.raises(SwitchRejected) as caught:
        session.switch_model("gpt-weak")
    assert caught.value.axis == "runtime"
    assert str(caught.value).startswith("runtime capability:")
