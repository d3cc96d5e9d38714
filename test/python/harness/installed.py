"""Programs of the system that single tests start."""

from __future__ import annotations

import os
import shutil

import pytest


def installed(package: str, *names: str) -> str:
    """The path of the first of the programs `names` that is here. Without any the test is skipped; on CI it fails."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        without = pytest.fail if os.environ.get("CI") else pytest.skip
        without(
            f"no {names[0]} on this machine (Debian, Ubuntu: apt-get install {package}, all: scripts/test_programs.sh)"
        )
    return found
