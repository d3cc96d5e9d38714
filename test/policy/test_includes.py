"""The rooms of csrc: each sees only what is drawn below it, and torch is seen from csrc/c10d alone."""

import re
from pathlib import Path

from tree import ROOT, below, text

# Room -> the rooms directly below it, as in docs/architecture.md.
BELOW = {
    "base": [],
    "platform": ["base"],
    "kernels": ["platform"],
    "host": ["platform"],
    "engines": ["host", "kernels"],
    "core": ["engines"],
    "capi": ["core"],
    "c10d": ["capi", "core"],
}
TORCH = ("torch/", "c10/", "ATen/", "pybind11/", "Python.h")


def reachable(room: str) -> set[str]:
    return {room}.union(*(reachable(lower) for lower in BELOW[room]))


def cpp() -> list[Path]:
    return [path for path in below("csrc") if path.suffix in (".h", ".cpp")]


def includes(path: Path, pattern: str) -> list[str]:
    return re.findall(rf"(?m)^\s*#\s*include\s*{pattern}", text(path))


def test_every_room_is_drawn() -> None:
    assert {path.parts[1] for path in cpp()} <= set(BELOW)


def test_rooms_include_only_what_lies_below_them() -> None:
    wrong = [
        f"{path} includes {name}"
        for path in cpp()
        for name in includes(path, '"([^"]+)"')
        if name.split("/")[0] not in reachable(path.parts[1])
    ]
    assert not wrong


def test_our_includes_are_written_from_csrc_and_exist() -> None:
    missing = [
        f"{path}: {name}"
        for path in cpp()
        for name in includes(path, '"([^"]+)"')
        if not (ROOT / "csrc" / name).is_file()
    ]
    assert not missing


def test_only_the_shim_sees_torch_and_python() -> None:
    wrong = [
        f"{path} includes {name}"
        for path in [*cpp(), *(path for path in below("test") if path.suffix in (".h", ".cpp"))]
        for name in includes(path, '[<"]([^>"]+)[>"]')
        if name.startswith(TORCH) and path.parts[:2] != ("csrc", "c10d")
    ]
    assert not wrong


def test_cmake_targets_link_only_what_lies_below_them() -> None:
    wrong = []
    for path in below("csrc"):
        if path.name != "CMakeLists.txt" or len(path.parts) != 3:
            continue
        room = path.parts[1]
        for targets in re.findall(r"target_link_libraries\(([^)]*)\)", text(path)):
            linked = set(re.findall(r"customccl_(\w+)", targets)) - {"shim"}
            wrong += [f"{path} links {name}" for name in linked if name not in reachable(room)]
    assert not wrong
