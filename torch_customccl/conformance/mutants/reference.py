"""A slow backend without known bugs: every mutant is this one with one thing broken.

Each rank sends its flat input bytes to all others; each computes its own output from all inputs. Python only.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .peer_group import Flat, PeerGroup, refuse
from .reducing import op_name
from .work import ReferenceWork


class ReferenceGroup(PeerGroup):
    """The collectives, each one exchange."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        root, target = opts.rootRank, tensors[0]
        self._root(root)
        self._inputs(tensors, "broadcast")
        self._outputs(tensors, "broadcast")

        def finish(everyone: list[Flat]) -> Flat:
            if self.rank() != root:
                self.write(target, everyone[root][0])
            return [target]

        mine = [target] if self.rank() == root else []
        return self.exchange("broadcast", (root, target.numel(), target.dtype), mine, finish)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        return self.allreduce_coalesced(tensors, opts, "all_reduce")

    def allreduce_coalesced(
        self, tensors: list[torch.Tensor], opts: Any, what: str = "all_reduce_coalesced"
    ) -> ReferenceWork:
        op = opts.reduceOp
        self._inputs(tensors, what)
        self._outputs(tensors, what)

        def finish(everyone: list[Flat]) -> Flat:
            for index, target in enumerate(tensors):
                self.write(target, self.reduced([flats[index] for flats in everyone], op))
            return tensors

        sizes = tuple((tensor.numel(), tensor.dtype) for tensor in tensors)
        return self.exchange(what, (op_name(op), *sizes), tensors, finish)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        root, target, op = opts.rootRank, tensors[0], opts.reduceOp
        self._root(root)

        def finish(everyone: list[Flat]) -> Flat:
            if self.rank() == root:
                self.write(target, self.reduced([flats[0] for flats in everyone], op))
            return [target]

        return self.exchange("reduce", (root, op_name(op), target.numel(), target.dtype), [target], finish)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> ReferenceWork:
        targets = outputs[0]
        refuse(len(targets) != self.size(), f"all_gather: {len(targets)} outputs for {self.size()} ranks")
        self._inputs([*targets, *inputs], "all_gather")
        self._outputs(targets, "all_gather")
        return self.exchange(
            "all_gather",
            (inputs[0].dtype, tuple(each.numel() for each in targets)),
            inputs,
            lambda everyone: self._fill(targets, [flats[0] for flats in everyone]),
        )

    def _fill(self, targets: Sequence[torch.Tensor], flats: Flat) -> Any:
        for target, flat in zip(targets, flats, strict=True):
            refuse(
                target.numel() != flat.numel(), f"mismatch: {flat.numel()} elements for an output of {target.numel()}"
            )
            self.write(target, flat)
        return list(targets)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> ReferenceWork:
        refuse(
            output.numel() != input.numel() * self.size(),
            f"all_gather_into_tensor: output size {output.numel()}, must be {input.numel()} x {self.size()}",
        )
        return self.all_gather_single_coalesced([output], [input], opts, "all_gather_into_tensor")

    def all_gather_single_coalesced(
        self,
        outputs: list[torch.Tensor],
        inputs: list[torch.Tensor],
        opts: Any = None,
        what: str = "all_gather_coalesced",
    ) -> ReferenceWork:
        self._inputs([*outputs, *inputs], what)
        self._outputs(outputs, what)

        def finish(everyone: list[Flat]) -> Flat:
            for index, output in enumerate(outputs):
                self.write(output, torch.cat([flats[index] for flats in everyone]))
            return outputs

        return self.exchange(what, tuple((each.numel(), each.dtype) for each in inputs), inputs, finish)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> ReferenceWork:
        root = opts.rootRank
        self._root(root)
        targets = outputs[0] if outputs else []
        refuse(
            self.rank() == root and len(targets) != self.size(), f"gather: {len(targets)} outputs, not {self.size()}"
        )
        self._inputs([*targets, *inputs], "gather")

        def finish(everyone: list[Flat]) -> Any:
            return self._fill(targets, [flats[0] for flats in everyone]) if self.rank() == root else []

        return self.exchange("gather", (root, inputs[0].dtype, inputs[0].numel()), inputs, finish)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> ReferenceWork:
        root = opts.rootRank
        self._root(root)
        sources = inputs[0] if inputs else []
        refuse(
            self.rank() == root and len(sources) != self.size(), f"scatter: {len(sources)} inputs, not {self.size()}"
        )
        self._inputs([*sources, *outputs], "scatter")
        return self.exchange(
            "scatter",
            (root, outputs[0].dtype, outputs[0].numel()),
            sources,
            lambda everyone: self._fill(outputs, [everyone[root][self.rank()]]),
        )

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> ReferenceWork:
        sources, op = inputs[0], opts.reduceOp
        refuse(len(sources) != self.size(), f"reduce_scatter: {len(sources)} inputs, not {self.size()}")
        self._inputs([*sources, *outputs], "reduce_scatter")
        self._outputs(outputs, "reduce_scatter")
        return self.exchange(
            "reduce_scatter",
            (op_name(op), *((each.numel(), each.dtype) for each in sources)),
            sources,
            lambda everyone: self._fill(outputs, [self.reduced([f[self.rank()] for f in everyone], op)]),
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> ReferenceWork:
        refuse(
            input.numel() != output.numel() * self.size(),
            f"reduce_scatter_tensor: input size {input.numel()}, must be {output.numel()} x {self.size()}",
        )
        return self.reduce_scatter_single_coalesced([output], [input], opts, "reduce_scatter_tensor")

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any, what: str = "reduce_scatter_coalesced"
    ) -> ReferenceWork:
        op, rank = opts.reduceOp, self.rank()
        self._inputs([*inputs, *outputs], what)
        self._outputs(outputs, what)

        def finish(everyone: list[Flat]) -> Flat:
            for index, output in enumerate(outputs):
                part = slice(rank * output.numel(), (rank + 1) * output.numel())
                self.write(output, self.reduced([flats[index][part] for flats in everyone], op))
            return outputs

        return self.exchange(what, (op_name(op), *((each.numel(), each.dtype) for each in inputs)), inputs, finish)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> ReferenceWork:
        refuse(
            len(outputs) != self.size() or len(inputs) != self.size(),
            f"all_to_all: {len(outputs)} outputs and {len(inputs)} inputs, not {self.size()}",
        )
        self._inputs([*inputs, *outputs], "all_to_all")
        self._outputs(outputs, "all_to_all")
        return self.exchange(
            "all_to_all",
            (inputs[0].dtype,),
            inputs,
            lambda everyone: self._fill(outputs, [flats[self.rank()] for flats in everyone]),
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> ReferenceWork:
        self._outputs([output], "all_to_all_single")
        parts = [self._rows(tensor, splits) for tensor, splits in ((input, input_splits), (output, output_splits))]

        def finish(everyone: list[Flat]) -> Flat:
            flats = [theirs[self.rank()] for theirs in everyone]
            for flat, want in zip(flats, parts[1], strict=True):
                refuse(flat.numel() != want, f"mismatch: got {flat.numel()} elements, output split holds {want}")
            self.write(output, torch.cat(flats))
            return [output]

        pieces = list(torch.split(input.detach().reshape(-1), parts[0]))
        return self.exchange("all_to_all_single", (input.dtype,), pieces, finish)

    def _rows(self, tensor: torch.Tensor, splits: list[int]) -> list[int]:
        rows = tensor.shape[0] if tensor.dim() else 1
        refuse(not splits and rows % self.size() != 0, f"all_to_all_single: {rows} rows do not divide by {self.size()}")
        refuse(
            bool(splits) and (len(splits) != self.size() or sum(splits) != rows),
            f"all_to_all_single: splits {splits} do not add up to {rows} rows",
        )
        width = tensor.numel() // rows if rows else 0
        return [count * width for count in splits or [rows // self.size()] * self.size()]

    def barrier(self, opts: Any = None) -> ReferenceWork:
        return self.exchange("barrier", (), [], lambda everyone: [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        work = self.exchange("monitored_barrier", (), [], lambda everyone: [])
        try:
            work.wait(timeout or timedelta(0))
        except dist.DistBackendError as error:
            missing = ", ".join(str(rank) for rank in range(self.size()) if rank not in work.came)
            raise dist.DistBackendError(f"{error}; without rank {missing}") from None
