"""Every CUSTOMCCL_ variable is a row of the settings table, and docs/settings.md is made from that table."""

import re

import pytest
from tree import ROOT, below, files, text

TABLE = "csrc/platform/settings.cpp"
NAME = re.compile(r"\bCUSTOMCCL_[A-Z0-9_]+\b")


def table() -> set[str]:
    return set(re.findall(r'Row\{"(CUSTOMCCL_[A-Z0-9_]+)"', text(ROOT / TABLE)))


def build_names() -> set[str]:
    """Options of CMake, macros, and the constants of the C interface: names, but no variables."""
    cmake = {name for path in files() if path.name == "CMakeLists.txt" for name in NAME.findall(text(path))}
    macros = {name for path in below("csrc") for name in re.findall(r"#\s*define\s+(CUSTOMCCL_\w+)", text(path))}
    constants = {
        name
        for path in below("csrc")
        if path.parts[1] == "capi" and path.suffix == ".h"
        for name in NAME.findall(text(path))
    }
    return cmake | macros | constants


def test_the_table_is_found() -> None:
    assert "CUSTOMCCL_LOG" in table()
    assert not table() & build_names()


def test_every_variable_that_is_mentioned_exists() -> None:
    # Tests of the settings reader make up wrong names on purpose.
    elsewhere = [
        path for path in files() if path.parts[:2] != ("test", "policy") and not path.name.startswith("settings_")
    ]
    known = table() | build_names()
    unknown = {
        f"{path}: {name}"
        for path in elsewhere
        for name in NAME.findall(text(path))
        if name not in known and not (path.parts[0] == "test" and name.startswith("CUSTOMCCL_TEST_"))
    }
    assert not unknown


def test_only_the_settings_read_the_environment() -> None:
    """A getenv elsewhere in csrc would be a setting that no table shows; variables of the system are none."""
    read = [
        f"{path}: {call}"
        for path in below("csrc")
        if path.suffix in (".h", ".cpp") and str(path) != TABLE
        for call in re.findall(r"\bgetenv\(([^)]*)\)", text(path))
        if call not in ('"TMPDIR"', '"XDG_RUNTIME_DIR"')
    ]
    assert not read


def test_the_document_is_fresh() -> None:
    from torch_customccl._info import settings
    from torch_customccl._report import settings_markdown

    if text(ROOT / "docs/settings.md") != settings_markdown(settings()):
        pytest.fail("docs/settings.md is stale: python -m torch_customccl info --settings-markdown > docs/settings.md")
