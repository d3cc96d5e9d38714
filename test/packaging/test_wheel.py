"""The wheel with the shims of all supported torch versions, beside the torch of this environment and beside another.

Building it takes minutes and another torch gigabytes, so it runs when asked for: `make test-wheel`, or WHEEL_TEST=1
with dist/*.whl there. OTHER_TORCH names the other version, OTHER_PYTHON a Python that has it already.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from process import ROOT

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WHEEL_TEST"), reason="runs in `make test-wheel`"),
    pytest.mark.timeout(3600),
]

RANK = """
import sys
import torch, torch.distributed as dist
import torch_customccl

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("customccl", store=dist.FileStore(store, 2), rank=rank, world_size=2)
for count in (1, 3000, 1_000_000):
    value = torch.arange(count, dtype=torch.float32) * (rank + 1)
    dist.all_reduce(value)
    assert torch.equal(value, torch.arange(count, dtype=torch.float32) * 3)
received = torch.empty(5)
works = [dist.isend(torch.full((5,), float(rank)), 1 - rank), dist.irecv(received, 1 - rank)]
for work in works:
    work.wait()
assert received.tolist() == [1.0 - rank] * 5
shims = torch_customccl.info()["versions"]["shims"]
dist.destroy_process_group()
print(f"torch {torch.__version__}, package {torch_customccl.__file__}, shims {' '.join(shims)}")
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The newest wheel in dist."""
    found = sorted((ROOT / "dist").glob("torch_customccl-*.whl"), key=lambda path: path.stat().st_mtime)
    assert found, "no wheel in dist: run `make wheel`"
    return found[-1]


def pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def run_ranks(python: str, folder: Path, package: Path | None) -> list[str]:
    """What two ranks print that run with `python`, and with `package` first on its path."""
    script = folder / "rank.py"
    script.write_text(RANK)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = inherited | ({"PYTHONPATH": str(package)} if package else {})
    command = [python, str(script)]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(folder / "store")],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    return outputs


def test_beside_the_torch_of_this_environment(wheel, tmp_path):
    package = tmp_path / "installed"
    pip(sys.executable, "--no-deps", "--target", str(package), str(wheel))
    for output in run_ranks(sys.executable, tmp_path, package):
        assert f"package {package}" in output
        assert "shims 2.11 2.12 2.13 2.14 2.15" in output


def test_beside_another_torch(wheel, tmp_path):
    python, version = os.environ.get("OTHER_PYTHON", ""), os.environ.get("OTHER_TORCH", "2.15.0")
    package = None
    if python:
        package = tmp_path / "installed"
        pip(python, "--no-deps", "--target", str(package), str(wheel))
    else:
        venv.create(tmp_path / "environment", with_pip=True)
        python = str(tmp_path / "environment" / "bin" / "python")
        pip(python, f"torch=={version}", "numpy", str(wheel))
    for output in run_ranks(python, tmp_path, package):
        print(output)
        assert f"torch {version}" in output
        assert "shims 2.11 2.12 2.13 2.14 2.15" in output
