"""Compiles what the benchmark needs, once, into build/benchmarks: a file is compiled again only when it changed."""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "benchmarks"
C_INTERFACE = ROOT / "csrc" / "capi" / "customccl.h"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


def compiler() -> str:
    return os.environ.get("CC", "cc")


def build_c(name: str, sources: Sequence[str], flags: Sequence[str] = (), command: Sequence[str] = ()) -> Path:
    """Compiles sources of benchmarks/c (first) and libraries (flags, last) with `command`, by default the C compiler.

    subprocess.CalledProcessError, with the compiler's words, if it does not compile.
    """
    parts = [*(command or [compiler()]), *FLAGS]
    inputs = [HERE / "c" / source for source in sources]
    headers = sorted((HERE / "c").glob("*.h"))
    target = BUILD / f"{name}-{_digest([*inputs, *headers], [*parts, *flags])}"
    if not target.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        half = target.with_suffix(f".{os.getpid()}")
        subprocess.run([*parts, *map(str, inputs), "-o", str(half), *flags], check=True, capture_output=True, text=True)
        half.rename(target)
    return target


def _digest(files: Sequence[Path], words: Sequence[str]) -> str:
    text = b"".join(path.read_bytes() for path in files) + "\0".join(words).encode()
    return hashlib.sha256(text).hexdigest()[:12]


def sync_library() -> Path:
    return build_c("sync", ["sync.c"], ["-shared", "-fPIC"])


def memory_program() -> Path:
    return build_c("memory", ["memory.c"])


def handover_program() -> Path:
    return build_c("handover", ["handover.c"])


def sum_in_place_program() -> Path:
    return build_c("sum_in_place", ["sum_in_place.c"])


def ping_pong_program() -> Path:
    return build_c("ping_pong", ["ping_pong.c"])


def load_noop() -> ModuleType:
    """The backends that do next to nothing, built by torch's own extension builder (25 s the first time)."""
    source, headers = HERE / "noop" / "noop_backend.cpp", [C_INTERFACE, HERE / "c" / "pin.h"]
    return load_extension("benchmarks_noop", [source], ["-O2", f"-I{C_INTERFACE.parent}"], headers=headers)


def load_extension(
    name: str, sources: Sequence[Path], flags: Sequence[str], linker: Sequence[str] = (), headers: Sequence[Path] = ()
) -> ModuleType:
    """Built or taken from build/benchmarks; one folder per torch, Python and text of the sources and their headers.

    One process builds, others wait for it. The lock is the kernel's: torch's own, a file, outlives a killed build.
    """
    import torch

    key = _digest([*sources, *headers], [torch.__version__, str(sys.implementation.cache_tag), *flags, *linker])
    folder = BUILD / f"{name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "building", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            _build_extension(name, sources, flags, linker, folder)
            (folder / "built").touch()
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.so")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _build_extension(
    name: str, sources: Sequence[Path], flags: Sequence[str], linker: Sequence[str], folder: Path
) -> None:
    from torch.utils import cpp_extension

    scripts = sysconfig.get_path("scripts")  # ninja may live there
    if scripts not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, os.environ["PATH"]])
    (folder / "lock").unlink(missing_ok=True)
    cpp_extension.load(
        name,
        [str(source) for source in sources],
        extra_cflags=list(flags),
        extra_ldflags=list(linker),
        build_directory=str(folder),
    )
