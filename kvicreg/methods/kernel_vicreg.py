"""Kernel VICReg: invariance, variance and covariance of the two views in a kernel's feature space."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kvicreg.losses import KernelVICRegLoss
from kvicreg.methods.base import StepResult
from kvicreg.methods.siamese import Siamese


class KernelVICReg(Siamese):
    """KernelVICRegLoss of the embeddings of two views; where the groups (b,) of the images are known, with them."""

    Loss = KernelVICRegLoss

    def forward(
        self, views: Sequence[Tensor], step: int, labels: Tensor | None = None, groups: Tensor | None = None
    ) -> StepResult:
        return self.step(views, step) if groups is None else self.step(views, step, groups=groups)
