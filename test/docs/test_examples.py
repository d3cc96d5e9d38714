"""The examples in README.md and in those pages of docs/ that are listed here run as they stand.

A Python block with file=NAME is a program of its own; ranks=N: started by torchrun. The other Python blocks of a page,
put one behind the other, are one program for two ranks. A bash block with "run" is run, the others are only parsed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness.programs import starting_quickly
from pages import ROOT, Block, blocks, name

PROSE = ("use.md", "groups.md", "messages.md")  # pages whose blocks make one program
PAGES = [ROOT / "README.md", *(ROOT / "docs" / page for page in ("install.md", "launch.md", *PROSE))]
SKIP_COMPILING = "DOCS_SKIP_COMPILING"


def blocks_of_all(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page, language)]


def label(block: Block) -> str:
    return f"{name(block.page)}:{block.line}"


def run(command: list[str], folder: Path, limit: int, **more: str) -> None:
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **more}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, env=starting_quickly(environment), **pipes) as started:
        try:
            output, _ = started.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            started.terminate()  # torchrun ends its ranks then
            output, _ = started.communicate()
            pytest.fail(f"not done in {limit} s: {output}")
    assert started.returncode == 0, output


def run_program(text: str, ranks: str | None, folder: Path, script: Path, limit: int = 100, **more: str) -> None:
    script.write_text(text)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks] if ranks else []
    run([sys.executable, *torchrun, str(script)], folder, limit, **more)


PROGRAMS = [block for block in blocks_of_all("python") if "file" in block.words]


@pytest.mark.parametrize("block", [block for block in PROGRAMS if "compiles" not in block.words], ids=label)
def test_programs_run(block, tmp_path):
    run_program(block.text, block.words.get("ranks"), tmp_path, tmp_path / block.words["file"])


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in PROSE], ids=name)
def test_the_pieces_of_a_page_make_a_program(page, tmp_path):
    pieces = [block.text for block in blocks(page, "python") if "file" not in block.words]
    assert len(pieces) > 1
    run_program("\n".join(pieces), "2", tmp_path, tmp_path / "page.py")


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(os.environ.get(SKIP_COMPILING) == "1", reason=f"{SKIP_COMPILING}=1: compiles for minutes")
@pytest.mark.parametrize("block", [block for block in PROGRAMS if "compiles" in block.words], ids=label)
def test_programs_that_compile_run(block, tmp_path):
    """In the root of the clone, as the page says, but for the optimiser and the kernels of newer processors, which take
    half of the time and which all other tests test. What was compiled stays in build/: the next time takes seconds."""
    kept = ROOT / "build" / "compiled_by_docs"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / next(iter(re.findall(r'^NAME = "(\w+)"', block.text, re.MULTILINE))) / "lock").unlink(missing_ok=True)
    script = tmp_path / block.words["file"]
    jobs = str(len(os.sched_getaffinity(0)))
    more = {"TORCH_EXTENSIONS_DIR": str(kept), "MAX_JOBS": os.environ.get("MAX_JOBS", jobs)}
    text = block.text.replace('"-O3"', '"-O0", "-DCUSTOMCCL_BASELINE_KERNELS"')
    assert text != block.text
    run_program(text, block.words.get("ranks"), ROOT, script, limit=1400, **more)


@pytest.mark.parametrize("block", blocks_of_all("bash"), ids=label)
def test_commands_are_good(block, tmp_path):
    """Parsed; run where the block says so; a target of make that is named exists."""
    run(["bash", "-n", "-c", block.text], tmp_path, 10)
    targets = set(re.findall(r"(?m)^([\w-]+):(?!=)", (ROOT / "Makefile").read_text()))
    assert set(re.findall(r"(?m)^make ([\w-]+)", block.text)) <= targets
    if "run" in block.words:
        run(["bash", "-e", "-c", block.text], tmp_path, 100)
