"""Memory shared by the rank processes: a barrier that belongs to no backend, and the samples of all ranks."""

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

MAX_RANKS = 64
WORDS = MAX_RANKS * 128  # as in c/sync.h
SAMPLES = 2 * WORDS
CAPACITY = 1 << 16  # samples per rank and cell
WAIT_SECONDS = 60.0


def create(ranks: int) -> int:
    """A descriptor that children inherit."""
    descriptor = os.memfd_create("benchmarks")
    os.ftruncate(descriptor, SAMPLES + ranks * CAPACITY * 8)
    os.set_inheritable(descriptor, True)
    return descriptor


class SharedRegion:
    """One rank's view. Every rank makes the same calls in the same order."""

    def __init__(self, library: Path, descriptor: int, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        self._map = mmap.mmap(descriptor, SAMPLES + ranks * CAPACITY * 8)
        self._keep: Any = ctypes.c_char.from_buffer(self._map)
        # PyDLL: dropping and taking the GIL around the barrier would be noise.
        function: Any = ctypes.PyDLL(str(library)).benchmarks_sync
        function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_double]
        spins = 20_000 if ranks <= len(os.sched_getaffinity(0)) else 20
        arguments = (ctypes.addressof(self._keep), rank, ranks, spins, WAIT_SECONDS)
        self._sync: Callable[[], int] = partial(function, *arguments)
        self._words: Any = np.ndarray(MAX_RANKS, np.int64, self._map, WORDS)
        self._samples: Any = np.ndarray((ranks, CAPACITY), np.int64, self._map, SAMPLES)

    def sync(self) -> None:
        """Returns when every rank is here. RuntimeError after a minute."""
        if self._sync() != 0:
            raise RuntimeError(
                f"rank {self.rank}: another rank did not come to the barrier within {WAIT_SECONDS:.0f} s"
            )

    def exchange(self, word: int) -> list[int]:
        """Every rank's word, on every rank."""
        self._words[self.rank] = word
        self.sync()
        words = [int(value) for value in self._words[: self.ranks]]
        self.sync()
        return words

    def mine(self) -> Any:
        """Where this rank writes its samples (nanoseconds)."""
        return self._samples[self.rank]

    def maximum(self, count: int) -> Any:
        """The first `count` samples, maximum over ranks. Every rank calls it."""
        self.sync()
        result = self._samples[:, :count].max(axis=0)
        self.sync()
        return result
