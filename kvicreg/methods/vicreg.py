"""VICReg: the same three terms on the embeddings themselves; the baseline Kernel VICReg is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from kvicreg.losses import VICRegLoss
from kvicreg.methods.base import Method, StepResult


class VICReg(Method):
    """loss = VICRegLoss(projector(encoder(view 1)), projector(encoder(view 2)))."""

    def __init__(self, encoder: nn.Module, projector: nn.Module, loss: VICRegLoss | None = None) -> None:
        super().__init__(encoder, projector)
        self.loss = VICRegLoss() if loss is None else loss

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z1, z2 = (self.projector(self.encoder(view)) for view in views)
        terms = self.loss.terms(z1, z2)
        logged = {name: value.detach() for name, value in terms._asdict().items() if name != "total"}
        return StepResult(terms.total, logged, z1.detach())
