"""Kernel VICReg: invariance, variance and covariance of the two views in a kernel's feature space."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from kvicreg.losses import KernelVICRegLoss
from kvicreg.methods.base import Method, StepResult


class KernelVICReg(Method):
    """loss = KernelVICRegLoss(projector(encoder(view 1)), projector(encoder(view 2)))."""

    def __init__(self, encoder: nn.Module, projector: nn.Module, loss: KernelVICRegLoss | None = None) -> None:
        super().__init__(encoder, projector)
        self.loss = KernelVICRegLoss() if loss is None else loss

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z1, z2 = (self.projector(self.encoder(view)) for view in views)
        terms = self.loss.terms(z1, z2)
        logged = {name: value.detach() for name, value in terms._asdict().items() if name != "total"}
        return StepResult(terms.total, logged, z1.detach())
