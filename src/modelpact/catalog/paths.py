"""Where one user's own catalog data is kept."""

import os
import sys
from pathlib import Path


def user_folder() -> Path:
    """Return where this user's data is kept, after each system's custom."""
    set_by_user = os.environ.get("MODELPACT_DATA")
    if set_by_user:
        return Path(set_by_user)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home has no data of their own
        return Path(os.devnull) / "modelpact"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "modelpact"
    if sys.platform == "darwin":
        return home / "Library/Application Support/modelpact"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / "modelpact"
