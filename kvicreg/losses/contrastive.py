"""Contrastive losses: NT-Xent (SimCLR), its kernel form, and InfoNCE against a queue (MoCo)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg import kernels
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.cosine import unit_rows, unit_views
from kvicreg.kernels.pairs import AllPairs
from kvicreg.kernels.tensors import at_least_float32, full_precision
from kvicreg.losses.kernel_loss import check_approximation
from kvicreg.losses.terms import stack_views
from kvicreg.operators import Approximation
from kvicreg.operators.bandwidth import advance, is_training_step, resolved
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = [
    "InfoNCELoss",
    "InfoNCEOptions",
    "KernelSimCLRLoss",
    "KernelSimCLROptions",
    "NTXentLoss",
    "NTXentOptions",
    "info_nce",
    "kernel_simclr",
    "nt_xent",
]


@dataclass(frozen=True, kw_only=True)
class NTXentOptions(Options):
    """Settings of `NTXentLoss`."""

    temperature: float = option(0.2, "Temperature that divides the cosines of the embeddings.", above=0)


class NTXentLoss(nn.Module):
    """``mean_i  -s_ij(i) + log sum_{k != i} exp s_ik`` (SimCLR; Chen et al., 2020)

    with ``s_ij = cos(z_i, z_j) / temperature`` over the 2b embeddings of both views, and j(i) the other view of image
    i: the loss picks out the other view of an image among all other views of the batch.

    Args:
        temperature: published: 0.5 for long training on CIFAR-10, 0.1 on ImageNet.
        gather: under `torch.distributed`, the loss of the global batch.

    Shape:
        Two views ``(b, p)``; the result is a scalar of at least float32.

    Example:
        >>> NTXentLoss(temperature=0.2)(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(self, temperature: float = NTXentOptions.temperature, gather: bool = True) -> None:
        super().__init__()
        self.temperature = NTXentOptions(temperature=float(temperature)).temperature
        self.gather = gather

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        """The loss, a scalar."""
        return nt_xent(z1, z2, temperature=self.temperature, gather=self.gather)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, gather={self.gather}"


def nt_xent(z1: Tensor, z2: Tensor, *, temperature: float = NTXentOptions.temperature, gather: bool = True) -> Tensor:
    """`NTXentLoss` as a pure function of two views ``(b, p)``.

    Example:
        >>> nt_xent(*torch.randn(2, 64, 8)).shape
        torch.Size([])
    """
    z = stack_views((z1, z2))
    with full_precision(z):
        u = unit_rows(Shard.of(z, gather=gather).gather(z)).flatten(0, 1)
        return _other_view_entropy(u @ u.mT / temperature)


def _other_view_entropy(similarities: Tensor) -> Tensor:
    """Cross-entropy of ``(2b, 2b)`` similarities in which i and i + b are two views of one image."""
    n = len(similarities)
    itself = torch.eye(n, dtype=torch.bool, device=similarities.device)
    other_view = torch.arange(n, device=similarities.device).roll(n // 2)
    return F.cross_entropy(similarities.masked_fill(itself, -torch.inf), other_view)


@dataclass(frozen=True, kw_only=True)
class KernelSimCLROptions(Options):
    """Settings of `KernelSimCLRLoss` beside its kernel and approximation."""

    temperature: float = option(0.2, "Temperature that divides the cosines in feature space.", above=0)


class KernelSimCLRLoss(nn.Module):
    """``mean_i  -s_ij(i) + log sum_{k != i} exp s_ik``, NT-Xent in a kernel's feature space,

    with ``s_ij = cos(phi(z_i), phi(z_j)) / temperature = k(z_i, z_j) / sqrt(k(z_i, z_i) k(z_j, z_j)) / temperature``.
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
        temperature: float = KernelSimCLROptions.temperature,
        approximation: Approximation | None = None,
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_approximation(approximation)
        self.temperature = KernelSimCLROptions(temperature=float(temperature)).temperature
        self.kernel, self.approximation, self.gather = kernels.get(kernel), approximation, gather

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        """The loss, a scalar."""
        if is_training_step(self):
            advance(self.kernel, self.approximation, lambda: stack_views((z1, z2)), gather=self.gather)
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
    temperature: float = KernelSimCLROptions.temperature,
    approximation: Approximation | None = None,
    gather: bool = True,
) -> Tensor:
    """`KernelSimCLRLoss` as a pure function of two views ``(b, p)``.

    Example:
        >>> kernel_simclr(*torch.randn(2, 64, 8), kernel=RBF()).shape
        torch.Size([])
    """
    z = stack_views((z1, z2))
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        kernel = resolved(kernel, z, shard)
        if approximation is not None:
            u = unit_rows(shard.gather(approximation.features(z, kernel, shard))).flatten(0, 1)
            return _other_view_entropy(u @ u.mT / temperature)
        (points,), cosine = unit_views([shard.gather(z).flatten(0, 1)], kernel)
        return _other_view_entropy(cosine.evaluate(AllPairs(points)) / temperature)


@dataclass(frozen=True, kw_only=True)
class InfoNCEOptions(Options):
    """Settings of `InfoNCELoss`."""

    temperature: float = option(0.2, "Temperature that divides the cosines of queries and keys.", above=0)


class InfoNCELoss(nn.Module):
    """``mean_i  -s_i + log(exp s_i + sum_k exp(q_i . n_k / temperature))`` (MoCo; He et al., 2020)

    with ``s_i = q_i . k_i / temperature`` of queries q, keys k and negatives n at unit length: the loss picks out the
    key of a query among the keys of former batches. No gradient reaches keys and negatives.

    Args:
        temperature: 0.2 in MoCo v2.

    Shape:
        queries and keys ``(b, p)``, negatives ``(m, p)``. The loss is a mean over queries, so that its mean over
        processes is that of the global batch.

    Example:
        >>> InfoNCELoss()(torch.randn(8, 4), torch.randn(8, 4), torch.randn(100, 4)).shape
        torch.Size([])
    """

    def __init__(self, temperature: float = InfoNCEOptions.temperature) -> None:
        super().__init__()
        self.temperature = InfoNCEOptions(temperature=float(temperature)).temperature

    def forward(self, queries: Tensor, keys: Tensor, negatives: Tensor) -> Tensor:
        """The loss, a scalar."""
        return info_nce(queries, keys, negatives, temperature=self.temperature)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"


def info_nce(
    queries: Tensor, keys: Tensor, negatives: Tensor, *, temperature: float = InfoNCEOptions.temperature
) -> Tensor:
    """`InfoNCELoss` as a pure function of queries and keys ``(b, p)`` and negatives ``(m, p)``.

    Example:
        >>> info_nce(*torch.randn(3, 64, 8)).shape
        torch.Size([])
    """
    q, k = unit_rows(stack_views((queries, keys)))
    with full_precision(q):
        n = unit_rows(at_least_float32(negatives, "negatives").detach()).to(q)
        if n.dim() != 2 or n.shape[1] != q.shape[1]:
            raise ValueError(f"negatives must have shape (m, {q.shape[1]}), got {tuple(n.shape)}")
        positive = torch.linalg.vecdot(q, k.detach()).unsqueeze(1)
        scores = torch.cat([positive, q @ n.mT], dim=1) / temperature
        return F.cross_entropy(scores, torch.zeros(len(q), dtype=torch.long, device=q.device))
