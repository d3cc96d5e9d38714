"""customccl.h through ctypes: structures, constants, the library. Imports no torch."""

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from functools import cache

from torch_customccl import library as library_path

# Numbers by name: positions in the enumerations of the header, which never change.
CODES = (
    *("OK", "INVALID_ARGUMENT", "MISMATCH", "TIMEOUT", "PEER_DIED"),
    *("PEER_LEFT", "ABORTED", "CLOSED", "UNREACHABLE", "SYSTEM"),
)
OPS = (
    *("ALL_REDUCE", "REDUCE", "BROADCAST", "ALL_GATHER", "REDUCE_SCATTER"),
    *("GATHER", "SCATTER", "ALL_TO_ALL", "BARRIER", "SEND", "RECV"),
)
# Names of torch: getattr(torch, name.lower()).
DTYPES = (
    *("BOOL", "UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64"),
    *("FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64", "COMPLEX64", "COMPLEX128"),
    *("FLOAT8_E4M3FN", "FLOAT8_E4M3FNUZ", "FLOAT8_E5M2", "FLOAT8_E5M2FNUZ"),
    *("FLOAT8_E8M0FNU", "FLOAT4_E2M1FN_X2"),
)
REDUCE_OPS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR", "PREMUL_SUM")


class Token(ctypes.Structure):
    _fields_ = (("text", c_char * 256),)


class Options(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("name", c_char_p),
        ("directory", c_char_p),
        ("timeout_ms", c_int64),
        ("global_ranks", POINTER(c_int32)),
    )


class Call(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("op", c_int32),
        ("dtype", c_int32),
        ("reduce_op", c_int32),
        ("root", c_int32),
        ("peer", c_int32),
        ("flags", c_int32),
        ("tag", c_int64),
        ("send", c_void_p),
        ("recv", c_void_p),
        ("count", c_size_t),
        ("counts", POINTER(c_size_t)),
        ("recv_counts", POINTER(c_size_t)),
        ("timeout_ms", c_int64),
        ("factor", c_double * 2),
        ("source", POINTER(c_int32)),
    )


@cache
def library() -> ctypes.CDLL:
    """libcustomccl.so. OSError if it is not there (a source tree that was not built)."""
    loaded = ctypes.CDLL(library_path())
    for name in ("last_error", "error_text", "version"):
        getattr(loaded, f"customccl_{name}").restype = c_char_p
    for name, arguments in {
        "make_token": (POINTER(Token),),
        "init": (POINTER(Token), c_int32, c_int32, POINTER(Options), POINTER(c_void_p)),
        "run": (c_void_p, POINTER(Call)),
        "async_error": (c_void_p,),
        "abort": (c_void_p, c_char_p),
        "destroy": (c_void_p,),
        "mem_alloc": (POINTER(c_void_p), c_size_t),
        "mem_free": (c_void_p,),
    }.items():
        getattr(loaded, f"customccl_{name}").argtypes = arguments
    return loaded


def last_error() -> str:
    """What went wrong on this thread, in sentences."""
    return str(library().customccl_last_error().decode(errors="replace"))
