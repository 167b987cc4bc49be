"""Learning the shares of a mixture by what they are for, not by what makes the loss small.

Values of the loss under different kernels are not comparable. A constant kernel has no invariance term, an identity
(every two points unrelated) has neither variance nor covariance term: shares that descend the loss flee into whichever
of the two is cheaper at the given weights, and there the network has nothing left to learn.

So the shares w never see the loss, and the network never sees theirs. They ascend

    sum_m w_m gap_m + temperature * entropy(w)
    gap_m = (mean k_m(two views of one image) - mean k_m(two images)) / max(total variance, half of the bound of k_m)

Both trivial kernels have a gap of 0: one for its numerator, the other for its total variance, which is far below half
of its bound. No kernel has one above 1. The optimum is ``w_m ~ exp(gap_m / temperature)``: unique,
inside the simplex, and beside a member with gap g a trivial one keeps a share of at most ``exp(-g / temperature)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import evenly_spaced
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Mixture, Sum
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, SamePoints
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.shard import Shard

__all__ = ["TEMPERATURE", "constant_shares", "is_learnt", "pair_gap", "pairs_objective"]

TEMPERATURE = 0.1
ROWS = 128
"""Images of a batch that the gaps are measured on."""


def is_learnt(kernel: Kernel) -> bool:
    """Whether the kernel is a mixture whose shares are parameters."""
    return isinstance(kernel, Mixture) and kernel.logits is not None


def pairs_objective(kernel: Kernel, views: Sequence[Tensor], shard: Shard, *, unit: bool) -> Tensor:
    """What the shares of a mixture are to ascend.

    Args:
        kernel: the mixture.
        views: ``(b, p)`` each, this process's rows.
        shard: what they are of the global batch; the result is alike in every process.
        unit: measure every member at its unit scale.
    """
    kernel = resolved(kernel, views, shard)
    kernel = kernel.unit(views[0].shape[-1]) if unit else kernel
    assert isinstance(kernel, Sum)
    weights = torch.stack([torch.as_tensor(w) for w in kernel.weights])
    rows = shard.take(views, evenly_spaced(shard.total, ROWS, views[0].device))
    gaps = torch.stack([pair_gap(member, rows) for _, member in kernel.members()]).to(weights)
    objective: Tensor = weights @ gaps + TEMPERATURE * torch.special.entr(weights).sum()
    return objective


def constant_shares(kernel: Kernel) -> Kernel:
    """The mixture with shares that no gradient reaches."""
    assert isinstance(kernel, Sum)
    return Sum([k for _, k in kernel.members()], [w.detach() if isinstance(w, Tensor) else w for w in kernel.weights])


@torch.no_grad()
def pair_gap(kernel: Kernel, views: Tensor) -> Tensor:
    """The gap of a resolved kernel on views ``(v, n, p)``: see above."""
    v, n, _ = views.shape
    same = [kernel.evaluate(MatchedPairs(views[i], views[j])).mean() for i in range(v) for j in range(i)]
    gram = kernel.evaluate(AllPairs(views))
    different = (gram.sum() - gram.diagonal(dim1=-2, dim2=-1).sum()) / (v * n * (n - 1))
    variance = kernel.evaluate(SamePoints(views)).mean() - different
    least = kernel.bound / 2 if math.isfinite(kernel.bound) else torch.finfo(views.dtype).tiny
    gap: Tensor = (torch.stack(same).mean() - different) / variance.clamp_min(least)
    return gap.nan_to_num().clamp(-1, 1)  # of a collapsed batch nothing but round-off is left
