"""Installing as a user does, and what the wheel and the source archive hold."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
import torch
from process import ROOT, run_python

from torch_customccl._loader import torch_minor

LIBRARIES = ("libcustomccl.so", f"_shim_{torch_minor().replace('.', '_')}{sysconfig.get_config_var('EXT_SUFFIX')}")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder into which `pip install --no-build-isolation .` went. What CMake has built is not built again."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--no-build-isolation", "--no-deps", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    environment = {**os.environ, "CMAKE_ARGS": "-DCUSTOMCCL_TESTS=ON"}  # as make does: the tests stay built
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(ROOT)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_installed_package_is_complete(installed):
    package = installed / "torch_customccl"
    assert {"py.typed", "__main__.py", *LIBRARIES} <= {path.name for path in package.iterdir()}
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "torch_customccl").rglob("*.py")}
    assert ours == {str(path.relative_to(installed)) for path in package.rglob("*.py")}


@pytest.mark.slow
def test_the_installed_package_works(installed, tmp_path):
    run_python(
        f"""
        import torch, torch_customccl
        assert torch_customccl.__file__.startswith({str(installed)!r}), torch_customccl.__file__
        torch.distributed.init_process_group("customccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
        torch.distributed.barrier()
        assert {str(installed)!r} + "/torch_customccl/libcustomccl.so" in open("/proc/self/maps").read()
        """,
        tmp_path,
        PYTHONPATH=str(installed),
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_need_nothing_but_torch_and_the_system(library):
    needed = set(dynamic(library, "NEEDED"))
    system = {
        "libc.so.6",
        "libm.so.6",
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libpthread.so.0",
        "librt.so.1",
        "libdl.so.2",
    }
    torch_libraries = {"libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libcustomccl.so"}
    rest = {name for name in needed - system if not name.startswith("ld-linux")}
    assert rest <= (torch_libraries if library.startswith("_shim") else set())
    assert dynamic(library, "RUNPATH") == (["$ORIGIN"] if library.startswith("_shim") else [])


def test_the_library_exports_only_our_names():
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", ROOT / "torch_customccl" / "libcustomccl.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    assert any("Communicator" in name for name in names)
    assert [name for name in names if not re.match(r"_Z[A-Z]*N?[A-Z]*9customccl|customccl_", name)] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_do_not_say_where_they_were_built(library):
    content = (ROOT / "torch_customccl" / library).read_bytes()
    assert str(ROOT).encode() + b"/csrc" not in content
    assert str(Path(torch.__file__).parent / "include").encode() not in content


def test_make_takes_a_folder_with_spaces(tmp_path):
    """What the recipes would run, with a program in the place of Python that notes its arguments."""
    folder = tmp_path / "with space"
    for name in ("scripts", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    note = '#!/bin/bash\necho "$(basename "$0")" "$@" >>notes\n'
    for name in ("scripts/set_up.sh", "scripts/build.sh", ".venv/bin/python"):
        (folder / name).write_text(note)
        (folder / name).chmod(0o755)
    subprocess.run(["make", "demo", "JOBS=2"], cwd=folder, check=True, capture_output=True)
    set_up, build, demo = (folder / "notes").read_text().splitlines()
    assert set_up.startswith("set_up.sh 2.") and build == f"build.sh {folder}/.venv/bin/python 2"
    assert demo.startswith("python -m torch.distributed.run")


def test_a_build_that_fails_ends_with_a_sentence(tmp_path):
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(tmp_path)]
    environment = {**os.environ, "CXX": "/no/such/compiler", "BUILD_FOLDER": str(tmp_path / "build")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("configuring with CMake failed: see its message above.")


@pytest.mark.slow
def test_the_source_archive_holds_everything_a_build_reads(tmp_path):
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    wanted = [
        ROOT / name for name in ("CMakeLists.txt", "LICENSE", "README.md", "requirements-dev.txt", "pyproject.toml")
    ]
    for folder in ("csrc", "cmake", "torch_customccl"):
        wanted += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    built = ("torch_customccl/include/", "torch_customccl/lib/")  # what the build puts there for C programs
    names = {str(path.relative_to(ROOT)) for path in wanted if path.suffix not in (".so", ".pyc")}
    assert not {name for name in names if not name.startswith(built)} - inside


def dynamic(library: str, tag: str) -> list[str]:
    path = ROOT / "torch_customccl" / library
    listed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
    return re.findall(rf"\({tag}\).*\[(.+)\]", listed.stdout)


@pytest.mark.parametrize(
    ("version", "said"), [("76.1", "setuptools 76.1 is too old to build with, 77 would do"), ("77.0", "")]
)
def test_an_environment_that_is_too_old_to_build_with_is_told_so(tmp_path, version, said):
    """Of its own programs nothing is replaced, and what lacks is printed."""
    facts = tmp_path / f"setuptools-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: setuptools\nVersion: {version}\n")
    command = [sys.executable, "scripts/lacking_tools.py", "requirements-dev.txt"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == (said == "") and said in done.stderr and "setuptools" not in done.stdout
