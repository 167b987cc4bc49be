"""The global batch: what one process holds of it, and the collectives that make the loss that of all of it.

Everything after a collective is computed alike by every process, so the gradient of the global loss with respect to a
process's own input is the local gradient. DDP then averages over the processes, hence the factor `world`: the mean of
the processes' gradients equals the gradient of one process that holds the whole batch, and the backward pass needs no
communication of its own. So what comes out of a differentiable collective must not meet a process's own rows again on
its way to the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from kvicreg.kernels.tensors import first_order_only

__all__ = ["Shard"]

SUBJECT = "a loss over several processes"


@dataclass(frozen=True)
class Shard:
    """Rows ``offset : offset + rows`` of a global batch of `total`, held by one of `world` processes."""

    rows: int
    offset: int
    total: int
    sizes: tuple[int, ...]

    @property
    def world(self) -> int:
        """How many processes share the batch."""
        return len(self.sizes)

    @classmethod
    def of(cls, z: Tensor, *, gather: bool) -> Shard:
        """The shard that `z` ``(..., b, p)`` is: all there is without `gather` or without other processes."""
        rows = z.shape[-2]
        if not (gather and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return cls(rows, 0, rows, (rows,))
        mine = torch.tensor([rows], device=z.device)
        all_rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(all_rows, mine)
        sizes = tuple(torch.cat(all_rows).tolist())
        return cls(rows, sum(sizes[: dist.get_rank()]), sum(sizes), sizes)

    def gather(self, z: Tensor) -> Tensor:
        """The global batch ``(..., total, p)``, differentiable."""
        if self.world == 1:
            return z
        whole: Tensor = _Gather.apply(z, self)
        return whole

    def whole(self, views: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Shard]:
        """The views ``(total, p)`` of the global batch, and the shard that they are: all there is."""
        if self.world == 1:
            return views, self
        views = self.gather(torch.stack(views)).unbind()
        return views, Shard.of(views[0], gather=False)

    def sum(self, x: Tensor) -> Tensor:
        """`x` added up over the processes, differentiable."""
        if self.world == 1:
            return x
        total: Tensor = _Sum.apply(x, self.world)
        return total

    @torch.no_grad()
    def take(self, views: Sequence[Tensor] | Tensor, rows: Tensor) -> Tensor:
        """These rows of the global batch, ``(views, len(rows), p)``, on every process and without gradient."""
        if self.world == 1:
            return torch.stack([view.detach().index_select(0, rows) for view in views])
        local = rows - self.offset
        mine = (local >= 0) & (local < self.rows)
        here = local.clamp(0, self.rows - 1)
        taken = torch.stack([view.detach().index_select(0, here) for view in views]) * mine.unsqueeze(-1)
        dist.all_reduce(taken)
        return taken


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, shard: Shard) -> Tensor:
        ctx.shard = shard
        padded = z.new_zeros(*z.shape[:-2], max(shard.sizes), z.shape[-1])
        padded[..., : shard.rows, :] = z
        parts = [torch.empty_like(padded) for _ in shard.sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[..., :size, :] for part, size in zip(parts, shard.sizes, strict=True)], dim=-2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        shard: Shard = ctx.shard
        local = grad.narrow(-2, shard.offset, shard.rows) * shard.world
        return first_order_only(local, SUBJECT, grad), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, world: int) -> Tensor:
        ctx.world = world
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return first_order_only(grad * ctx.world, SUBJECT, grad), None
