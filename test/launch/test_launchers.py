"""Under the real thing: mpirun of Open MPI and of MPICH, and torchrun, with no address and no port given.

The packages of Debian and Ubuntu: openmpi-bin, mpich. Tests of one that is not installed are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.installed import installed
from harness.programs import starting_quickly

PROGRAMS = Path(__file__).parent / "programs"
# Not the bare name: it is whichever of the two was installed last.
MPIRUN = {"openmpi": ("mpirun.openmpi", "--oversubscribe"), "mpich": ("mpirun.mpich",)}
PACKAGES = {"openmpi": "openmpi-bin", "mpich": "mpich"}
LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}


def start(command: list[str | Path], size: int) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    clean |= {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env=starting_quickly(clean), capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.endswith("is done")]
    assert sorted(lines) == [f"rank {rank} is done" for rank in range(size)], done.stdout + done.stderr


def mpirun(launcher: str, program: str, *arguments: str) -> None:
    name, *options = MPIRUN[launcher]
    start([installed(PACKAGES[launcher], name), *options, "-n", "2", sys.executable, PROGRAMS / program, *arguments], 2)


@pytest.mark.parametrize("launcher", MPIRUN)
def test_mpirun(launcher):
    mpirun(launcher, "everything.py", launcher, "2")


def test_a_wrapper_that_exports_rank_and_size():
    """As mpirun says them: the ranks still meet through the launcher."""
    script = 'export RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE; exec "$0" "$@"'
    program = [sys.executable, PROGRAMS / "everything.py", "mpich", "2"]
    start([installed("mpich", "mpirun.mpich"), "-n", "2", "bash", "-c", script, *program], 2)


@pytest.mark.parametrize("launcher", MPIRUN)
def test_trying_again(launcher, tmp_path):
    """What rank 0 published for an attempt that failed is replaced, and who had found it already looks again."""
    mpirun(launcher, "again.py", str(tmp_path / "rank"))


@pytest.mark.parametrize(("begin", "end"), [("before", "exit"), ("after", "now")])
@pytest.mark.parametrize("launcher", MPIRUN)
def test_beside_the_programs_own_mpi(launcher, begin, end):
    mpirun(launcher, "beside_mpi.py", LIBRARIES[launcher], begin, end)


def test_torchrun():
    """Its agent serves the store at MASTER_PORT, and says by a flag that nobody else may."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    start([*command, str(PROGRAMS / "everything.py"), "torchrun", "2"], 2)
