"""The headers of every supported torch, without installing any of them.

The wheels for Windows hold the same headers as the ones for Linux at a fifth of the size. They are fetched once, and
only their headers kept, in build/torch-headers/<version>.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "build" / "torch-headers"
VERSIONS = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")


def headers_of(version: str) -> Path:
    """The include folder of torch `version`, fetched if it is not there yet."""
    folder = HEADERS / version
    include = folder / "torch" / "include"
    if include.is_dir():
        return include
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
                *("--platform", "win_amd64", "--python-version", "3.11", "--only-binary", ":all:"),
                *("--dest", scratch, f"torch=={version}"),
            ],
            check=True,
            # Nothing is installed: a machine's limit on what may be does not count.
            env={**os.environ, "PIP_CONSTRAINT": os.devnull},
        )
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith("torch/include/")])
    return include
