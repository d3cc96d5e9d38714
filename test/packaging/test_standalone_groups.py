"""Every way to name the backend makes a group that works and has a default backend."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from process import run_python

import torch_customccl
from torch_customccl import backend

try:
    from torch.distributed import _dist2
except ImportError:
    _dist2 = None

LIMIT = timedelta(seconds=20)
needs_dist2 = pytest.mark.skipif(_dist2 is None, reason=f"torch {torch.__version__} has no torch.distributed._dist2")


@pytest.fixture
def world():
    """init_process_group for one rank, taken down afterwards."""

    def make(name, store=None, **keywords):
        dist.init_process_group(name, store=store or dist.HashStore(), rank=0, world_size=1, timeout=LIMIT, **keywords)
        return dist.group.WORLD

    yield make
    if dist.is_initialized():
        dist.destroy_process_group()


def works(group=None):
    tensor = torch.arange(5.0)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["customccl", "CUSTOMCCL", "cpu:customccl", "cpu:customccl,cuda:gloo"])
def test_every_name_makes_a_group_with_our_default_backend(world, name):
    group = world(name)
    # Newer versions decide themselves: for a backend string of several devices, the accelerator's is the default.
    decided = hasattr(dist.distributed_c10d, "_get_default_backend_type_for_backend_config")
    assert group.name() == ("gloo" if decided and "," in name else "custom")
    assert group._get_backend(torch.device("cpu")).name() == "customccl"
    works()


@pytest.mark.parametrize("name", ["cpu:gloo", "cpu:gloo,cuda:gloo"])
def test_groups_of_others_keep_their_default_backend(world, name):
    assert world(name).name() == "gloo"


def test_new_group_gets_a_default_backend_too(world):
    world("cpu:gloo")
    group = dist.new_group([0], backend="cpu:customccl", timeout=LIMIT)
    assert group.name() == "custom"
    works(group)


def test_options_of_another_backend_are_ignored_and_ours_are_taken(world):
    world("customccl", pg_options=dist.ProcessGroupGloo._Options())
    works()
    dist.destroy_process_group()
    world("customccl", pg_options=torch_customccl.Options())
    works()


def test_a_group_can_be_made_again_on_the_same_store(world):
    store = dist.HashStore()
    for _ in range(3):
        world("customccl", store)
        works()
        dist.destroy_process_group()


@needs_dist2
@pytest.mark.parametrize("options", [{}, {"options": None}, {"group_name": "stateless"}])
def test_dist2_groups_need_no_world(options):
    assert not dist.is_initialized()
    group = _dist2._BACKENDS["customccl"](dist.HashStore(), 0, 1, LIMIT, torch.device("cpu"), **options)
    tensor = torch.ones(3)
    group.allreduce([tensor]).wait()
    assert tensor.tolist() == [1, 1, 1]
    dist.monitored_barrier(group)  # of a group that torch has given no name


def test_dist2_groups_refuse_what_they_do_not_know():
    with pytest.raises(TypeError, match=r"unknown arguments \['speed'\]"):
        backend.create_group(dist.HashStore(), 0, 1, LIMIT, torch.device("cpu"), speed=11)
    with pytest.raises(ValueError, match="cannot be made"):
        backend.create_group(dist.HashStore(), 0, 1, LIMIT, torch.device("meta"))


def test_a_script_needs_no_import_of_ours(tmp_path):
    run_python(
        """
        import sys, torch, torch.distributed as dist
        dist.init_process_group("customccl", init_method="file://" + sys.argv[0] + "store", rank=0, world_size=1)
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        dist.barrier()
        dist.destroy_process_group()
        assert tensor.tolist() == [1, 1]
        """.replace("sys.argv[0] + ", repr(f"{tmp_path}/") + " + "),
        tmp_path,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None, 0, 2, LIMIT), "a store is needed, not NoneType"),
        (("file:///tmp/store", 0, 2, LIMIT), "a store is needed, not str"),
        ((dist.HashStore(), 0, 2, 5), "the timeout of group '' must be a datetime.timedelta, not 5"),
    ],
)
def test_what_is_no_store_and_no_timeout_is_refused(arguments, says):
    with pytest.raises(TypeError, match=says):
        backend.make_backend(*arguments)
