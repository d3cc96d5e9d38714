"""torch.compile of functions with collectives: one graph, right values, buffers reused."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._inductor.utils import run_and_get_code
from torch.distributed import _functional_collectives as functional

COMPILE_S = 150  # on a loaded machine; ten seconds on an idle one


def part(rank: int) -> Tensor:
    return torch.arange(12, dtype=torch.float32) + rank


def mixed(x: Tensor) -> Tensor:
    group = dist.group.WORLD
    total = functional.all_reduce(x * 2, "sum", group)
    everyone = functional.all_gather_tensor(total + 1, 0, group)
    return functional.reduce_scatter_tensor(everyone * 3, "avg", 0, group) + x


def wanted(rank: int, size: int) -> Tensor:
    total = sum(part(other) * 2 for other in range(size))
    return (total + 1) * 3 + part(rank)


def one_graph(rank: int, size: int) -> None:
    """Functional collectives do not break the graph."""
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(mixed, backend=keep, fullgraph=True)
    torch.testing.assert_close(compiled(part(rank)) + 0, wanted(rank, size))
    assert len(graphs) == 1


def traced_calls(rank: int, size: int) -> None:
    """Calls of torch.distributed are traced as functional collectives."""

    def in_place(x: Tensor) -> Tensor:
        y = x * 2
        dist.all_reduce(y)
        out = torch.empty(size * y.numel())
        dist.all_gather_into_tensor(out, y)
        return out + 1

    compiled = torch.compile(in_place, backend="aot_eager", fullgraph=True)
    total = sum(part(other) * 2 for other in range(size))
    torch.testing.assert_close(compiled(part(rank)), total.repeat(size) + 1)


def reduced_in_place(rank: int, size: int) -> None:
    """In the code of the default compiler, the buffer of `x * 2` is reduced where it lies. One rank compiles."""

    def reduce(x: Tensor) -> Tensor:
        return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    if rank == 0:
        result, (code, *_) = run_and_get_code(torch.compile(reduce, fullgraph=True), part(rank))
        assert "all_reduce_.default" in code
    else:
        result = reduce(part(rank))
    torch.testing.assert_close(result + 0, sum(part(other) * 2 for other in range(size)) + 1)


def called_between_graphs(rank: int, size: int) -> None:
    """What torch.compile does not trace, and torch_customccl puts itself around, is called as ever, over gloo, too."""

    def exchange(x: Tensor, group: dist.ProcessGroup) -> Tensor:
        y = x * 2
        out = torch.zeros_like(y)
        pair = [dist.P2POp(dist.isend, y, 1 - rank, group), dist.P2POp(dist.irecv, out, 1 - rank, group)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()
        dist.monitored_barrier(group)
        return out + 1

    for group in (dist.group.WORLD, dist.new_group(backend="gloo")):
        received = torch.compile(exchange, backend="eager")(part(rank), group)
        torch.testing.assert_close(received, part(1 - rank) * 2 + 1)


def asked_for_its_name(rank: int, size: int) -> None:
    """Libraries decide by a group's _get_backend_name() within what they compile."""

    def named(x: Tensor, group: dist.ProcessGroup) -> Tensor:
        return x + len(group._get_backend_name())

    compiled = torch.compile(named, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(part(rank), dist.group.WORLD), part(rank) + len(dist.get_backend()))


@pytest.mark.slow
@pytest.mark.timeout(COMPILE_S + 60)
def test_compiled_functions(ranks):
    """In one test, because starting the compiler takes much longer than what it compiles."""

    def body(rank, size):
        for check in (one_graph, traced_calls, reduced_in_place, called_between_graphs, asked_for_its_name):
            check(rank, size)
            torch._dynamo.reset()

    ranks(2, fresh=True, timeout=COMPILE_S).run(body, limit=COMPILE_S)
