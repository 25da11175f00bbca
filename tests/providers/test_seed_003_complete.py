"""Seed 003: every MUST, REQUIRES, SHOULD and MAY has a test that quotes it, on both stores."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

CLAUSES = {
    "lifecycle": (
        "the abstract interface a Provider MUST present",
        "the lifecycle a Provider MUST honour",
        "presenting its identity, the Capabilities it offers, the schemas",
        "MUST verify the Provider’s identity",
        "MUST persist the registration",
        "receives invocation requests from the runtime and returns responses",
        "MAY also emit Signals",
        "MAY deregister",
        "MUST cease routing invocations",
        "MAY be permitted to complete or MAY be cancelled",
        "any Compliance Profile constraints",
    ),
    "semantics": (
        "within a bounded time window",
        "The Worker is not blocked",
        "partial responses culminating in a final response",
        "MUST be declared in its kind URI’s schema",
        "MUST support all three semantics",
        "MAY support a subset",
    ),
    "costs": (
        "MUST result in a Cost Record",
        "MUST report cost as part of the invocation response",
        "in the Cost units declared at registration",
        "MUST embed the Cost Record",
        "MUST report a defensible estimate, marked as such",
        "SHOULD provide a corrected record",
        "MUST refer to the Envelope event it corrects",
    ),
    "outstanding": (
        "MUST persist outstanding invocations",
        "correctly correlated to the originating invocation event",
        "MUST support correlation via an opaque invocation ID",
        "issued by the runtime at the moment of invocation",
        "MUST attach this ID to all responses, partial and final",
    ),
    "trust": (
        "MUST mutually authenticate",
        "REQUIRES authenticated, integrity-protected, confidential transport",
        "The runtime MUST hold a verified identity for every registered Provider",
        "The Provider MUST hold a verified identity for the runtime",
        "MAY refuse a request whose authentication is invalid",
    ),
    "violations": (
        "misrepresents Cost, returns invalid responses, or otherwise violates the contract",
        "MUST be flagged in the Audit Envelope",
        "MAY be deregistered by the runtime",
        "Compliance Profiles MAY require deregistration of non-conforming Providers",
    ),
}


def quoting(subject: str) -> Iterator[str]:
    """Yield what the tests of a subject quote that run on both stores."""
    module = importlib.import_module(f"tests.providers.test_seed_003_{subject}")
    for name, test in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("test_") and "world" in inspect.signature(test).parameters:
            yield " ".join((test.__doc__ or "").split())


@pytest.mark.parametrize(
    ("subject", "clause"), [(one, clause) for one, many in CLAUSES.items() for clause in many]
)
def test_the_clause_has_a_test(subject: str, clause: str) -> None:
    assert any(clause in quoted for quoted in quoting(subject))


def test_every_file_is_listed() -> None:
    files = {one.stem for one in Path(__file__).parent.glob("test_seed_003_*.py")}
    assert files == {Path(__file__).stem} | {f"test_seed_003_{subject}" for subject in CLAUSES}
