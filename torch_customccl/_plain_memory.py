"""What the C interface takes and gives: memory under tensors, and codes of failures."""

import ctypes
import weakref
from ctypes import byref, c_void_p
from numbers import Integral
from typing import Any, NoReturn, cast

import torch
import torch.distributed as dist

from torch_customccl._c_interface import CODES, last_error, library
from torch_customccl.group_arguments import integer


def memory_of(tensor: Any) -> tuple[int, Any, int]:
    """Elements, dtype and address of a tensor whose memory is all there is to it."""
    try:
        if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg():
            dtype = tensor.dtype
            if not (dtype.is_complex and tensor.is_conj()):
                count = tensor.numel()
                needed = (tensor.storage_offset() + count) * dtype.itemsize
                if needed <= tensor.untyped_storage().nbytes() or count == 0:
                    return count, dtype, tensor.data_ptr()
                raise ValueError(
                    f"the tensor, of shape {tuple(tensor.shape)}, needs a storage of {needed} bytes and has one of "
                    f"{tensor.untyped_storage().nbytes()}: it was made smaller, or resize_() of the tensor failed"
                )
    except (AttributeError, RuntimeError) as error:
        raise TypeError(
            f"expected a dense CPU tensor, or an address with count and dtype; got {type(tensor).__name__} ({error})"
        ) from error
    if tensor.layout != torch.strided:
        raise TypeError(f"expected a dense CPU tensor, not one of layout {tensor.layout}")
    if not tensor.is_cpu:
        raise ValueError(f"the tensor is on {tensor.device}; a Communicator works on CPU memory")
    why = "not contiguous" if not tensor.is_contiguous() else "a view that conjugates or negates lazily"
    raise ValueError(
        f"the tensor, of shape {tuple(tensor.shape)}, is {why}; give tensor.contiguous().clone() or a copy"
    )


def allocate_tensor(count: int, dtype: torch.dtype) -> torch.Tensor:
    """One in memory that peers read and write where it lies; not initialised. It keeps the memory, as its views do."""
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"allocate_tensor: customccl has no dtype {dtype!r}")
    size = integer(count, "count of allocate_tensor") * dtype.itemsize  # of an int, which grows as it must
    if not 0 <= size < 1 << 63:
        raise ValueError(f"allocate_tensor: {count} elements of {dtype}")
    if size == 0:
        return torch.empty(0, dtype=dtype, device="cpu")
    memory = c_void_p()
    if code := library().customccl_mem_alloc(byref(memory), size):
        fail(code)
    owner = (ctypes.c_char * size).from_address(cast(int, memory.value))  # of which the tensor is a user
    weakref.finalize(owner, library().customccl_mem_free, memory).atexit = False
    return torch.frombuffer(owner, dtype=dtype)


def address_of(buffer: Any) -> int:
    """What was given with a count. A tensor stands for an int too, if it holds a single one."""
    if isinstance(buffer, (int, Integral)):
        return cast(int, buffer)
    name = type(buffer).__name__
    raise TypeError(f"customccl: with a count, a buffer is an address, an int, not {name}; op and root go by name")


def number_of(value: Any, bits: int, op: str, what: str) -> int:
    """An int that ctypes does not cut off."""
    number = integer(value, f"{what} of {op}")
    if number.bit_length() >= bits:
        raise ValueError(f"customccl: {op}: {what} is {number}, more than {bits} bits")
    return number


def fail(code: int) -> NoReturn:
    """Raises what a code other than OK means, in the words of this thread's last failure."""
    text = last_error() or CODES[code]
    raise ValueError(text) if CODES[code] == "INVALID_ARGUMENT" else dist.DistBackendError(text)
