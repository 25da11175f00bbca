"""What the tests share: both stores, claims from words, catalogs from a few lines of TOML."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from modelpact.catalog.build import Fact, LineageFacts, build
from modelpact.catalog.catalog import Catalog
from modelpact.catalog.claim import Claim, Claims, Constraint
from modelpact.catalog.facts import Lineage
from modelpact.catalog.names import NameTables
from modelpact.catalog.provider import ProviderEntry
from modelpact.catalog.snapshot import decode
from modelpact.catalog.sources import read_rules
from tests.stores import Counted, empty_schema, postgresql

# What the user of this machine keeps is nobody's business here, and no test may write there.
for _variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
    os.environ.pop(_variable, None)  # no test is led to whoever runs it
os.environ["MODELPACT_DATA"] = tempfile.mkdtemp(prefix="modelpact-tests-")
atexit.register(shutil.rmtree, os.environ["MODELPACT_DATA"], ignore_errors=True)

settings.register_profile(
    "modelpact", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("modelpact")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """The one PostgreSQL of this process."""
    with postgresql() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Any) -> str:
    return empty_schema(postgres)


@pytest.fixture
def counted(postgres: Any) -> Counted:
    """An empty store in PostgreSQL that knows its connections."""
    return Counted(postgres)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'ledger.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


PROVIDERS = (
    ProviderEntry("anthropic", "Anthropic", "cloud", "own", ("anthropic",), ("claude",)),
    ProviderEntry("azure", "Azure", "cloud", "relay", ("openai-chat",)),
    ProviderEntry("bedrock", "Bedrock", "cloud", "relay", ("anthropic",)),
    ProviderEntry("gemini", "Gemini", "cloud", "own", ("gemini", "openai-chat"), ("google",)),
    ProviderEntry("openai", "OpenAI", "cloud", "own", ("openai-chat", "openai-responses")),
    ProviderEntry("openrouter", "OpenRouter", "cloud", "relay", ("openai-chat",)),
    ProviderEntry("vertex", "Vertex", "cloud", "relay", ("gemini",)),
    ProviderEntry("vllm", "vLLM", "local", "weights", ("openai-chat",)),
)
"""Eight providers of every kind, enough for any question of semantics."""

NAMES = NameTables(
    vendors={"anthropic": "anthropic", "openai": "openai", "google": "gemini"},
    families={"claude-": "anthropic", "gpt-": "openai", "o3": "openai", "gemini-": "gemini"},
    regions=("eu", "global", "us"),
)


def claims(
    said: Mapping[str, object],
    *,
    target: str = "acme/model",
    excludes: Iterable[tuple[str, ...]] = (),
) -> Claims:
    """Make claims: a support word, or a number or choice that is natively there."""
    constraints = tuple(Constraint(" with ".join(names), names) for names in excludes)
    listed = [_claim(name, value) for name, value in said.items()]
    return Claims(listed, target=target, constraints=constraints)


def _claim(name: str, value: object) -> Claim:
    if value == "restricted":
        return Claim(name, "restricted", reason="by policy")
    if value in ("native", "emulated", "unsupported", "unknown"):
        return Claim(name, value)
    return Claim(name, "native", value)  # type: ignore[arg-type]


def lineage(name: str, *facts: Fact, date: str = "2026-01-01") -> LineageFacts:
    """Make a lineage of public facts."""
    return LineageFacts(Lineage(name, "1", date, "MIT", f"https://{name}.example"), facts)


def fact(target: str, price: Any = None, **caps: Any) -> Fact:
    """Make one line of a lineage: `provider/model` and what it is said to do."""
    provider, _, model = target.partition("/")
    return Fact(provider, model, caps, price)


def catalog(rules: str = "", *lineages: LineageFacts, **more: Any) -> Catalog:
    """Make a catalog of the eight providers from the text of a rule file and some facts."""
    sources = read_rules(rules, PROVIDERS)
    sources.names = NAMES
    return Catalog(decode(build(sources, lineages), "small"), **more)
