"""What each launcher writes into the environment of the processes it starts.

A reader returns None if its launcher was not there, and raises KeyError, with a sentence, if only half of what it
writes is there. The order of READERS says whose facts count: torchrun starts processes below anything; an MPI launcher
tells more than bare variables, which must agree with it; mpirun runs inside Slurm jobs, whose variables then describe
its helpers.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

Facts = dict[str, Any]
Variables = Mapping[str, str]


def integer(variables: Variables, name: str) -> int | None:
    """The number in a variable; None if it is unset or empty. ValueError if it is something else."""
    text = variables.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise ValueError(f"{name} is {_shown(text)}, which is not a number of at most 18 digits")
    return int(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def _place(variables: Variables, rank: str, size: str) -> Facts | None:
    numbers = integer(variables, rank), integer(variables, size)
    if numbers == (None, None):
        return None
    for name, number in zip((rank, size), numbers, strict=True):
        if number is None:
            raise KeyError(f"{size if name == rank else rank} is set, but {name} is not")
    return {"rank": numbers[0], "world_size": numbers[1]}


def torchrun(variables: Variables) -> Facts | None:
    """torchrun and torch.distributed.run. Source: torch/distributed/elastic/agent/server/local_elastic_agent.py."""
    if "TORCHELASTIC_RUN_ID" not in variables:
        return None
    facts = _place(variables, "RANK", "WORLD_SIZE")
    if facts is None:
        raise KeyError("TORCHELASTIC_RUN_ID is set, but RANK and WORLD_SIZE are not")
    run = variables["TORCHELASTIC_RUN_ID"]
    if run in ("", "none"):  # no --rdzv-id was given: the agent's address is the only thing that is this launch's own
        address = [variables.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")]
        run = ":".join(address) if any(address) else ""
    return {
        **facts,
        "launch_id": f"torchrun-{run}" if run else "",
        "local_rank": integer(variables, "LOCAL_RANK"),
        "local_size": integer(variables, "LOCAL_WORLD_SIZE"),
        "node_rank": integer(variables, "GROUP_RANK"),
        "restart_count": integer(variables, "TORCHELASTIC_RESTART_COUNT"),
    }


def env(variables: Variables) -> Facts | None:
    """The variables of init_method "env://", set by a person, a script or an operator of Kubernetes."""
    if "TORCHELASTIC_RUN_ID" in variables:
        return None
    facts = _place(variables, "RANK", "WORLD_SIZE")
    if facts is None:
        return None
    return {
        **facts,
        "local_rank": integer(variables, "LOCAL_RANK"),
        "local_size": integer(variables, "LOCAL_WORLD_SIZE"),
        "node_rank": integer(variables, "NODE_RANK"),
    }


def openmpi(variables: Variables) -> Facts | None:
    """mpirun of Open MPI 4 and 5. Its OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the node's number."""
    facts = _place(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    if facts is None:
        return None
    job = variables.get("PMIX_NAMESPACE") or variables.get("OMPI_MCA_ess_base_jobid", "")
    secret = variables.get("OMPI_MCA_orte_precondition_transports", "")  # Open MPI 4: 128 random bits of the job
    return {
        **facts,
        "launch_id": "-".join(part for part in ("openmpi", job, secret) if part) if job or secret else "",
        "local_rank": integer(variables, "OMPI_COMM_WORLD_LOCAL_RANK"),
        "local_size": integer(variables, "OMPI_COMM_WORLD_LOCAL_SIZE"),
    }


def pmix(variables: Variables) -> Facts | None:
    """srun --mpi=pmix. Other launchers over PMIx (prterun) tell no number of processes in the environment."""
    rank = integer(variables, "PMIX_RANK")
    if rank is None or "OMPI_COMM_WORLD_SIZE" in variables:  # Open MPI's mpirun: the reader above has more
        return None
    job = variables.get("PMIX_NAMESPACE", "")
    task = slurm(variables) if job.startswith("slurm.") else None
    if task is None:
        raise KeyError("PMIX_RANK is set, but nothing tells how many ranks there are")
    return {**task, "rank": rank, "launch_id": f"pmix-{job}"}


def mpich(variables: Variables) -> Facts | None:
    """mpirun of MPICH, Intel MPI and MVAPICH (Hydra), and other launchers that speak PMI-1 or PMI-2."""
    if "PMI_RANK" not in variables:  # Cray and Slurm set PMI_SIZE alone in places
        return None
    facts = _place(variables, "PMI_RANK", "PMI_SIZE")
    if facts is None:
        return None
    job = variables.get("PMI_ID_STRING") or variables.get("PMI_JOBID") or ""
    return {
        **facts,
        "launch_id": f"mpich-{job}" if job else "",
        "local_rank": integer(variables, "MPI_LOCALRANKID"),
        "local_size": integer(variables, "MPI_LOCALNRANKS"),
    }


def slurm(variables: Variables) -> Facts | None:
    """A task of srun. The script of sbatch, which is no task, has no SLURM_STEP_NUM_TASKS."""
    if "SLURM_STEP_NUM_TASKS" not in variables:
        return None
    facts = _place(variables, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    if facts is None:
        return None
    node = integer(variables, "SLURM_NODEID")
    runs = tasks_per_node(variables.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return {
        **facts,
        "launch_id": f"slurm-{variables.get('SLURM_JOB_ID', '')}.{variables.get('SLURM_STEP_ID', '')}",
        "local_rank": integer(variables, "SLURM_LOCALID"),
        "local_size": None if node is None else tasks_on(node, runs),
        "node_rank": node,
        "restart_count": integer(variables, "SLURM_RESTART_COUNT"),
        "first_host": first_host(variables.get("SLURM_STEP_NODELIST", "")),
    }


READERS: dict[str, Callable[[Variables], Facts | None]] = {
    "torchrun": torchrun,
    "openmpi": openmpi,
    "pmix": pmix,
    "mpich": mpich,
    "env": env,
    "slurm": slurm,
}


def tasks_per_node(text: str) -> list[tuple[int, int]]:
    """Slurm's short form of a list, as tasks of a node and how many such nodes follow each other: "2(x3),1" is
    [(2, 3), (1, 1)]. ValueError for anything else; "" is [].

    It is not written out: a garbled number of nodes would take all memory.
    """
    runs = []
    for part in text.split(",") if text else []:
        match = re.fullmatch(r"(\d{1,18})(?:\(x(\d{1,18})\))?", part.strip())
        if match is None:
            raise ValueError(f"SLURM_STEP_TASKS_PER_NODE is {_shown(text)}, which is not a list like 2(x3),1")
        runs.append((int(match[1]), int(match[2] or 1)))
    return runs


def tasks_on(node: int, runs: list[tuple[int, int]]) -> int | None:
    """How many tasks a node has, counted from 0; None if the list tells nothing of it."""
    last = -1
    for tasks, nodes in runs:
        if last < node <= last + nodes:
            return tasks
        last += nodes
    return None


def first_host(text: str) -> str | None:
    """The first host of Slurm's short form: "n[03-05,7]-ib,login1" gives "n03-ib"; "" gives None."""
    match = re.match(r"([^,\[\]]|\[[^\]]*\])+", text.strip())  # up to the first comma outside of brackets
    return re.sub(r"\[([^,\]-]*)[^\]]*\]", r"\1", match[0]) if match else None
