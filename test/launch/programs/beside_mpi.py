"""Run by mpirun: a Coordinator beside the program's own MPI, which is called as mpi4py calls it.

Arguments: the MPI library; MPI_Init "before" or "after" the Coordinator is made; MPI_Finalize "now" or at "exit".
"""

import ctypes
import sys
from datetime import timedelta

from torch_customccl.launch import Coordinator

library, begin, end = sys.argv[1:]
mpi = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
if begin == "before":
    assert mpi.MPI_Init(None, None) == 0
coordinator = Coordinator(timeout=timedelta(seconds=80))
if begin == "after":
    assert mpi.MPI_Init(None, None) == 0
try:  # MPI_COMM_WORLD is an object in Open MPI, a number in MPICH
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
except ValueError:
    world = ctypes.c_int(0x44000000)
rank = ctypes.c_int(-1)
assert mpi.MPI_Comm_rank(world, ctypes.byref(rank)) == 0 and rank.value == coordinator.rank
assert mpi.MPI_Barrier(world) == 0
coordinator.barrier()
if end == "now":
    assert mpi.MPI_Finalize() == 0
    coordinator.barrier()
else:  # after Python's own handlers, as mpi4py does
    ctypes.pythonapi.Py_AtExit(ctypes.cast(mpi.MPI_Finalize, ctypes.c_void_p))
sys.stdout.write(f"rank {rank.value} is done\n")
