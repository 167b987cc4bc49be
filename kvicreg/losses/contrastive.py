"""Contrastive losses: NT-Xent (SimCLR), its kernel form, and InfoNCE against a queue (MoCo)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg import kernels
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs, SamePoints, at_least_float32, full_precision
from kvicreg.losses.feature_space import check_approximation, unit_rows
from kvicreg.losses.terms import check_positive, stack_views
from kvicreg.operators import Approximation
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.shard import Shard

__all__ = ["InfoNCELoss", "KernelSimCLRLoss", "NTXentLoss", "info_nce", "kernel_simclr", "nt_xent"]


class NTXentLoss(nn.Module):
    """SimCLR's loss (Chen et al., 2020): tell the other view of an image among all other views of the batch.

    With ``s_ij = cos(z_i, z_j) / temperature`` over the 2b embeddings of both views and j(i) the other view of i:

        ``mean_i  -s_ij(i) + log sum_{k != i} exp s_ik``

    Args:
        temperature: published: 0.5 for long training on CIFAR-10, 0.1 on ImageNet.
        gather: under `torch.distributed`, the loss of the global batch.

    Shape:
        Two views ``(b, p)``; the result is a scalar of at least float32.

    Example:
        >>> NTXentLoss(temperature=0.2)(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(self, temperature: float = 0.2, gather: bool = True) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        self.temperature, self.gather = float(temperature), gather

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        """The loss, a scalar."""
        return nt_xent(z1, z2, temperature=self.temperature, gather=self.gather)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, gather={self.gather}"


def nt_xent(z1: Tensor, z2: Tensor, *, temperature: float = 0.2, gather: bool = True) -> Tensor:
    """`NTXentLoss` as a pure function of two views ``(b, p)``."""
    z = stack_views((z1, z2))
    with full_precision(z):
        u = unit_rows(Shard.of(z, gather=gather).gather(z)).flatten(0, 1)
        return _tell_the_other_view(u @ u.mT / temperature)


class KernelSimCLRLoss(nn.Module):
    """NT-Xent in a kernel's feature space: similarities are ``cos(phi(z_i), phi(z_j)) / temperature``, from

        ``k(z_i, z_j) / sqrt(k(z_i, z_i) k(z_j, z_j))``.

    With the linear kernel it is NT-Xent; with a bounded kernel the similarity is the kernel itself, so that pairs
    farther apart than the bandwidth stop repelling each other.

    Args:
        kernel: a name or a `Kernel`.
        temperature: divides the similarities; about half of what suits cosines, whose range is twice as wide.
        approximation: None (exact), `operators.Nystrom(...)` or `operators.RandomFourier(...)`.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> KernelSimCLRLoss("rq")(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        kernel: str | Kernel = "rbf",
        temperature: float = 0.2,
        approximation: Approximation | None = None,
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_approximation(approximation)
        self.kernel, self.approximation = kernels.get(kernel), approximation
        self.temperature, self.gather = float(temperature), gather

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        """The loss, a scalar."""
        return kernel_simclr(
            z1,
            z2,
            kernel=self.kernel,
            temperature=self.temperature,
            approximation=self.approximation,
            gather=self.gather,
        )

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, gather={self.gather}"


def kernel_simclr(
    z1: Tensor,
    z2: Tensor,
    *,
    kernel: Kernel,
    temperature: float = 0.2,
    approximation: Approximation | None = None,
    gather: bool = True,
) -> Tensor:
    """`KernelSimCLRLoss` as a pure function of two views ``(b, p)``."""
    z = stack_views((z1, z2))
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        kernel = resolved(kernel, z, shard)
        if approximation is not None:
            u = unit_rows(shard.gather(approximation.features(z, kernel, shard))).flatten(0, 1)
            return _tell_the_other_view(u @ u.mT / temperature)
        points = shard.gather(z).flatten(0, 1)
        lengths = kernel.evaluate(SamePoints(points)).clamp_min(torch.finfo(points.dtype).tiny).sqrt()
        cosines = kernel.evaluate(AllPairs(points)) / (lengths.unsqueeze(-1) * lengths)
        return _tell_the_other_view(cosines / temperature)


def _tell_the_other_view(similarities: Tensor) -> Tensor:
    """Cross-entropy of ``(2b, 2b)`` similarities in which i and i + b are two views of one image."""
    n = len(similarities)
    own = torch.eye(n, dtype=torch.bool, device=similarities.device)
    other = torch.arange(n, device=similarities.device).roll(n // 2)
    return F.cross_entropy(similarities.masked_fill(own, -torch.inf), other)


class InfoNCELoss(nn.Module):
    """MoCo's loss (He et al., 2020): tell the key of a query among the keys of former batches.

        ``mean_i  -s_i + log(exp s_i + sum_k exp(q_i . n_k / temperature))``, ``s_i = q_i . k_i / temperature``

    with queries q, keys k and negatives n at unit length; no gradient reaches the last two.

    Args:
        temperature: 0.2 in MoCo v2.

    Shape:
        queries and keys ``(b, p)``, negatives ``(m, p)``. Samples do not meet each other, so that the mean over
        processes is that of the global batch.

    Example:
        >>> InfoNCELoss()(torch.randn(8, 4), torch.randn(8, 4), torch.randn(100, 4)).shape
        torch.Size([])
    """

    def __init__(self, temperature: float = 0.2) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        self.temperature = float(temperature)

    def forward(self, queries: Tensor, keys: Tensor, negatives: Tensor) -> Tensor:
        """The loss, a scalar."""
        return info_nce(queries, keys, negatives, temperature=self.temperature)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"


def info_nce(queries: Tensor, keys: Tensor, negatives: Tensor, *, temperature: float = 0.2) -> Tensor:
    """`InfoNCELoss` as a pure function of queries and keys ``(b, p)`` and negatives ``(m, p)``."""
    q, k = unit_rows(stack_views((queries, keys)))
    with full_precision(q):
        n = unit_rows(at_least_float32(negatives, "negatives").detach()).to(q)
        if n.dim() != 2 or n.shape[1] != q.shape[1]:
            raise ValueError(f"negatives must have shape (m, {q.shape[1]}), got {tuple(n.shape)}")
        positive = torch.linalg.vecdot(q, k.detach()).unsqueeze(1)
        scores = torch.cat([positive, q @ n.mT], dim=1) / temperature
        return F.cross_entropy(scores, torch.zeros(len(q), dtype=torch.long, device=q.device))
