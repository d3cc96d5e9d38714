"""One rank: makes all peers, then measures cell after cell. Rank 0 prints a JSON line per event; started by launch.py.

python -m benchmarks.rank PLAN_JSON REGION_DESCRIPTOR RANK RANKS STORE_FILE
"""

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import buffers, footprint, machine, native, own_calls, workloads
from benchmarks.operations import ELEMENT_BYTES, OPERATIONS, actual_size
from benchmarks.peers import OURS, OURS_WIDE, PEERS, TIMEOUT, Peer, Relay, UnsupportedError
from benchmarks.plan import OWN, STEP, Cell, Plan
from benchmarks.sampling import Burst, Limits, burst_for, enough, round_order
from benchmarks.shared_region import CAPACITY, SharedRegion

REPEATS_TO_WARM = 10


class Turn:
    """A peer's part in one cell, under a name: its call and its buffers."""

    def __init__(self, name: str, peer: Peer, cell: Cell, shared: dict[Any, Any]) -> None:
        self.name, self.peer = name, peer
        self.rewrite: Callable[[], object] = lambda: None
        self.call: Callable[[], object]
        self.buffers: buffers.Buffers | None = None
        if cell.style == OWN:
            self.rewrite, self.call = own_calls.bind(cell.operation, cell.size, peer)
            return
        if cell.style == STEP:
            if not peer.runs_steps:
                raise UnsupportedError("no step of a program")
            self.call = self._step(cell.operation, shared)
            return
        rank, ranks = dist.get_rank(), dist.get_world_size()
        same = peer.allocate, cell.dtype
        if same not in shared:  # peers with plain memory use the same tensors
            shared[same] = buffers.make(cell.operation, cell.dtype, rank, ranks, cell.size, peer.allocate)
        self.buffers = shared[same]
        self.call = peer.call(cell.style, cell.operation, self.buffers)
        self.rewrite = self.buffers.rewrite

    def _step(self, name: str, shared: dict[Any, Any]) -> Callable[[], object]:
        """Of a program that runs over each peer in the same memory, where it can."""
        if not workloads.communicates_by_all_reduce(name):
            return workloads.bind(name, self.peer.group)
        if "relay" not in shared:
            shared["relay"] = Relay()
            shared["relay"].choose(self.peer)  # whose tensors it may get: ours, which comes first
            shared["step"] = workloads.bind(name, shared["relay"].group)
        self.rewrite = partial(shared["relay"].choose, self.peer)
        step: Callable[[], object] = shared["step"]
        return step

    def check(self) -> int:
        """One call from spoilt outputs; elements that came out wrong on this rank."""
        if self.buffers is not None:
            self.buffers.spoil()
        self.rewrite()
        self.call()
        return self.buffers.wrong() if self.buffers is not None and self.peer.correct else 0


class Rank:
    """Runs a plan. All ranks do the same in the same order."""

    def __init__(self, plan: Plan, region: SharedRegion) -> None:
        self.plan, self.region = plan, region
        self.peers: list[Peer] = []
        self.processors = machine.processors()

    def say(self, event: str, **fields: Any) -> None:
        if self.region.rank == 0:
            print(json.dumps({"event": event, **fields}), flush=True)

    def make_peers(self) -> None:
        missing = {}
        for name in self.plan.peers:
            peer, why = self._together(PEERS[name])
            if peer is None:
                missing[name] = why
            else:
                self.peers.append(peer)
        self.say("peers", names=[peer.name for peer in self.peers], missing=missing)

    def _footprint(self) -> dict[str, float]:
        idle = footprint.idle_share()
        figures = {"idle share of a core": idle}
        for peer in self.peers:
            if peer.name == OURS:
                figures["waiting share of a core"] = footprint.waiting_share(peer, self.region, idle)
                figures["bytes per group"] = footprint.bytes_per_group(peer)
        return figures

    def _together(self, action: Callable[[], Any]) -> tuple[Any, str]:
        """Does it on every rank; None and a reason on all of them if it failed on any."""
        result, why = None, "failed on another rank"
        try:
            result = action()
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            if not isinstance(error, UnsupportedError | FileNotFoundError):
                traceback.print_exc()
        good = self.region.exchange(result is not None)
        return (result, "") if all(good) else (None, why)

    def _contenders(self, cell: Cell) -> Iterator[tuple[str, Peer, Cell]]:
        for peer in self.peers:
            yield peer.name, peer, cell
            if peer.name == OURS and ELEMENT_BYTES[cell.dtype] == 2:
                yield OURS_WIDE, peer, cell.widened()

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Samples of all peers that can do this cell; why not, of the others."""
        self._place(cell)
        shared: dict[Any, Any] = {}  # between the peers
        turns: list[Turn] = []
        peers: dict[str, dict[str, Any]] = {}
        for name, peer, what in self._contenders(cell):
            turn, why = self._together(partial(Turn, name, peer, what, shared))
            wrong, why = self._together(turn.check) if turn else (None, why)
            if wrong is None:
                peers[name] = {"missing": why}
            else:
                turns.append(turn)
                peers[name] = {"wrong": sum(self.region.exchange(wrong))}
        if turns:
            samples = self._sample(turns, cell)
            for index, turn in enumerate(turns):
                peers[turn.name]["wrong"] += sum(self.region.exchange(turn.check()))
                peers[turn.name]["samples"] = samples[index].tolist()
        ranks = self.region.ranks
        known = cell.operation in OPERATIONS
        size = actual_size(cell.operation, cell.dtype, ranks, cell.size) if known else cell.size
        return {
            **asdict(cell),
            "level": "python",
            "ranks": ranks,
            "size_wanted": cell.size,
            "size": size,
            "peers": peers,
        }

    def _place(self, cell: Cell) -> None:
        """The calling threads evenly over the processors; steps, and the backends' own threads, go where they like.
        Else a peer's wake-ups put two ranks on one processor and none on another, and the next peer pays."""
        machine.free_threads(self.processors)
        if cell.style != STEP:
            os.sched_setaffinity(0, {self.processors[self.region.rank % len(self.processors)]})

    def _sample(self, turns: list[Turn], cell: Cell) -> Any:
        """The array [peer][round][half][call], maximum over ranks, in nanoseconds."""
        seconds = [self._warm(turn) for turn in turns]
        crowded = self.region.ranks > len(self.processors)
        longest = 0.0 if cell.style == OWN else max(seconds)  # those are short, whatever others take
        bursts = [burst_for(min(own, longest), longest, crowded) for own in seconds]
        timed = bursts[0].timed
        most = CAPACITY // (len(turns) * 2 * timed)
        mine = self.region.mine()[: most * len(turns) * 2 * timed].reshape(most, len(turns), 2, timed)
        gc.collect()
        gc.disable()
        begin, rounds = time.monotonic(), 0
        limits = self.plan.limits_of(cell)
        while not self._enough(rounds, most, begin, limits):
            for position, index in enumerate(round_order(len(turns), rounds)):
                self._burst(turns[index], bursts[index], mine[rounds, index, position // len(turns)])
            rounds += 1
        gc.enable()
        return self.region.maximum(mine[:rounds].size).reshape(mine[:rounds].shape).swapaxes(0, 1)

    def _enough(self, rounds: int, most: int, begin: float, limits: Limits) -> bool:
        """Rank 0's clock decides."""
        mine = rounds == most or enough(rounds, time.monotonic() - begin, limits)
        return bool(self.region.exchange(mine)[0])

    def _warm(self, turn: Turn) -> float:
        """Calls until ten are done (three of long ones); seconds of one with its rewriting, the longest of any rank."""
        durations = []
        for count in range(REPEATS_TO_WARM):
            self.region.sync()
            begin = time.perf_counter()
            turn.rewrite()
            turn.call()
            durations.append(time.perf_counter() - begin)
            if count >= 2 and max(self.region.exchange(int(durations[-1] * 1e9))) > 20e6:
                break
        median = sorted(durations)[len(durations) // 2]
        return max(self.region.exchange(int(median * 1e9))) * 1e-9

    def _burst(self, turn: Turn, burst: Burst, samples: Any) -> None:
        rewrite, call, sync, now = turn.rewrite, turn.call, self.region.sync, time.perf_counter_ns
        for number in range(-burst.warm, burst.timed):
            rewrite()
            sync()
            begin = now()
            call()
            duration = now() - begin
            sync()  # who is done first and rewrites its buffers must not keep a rank of its processor in the call
            if number >= 0:
                samples[number] = duration

    def run(self) -> None:
        begin = time.monotonic()
        self.make_peers()
        self.say("footprint", figures=self._footprint())
        for cell in self.plan.cells(self.region.ranks):
            title = cell.title(self.region.ranks)
            if self.region.exchange(time.monotonic() - begin > self.plan.time_limit(self.region.ranks))[
                0
            ]:  # rank 0's clock decides
                self.say("left_out", title=title)
                continue
            self.say("begin", title=title)
            self.say("cell", cell=self.measure(cell))
        self.say("end")


def _store(meeting: dist.Store, rank: int, ranks: int) -> dist.Store:
    """A TCPStore, as launchers have; it looks for keys at once where a FileStore does every 10 ms."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, ranks, is_master=True, wait_for_workers=False)
        meeting.set("port", str(store.port))
        return store
    return dist.TCPStore("127.0.0.1", int(meeting.get("port")), ranks, is_master=False)


def main() -> None:
    plan_json, descriptor, rank, ranks, store_file = sys.argv[1:]
    torch.set_num_threads(1)
    region = SharedRegion(native.sync_library(), int(descriptor), int(rank), int(ranks))
    store = _store(dist.FileStore(store_file, int(ranks)), int(rank), int(ranks))
    dist.init_process_group("gloo", store=store, rank=int(rank), world_size=int(ranks), timeout=TIMEOUT)
    try:
        Rank(Plan.from_dict(json.loads(plan_json)), region).run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the others may be waiting; launch.py ends them
    sys.stdout.flush()
    region.sync()
    os._exit(0)  # leaving quietly is not what is measured here


if __name__ == "__main__":
    main()
