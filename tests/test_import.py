"""`import modelpact` and the start of the commands are light, and show only public names."""

import subprocess
import sys

import pytest

HEAVY = (*("asyncio", "cryptography", "httptools", "jsonschema_rs", "prompt_toolkit", "psycopg"), *("sqlite3", "ssl"))


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "modelpact",
        "modelpact.cli.main",
        *(f"modelpact.cli.commands.{name}" for name in ("catalog", "models", "negotiate")),
    ],
)
def test_heavy_modules_are_imported_only_by_their_users(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code) == "[]"


def test_a_chat_without_a_terminal_needs_no_line_editor() -> None:
    code = "import sys, modelpact.cli.chat.app; print('prompt_toolkit' in sys.modules)"
    assert run(code) == "False"


def test_import_opens_no_data_files() -> None:
    code = """
import sys
opened = []
def hook(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.append(args[0])
import msgspec
sys.addaudithook(hook)
import modelpact
code = (".py", ".pyc", ".so")
print([name for name in opened if "modelpact" in name and not name.endswith(code)])
"""
    assert run(code) == "[]"


def test_every_public_name_can_be_imported() -> None:
    run("import modelpact as mp; [getattr(mp, name) for name in mp.__all__]")


def test_dir_shows_exactly_the_public_names() -> None:
    assert run("import modelpact as mp; print(dir(mp) == sorted(mp.__all__))") == "True"


def test_the_module_has_no_other_names_than_public_ones_and_its_packages() -> None:
    code = """
import types, modelpact as mp
names = {name for name, value in vars(mp).items() if not isinstance(value, types.ModuleType)}
print(sorted(name for name in names - set(mp.__all__) if not name.startswith("_")))
"""
    assert run(code) == "[]"
