"""The self-tuning kernel: RBF whose bandwidth follows the density around each point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import MEDIAN_ROWS, Gamma, check_gamma, evenly_spaced
from kvicreg.kernels.base import NormalizedKernel
from kvicreg.kernels.options import StationaryOptions
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, Pairs, SamePoints
from kvicreg.kernels.rbf import RBF
from kvicreg.options import option

__all__ = ["SelfTuning", "SelfTuningOptions"]

MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The bandwidths a point chooses among, in units of the batch's."""


class SelfTuning(NormalizedKernel):
    """``k(x, y) = sum_j a_j(x) a_j(y) exp(-gamma_j |x - y|_2^2)`` with ``sum_j a_j(x)^2 = 1``.

    RBF with local scaling: a point in a sparse region sees further than one in a dense region. With s(x) the squared
    distance from x to its `neighbours`-th neighbour in the batch, in units of the batch's typical one, and
    ``gamma_j = gamma / m_j`` for the multiples m_j = 1/4, 1/2, 1, 2, 4, the share ``a_j(x)^2`` that x gives to the
    bandwidth j falls off with ``|log s(x) - log m_j|``. No gradient flows through it.

    The usual local scaling, ``exp(-|x - y|^2 / (s(x) s(y)))``, is not positive definite. This is, whatever s is: each
    member is the product of two positive-definite functions, ``a_j(x) a_j(y)`` and an RBF. Bounded by 1.

    Args:
        gamma: the scale where s(x) = 1: a positive number, "mean", "median", "smoothed" or a `kernels.Median`.
        neighbours: which neighbour's distance is the local scale.

    Example:
        >>> SelfTuning()(torch.randn(5, 3)).shape
        torch.Size([5, 5])
    """

    def __init__(self, gamma: Gamma = "mean", neighbours: int = 7) -> None:
        super().__init__()
        if isinstance(neighbours, bool) or not isinstance(neighbours, int) or neighbours < 1:
            raise ValueError(f"neighbours must be a positive integer, got {neighbours!r}")
        self.gamma, self.neighbours = check_gamma(gamma), neighbours
        self._reference: tuple[Tensor, Tensor] | None = None

    def resolve(self, *views: Tensor | AllPairs) -> SelfTuning:
        if self._reference is not None:
            return self
        fixed = RBF(self.gamma).resolve(*views)
        assert isinstance(fixed, RBF)
        resolved = SelfTuning(fixed._scale(), self.neighbours)
        with torch.no_grad():
            points = [AllPairs.of(view).x.detach().flatten(0, -2) for view in views]
            reference = torch.cat(points)
            reference = reference[evenly_spaced(len(reference), MEDIAN_ROWS, reference.device)]
            resolved._reference = reference, reference.new_ones(())
            typical = resolved._local_scale(reference).median()
            resolved._reference = reference, typical
        return resolved

    def advance(self, *views: Tensor | AllPairs) -> None:
        RBF(self.gamma).advance(*views)

    def _local_scale(self, x: Tensor) -> Tensor:
        """s(x) of points ``(..., n, p)``: shape ``(..., n)``."""
        if self._reference is None:
            raise ValueError("this kernel's local scales are not fixed yet: call kernel.resolve(views) first")
        reference, typical = self._reference
        squared = AllPairs(x.detach(), reference.to(x)).squared_distance
        nearest = squared.kthvalue(min(self.neighbours + 1, len(reference)), dim=-1).values
        floor = torch.finfo(x.dtype).tiny ** 0.5
        return nearest.clamp_min(floor) / typical.to(x).clamp_min(floor)

    def _amplitudes(self, x: Tensor) -> Tensor:
        """a_j(x), shape ``(..., n, 5)``."""
        with torch.no_grad():
            multiples = torch.tensor(MULTIPLES, dtype=x.dtype, device=x.device).log()
            apart = (self._local_scale(x).log().unsqueeze(-1) - multiples) / math.log(2)
            return (apart.square() / -2).softmax(-1).sqrt()

    def _members(self, pairs: Pairs) -> list[Tensor]:
        """exp(-gamma_j |x - y|^2) of each bandwidth."""
        assert not isinstance(self.gamma, torch.nn.Module)
        return [torch.exp(pairs.squared_distance * (-self.gamma / m)) for m in MULTIPLES]

    def evaluate(self, pairs: Pairs) -> Tensor:
        if isinstance(pairs, SamePoints):
            return torch.ones_like(pairs.squared_distance)
        if isinstance(pairs, MatchedPairs):
            a, b = pairs.at_ends(self._amplitudes)
        else:
            assert isinstance(pairs, AllPairs)
            a = self._amplitudes(pairs.x).unsqueeze(-2)
            b = a.transpose(-2, -3) if pairs.y is None else self._amplitudes(pairs.y).unsqueeze(-3)
        total = None
        for j, member in enumerate(self._members(pairs)):
            product = a[..., j] * b[..., j]
            total = member * product if total is None else total + member * product
        assert total is not None
        return total

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        # sum_j (a_j - b_j)^2 + 2 a_j b_j (1 - k_j): nothing cancels
        a, b = pairs.at_ends(self._amplitudes)
        unlike = torch.stack([1 - member for member in self._members(pairs)], dim=-1)
        return ((a - b).square() + 2 * a * b * unlike).sum(-1)

    def extra_repr(self) -> str:
        gamma = "" if isinstance(self.gamma, torch.nn.Module) else f"gamma={float(self.gamma):.6g}, "
        return f"{gamma}neighbours={self.neighbours}"


@dataclass(frozen=True, kw_only=True)
class SelfTuningOptions(StationaryOptions, name="self_tuning"):
    """The settings of the self-tuning kernel."""

    neighbours: int = option(7, "The neighbour whose distance is the local scale.", at_least=1)

    def make(self) -> SelfTuning:
        return SelfTuning(self.scale(), neighbours=self.neighbours)
