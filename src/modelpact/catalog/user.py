"""Where one user's own catalog data is kept."""

import os
import sys
from pathlib import Path


def user_folder() -> Path:
    """Return where this user's data is kept, after each system's custom."""
    set_by_user = os.environ.get("MODELPACT_DATA")
    if set_by_user:
        return Path(set_by_user)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "modelpact"
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/modelpact"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "modelpact"
