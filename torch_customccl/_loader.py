"""Finds and loads the shim built for the torch that is running.

Class layouts of c10d differ between torch minors: a shim in the wrong torch crashes or, worse, seems to work. So
the file is chosen by `torch.__version__` before anything is loaded, and a missing one is a sentence, not an
undefined symbol.
"""

import functools
import importlib
import importlib.metadata
import json
import re
import shlex
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlparse

from torch_customccl._autoload import await_end_of_python
from torch_customccl._version import __version__

FOLDER = Path(__file__).resolve().parent


def torch_minor() -> str:
    """Major and minor version of the torch of this process, like "2.13". RuntimeError if there is no usable one."""
    version = torch_version()
    match = re.match(r"\d+\.\d+", version)
    return match[0] if match else version


def torch_version() -> str:
    """The whole version. RuntimeError, one sentence, if torch cannot be imported."""
    try:
        import torch

        return str(torch.__version__)
    except Exception as error:  # a torch without its libraries may raise anything
        said = str(error).partition("\n")[0]
        raise RuntimeError(
            f"torch_customccl {__version__}: torch cannot be imported by {sys.executable} "
            f"({type(error).__name__}: {said}); install it there, or repair it"
        ) from error


def shims() -> dict[str, Path]:
    """The shims of this installation that fit this Python: torch minor -> file."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    found = {}
    for path in sorted(FOLDER.glob(f"_shim_*{suffix}")):
        minor = path.name.removeprefix("_shim_").removesuffix(suffix)
        found[minor.replace("_", ".")] = path
    return found


def load() -> ModuleType:
    """The shim for this torch. RuntimeError, one sentence with the way out, if there is none or it does not load."""
    minor = torch_minor()
    if minor not in shims():
        raise RuntimeError(_no_shim(minor))
    await_end_of_python()
    try:
        return importlib.import_module(f"torch_customccl._shim_{minor.replace('.', '_')}")
    except ImportError as error:
        raise RuntimeError(
            f"torch_customccl {__version__}: the shim for torch {minor} does not load ({error}); rebuild it with: "
            f"{rebuild_command()}"
        ) from error


@functools.cache
def shim() -> ModuleType:
    """load(), without looking for files again: every new group asks."""
    return load()


def rebuild_command() -> str:
    """The command that builds the shim for this torch into this environment, for a shell."""
    options = ["--no-build-isolation", "--no-deps", "--force-reinstall"]
    return shlex.join([sys.executable, "-m", "pip", "install", *options, *_source()])


def _no_shim(minor: str) -> str:
    python = ".".join(map(str, sys.version_info[:2]))
    have = ", ".join(shims()) or "none"
    return (
        f"torch_customccl {__version__} has no shim for torch {minor} (found torch {torch_version()}; "
        f"shims of this installation for Python {python}: {have}); build one with: {rebuild_command()}"
    )


def _source() -> list[str]:
    """Where pip installed this package from, as arguments for pip install."""
    if (FOLDER.parent / "setup.py").exists():
        return ["-e", str(FOLDER.parent)]
    try:
        record = importlib.metadata.distribution("torch_customccl").read_text("direct_url.json")
        url = urlparse(json.loads(record or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        url = urlparse("")
    if url.scheme == "file" and Path(unquote(url.path)).is_dir():
        return [unquote(url.path)]
    return ["--no-cache-dir", "--no-binary", "torch_customccl", f"torch_customccl=={__version__}"]
