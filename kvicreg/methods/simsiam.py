"""SimSiam: BYOL without the slow copy; a stop-gradient is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from kvicreg.losses import SimSiamLoss
from kvicreg.methods.base import Method, MethodOptions, StepResult
from kvicreg.models.projector import Projector, output_dim
from kvicreg.options import option

__all__ = ["SimSiam"]


class SimSiam(Method):
    """loss(q1, q2, z1, z2) of the predictions q and the embeddings z of both views.

    Embeddings are normalised over the batch without learnt scale, as published.

    Args:
        predictor_hidden: width of the predictor's bottleneck; None is a quarter of the embedding's, as published.
        norm: the normalisation of the predictor and of the embeddings.

    Example:
        >>> method = SimSiam(SmallCNN(), Projector(512), predictor_hidden=128)
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
    """

    Loss = SimSiamLoss

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: SimSiamLoss | None = None,
        *,
        predictor_hidden: int | None = None,
        norm: str = "batch",
    ) -> None:
        super().__init__(encoder, projector, loss)
        width = output_dim(projector)
        batch = norm == "batch"
        self.output_norm = (
            nn.BatchNorm1d(width, affine=False) if batch else nn.LayerNorm(width, elementwise_affine=False)
        )
        self.predictor = Projector(width, predictor_hidden or max(1, width // 4), width, 2, norm)

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z1, z2 = (self.output_norm(self.embed(view)) for view in views)
        return StepResult(self.loss(self.predictor(z1), self.predictor(z2), z1, z2), {}, z1.detach())


@dataclass(frozen=True, kw_only=True)
class SimSiamOptions(MethodOptions, name="simsiam"):
    """Settings of SimSiam."""

    method = SimSiam
    predictor_hidden: int | None = option(
        None, "Width of the predictor's bottleneck; by default a quarter of the embedding's.", above=0
    )

    def heads(self, norm: str) -> dict[str, Any]:
        return {"norm": norm, "predictor_hidden": self.predictor_hidden}
