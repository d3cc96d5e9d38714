"""Ranks that cannot share memory: the group still works, over gloo, and says why."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.installed import installed
from harness.programs import starting_quickly

Started = subprocess.Popen[str]

BODY = """
import sys, torch, torch.distributed as dist
rank = int(sys.argv[1])
dist.init_process_group("customccl", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
tensor = torch.arange(5.0) + rank
dist.all_reduce(tensor)
assert torch.equal(tensor, 2 * torch.arange(5.0) + 1), tensor
print("backend", dist.group.WORLD._get_backend(torch.device("cpu")).name(), flush=True)
import torch_customccl
print("reasons", torch_customccl.info()["groups_over_gloo"], flush=True)
dist.destroy_process_group()
"""

CHANGES = """
import sys, torch, torch.distributed as dist, torch_customccl
rank = int(sys.argv[1])
group = torch_customccl.create_group(dist.FileStore(sys.argv[2], 2), rank, 2, "changes")
def check(size):
    tensor = torch.arange(5.0) + group.rank()
    group.all_reduce(tensor)
    assert torch.equal(tensor, size * torch.arange(5.0) + sum(range(size))), tensor
check(2)
group.prepare(["1", "0"])
group.commit()
assert group.rank() == 1 - rank
check(2)
group.prepare(["1"])
group.commit()
assert group.closed == (rank == 0)
if rank == 1:
    check(1)
    group.close()
print("changed twice over", torch_customccl.info()["groups_over_gloo"], flush=True)
"""

CALLS_TORCH_RESERVES = """
import sys, torch, torch.distributed as dist, torch_customccl
rank, cpu = int(sys.argv[1]), torch.device("cpu")
dist.init_process_group("customccl", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
store = dist.PrefixStore("own", dist.distributed_c10d._get_default_store())
for group in (dist.group.WORLD, dist.new_group([0, 1]), torch_customccl.create_group(store, rank, 2, "own")):
    backend = group._get_backend(cpu)
    assert backend.name() == "gloo" and group._get_backend_name() == "customccl"
    assert backend.options.global_ranks_in_group == [0, 1]
    assert backend.options.group_name in ("own", group.group_name), backend.options.group_name
    dist.monitored_barrier(group)
    try:
        with dist._coalescing_manager(group, cpu):
            dist.all_reduce(torch.ones(1), group=group)
        raise AssertionError("gloo coalesces now")
    except RuntimeError as error:
        assert "oalescing" in str(error), error
    tensor = torch.arange(5.0) + rank
    dist.all_reduce(tensor, group=group)  # not noted down, but carried out
    assert torch.equal(tensor, 2 * torch.arange(5.0) + 1), tensor
print("all served", flush=True)
dist.destroy_process_group()
"""


def start(prefix: list[str], rank: int, store: Path, environment: dict[str, str], body: str = BODY) -> Started:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", body, str(rank), str(store)],
        env=starting_quickly(os.environ | environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(ranks: list[Started]) -> list[str]:
    """What each printed."""
    outputs = [rank.communicate(timeout=90)[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), "\n".join(outputs)
    return outputs


def run_two(prefixes: list[list[str]], store: Path, environments: list[dict[str, str]], body: str = BODY) -> list[str]:
    """Two ranks, each started by its own command prefix in its own environment."""
    pairs = enumerate(zip(prefixes, environments, strict=True))
    return ended([start(prefix, rank, store, environment, body) for rank, (prefix, environment) in pairs])


def ip(*words: str) -> None:
    subprocess.run([installed("iproute2", "ip"), *words], check=True, capture_output=True)


@pytest.fixture
def namespaces() -> Iterator[list[str]]:
    """Two network namespaces joined by a cable: two hosts, as far as sockets can tell."""
    if os.geteuid() != 0:
        pytest.skip("making network namespaces needs root")
    names = [f"customccl-test-{os.getpid()}-{side}" for side in "ab"]
    for name in names:
        ip("netns", "add", name)
    try:
        ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for number, name in enumerate(names, start=1):
            ip("-n", name, "addr", "add", f"10.97.0.{number}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name)


def test_ranks_in_two_network_namespaces_work_over_gloo_and_say_why(namespaces: list[str], tmp_path: Path) -> None:
    prefixes = [["ip", "netns", "exec", name] for name in namespaces]
    outputs = run_two(prefixes, tmp_path / "store", [{"GLOO_SOCKET_IFNAME": "cable"}] * 2)
    for output in outputs:
        assert "backend gloo" in output
        assert "does not share memory" in output
    assert sum("runs over gloo, not shared memory" in output for output in outputs) == 1, "one line, on rank 0"


def wait_for_key(store: Path, key: bytes) -> None:
    while not store.exists() or key not in store.read_bytes():  # the hard limit of the test ends this
        pass


def test_a_start_after_one_that_only_one_host_came_to_finds_nothing_of_it_in_its_way(
    namespaces: list[str], tmp_path: Path
) -> None:
    """A rank cannot tell whether a process of another host lives that left a record, and has not counted that start."""
    store, cable = tmp_path / "store", {"GLOO_SOCKET_IFNAME": "cable"}
    near, far = [["ip", "netns", "exec", name] for name in namespaces]
    first = start(near, 0, store, cable)
    wait_for_key(store, b"/rank/0")
    first.kill()
    first.communicate()
    late = start(far, 1, store, cable)
    wait_for_key(store, b"elsewhere/rank/1")  # it has found that record
    assert all("backend gloo" in output for output in ended([start(near, 0, store, cable), late]))


def test_the_members_of_a_group_over_gloo_change(namespaces: list[str], tmp_path: Path) -> None:
    prefixes = [["ip", "netns", "exec", name] for name in namespaces]
    outputs = run_two(prefixes, tmp_path / "store", [{"GLOO_SOCKET_IFNAME": "cable"}] * 2, CHANGES)
    assert all("changed twice over {'changes': " in output for output in outputs), outputs


def test_ranks_in_other_ipc_and_mount_namespaces_share_memory_all_the_same(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("unshare needs root")
    outputs = run_two([[], ["unshare", "--ipc", "--mount"]], tmp_path / "store", [{}, {}])
    assert all("backend customccl" in output for output in outputs)


def test_a_rank_without_memfd_shares_memory_by_another_way(tmp_path: Path) -> None:
    outputs = run_two([[], []], tmp_path / "store", [{}, {"CUSTOMCCL_DISABLE": "memfd"}])
    assert all("backend customccl" in output for output in outputs)


DENIED = ["prlimit", "--fsize=1000000"]


def test_a_rank_that_can_make_no_shared_memory_takes_the_group_to_gloo(tmp_path: Path) -> None:
    """A limit on the size of files also holds for memory without a name."""
    outputs = run_two([[], DENIED], tmp_path / "store", [{"GLOO_SOCKET_IFNAME": "lo"}] * 2)
    assert all("backend gloo" in output for output in outputs), outputs


def test_groups_over_gloo_have_what_torch_keeps_for_groups_that_were_called_gloo(tmp_path: Path) -> None:
    run_two([[], DENIED], tmp_path / "store", [{"GLOO_SOCKET_IFNAME": "lo"}] * 2, CALLS_TORCH_RESERVES)
