"""Links of the documentation lead somewhere, and the files, settings and tests that it names exist."""

from __future__ import annotations

import re
from itertools import chain

import pytest
from pages import ROOT, anchors, name, pages, prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = "csrc|torch_customccl|test|examples|scripts|cmake|docs|benchmarks"
PATH = re.compile(rf"(?<![\w/.])((?:{FOLDERS})/[\w./*-]*\w/?)")
PYTHON_TEST = re.compile(r"`(test_\w+)`")
CPP_TEST = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page):
    broken = []
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", pages(), ids=name)
def test_files_that_are_named_exist(page):
    named = {path for path in PATH.findall(page.read_text()) if "NAME" not in path}
    assert not {path for path in named if not path_exists(path)}


def path_exists(path: str) -> bool:
    built = path.endswith(".so")
    return built or any(ROOT.glob(path.rstrip("/")))


def test_tests_that_are_named_exist():
    sources = chain((ROOT / "test").rglob("*.py"), (ROOT / "test").rglob("*.cpp"))
    there = "\n".join(source.read_text() for source in sources)
    page = (ROOT / "docs/reliability.md").read_text()
    python, cpp = PYTHON_TEST.findall(page), CPP_TEST.findall(page)
    assert python and cpp
    missing = [test for test in python if not re.search(rf"def {test}\(", there)]
    missing += [".".join(test) for test in cpp if not re.search(r"TEST(_F|_P)?\({},\s*{}\)".format(*test), there)]
    assert not missing


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/README.md").read_text()
    assert not {page.name for page in (ROOT / "docs").glob("*.md") if page.name not in index} - {"README.md"}
