"""Two worlds of different size that pair up and part while they run, as servers of language models do.

    python examples/prefill_decode.py

2 processes fill caches (prefill), 3 produce tokens from them (decode). Each world is a group of its own and works alone
most of the time. For every batch the two pair up in a group over all five, the caches go from prefill to the decode
rank that a request belongs to, each as one message, and they part again. No world knows the other's processes, and
there is no init_process_group.
"""

import multiprocessing
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from torch_customccl import Group, create_group, open_store, serve_store

PREFILL, DECODE = 2, 3
BATCHES, REQUESTS = 10, 12
LAYERS, TOKENS, WIDTH = 4, 128, 64
LIMIT = timedelta(seconds=60)


def cache_of(request: int) -> list[dict[str, torch.Tensor]]:
    """Keys and values of every layer; the numbers tell whose they are."""
    keys = torch.arange(TOKENS * WIDTH, dtype=torch.float32).view(TOKENS, WIDTH) + request
    return [{"keys": keys * layer, "values": keys.t()} for layer in range(LAYERS)]


def prefill(world: Group, store: dist.Store) -> None:
    for batch in range(BATCHES):
        hidden = torch.ones(WIDTH)
        world.all_reduce(hidden)  # stands for the model: tensor parallelism among the prefill ranks
        with create_group(store, world.rank(), PREFILL + DECODE, "pair", timeout=LIMIT) as pair:
            for request in range(world.rank(), REQUESTS, PREFILL):
                message = {"request": request, "prompt": f"question {batch}/{request}", "cache": cache_of(request)}
                pair.endpoint(f"decode-{request % DECODE}").send(message)
            pair.barrier()  # nobody leaves while others wait for messages of any rank


def decode(world: Group, store: dist.Store) -> None:
    answered, moved, begun = 0, 0, time.perf_counter()
    for _ in range(BATCHES):
        with create_group(store, PREFILL + world.rank(), PREFILL + DECODE, "pair", timeout=LIMIT) as pair:
            mine = pair.open_endpoint(f"decode-{world.rank()}")
            for _ in range(world.rank(), REQUESTS, DECODE):
                message = mine.recv(weights_only=True)
                for layer, wanted in zip(message["cache"], cache_of(message["request"]), strict=True):
                    assert layer["keys"].equal(wanted["keys"]) and layer["values"].equal(wanted["values"])
                    moved += layer["keys"].nbytes + layer["values"].nbytes
                answered += 1
            pair.barrier()
        total = torch.tensor([answered])
        world.all_reduce(total)  # the decode ranks by themselves: their world lives on
    assert total.item() == (BATCHES * REQUESTS)
    if world.rank() == 0:
        took = time.perf_counter() - begun
        print(f"{total.item()} requests in {BATCHES} pairings; rank 0 got {moved >> 20} MiB of caches, {took:.2f} s")


def process(role: str, rank: int, uri: str) -> None:
    torch.set_num_threads(1)
    store = open_store(uri, rank, timeout=LIMIT)  # one connection for all groups of this process
    with create_group(store, rank, PREFILL if role == "prefill" else DECODE, role, timeout=LIMIT) as world:
        (prefill if role == "prefill" else decode)(world, store)


def main() -> None:
    server = serve_store(timeout=LIMIT)  # the only socket that anybody needs to know
    uri = f"tcp://127.0.0.1:{server.port}?owner=other"
    context = multiprocessing.get_context("spawn")
    places = [("prefill", rank) for rank in range(PREFILL)] + [("decode", rank) for rank in range(DECODE)]
    processes = [context.Process(target=process, args=(*place, uri)) for place in places]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    codes = [each.exitcode for each in processes]
    if any(codes):
        raise SystemExit(f"exit codes {codes}")


if __name__ == "__main__":
    main()
