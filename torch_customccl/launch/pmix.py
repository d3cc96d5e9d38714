"""What a PMIx server (Open MPI's mpirun, srun --mpi=pmix) knows: values that one process puts and others wait for.

libpmix is found at run time: the one that the process has loaded already (Open MPI's), else the system's. It counts
its users, so we live beside MPI_Init and MPI_Finalize in one process. Structures: pmix_common.h of PMIx 3 to 5.
"""

import atexit
import ctypes
import os
import time
from ctypes import POINTER, Structure, Union, byref, c_char, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_uint32

from torch_customccl.launch.loaded_libraries import loaded_libraries

_STRING, _INT, _GLOBAL = 3, 6, 3
_TIMEOUT, _NOT_FOUND = -24, -46
_LOOK_S = 5  # seconds that one question may stay with the server


class _Proc(Structure):
    _fields_ = (("nspace", c_char * 256), ("rank", c_uint32))


class _Data(Union):
    _fields_ = (("string", c_char_p), ("integer", c_int), ("room", c_char * 24), ("aligned", c_size_t))


class _Value(Structure):
    _fields_ = (("type", c_uint16), ("data", _Data))


class _Info(Structure):
    _fields_ = (("key", c_char * 512), ("flags", c_uint32), ("value", _Value))


class Pmix:
    """This process as a client of its PMIx server. One per process; see `open_pmix`."""

    def __init__(self) -> None:
        self._library = _load()
        self._me, self._pid = _Proc(), os.getpid()
        self._check(self._library.PMIx_Init(byref(self._me), None, c_size_t(0)), "PMIx_Init")
        self.job = "pmix-" + self._me.nspace.decode()
        atexit.register(self._leave)

    def publish(self, name: str, value: str, limit_s: float) -> None:
        """Make `value` known under `name`, as a value of this rank. Does not wait, whatever limit_s is."""
        put = _Value(type=_STRING)
        put.data.string = value.encode()
        self._check(self._library.PMIx_Put(c_uint8(_GLOBAL), name.encode(), byref(put)), "PMIx_Put")
        self._check(self._library.PMIx_Commit(), "PMIx_Commit")

    def lookup(self, name: str, limit_s: float) -> str:
        """Wait until rank 0 has published `name`. TimeoutError when it has not after `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        first = _Proc(self._me.nspace, 0)
        while (left := deadline - time.monotonic()) > 0:
            # Whole seconds, and 0 would mean for ever.
            limit = _Info(key=b"pmix.timeout", value=_Value(type=_INT))
            limit.value.data.integer = max(1, min(_LOOK_S, int(left)))
            found = POINTER(_Value)()
            asked = time.monotonic()
            code = self._library.PMIx_Get(byref(first), name.encode(), byref(limit), c_size_t(1), byref(found))
            if code == 0 and found and found.contents.type == _STRING:
                return str(found.contents.data.string.decode())
            if code not in (_TIMEOUT, _NOT_FOUND):
                self._check(code or -1, "PMIx_Get")
            if time.monotonic() - asked < 0.01:
                time.sleep(0.01)  # a server that answers "not yet" at once
        raise TimeoutError(f"rank 0 did not publish {name} within {limit_s:g} s: is it running?")

    def _check(self, code: int, call: str) -> None:
        if code != 0:
            text = self._library.PMIx_Error_string(code).decode()
            raise ConnectionError(
                f"{call} failed: {text}. The PMIx server of the launcher cannot be asked; give master_addr and "
                "master_port, or an explicit rank and world_size"
            )

    def _leave(self) -> None:
        if os.getpid() == self._pid:
            self._library.PMIx_Finalize(None, c_size_t(0))


def _load() -> ctypes.CDLL:
    for path in [*loaded_libraries("libpmix.so"), "libpmix.so.2", "libpmix.so"]:
        try:
            library = ctypes.CDLL(path)
            library.PMIx_Error_string.restype = c_char_p
            return library
        except (OSError, AttributeError):
            continue
    raise ConnectionError(
        "the launcher speaks PMIx, but libpmix.so.2 is not to be found (Debian, Ubuntu: libpmix2; or set "
        "LD_LIBRARY_PATH). Without it, give master_addr and master_port, or an explicit rank and world_size"
    )


_open: Pmix | None = None


def open_pmix() -> Pmix:
    """The client of this process. ConnectionError, with the reason, if there is no library or no server."""
    global _open
    if _open is None:
        _open = Pmix()
    elif _open._pid != os.getpid():
        raise ConnectionError("this process was forked from one that uses PMIx; its connection belongs to the parent")
    return _open
