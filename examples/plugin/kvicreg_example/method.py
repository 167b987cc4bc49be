"""Coding rate: views of an image agree while the batch needs as many bits as possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.methods.base import MethodOptions
from kvicreg.methods.siamese import Siamese
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["CodingRate", "CodingRateLoss"]


@dataclass(frozen=True, kw_only=True)
class CodingRateLossOptions(Options):
    """Settings of `CodingRateLoss`, which takes them as arguments."""

    distortion: float = option(0.5, "How exactly the batch is to be coded; smaller is more exact.", above=0)
    agreement: float = option(10.0, "Weight of the views' agreement.", at_least=0)


class CodingRateTerms(NamedTuple):
    """What is descended, and what is logged beside it."""

    total: Tensor
    disagreement: Tensor
    rate: Tensor


class CodingRateLoss(TermsLoss):
    """``agreement * mean_i (1 - u_i . u'_i) - 1/2 log det(I + p / (b distortion^2) U^T U)``, u of unit length."""

    def __init__(
        self,
        distortion: float = CodingRateLossOptions.distortion,
        agreement: float = CodingRateLossOptions.agreement,
        gather: bool = True,
    ) -> None:
        super().__init__()
        self.distortion, self.agreement, self.gather = distortion, agreement, gather

    def terms(self, z1: Tensor, z2: Tensor) -> CodingRateTerms:
        z = stack_views((z1, z2))
        u = normalize(Shard.of(z, gather=self.gather).gather(z), dim=-1)  # (2, b, p) of the global batch
        b, p = u.shape[1:]
        moment = u.mT @ u * (p / (b * self.distortion**2))
        rate = torch.logdet(moment + torch.eye(p, dtype=u.dtype, device=u.device)).mean() / 2
        disagreement = 1 - (u[0] * u[1]).sum(-1).mean()
        return CodingRateTerms(self.agreement * disagreement - rate, disagreement, rate)


class CodingRate(Siamese):
    """`CodingRateLoss` of the embeddings of two views."""

    Loss = CodingRateLoss


@dataclass(frozen=True, kw_only=True)
class CodingRateOptions(MethodOptions, name="rate"):
    """Settings of the method, chosen by --method rate."""

    method = CodingRate
    loss: CodingRateLossOptions = field(default_factory=CodingRateLossOptions)
