"""The environment of the benchmarks: the peers, pinned, beside modelpact, in `.bench/venv`."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".bench" / "venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"
_STAMP = VENV / ".requirements"
_UNMET = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")
_MOST_RELAXED = 5


def ensure() -> None:
    """Make the environment, or keep it when nothing that it was made from has changed."""
    wanted = _fingerprint()
    if PYTHON.exists() and _STAMP.exists() and _STAMP.read_text() == wanted:
        return
    print(f"making {VENV.relative_to(ROOT)} (once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    _must(_pip("--editable", str(ROOT)))
    for line in REQUIREMENTS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            _install(line.strip())
    _STAMP.write_text(wanted)


def _fingerprint() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    made_from = [sys.version, REQUIREMENTS.read_text(), project["dependencies"], project["scripts"]]
    return hashlib.sha256(repr(made_from).encode()).hexdigest()


def _install(requirement: str) -> None:
    """Install one peer; where the index lacks what it asks for, any version of that will do."""
    answer = _pip(requirement)
    if answer.returncode == 0:
        return
    _must(_pip("--no-deps", requirement))
    wanted = _dependencies(requirement.partition("==")[0])
    for _ in range(_MOST_RELAXED):
        answer = _pip(*wanted)
        unmet = _UNMET.search(answer.stderr)
        if unmet is None:
            break
        print(f"{requirement}: took another {unmet[1]} than it asks for", file=sys.stderr)
        wanted = [unmet[1] if _name(one) == unmet[1] else one for one in wanted]
    _must(answer)


def _dependencies(package: str) -> list[str]:
    code = f"from importlib.metadata import requires; print('\\n'.join(requires({package!r})))"
    listed = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if "extra ==" not in line]


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found[0] if found else ""


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env=clean())


def _must(answer: subprocess.CompletedProcess[str]) -> None:
    if answer.returncode != 0:
        errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise SystemExit("the environment cannot be made:\n" + "\n".join(errors)[:2000])


def clean() -> dict[str, str]:
    """Return the variables for a measured process: nothing of Python's own, LiteLLM offline."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1"}


def versions() -> dict[str, str]:
    """Return the versions that are measured."""
    names = ["modelpact", "msgspec", "litellm", "pydantic-ai-slim", "langchain-openai", "json-repair"]
    code = f"from importlib.metadata import version\nfor n in {names!r}: print(n, version(n))"
    listed = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True, check=True, env=clean())
    return dict(line.split() for line in listed.stdout.splitlines())
