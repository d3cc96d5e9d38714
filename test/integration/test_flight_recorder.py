"""torch's flight recorder: what ranks did stands in its dumps, and the analyser that ships with torch reads them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile

import pytest
import torch
import torch.distributed as dist
from harness.programs import environment, starting_quickly
from torch.profiler import ProfilerActivity, profile

from torch_customccl._loader import torch_minor

PROGRAM = """
import json, pickle, sys
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

rank, folder, hang = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "hang"
dist.init_process_group("customccl", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
value = torch.ones(3, 2)
for _ in range(2):
    dist.all_reduce(value)
dist.all_gather_into_tensor(torch.empty(6, 2), value, async_op=True).wait()
dist.broadcast(value.double(), 1)
(dist.send if rank == 0 else dist.recv)(value, 1 - rank)
dist.barrier()
dist.all_reduce(torch.eye(2).to_sparse())
pair = dist.new_group([0, 1])
dist.all_reduce(value, group=pair)
if hang and rank == 0:
    left = dist.all_reduce(value, async_op=True)
dist.distributed_c10d._get_default_store().set(f"done {rank}", "")
dist.distributed_c10d._get_default_store().wait(["done 0", "done 1"])
with open(f"{folder}/trace_{rank}", "wb") as file:
    file.write(_dump_fr_trace())
with open(f"{folder}/json_{rank}", "wb") as file:
    file.write(_dump_fr_trace_json(onlyActive=True))
with open(f"{folder}/bare_{rank}", "wb") as file:
    file.write(_dump_fr_trace(includeCollectives=False))
dist.distributed_c10d._get_default_store().set(f"dumped {rank}", "")
dist.distributed_c10d._get_default_store().wait(["dumped 0", "dumped 1"])
"""

own_record = pytest.mark.skipif(
    torch_minor() not in ("2.11", "2.12", "2.13", "2.14"), reason="torch records every backend itself"
)


# Ranks that come late to an operation end it for the others: who sees its end first changes from one to the next.
LOOP = """
import json, sys
import torch, torch.distributed as dist
from torch._C import _distributed_c10d

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("customccl", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
named = "backend" in (_distributed_c10d._dump_fr_trace_json.__doc__ or "")
def under_way():
    given = {"backend": "customccl"} if named else {}
    return json.loads(_distributed_c10d._dump_fr_trace_json(onlyActive=True, **given)).get("entries", [])
value = torch.ones(50_000)
for turn in range(300):
    work = dist.all_reduce(value, async_op=True)
    if turn % 3 == 0:
        work.get_future().wait()
    elif turn % 3 == 1:
        while not work.is_completed():
            pass
    work.wait()
    assert not under_way(), (turn, under_way())
    dist.all_reduce(value)
    assert not under_way(), (turn, under_way())
dist.destroy_process_group()
"""


# Groups that bear one name, after each other.
AGAIN = """
import json, sys
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json

rank, folder = int(sys.argv[1]), sys.argv[2]
store = dist.FileStore(folder + "/store", 2)
for name, turns in (("first", 3), ("second", 1)):
    dist.init_process_group("customccl", store=dist.PrefixStore(name, store), rank=rank, world_size=2)
    for _ in range(turns):
        dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()
with open(f"{folder}/json_{rank}", "wb") as file:
    file.write(_dump_fr_trace_json())
"""


def run(folder, mode: str, **variables: str) -> None:
    run_program(PROGRAM, folder, mode, **variables)


def run_program(program: str, folder, mode: str = "", **variables: str) -> None:
    script = folder / "program.py"
    script.write_text(program)
    command = [sys.executable, str(script)]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(folder), mode],
            env=starting_quickly({name: value for name, value in environment(**variables).items() if value}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=100)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs


def dumps(folder, rank: int):
    whole = pickle.loads((folder / f"trace_{rank}").read_bytes())
    active = json.loads((folder / f"json_{rank}").read_bytes())
    bare = pickle.loads((folder / f"bare_{rank}").read_bytes())
    return whole, active, bare


@own_record
def test_dumps_hold_every_operation_and_torchs_analyser_reads_them(tmp_path):
    run(tmp_path, "hang", TORCH_FR_BUFFER_SIZE="100")
    whole, active, bare = dumps(tmp_path, 0)
    entries = whole["entries"]
    assert [entry["profiling_name"] for entry in entries] == [
        *["gloo:all_reduce"] * 2,
        "gloo:_all_gather_base",
        "gloo:broadcast",
        "gloo:send 0->1",
        "gloo:all_reduce_barrier",
        "gloo:all_reduce",
        *["gloo:all_reduce"] * 2,
    ]
    assert [entry["state"] for entry in entries] == ["completed"] * 8 + ["started"]
    # Of sparse tensors it takes three operations.
    assert [entry["collective_seq_id"] for entry in entries] == [1, 2, 3, 4, 0, 5, 6, 1, 9]
    gathered = entries[2]
    assert (gathered["input_sizes"], gathered["output_sizes"]) == ([[3, 2]], [[6, 2]])
    assert entries[3]["input_dtypes"] == ["Double"]
    assert any(frame["filename"].endswith("program.py") for frame in entries[0]["frames"])
    assert active["entries"][0]["record_id"] == entries[-1]["record_id"]
    assert len(active["entries"]) == 1
    assert "entries" not in bare or bare["entries"] == []
    assert {config["ranks"] for config in whole["pg_config"].values()} == {"[0, 1]"}
    assert {"last_enqueued_collective": "9", "last_started_collective": "9", "last_completed_collective": "6"} in list(
        whole["pg_status"].values()
    )
    analysed = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(tmp_path), "--prefix", "trace_"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert analysed.returncode == 0, analysed.stdout + analysed.stderr


def test_an_operation_is_over_in_the_record_when_its_wait_returns(tmp_path):
    run_program(LOOP, tmp_path, TORCH_FR_BUFFER_SIZE="50")


@own_record
def test_nothing_is_recorded_unless_asked_for(tmp_path):
    run(tmp_path, "end", TORCH_FR_BUFFER_SIZE="")
    whole, _, _ = dumps(tmp_path, 1)
    assert whole["entries"] == []


@own_record
def test_the_oldest_entries_make_room(tmp_path):
    run(tmp_path, "end", TORCH_NCCL_TRACE_BUFFER_SIZE="4")
    whole, _, _ = dumps(tmp_path, 1)
    assert [entry["record_id"] for entry in whole["entries"]] == [4, 5, 6, 7]
    assert whole["entries"][0]["profiling_name"] == "gloo:recv 1<-0"


@own_record
def test_a_group_has_a_status_of_its_own_though_another_had_its_name(tmp_path):
    run_program(AGAIN, tmp_path, TORCH_FR_BUFFER_SIZE="100")
    dumped = json.loads((tmp_path / "json_0").read_bytes())
    numbers = sorted({entry["pg_id"] for entry in dumped["entries"]})
    status = [dumped["pg_status"][str(number)] for number in numbers]
    assert [each["last_enqueued_collective"] for each in status] == ["3", "1"]
    assert [each["last_completed_collective"] for each in status] == ["3", "1"]


def test_profiles_say_what_was_communicated(ranks):
    """The note that torch calls param comms, in the trace that its profiler writes."""

    def body(rank, size, folder):
        value = torch.ones(7, dtype=torch.float64)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            dist.all_reduce(value)
            work = dist.all_gather_into_tensor(torch.empty(14, dtype=torch.float64), value, async_op=True)
            work.wait()
            rows = [3, 4] if rank == 0 else [4, 3]
            dist.all_to_all_single(torch.empty_like(value), value, rows, rows)
            dist.all_to_all(list(value.clone().split(rows)), list(value.split(rows)))
            dist.all_to_all_single(torch.empty_like(value[:6]), value[:6])
        path = os.path.join(folder, f"trace{rank}.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        return [event["args"] for event in events if event.get("name") == "record_param_comms"]

    with tempfile.TemporaryDirectory() as folder:
        for noted in ranks(2).run(body, folder):
            assert [note["Collective name"] for note in noted] == [
                *("allreduce", "_allgather_base", "all_to_allv", "all_to_all", "all_to_all")
            ]
            assert [note["In msg nelems"] for note in noted] == [7, 7, 7, 7, 6]
            assert [note["Out msg nelems"] for note in noted] == [7, 14, 7, 7, 6]
            splits = "[3, 4]" if noted[0]["Rank"] == 0 else "[4, 3]"
            assert [note["In split size"] for note in noted] == ["[]", "[]", splits, splits, "[]"]
            assert [note["Out split size"] for note in noted] == ["[]", "[]", splits, splits, "[]"]
            assert {(note["dtype"], note["Group size"]) for note in noted} == {("Double", 2)}
            assert noted[0]["Process Group Ranks"] in ("[0, 1]", "[]")
