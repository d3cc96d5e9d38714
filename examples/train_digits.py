"""Train a small conv net on scikit-learn's handwritten digits, on several ranks of this machine.

    torchrun --nproc-per-node 2 examples/train_digits.py

What it shows: `DistributedDataParallel` over the customccl backend reaches 97 % test accuracy or better; afterwards
all ranks hold the same bits; they learned what one process learns from the same global batches; and what a training
step and its communication cost over customccl and over gloo, measured by turns in this same run. Exit code 1 if a check
fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 64  # images per step, over all ranks; divisible by 1, 2 and 4 ranks
LEARNING_RATE = 0.05
MOMENTUM = 0.9
WANTED_ACCURACY = 0.97
# One process adds up the gradients of a batch in another order than the ranks do, and float32 rounds at 6e-8. The net
# is smooth (SiLU and average pooling, no kinks), so training does not amplify that much: a right run ends near 1e-6,
# one with a wrong gradient differs by 1e-2 and more.
TOLERANCE = 1e-4


@dataclass
class Digits:
    """Images are float32 of shape (count, 1, 8, 8) between 0 and 1, labels int64 of shape (count,)."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits() -> Digits:
    """1,797 scanned digits; they ship inside the package, so nothing is downloaded."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError:
        sys.exit("train_digits: the data of this example ships inside scikit-learn; run: pip install scikit-learn")
    data = load()
    images = torch.tensor(data.images, dtype=torch.float32).div(16).unsqueeze(1)
    labels = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order[:360], order[360:]
    return Digits(images[train], labels[train], images[test], labels[test])


def build_net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.SiLU(),
        nn.Linear(128, 10),
    )


class Training:
    """A net and its optimizer. `net` may be the net itself or the net wrapped in DistributedDataParallel."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)

    def step(self, images: Tensor, labels: Tensor) -> float:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(images), labels)
        loss.backward()
        self.optimizer.step()
        return float(loss.item())


def global_batches(data: Digits, epoch: int) -> list[Tensor]:
    """Index tensors of the global batches of one epoch; a last incomplete one is left out."""
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(1000 + epoch))
    return [batch for batch in order.split(GLOBAL_BATCH) if len(batch) == GLOBAL_BATCH]


def share(batch: Tensor, rank: int, size: int) -> Tensor:
    return batch.chunk(size)[rank]


def train(data: Digits, training: Training, epochs: int, rank: int, size: int, say: Callable[[str], None]) -> None:
    for epoch in range(epochs):
        start = time.perf_counter()
        losses = []
        for batch in global_batches(data, epoch):
            mine = share(batch, rank, size)
            losses.append(training.step(data.images[mine], data.labels[mine]))
        seconds = time.perf_counter() - start
        say(f"epoch {epoch + 1:2}/{epochs}   loss {sum(losses) / len(losses):.4f}   {seconds:.2f} s")


def flat_parameters(net: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def accuracy_of(net: nn.Module, data: Digits) -> float:
    with torch.no_grad():
        return float((net(data.test_images).argmax(1) == data.test_labels).float().mean())


def same_bits_everywhere(net: nn.Module, judge: dist.ProcessGroup | None) -> bool:
    """Compare digests over `judge`, a group of another backend, so that nobody vouches for themselves."""
    digest = hashlib.sha256(flat_parameters(net).numpy().tobytes()).hexdigest()
    digests: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(digests, digest, group=judge)
    return len(set(digests)) == 1


def difference_from_one_process(net: nn.Module, data: Digits, epochs: int) -> float:
    """Train once more in this process alone, on the whole global batches; the largest difference of a parameter."""
    alone = Training(build_net(seed=0))
    train(data, alone, epochs, rank=0, size=1, say=lambda _: None)
    return float((flat_parameters(alone.net) - flat_parameters(net)).abs().max())


Group = dist.ProcessGroup | None


@dataclass
class Cost:
    """Medians in seconds, of this rank."""

    step: float
    communication: float


def measure(data: Digits, groups: dict[str, Group], rank: int, size: int, turns: int, repeats: int) -> dict[str, Cost]:
    """Time the same work over each group by turns, A B B A, so that drift of the machine hits both alike."""
    trainings = {name: Training(DistributedDataParallel(build_net(0), process_group=g)) for name, g in groups.items()}
    gradients = torch.zeros(flat_parameters(build_net(0)).numel())  # zeros stay zeros however often they are summed
    mine = share(global_batches(data, 0)[0], rank, size)
    images, labels = data.images[mine], data.labels[mine]
    steps: dict[str, list[float]] = {name: [] for name in groups}
    reductions: dict[str, list[float]] = {name: [] for name in groups}
    names = list(groups)
    for turn in range(turns + 1):
        for name in names if turn % 2 == 0 else reversed(names):
            dist.barrier(group=groups[name])
            step_times = timed(repeats, partial(trainings[name].step, images, labels))
            dist.barrier(group=groups[name])
            reduce_times = timed(repeats, partial(dist.all_reduce, gradients, group=groups[name]))
            if turn > 0:  # the first turn warms up
                steps[name] += step_times
                reductions[name] += reduce_times
    return {name: Cost(median(steps[name]), median(reductions[name])) for name in names}


def timed(repeats: int, work: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def report_costs(costs: dict[str, Cost], parameters: int, turns: int, repeats: int) -> None:
    names = list(costs)
    print(f"\nmedian of {turns} x {repeats}, by turns{'':27}" + "".join(f"{name:>12}" for name in names))
    rows = [
        ("training step", [costs[name].step for name in names]),
        (f"communication: all_reduce of {4 * parameters / 1024:.0f} KiB", [costs[n].communication for n in names]),
    ]
    for title, values in rows:
        line = f"  {title:<50}" + "".join(f"{1e3 * value:9.3f} ms" for value in values)
        if len(values) == 2 and min(values) > 0:
            line += f"   {names[0]} takes {values[0] / values[1]:.2f} of {names[1]}'s time"
        print(line)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on scikit-learn's digits with DistributedDataParallel.")
    parser.add_argument("--backend", default="customccl", help="the c10d backend to train with (default: customccl)")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--turns", type=int, default=40, help="how often the timed backends take turns")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps and all_reduces per turn")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("start it with: torchrun --nproc-per-node 2 examples/train_digits.py")
    if GLOBAL_BATCH % int(os.environ["WORLD_SIZE"]) != 0:
        parser.error(f"the number of ranks must divide the global batch of {GLOBAL_BATCH} images")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    data = load_digits()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    gloo = dist.new_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    def say(text: str) -> None:
        if rank == 0:
            print(text, flush=True)

    net = build_net(seed=rank)  # ranks start apart; DistributedDataParallel broadcasts rank 0's parameters
    parameters = flat_parameters(net).numel()
    say(f"{size} rank{'s' * (size > 1)}, backend {arguments.backend}, torch {torch.__version__}, one thread per rank")
    say(f"{len(data.labels):,} images to train on, {len(data.test_labels)} to test; {parameters:,} parameters\n")
    train(data, Training(DistributedDataParallel(net)), arguments.epochs, rank, size, say)

    costs = measure(data, {arguments.backend: None, "gloo": gloo}, rank, size, arguments.turns, arguments.repeats)
    same = same_bits_everywhere(net, gloo)
    failed = False
    if rank == 0:
        accuracy = accuracy_of(net, data)
        difference = difference_from_one_process(net, data, arguments.epochs)
        checks = [
            (f"test accuracy {accuracy:.1%} (wanted: {WANTED_ACCURACY:.0%} or better)", accuracy >= WANTED_ACCURACY),
            ("parameters of all ranks: " + ("bit-identical" if same else "DIFFERENT"), same),
            (
                f"against one process on the same batches: largest difference {difference:.1e} (limit {TOLERANCE:.0e})",
                difference <= TOLERANCE,
            ),
        ]
        print()
        for title, good in checks:
            print(f"{'ok    ' if good else 'FAILED'}  {title}")
        failed = not all(good for _, good in checks)
        report_costs(costs, parameters, arguments.turns, arguments.repeats)
    verdict = [failed]
    dist.broadcast_object_list(verdict, src=0, group=gloo)  # every rank leaves with the same exit code
    dist.destroy_process_group()
    return 1 if verdict[0] else 0


if __name__ == "__main__":
    sys.exit(main())
