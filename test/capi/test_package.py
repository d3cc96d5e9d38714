"""What the package holds for C and C++ programs: the header alone, pkg-config, CMake's find_package."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from harness.installed import installed

import torch_customccl

PROGRAM = """
#include <customccl.h>
#include <stdio.h>
int main(void) {
  customccl_token token;
  customccl_comm* comm = NULL;
  double x = 2;
  if (customccl_make_token(&token) != CUSTOMCCL_OK) return 1;
  if (customccl_init(&token, 0, 1, NULL, &comm) != CUSTOMCCL_OK) return 2;
  if (customccl_all_reduce(comm, &x, &x, 1, CUSTOMCCL_FLOAT64, CUSTOMCCL_SUM) != CUSTOMCCL_OK || x != 2) return 3;
  if (customccl_destroy(comm) != CUSTOMCCL_OK) return 4;
  puts(customccl_version());
  return 0;
}
"""
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic")


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "program.c"
    path.write_text(PROGRAM)
    return path


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("language", ["c11", "c2x", "c++11", "c++20"])
def test_the_header_is_clean(language, program):
    compiler = "c++" if "+" in language else "cc"
    kind = "c++" if "+" in language else "c"
    include = f"-I{torch_customccl.include_dir()}"
    run(compiler, f"-std={language}", *STRICT, include, "-fsyntax-only", "-x", kind, program)


def test_pkg_config(program, tmp_path):
    pkg_config = installed("pkg-config", "pkg-config")
    folder = Path(torch_customccl.library()).parent / "lib" / "pkgconfig"
    flags = run(pkg_config, "--cflags", "--libs", "customccl", PKG_CONFIG_PATH=str(folder)).split()
    run("cc", "-std=c11", program, *flags, "-o", tmp_path / "program")
    assert run(tmp_path / "program").strip() == torch_customccl.__version__


def test_cmake(program, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(user LANGUAGES C)\n"
        f"find_package(customccl {torch_customccl.__version__} REQUIRED)\n"
        "add_executable(program program.c)\ntarget_link_libraries(program PRIVATE customccl::customccl)\n"
    )
    cmake = shutil.which("cmake", path=sysconfig.get_path("scripts")) or "cmake"
    prefix = Path(torch_customccl.library()).parent
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(cmake, "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "program").strip() == torch_customccl.__version__


def test_constants_of_the_header_never_change():
    """Numbers are a promise to compiled programs. A new constant is added here too; nothing else may change."""
    text = (Path(torch_customccl.include_dir()) / "customccl.h").read_text()
    lists = [re.findall(r"(CUSTOMCCL_\w+) = (\d+)", body) for body in re.findall(r"enum \{(.*?)\};", text, re.DOTALL)]
    assert [len(numbered) for numbered in lists] == [10, 11, 21, 9]
    for numbered in lists:
        assert [int(number) for _, number in numbered] == list(range(len(numbered)))
    first_and_last = [(numbered[0][0], numbered[-1][0]) for numbered in lists]
    assert first_and_last == [
        ("CUSTOMCCL_OK", "CUSTOMCCL_SYSTEM"),
        ("CUSTOMCCL_ALL_REDUCE", "CUSTOMCCL_RECV"),
        ("CUSTOMCCL_BOOL", "CUSTOMCCL_FLOAT4_E2M1FN_X2"),
        ("CUSTOMCCL_SUM", "CUSTOMCCL_PREMUL_SUM"),
    ]


def test_the_package_says_where_things_are_without_torch():
    code = "import sys, torch_customccl as t; print(t.include_dir(), t.library()); assert 'torch' not in sys.modules"
    include, library = run(
        sys.executable, "-c", code, PYTHONPATH=str(Path(torch_customccl.__file__).parents[1])
    ).split()
    assert (Path(include) / "customccl.h").is_file() and Path(library).is_file()
