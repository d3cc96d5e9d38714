"""Builds the package: Python files by setuptools, everything in C++ by one run of CMake.

Why torch is no build requirement: the shim must be compiled against the torch that is already in the environment, so
the package is installed with `pip install --no-build-isolation .`; an isolated build would fetch some other torch and
pass its headers off as yours.

Why one Extension that names no sources: setuptools needs one to know that the wheel is not pure Python. What it stands
for are two files, libcustomccl.so and the shim for the torch found, and CMake knows how to make both.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def tool(name: str) -> str:
    """Path of cmake or ninja: from this environment's scripts (PyPI packages of the same name) or from PATH."""
    for folder in (sysconfig.get_path("scripts"), os.environ.get("PATH")):
        found = shutil.which(name, path=folder)
        if found:
            return found
    raise SystemExit(f"{name} is missing: pip install {name}")


def step(name: str, command: list[str | Path], advice: str = "") -> None:
    """One call of CMake, which says itself what is wrong: a traceback of ours below it would hide that."""
    if subprocess.run(command).returncode != 0:
        raise SystemExit(f"{name} with CMake failed: see its message above. {advice}".rstrip())


class CMakeBuild(build_ext):
    """Configures, builds and installs the component "package" of the CMake graph into the wheel or the source tree."""

    def run(self) -> None:
        folder = Path(os.environ.get("BUILD_FOLDER") or ROOT / "build" / "package")
        # In place (editable install): the libraries land beside the Python files.
        target = ROOT if self.inplace else Path(self.build_lib).resolve()
        cmake = tool("cmake")
        options = [
            f"-DCUSTOMCCL_PYTHON={sys.executable}",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            "-DCUSTOMCCL_TESTS=OFF",
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ]
        jobs = os.environ.get("MAX_JOBS") or str(len(os.sched_getaffinity(0)))
        advice = "A missing compiler is g++ 11 or later (Debian, Ubuntu: apt-get install g++)"
        step("configuring", [cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", "--log-level=WARNING", *options], advice)
        step("compiling", [cmake, "--build", folder, "--parallel", jobs])
        # A shim of an earlier build (other torch, other Python) does not fit the new libcustomccl.so.
        for stale in (target / "torch_customccl").glob("_shim_*.so"):
            stale.unlink()
        step("installing", [cmake, "--install", folder, "--component", "package", "--prefix", target])

    def get_outputs(self) -> list[str]:
        package = Path(self.build_lib, "torch_customccl")
        folders = ("*.so", "include/*", "lib/**/*.*")  # the libraries, and what C programs build against
        return sorted(str(path) for folder in folders for path in package.glob(folder) if path.is_file())


class FreshBuildPy(build_py):
    """setuptools keeps build/lib from build to build; a file deleted from the source would stay in the wheel."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib, "torch_customccl"), ignore_errors=True)
        super().run()


def version() -> str:
    text = (ROOT / "torch_customccl" / "_version.py").read_text()
    return re.search(r'__version__ = "(.+)"', text)[1]


setup(
    version=version(),
    ext_modules=[Extension("torch_customccl._shim_for_this_torch", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "build_py": FreshBuildPy},
)
