"""The contract: every clause a case may cite, with how binding it is and where that comes from.

docs/contract.md is printed from this list by ``python -m torch_customccl.conformance contract``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .model import Level

_DOCS = "https://docs.pytorch.org/docs/stable/distributed.html"
_ISSUE = "https://github.com/pytorch/pytorch/issues/"
_SOURCE = "https://github.com/pytorch/pytorch/blob/v2.13.0/"
_HEADERS = _SOURCE + "torch/csrc/distributed/c10d/"

MUST, SHOULD, MAY = Level.REQUIRED, Level.RECOMMENDED, Level.INFORMATIONAL


@dataclass(frozen=True)
class Clause:
    """One sentence a backend is held to."""

    id: str
    level: Level
    text: str
    source: str


_OPERATIONS = (
    Clause("BC-01", MUST, "broadcast leaves the root's elements in the tensor of every rank of the group.",
           _DOCS + "#torch.distributed.broadcast"),
    Clause("AR-01", MUST, "all_reduce leaves the element-wise reduction over all ranks in the tensor of every rank.",
           _DOCS + "#torch.distributed.all_reduce"),
    Clause("AR-02", MUST, "all_reduce of floating point values leaves the same bits on every rank; replicas that train "
           "with it would drift apart otherwise.", _DOCS + "#torch.distributed.all_reduce"),
    Clause("AR-03", SHOULD, "Repeating an all_reduce with the same inputs gives the same bits.", _ISSUE + "50198"),
    Clause("AR-04", MUST, "all_reduce of arbitrary floats is within size x eps x sum of magnitudes of the exact result.",
           _DOCS + "#torch.distributed.all_reduce"),
    Clause("RD-01", MUST, "reduce leaves the reduction in the root's tensor.", _DOCS + "#torch.distributed.reduce"),
    Clause("RD-02", SHOULD, "reduce does not change the tensors of ranks that are not the root.", _ISSUE + "21480"),
    Clause("AG-01", MUST, "all_gather leaves rank i's tensor in entry i of every rank's list.",
           _DOCS + "#torch.distributed.all_gather"),
    Clause("AG-02", MUST, "all_gather_into_tensor joins the ranks' inputs along the first dimension, in rank order.",
           _DOCS + "#torch.distributed.all_gather_into_tensor"),
    Clause("AG-03", SHOULD, "all_gather takes a different size from each rank, or refuses it on every rank.",
           _ISSUE + "156627"),
    Clause("AG-04", MUST, "all_gather_into_tensor may be given its own rank's part of the output as input.",
           _SOURCE + "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"),
    Clause("GA-01", MUST, "gather leaves rank i's tensor in entry i of the root's list.",
           _DOCS + "#torch.distributed.gather"),
    Clause("SC-01", MUST, "scatter leaves entry i of the root's list in rank i's tensor.",
           _DOCS + "#torch.distributed.scatter"),
    Clause("RS-01", MUST, "reduce_scatter reduces entry i of all lists into rank i's tensor.",
           _DOCS + "#torch.distributed.reduce_scatter"),
    Clause("RS-02", MUST, "reduce_scatter_tensor reduces the input and leaves part i on rank i.",
           _DOCS + "#torch.distributed.reduce_scatter_tensor"),
    Clause("RS-03", SHOULD, "reduce_scatter takes parts of different sizes, or refuses them on every rank.",
           _DOCS + "#torch.distributed.reduce_scatter"),
    Clause("RS-04", SHOULD, "reduce_scatter_tensor may write its result over its own part of the input.",
           _HEADERS + "ProcessGroup.hpp"),
    Clause("AA-01", MUST, "all_to_all leaves entry j of rank i's list in entry i of rank j's list.",
           _DOCS + "#torch.distributed.all_to_all"),
    Clause("AA-02", MUST, "all_to_all_single exchanges equal parts of one tensor.",
           _DOCS + "#torch.distributed.all_to_all_single"),
    Clause("AA-03", MUST, "all_to_all_single honours split sizes, zeros included.",
           _ISSUE + "146468"),
    Clause("AA-04", SHOULD, "all_to_all takes lists of tensors of different sizes, empty ones included.",
           _DOCS + "#torch.distributed.all_to_all"),
    Clause("CO-01", SHOULD, "Operations issued inside the coalescing manager give the results they give outside it.",
           _SOURCE + "torch/distributed/distributed_c10d.py#L2600"),
    Clause("BA-01", MUST, "No rank leaves a barrier before every rank has entered it.",
           _DOCS + "#torch.distributed.barrier"),
    Clause("BA-02", SHOULD, "monitored_barrier works as a barrier and names the rank that did not come.",
           _DOCS + "#torch.distributed.monitored_barrier"),
    Clause("SP-01", SHOULD, "all_reduce of sparse tensors gives the sparse sum, or is refused on every rank.",
           _SOURCE + "torch/csrc/distributed/c10d/ProcessGroup.hpp"),
    Clause("PP-01", MUST, "What one rank sends, the other receives unchanged, in the order sent.",
           _DOCS + "#point-to-point-communication"),
    Clause("PP-02", MUST, "A receive takes the message with its tag, also when messages with other tags came before; "
           "a backend without tags refuses or documents it.", _DOCS + "#torch.distributed.isend"),
    Clause("PP-03", SHOULD, "recv without a source takes a message from any rank and tells which.",
           _DOCS + "#torch.distributed.recv"),
    Clause("PP-04", MUST, "is_completed of a point-to-point request becomes true without a wait once it has finished.",
           _DOCS + "#point-to-point-communication"),
    Clause("PP-05", MUST, "batch_isend_irecv works with its operations in any order.",
           _DOCS + "#torch.distributed.batch_isend_irecv"),
    Clause("PP-06", SHOULD, "A point-to-point request gives a future.", _HEADERS + "Work.hpp"),
    Clause("PP-07", SHOULD, "Receives posted in another order than the sends, with different tags, do not deadlock.",
           _DOCS + "#torch.distributed.irecv"),
    Clause("FN-01", SHOULD, "Functional collectives give the same results as the in-place ones.",
           _SOURCE + "torch/distributed/_functional_collectives.py"),
)

_DATA = (
    *(Clause(f"RO-{number:02d}", level, f"Reductions with {name} are exact where the result is representable.{more}",
             _DOCS + "#torch.distributed.ReduceOp")
      for number, (name, level, more) in enumerate((
          ("SUM", MUST, ""), ("PRODUCT", MUST, ""), ("MIN", MUST, ""), ("MAX", MUST, ""),
          ("AVG", MUST, " The divisor is the number of ranks of the group."),
          ("BAND", SHOULD, ""), ("BOR", SHOULD, ""), ("BXOR", SHOULD, ""),
          ("PREMUL_SUM", SHOULD, " Inputs are multiplied by the factor first.")), 1)),
    Clause("DT-03", SHOULD, "8-bit floats and unsigned 16, 32 and 64 bit integers are moved bit by bit, or refused.",
           _ISSUE + "111131"),
    Clause("DT-04", MAY, "Reductions of bool: SUM and MAX mean or, PRODUCT and MIN mean and.", _ISSUE + "137856"),
    Clause("DT-05", MUST, "Operations that only move data keep every bit: NaN, infinities, negative zero, denormals.",
           _DOCS + "#collective-functions"),
    Clause("LA-01", MUST, "A tensor that is not contiguous is handled by its logical elements or refused on every rank. "
           "Bytes between its elements are never written.", _ISSUE + "192920"),
    Clause("LA-02", SHOULD, "An output whose elements share memory (stride 0) is refused.", _ISSUE + "24836"),
    Clause("LA-03", MUST, "Tensors without elements are handled by every operation.", _ISSUE + "85234"),
    Clause("LA-04", MAY, "Tensors of one shape with different memory formats on different ranks.", _ISSUE + "163483"),
    Clause("SZ-01", MUST, "Results do not depend on the number of elements: one, primes, either side of powers of two.",
           _DOCS + "#collective-functions"),
    Clause("SZ-02", MUST, "Counts over 2^31 elements and 4 GiB work, or are refused.", _ISSUE + "77172"),
    Clause("SZ-03", MUST, "Every operation works in a group of one rank.", _DOCS + "#collective-functions"),
    Clause("RT-01", MUST, "Any rank of the group may be the root.", _DOCS + "#collective-functions"),
)

_CALLING = (
    Clause("WK-01", MUST, "After wait() on the handle of an asynchronous operation its result may be used.",
           _DOCS + "#synchronous-and-asynchronous-collective-operations"),
    Clause("WK-02", MUST, "is_completed() of a collective on CPU becomes true once it is done, without a wait.",
           _DOCS + "#synchronous-and-asynchronous-collective-operations"),
    Clause("WK-03", MUST, "get_future() of a collective gives a future that completes with its result.",
           _DOCS + "#synchronous-and-asynchronous-collective-operations"),
    Clause("WK-04", SHOULD, "wait() may be called again, from another thread, and with a timeout.",
           _HEADERS + "Work.hpp"),
    Clause("WK-05", MUST, "The caller may drop its references to the inputs while the operation is in flight.",
           _HEADERS + "Work.hpp"),
    Clause("WK-06", SHOULD, "An operation completes also when nobody keeps its handle.", _ISSUE + "30723"),
    Clause("WK-07", MUST, "Several operations may be in flight and be waited for in any order.",
           _DOCS + "#synchronous-and-asynchronous-collective-operations"),
    Clause("WK-08", MUST, "wait(timeout) raises within its time when the operation cannot complete.",
           _HEADERS + "Work.hpp"),
    Clause("WK-09", SHOULD, "Operations work under inference mode and on inputs that require a gradient.",
           _DOCS + "#collective-functions"),
    Clause("GR-01", MUST, "Operations in a subgroup involve its ranks only; rank order is that of the group.",
           _DOCS + "#torch.distributed.new_group"),
    Clause("GR-02", MUST, "A rank that is not in the group is told so or the call does nothing; it never disturbs.",
           _DOCS + "#groups"),
    Clause("GR-03", SHOULD, "Operations of two groups may be issued in opposite order from two threads.",
           _DOCS + "#groups"),
    Clause("GR-04", MUST, "Groups can be made and destroyed again and again in one process.",
           _DOCS + "#torch.distributed.destroy_process_group"),
    Clause("GR-05", MUST, "The backend works over any c10d store: TCP, file, prefix.",
           _DOCS + "#distributed-key-value-store"),
    Clause("OB-01", MUST, "Object collectives deliver Python objects of different sizes.",
           _DOCS + "#torch.distributed.all_gather_object"),
)

_FAILURE = (
    Clause("MI-01", MUST, "An argument that is wrong on this rank alone raises here, without waiting for others.",
           _DOCS + "#collective-functions"),
    Clause("MI-02", SHOULD, "Calls that do not match between ranks (operation, size, dtype, reduce op, root) are refused "
           "on every rank rather than carried out on garbage.", _DOCS + "#debugging-torch-distributed-applications"),
    Clause("MI-03", SHOULD, "After a refused call a new group of the same processes works.",
           _DOCS + "#debugging-torch-distributed-applications"),
    Clause("TO-01", MUST, "An operation that cannot complete raises on the waiting rank within the group's timeout.",
           _DOCS + "#torch.distributed.init_process_group"),
    Clause("TO-02", MUST, "A rank that comes late, but within the timeout, is waited for.",
           _DOCS + "#torch.distributed.init_process_group"),
    Clause("TO-03", SHOULD, "The timeout given to new_group, or set later, is the one that counts.",
           _DOCS + "#torch.distributed.new_group"),
    Clause("FT-01", MUST, "When a rank is killed, the others raise within the timeout; none hangs or dies.",
           _DOCS + "#shutdown"),
    Clause("FT-02", MUST, "When a rank stands still (stopped), the others raise within the timeout.",
           _DOCS + "#torch.distributed.init_process_group"),
    Clause("FT-03", MUST, "A process that never calls destroy_process_group still exits with code 0.",
           _DOCS + "#shutdown"),
    Clause("FT-04", SHOULD, "abort() from another thread wakes a rank that waits, with an error.", _ISSUE + "130345"),
    Clause("FT-05", MUST, "destroy_process_group with an operation in flight ends: no hang, no crash.",
           _DOCS + "#shutdown"),
    Clause("FT-06", SHOULD, "After a failure the remaining ranks can make a new group and work on.",
           _DOCS + "#torch.distributed.destroy_process_group"),
    Clause("FT-07", SHOULD, "A forked child does not disturb its parent's group.",
           "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html"),
    Clause("FT-08", SHOULD, "Nothing is left behind: no shared memory names, threads, descriptors or processes.",
           _DOCS + "#shutdown"),
    Clause("FT-09", MUST, "A peer's exit before or during an operation is reported as an error within the timeout.",
           _DOCS + "#shutdown"),
)

_SURROUNDINGS = (
    Clause("OV-01", SHOULD, "The profiler shows an event for each operation.", _DOCS + "#profiling-collective-communication"),
    Clause("OV-02", MUST, "The backend reports the name it was asked for.", _DOCS + "#torch.distributed.get_backend"),
    Clause("OV-03", MAY, "The sequence number of a group rises by one with each collective.", _HEADERS + "Backend.hpp"),
    Clause("OV-04", SHOULD, "Nothing is printed during ordinary operation at the default log level.",
           _DOCS + "#logging"),
    Clause("OV-05", MUST, "Operations work with TORCH_DISTRIBUTED_DEBUG=DETAIL.",
           _DOCS + "#torch-distributed-debug"),
    Clause("HO-01", MUST, "A capability that the backend declares is there; one it denies may be missing.",
           _HEADERS + "Backend.hpp"),
    Clause("HO-02", SHOULD, "A capability that works is declared.", _HEADERS + "Backend.hpp"),
    Clause("IN-01", SHOULD, "DistributedDataParallel trains as one process does on the whole batch.",
           "https://docs.pytorch.org/docs/stable/notes/ddp.html"),
    Clause("IN-02", SHOULD, "FSDP2 fully_shard trains as one process does on the whole batch.",
           "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"),
    Clause("IN-03", SHOULD, "DTensor redistributes between all placements; tensor parallel layers match plain ones.",
           "https://docs.pytorch.org/docs/stable/distributed.tensor.html"),
    Clause("IN-04", SHOULD, "A two-stage pipeline schedule gives the loss and gradients of the whole model.",
           "https://docs.pytorch.org/docs/stable/distributed.pipelining.html"),
    Clause("IN-05", SHOULD, "A distributed checkpoint that is saved can be loaded.",
           "https://docs.pytorch.org/docs/stable/distributed.checkpoint.html"),
    Clause("IN-06", SHOULD, "ZeroRedundancyOptimizer steps as the plain optimizer does.",
           "https://docs.pytorch.org/docs/stable/distributed.optim.html"),
    Clause("IN-07", SHOULD, "Collectives inside torch.compile give their eager results.",
           "https://docs.pytorch.org/docs/stable/torch.compiler.html"),
    Clause("IN-08", SHOULD, "A two-dimensional DeviceMesh gives groups that work along each dimension.",
           _DOCS + "#torch.distributed.device_mesh.DeviceMesh"),
    Clause("IN-09", SHOULD, "The backend starts under torchrun.", "https://docs.pytorch.org/docs/stable/elastic/run.html"),
)

CLAUSES: dict[str, Clause] = {clause.id: clause for clause in
                              (*_OPERATIONS, *_DATA, *_CALLING, *_FAILURE, *_SURROUNDINGS)}


def level_of(clause_id: str) -> Level:
    """How binding a clause is."""
    return CLAUSES[clause_id].level


def as_markdown() -> str:
    """The contract as a page."""
    head = ["# The contract of a c10d backend", "",
            "Every case of the conformance kit cites one clause of this page. REQUIRED: a backend that breaks it fails.",
            "RECOMMENDED: breaking it is shown in amber (a hang or a crash always fails). INFORMATIONAL: recorded only.",
            "A case that demands more than its clause is a bug of the case.", "",
            "This page is printed by `python -m torch_customccl.conformance contract`; "
            "the list itself is `torch_customccl/conformance/contract.py`.", ""]
    parts = (("Operations", _OPERATIONS), ("Data", _DATA), ("Calling and groups", _CALLING), ("Failure", _FAILURE),
             ("Surroundings", _SURROUNDINGS))
    for title, clauses in parts:
        head += [f"## {title}", "", "| clause | level | text | source |", "| --- | --- | --- | --- |"]
        head += [f"| {c.id} | {c.level.value} | {c.text} | <{c.source}> |" for c in clauses]
        head.append("")
    return "\n".join(head)
