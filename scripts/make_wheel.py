"""One wheel for this Python with the shims of every supported torch: installing it needs no compiler.

Usage: python scripts/make_wheel.py [FOLDER]       (default: dist)
"""

import os
import subprocess
import sys

from torch_headers import HEADERS, ROOT, VERSIONS, headers_of


def main() -> int:
    for version in VERSIONS:
        headers_of(version)
    target = sys.argv[1] if len(sys.argv) > 1 else "dist"
    # A build folder of its own (setup.py: BUILD_FOLDER), so that the everyday build for one torch stays as it is.
    options = f"{os.environ.get('CMAKE_ARGS', '')} -DCUSTOMCCL_TORCH_HEADERS={HEADERS}"
    environment = os.environ | {"CMAKE_ARGS": options, "BUILD_FOLDER": str(ROOT / "build" / "wheel")}
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    return subprocess.run([*command, "--wheel-dir", target, str(ROOT)], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
