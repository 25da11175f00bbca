"""`import modelpact` is light: no heavy modules, no files."""

import subprocess
import sys

HEAVY = (
    *("asyncio", "cryptography", "httptools", "jsonschema_rs", "prompt_toolkit", "psycopg"),
    *("sqlite3", "ssl"),
)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_heavy_modules_are_imported_by_those_who_use_them() -> None:
    code = f"import sys, modelpact; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code) == "[]"


def test_a_chat_without_a_terminal_needs_no_line_editor() -> None:
    assert (
        run("import sys, modelpact.cli.chat.app; print('prompt_toolkit' in sys.modules)") == "False"
    )


def test_no_file_but_code_is_opened_at_import() -> None:
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


def test_everything_promised_is_there() -> None:
    run("import modelpact as mp; [getattr(mp, name) for name in mp.__all__]")
