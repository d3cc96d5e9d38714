"""LaunchInfo.detect() on the environments that launchers make, as recorded from them or from their manuals."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from torch_customccl.launch import LaunchInfo
from torch_customccl.launch.sources import first_host, tasks_on, tasks_per_node

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "blue",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "head",
    "MASTER_PORT": "29501",
}
ENV = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
    "OMPI_MCA_ess_base_jobid": "1729363969",
    "OMPI_MCA_orte_precondition_transports": "4f2e-c5b1",
    "PMIX_RANK": "1",
    "PMIX_NAMESPACE": "1729363969",
}
OPENMPI5 = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "3",
    "PMIX_NAMESPACE": "prterun-host-77@1",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "6",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_NTASKS": "7",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_STEP_TASKS_PER_NODE": "3(x2),1",
    "SLURM_STEP_NODELIST": "n[08-09,12]",
    "SLURM_RESTART_COUNT": "1",
}
SLURM_BATCH_SCRIPT = {"SLURM_JOB_ID": "4711", "SLURM_PROCID": "0", "SLURM_NTASKS": "7", "SLURM_NODEID": "0"}
SLURM_PMIX = SLURM | {"PMIX_RANK": "6", "PMIX_NAMESPACE": "slurm.pmix.4711.0"}

TABLE = {
    "torchrun": (TORCHRUN, ("torchrun-blue", 5, 1, 8, 4, 1, "head", 29501, 2, "torchrun")),
    "torchrun without an id": (
        TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"},
        ("torchrun-head:29501", 5, 1, 8, 4, 1, "head", 29501, 2, "torchrun"),
    ),
    "torchrun without an id and an address": (
        {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "2"},
        ("", 0, None, 2, None, None, None, None, 0, "torchrun"),
    ),
    "bare variables": (ENV, ("", 1, None, 2, None, None, "127.0.0.1", 29500, 0, "env")),
    "bare variables with all that a script may set": (
        ENV | {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "1"},
        ("", 1, 0, 2, 1, 1, "127.0.0.1", 29500, 0, "env"),
    ),
    "bare variables of one process": ({"RANK": "0", "WORLD_SIZE": "1"}, ("", 0, 0, 1, 1, 0, None, None, 0, "env")),
    "Open MPI 4": (OPENMPI, ("openmpi-1729363969-4f2e-c5b1", 1, 1, 2, 2, 0, None, None, 0, "openmpi")),
    "Open MPI 4 without PMIx": (
        {name: value for name, value in OPENMPI.items() if not name.startswith("PMIX")},
        ("openmpi-1729363969-4f2e-c5b1", 1, 1, 2, 2, 0, None, None, 0, "openmpi"),
    ),
    "Open MPI without a name": (
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        ("", 1, None, 2, None, None, None, None, 0, "openmpi"),
    ),
    "Open MPI 5": (OPENMPI5, ("openmpi-prterun-host-77@1", 3, 1, 4, 2, None, None, None, 0, "openmpi")),
    "Open MPI with an address": (
        OPENMPI | {"MASTER_ADDR": "10.0.0.1"},
        ("openmpi-1729363969-4f2e-c5b1", 1, 1, 2, 2, 0, "10.0.0.1", None, 0, "openmpi"),
    ),
    "MPICH": (MPICH, ("", 1, 1, 2, 2, 0, None, None, 0, "mpich")),
    "MPICH with a job's name": (MPICH | {"PMI_ID_STRING": "ab"}, ("mpich-ab", 1, 1, 2, 2, 0, None, None, 0, "mpich")),
    "MPICH with a job's number": (MPICH | {"PMI_JOBID": "7"}, ("mpich-7", 1, 1, 2, 2, 0, None, None, 0, "mpich")),
    "a size of PMI alone": ({"PMI_SIZE": "2"}, ("", 0, 0, 1, 1, 0, None, None, 0, "single")),
    "Slurm": (SLURM, ("slurm-4711.0", 6, 0, 7, 1, 2, "n08", None, 1, "slurm")),
    "Slurm with a node beyond its list": (
        SLURM | {"SLURM_NODEID": "3"},
        ("slurm-4711.0", 6, 0, 7, None, 3, "n08", None, 1, "slurm"),
    ),
    "Slurm with a number of nodes that cannot be": (
        SLURM | {"SLURM_STEP_TASKS_PER_NODE": "1(x9999999999)"},
        ("slurm-4711.0", 6, 0, 7, 1, 2, "n08", None, 1, "slurm"),
    ),
    "Slurm without a node": (
        SLURM | {"SLURM_NODEID": ""},
        ("slurm-4711.0", 6, 0, 7, None, None, "n08", None, 1, "slurm"),
    ),
    "Slurm with PMIx": (SLURM_PMIX, ("pmix-slurm.pmix.4711.0", 6, 0, 7, 1, 2, "n08", None, 1, "pmix")),
    "the script of sbatch": (SLURM_BATCH_SCRIPT, ("", 0, 0, 1, 1, 0, None, None, 0, "single")),
    "torchrun below mpirun": (OPENMPI | TORCHRUN, ("torchrun-blue", 5, 1, 8, 4, 1, "head", 29501, 2, "torchrun")),
    "torchrun below two that contradict each other": (
        OPENMPI | MPICH | {"PMI_RANK": "0"} | TORCHRUN,
        ("torchrun-blue", 5, 1, 8, 4, 1, "head", 29501, 2, "torchrun"),
    ),
    "torchrun below srun": (SLURM | TORCHRUN, ("torchrun-blue", 5, 1, 8, 4, 1, "head", 29501, 2, "torchrun")),
    "bare variables below srun": (SLURM | ENV, ("", 1, None, 2, None, None, "127.0.0.1", 29500, 0, "env")),
    "bare variables that agree with mpirun": (
        OPENMPI | ENV,
        ("openmpi-1729363969-4f2e-c5b1", 1, 1, 2, 2, 0, "127.0.0.1", 29500, 0, "openmpi"),
    ),
    "a wrapper that exports what MPICH says": (
        MPICH | {"RANK": "1", "WORLD_SIZE": "2"},
        ("", 1, 1, 2, 2, 0, None, None, 0, "mpich"),
    ),
    "mpirun inside a Slurm job": (
        SLURM | OPENMPI,
        ("openmpi-1729363969-4f2e-c5b1", 1, 1, 2, 2, 0, None, None, 0, "openmpi"),
    ),
    "half of another launcher": (
        MPICH | {"WORLD_SIZE": "16", "PMIX_RANK": "3"},
        ("", 1, 1, 2, 2, 0, None, None, 0, "mpich"),
    ),
    "nothing": ({"PATH": "/bin"}, ("", 0, 0, 1, 1, 0, None, None, 0, "single")),
    "empty variables": (
        {"RANK": "", "PMI_RANK": "", "SLURM_STEP_NUM_TASKS": ""},
        ("", 0, 0, 1, 1, 0, None, None, 0, "single"),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_launchers_write(case):
    environment, expected = TABLE[case]
    assert dataclasses.astuple(LaunchInfo.detect(environment)) == expected


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (OPENMPI | {"RANK": "0", "WORLD_SIZE": "1"}, "env says rank 0 of 1, openmpi says rank 1 of 2"),
        (OPENMPI | MPICH | {"PMI_RANK": "0"}, "openmpi says rank 1 of 2, mpich says rank 0 of 2"),
        ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-77@1"}, "nothing tells how many ranks"),
        ({"RANK": "1"}, "RANK is set, but WORLD_SIZE is not"),
        ({"WORLD_SIZE": "4"}, "WORLD_SIZE is set, but RANK is not"),
        ({"TORCHELASTIC_RUN_ID": "x"}, "RANK and WORLD_SIZE are not"),
        (ENV | {"RANK": "one"}, "RANK is 'one'"),
        (ENV | {"WORLD_SIZE": "9" * 5000}, f"WORLD_SIZE is '{'9' * 40}...'"),
        (ENV | {"RANK": "2"}, "rank 2 of world_size 2 (env) makes no sense: rank counts from 0 to world_size - 1"),
        (ENV | {"RANK": "-1"}, "rank -1 of world_size 2"),
        (ENV | {"WORLD_SIZE": "1"}, "rank 1 of world_size 1 (env) makes no sense: rank counts from 0"),
        (ENV | {"WORLD_SIZE": "0"}, "world_size 0 (env) makes no sense: world_size is 1 or more"),
        (ENV | {"MASTER_PORT": "0"}, "master_port is 0"),
        (ENV | {"MASTER_PORT": "65536"}, "master_port is 65536"),
        (ENV | {"MASTER_PORT": "http"}, "MASTER_PORT is 'http'"),
        (MPICH | {"MPI_LOCALRANKID": "2"}, "local_rank 2 of local_size 2 (mpich)"),
        (TORCHRUN | {"LOCAL_RANK": "4"}, "local_rank 4 of local_size 4 (torchrun)"),
        (ENV | {"LOCAL_RANK": "2"}, "local_rank 2 of local_size 2 (env)"),
        (OPENMPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, "local_size is 3 in a world of 2"),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "3"}, "local_size is 3 in a world of 1"),
        (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "3,x"}, "SLURM_STEP_TASKS_PER_NODE"),
        (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "9" * 5000}, f"SLURM_STEP_TASKS_PER_NODE is '{'9' * 40}...'"),
        (SLURM | {"SLURM_NODEID": "-1"}, "node_rank is -1 (slurm)"),
        (SLURM | {"SLURM_NODEID": "-1", "SLURM_STEP_TASKS_PER_NODE": ""}, "node_rank is -1 (slurm)"),
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "-1"}, "restart_count is -1"),
    ],
)
def test_what_makes_no_sense_is_said(environment, says):
    with pytest.raises(ValueError) as error:
        LaunchInfo.detect(environment)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rank": True, "world_size": 2}, "rank is True"),
        ({"source": "explicit"}, 'source "explicit" needs rank and world_size'),
        ({"rank": 0, "world_size": 1.5}, "world_size is 1.5 (explicit); it is an int"),
        ({"rank": 0, "world_size": 1, "launch_id": 5}, "launch_id is 5 (explicit); it is a str"),
        ({"rank": 0, "world_size": 1, "master_port": "80"}, "master_port is '80'"),
        ({"rank": 0, "world_size": 1, "launch_id": "é" * 501}, "launch_id has 1002 bytes"),
        ({"rank": 0, "world_size": 1, "launch_id": "\udc80"}, "launch_id is '\\udc80' (explicit), which is not UTF-8"),
    ],
)
def test_arguments_of_another_type_are_refused(given, says):
    with pytest.raises(ValueError) as error:
        LaunchInfo.detect({}, **given)
    assert says in str(error.value)


def test_explicit_arguments_beat_all():
    info = LaunchInfo.detect(OPENMPI | ENV, rank=3, world_size=9, launch_id="mine", master_port=1234)
    assert dataclasses.astuple(info) == ("mine", 3, None, 9, None, None, "127.0.0.1", 1234, 0, "explicit")
    # A launcher that agrees about rank and size still knows the rest.
    info = LaunchInfo.detect(OPENMPI, rank=1, world_size=2, restart_count=4)
    assert (info.local_rank, info.local_size, info.restart_count, info.source) == (1, 2, 4, "explicit")
    # Contradictions of others do not matter then.
    assert LaunchInfo.detect(OPENMPI | MPICH | {"PMI_RANK": "0"}, rank=0, world_size=1).source == "explicit"
    info = LaunchInfo.detect(TORCHRUN, master_addr="::1", node_rank=7)
    assert (info.rank, info.master_addr, info.node_rank, info.source) == (5, "::1", 7, "torchrun")
    assert LaunchInfo.detect(OPENMPI, node_rank=7).node_rank == 7  # though all ranks are here
    for port in (1, 65535):
        assert LaunchInfo.detect(ENV, master_port=port).master_port == port
    assert len(LaunchInfo.detect(ENV, launch_id="a" * 1000).launch_id) == 1000


def test_a_chosen_source():
    contradictory = OPENMPI | {"RANK": "0", "WORLD_SIZE": "1"}
    assert LaunchInfo.detect(contradictory, source="openmpi").rank == 1
    assert LaunchInfo.detect(contradictory, source="env").world_size == 1
    assert LaunchInfo.detect(contradictory, source="single").world_size == 1
    for source, says in (("slurm", "not in the environment"), ("lsf", "known: torchrun, openmpi, pmix")):
        with pytest.raises(ValueError, match=says):
            LaunchInfo.detect(contradictory, source=source)
    with pytest.raises(ValueError, match='source "env": its variables are not in the environment'):
        LaunchInfo.detect(TORCHRUN, source="env")  # they are torchrun's
    with pytest.raises(ValueError, match='source "env": RANK is set, but WORLD_SIZE is not'):
        LaunchInfo.detect({"RANK": "0"}, source="env")
    with pytest.raises(ValueError, match="exclude each other"):
        LaunchInfo.detect({}, source="env", rank=0, world_size=1)
    with pytest.raises(ValueError, match="or neither"):
        LaunchInfo.detect({}, rank=0)


@pytest.mark.parametrize("name", ["launch_id", "rank", "world_size", "restart_count", "source"])
def test_a_record_made_by_hand_needs_what_every_launch_has(name):
    with pytest.raises(ValueError, match=f"{name} is None .*; it is a"):
        dataclasses.replace(LaunchInfo.detect(ENV), **{name: None})


def test_a_class_made_from_the_record_has_fields_of_its_own():
    @dataclasses.dataclass(frozen=True)
    class Placed(LaunchInfo):
        """Its annotations are text, as everywhere in this file."""

        cores: list[int] = dataclasses.field(default_factory=list)

    plain = LaunchInfo.detect({}, rank=1, world_size=2)
    placed = Placed(**dataclasses.asdict(plain), cores=[3])
    assert (placed.rank, placed.cores) == (1, [3])


def test_the_record_is_frozen_and_equal_by_value():
    info = LaunchInfo.detect(ENV)
    assert info == LaunchInfo.detect(ENV) and hash(info) == hash(LaunchInfo.detect(ENV))
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.rank = 3


def test_slurms_short_forms():
    lists = {"2(x3),1": [2, 2, 2, 1], "4": [4], "1,3(x2)": [1, 3, 3], "5(x0),2": [2], "": []}
    for text, tasks in lists.items():
        runs = tasks_per_node(text)
        assert [tasks_on(node, runs) for node in range(-1, len(tasks) + 1)] == [None, *tasks, None]
    hosts = {"n[08-09,12]": "n08", "a1,b[1-3]": "a1", "x[3,5]-ib,y": "x3-ib", "solo": "solo", "": None}
    hosts |= {"unit[0-31]rack[02-4,7],login": "unit0rack02", "n[3": "n"}
    assert {text: first_host(text) for text in hosts} == hosts


def test_detecting_needs_no_torch():
    code = (
        "import sys; from torch_customccl.launch import LaunchInfo as i; i.detect(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
