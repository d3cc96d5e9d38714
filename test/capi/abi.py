"""customccl.h through ctypes: what the programs of test_ctypes.py use. Imports no torch."""

import ctypes
import sys
from ctypes import byref, c_double, c_int32, c_int64, c_size_t, c_void_p, pointer  # noqa: F401

from torch_customccl import _c_interface
from torch_customccl._c_interface import Call, Options, Token, last_error

ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, BARRIER, SEND, RECV = 0, 3, 7, 8, 9, 10
INT64, FLOAT64 = 8, 12
OK, INVALID_ARGUMENT, MISMATCH, TIMEOUT, PEER_DIED, ABORTED, CLOSED, UNREACHABLE, SYSTEM = 0, 1, 2, 3, 4, 6, 7, 8, 9

library = _c_interface.library()


def make_token() -> str:
    token = Token()
    assert library.customccl_make_token(byref(token)) == OK, last_error()
    return token.text.decode()


class Comm:
    """A communicator. `code` is that of its init; run() and the others return theirs."""

    def __init__(self, token: str, rank: int, size: int, **options):
        for key in ("name", "directory"):
            if key in options:
                options[key] = options[key].encode()
        if "global_ranks" in options:
            options["global_ranks"] = (c_int32 * size)(*options["global_ranks"])
        settings = Options(size=ctypes.sizeof(Options), timeout_ms=options.pop("timeout_ms", 30000), **options)
        self.handle = c_void_p()
        self.rank, self.size = rank, size
        self.code = library.customccl_init(
            byref(Token(token.encode())), rank, size, byref(settings), byref(self.handle)
        )

    def run(self, op: int, send=None, recv=None, count: int = 0, dtype: int = INT64, **fields) -> int:
        call = Call(size=ctypes.sizeof(Call), op=op, dtype=dtype, count=count, **fields)
        call.send = ctypes.cast(send, c_void_p) if send is not None else None
        call.recv = ctypes.cast(recv, c_void_p) if recv is not None else None
        return library.customccl_run(self.handle, byref(call))

    def barrier(self, **fields) -> int:
        return self.run(BARRIER, **fields)

    def sum(self, values: list[int]) -> list[int]:
        numbers = (c_int64 * len(values))(*values)
        assert self.run(ALL_REDUCE, numbers, numbers, len(values)) == OK, last_error()
        return list(numbers)

    def async_error(self) -> int:
        return library.customccl_async_error(self.handle)

    def abort(self, why: str) -> int:
        return library.customccl_abort(self.handle, why.encode())

    def destroy(self) -> int:
        return library.customccl_destroy(self.handle)


def arguments() -> tuple[str, int, int]:
    """Token, rank and size that test_ctypes.py gave to this process."""
    return sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
