"""The folder of the user's own catalog data."""

import os
import sys
from pathlib import Path


def user_folder() -> Path:
    """Return the data folder of the current user, as is usual on each system."""
    configured = os.environ.get("MODELPACT_DATA")
    if configured:
        return Path(configured)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home directory has no data
        return Path(os.devnull) / "modelpact"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "modelpact"
    if sys.platform == "darwin":
        return home / "Library/Application Support/modelpact"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / "modelpact"
